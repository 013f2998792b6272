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


class SourceInfo:
    """A place in the user's program; the line is worked out only when somebody asks."""

    __slots__ = ("code", "lasti", "name_stack")

    def __init__(self, code: CodeType | None, lasti: int, name_stack: str = "") -> None:
        self.code = code
        self.lasti = lasti
        self.name_stack = name_stack

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


def current(name_stack: str = "") -> SourceInfo:
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
            return SourceInfo(code, frame.f_lasti, name_stack)
        frame = frame.f_back
    return UNKNOWN
