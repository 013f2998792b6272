"""The user's line of an equation: the innermost frame outside xpr."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

_PACKAGE = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_ROOTS = tuple(
    os.path.join(root, "")
    for root in (
        _PACKAGE,
        os.path.realpath(os.path.join(_PACKAGE, "lowering")),
        os.path.realpath(os.path.join(_PACKAGE, "runtimes")),
    )
)
_internal: dict[str, bool] = {}
_excluded: list[str] = []


def register_exclusion(path: str) -> None:
    """Has the lines of a file, or of all files below a folder, not taken for the user's."""
    _excluded.append(os.path.realpath(path))
    _internal.clear()


def is_internal(filename: str) -> bool:
    """Whether a file is part of xpr, or of helpers that say nothing to the user."""
    known = _internal.get(filename)
    if known is None:
        path = os.path.realpath(filename)
        # Frames of the standard library's decorators and of pytrees say nothing to the user.
        helper = filename.startswith("<frozen") or os.path.basename(filename) in (
            "contextlib.py",
            "functools.py",
        )
        known = _internal[filename] = (
            path.startswith((*_ROOTS, *_excluded)) or helper or "optree" in path.split(os.sep)
        )
    return known


NameStack = tuple[str, ...]
"""Names of scopes and of transformations, the outermost first; the latter end in a bracket."""


def written(stack: NameStack) -> str:
    """A stack of names as text: transformations are written around the first scope inside them.

    >>> written(("vmap(", "jvp(", "loss", "layer"))
    'vmap(jvp(loss))/layer'
    >>> written(("train", "vmap("))
    'train/vmap()'
    """
    parts: list[str] = []
    opened = ""
    for name in stack:
        if name.endswith("("):
            opened += name
        else:
            parts.append(opened + name + ")" * opened.count("("))
            opened = ""
    if opened:
        parts.append(opened + ")" * opened.count("("))
    return "/".join(parts)


class SourceInfo:
    """A place in the user's program; the line is worked out only when somebody asks."""

    __slots__ = ("code", "lasti", "stack")

    def __init__(self, code: CodeType | None, lasti: int, stack: NameStack = ()) -> None:
        self.code = code
        self.lasti = lasti
        self.stack = stack

    @property
    def name_stack(self) -> str:
        """The named scopes and transformations around the operation, such as `vmap(jvp(loss))`."""
        return written(self.stack)

    def at(self, stack: NameStack) -> SourceInfo:
        """The same place under other names."""
        return SourceInfo(self.code, self.lasti, stack)

    @property
    def filename(self) -> str:
        return self.code.co_filename if self.code is not None else "<unknown>"

    @property
    def function(self) -> str:
        return self.code.co_qualname if self.code is not None else "<unknown>"

    def position(self) -> tuple[int, int]:
        """Line and column, both from 1; (0, 0) when unknown."""
        if self.code is None:
            return 0, 0
        for index, (line, _, column, _) in enumerate(self.code.co_positions()):
            if index == self.lasti // 2:
                return line or 0, (column or 0) + 1
        return self.code.co_firstlineno, 1

    @property
    def line(self) -> int:
        return self.position()[0]

    def __str__(self) -> str:
        if self.code is None:
            return "an unknown place"
        line, column = self.position()
        return f"{self.filename}:{line}:{column} ({self.function})"


UNKNOWN = SourceInfo(None, 0)


def current(stack: NameStack = ()) -> SourceInfo:
    """The innermost frame of the caller that is not part of xpr."""
    frame: FrameType | None = sys._getframe(1)
    known = _internal
    while frame is not None:
        code = frame.f_code
        filename = code.co_filename
        inside = known.get(filename)
        if inside is None:
            inside = is_internal(filename)
        if not inside:
            return SourceInfo(code, frame.f_lasti, stack)
        frame = frame.f_back
    return UNKNOWN


def user_stacklevel() -> int:
    """The `stacklevel` with which `warnings.warn` in the caller names the user's line."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level
