"""`debug.breakpoint`: a look at the user's frames with the values that a program computed."""

from __future__ import annotations

import bdb
import cmd
import linecache
import pprint
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from xpr import tree_util
from xpr.core.source_info import is_internal
from xpr.core.trace import Tracer
from xpr.debug.callbacks import observe

_CONTEXT_LINES = 3


class _Untraced:
    """A local variable without traced values, which pytrees shall not look into."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True)
class Frame:
    """A frame of the user's program, as it was when the program was traced."""

    filename: str
    line: int
    function: str
    globals: dict[str, Any]
    locals: dict[str, Any]

    def listing(self) -> str:
        """The place, and the lines around it."""
        out = [f"{self.filename}({self.line}){self.function}()"]
        first = max(1, self.line - _CONTEXT_LINES)
        for number in range(first, self.line + _CONTEXT_LINES + 1):
            text = linecache.getline(self.filename, number, self.globals)
            if text:
                out.append(f"{'->' if number == self.line else '  '} {number:4d} {text.rstrip()}")
        return "\n".join(out)


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tracer) and x._trace.alive


def _shielded(value: Any) -> Any:
    """The value itself if it holds traced values, else one leaf."""
    try:
        leaves = tree_util.tree_leaves(value)
    except (TypeError, ValueError, RecursionError):  # no order of keys, or a list that holds itself
        return _Untraced(value)
    return value if any(map(_is_traced, leaves)) else _Untraced(value)


def _frames(start: FrameType | None, only_users: bool, limit: int | None) -> list[FrameType]:
    """The frames from the innermost one outwards."""
    found: list[FrameType] = []
    frame = start
    while frame is not None and (limit is None or len(found) < limit):
        if not only_users or not is_internal(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found


class Session(cmd.Cmd):
    """Commands on a stopped program: those of pdb that only look."""

    prompt = "(xpr-db) "

    def __init__(self, frames: Sequence[Frame]) -> None:
        super().__init__(stdin=sys.stdin, stdout=sys.stdout)
        self.use_rawinput = sys.stdin is sys.__stdin__
        self.frames = frames
        self.index = 0

    @property
    def frame(self) -> Frame:
        return self.frames[self.index]

    def say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def preloop(self) -> None:
        self.say(self.frame.listing())

    def evaluated(self, text: str) -> tuple[Any] | None:
        """The value of an expression in the frame; None after its error has been shown."""
        try:
            # The user types the text at a terminal of this process.
            return (eval(text, self.frame.globals, self.frame.locals),)
        except Exception as error:
            self.say(f"*** {type(error).__name__}: {error}")
            return None

    def default(self, line: str) -> None:
        found = self.evaluated(line)
        if found is not None and found[0] is not None:
            self.say(repr(found[0]))

    def emptyline(self) -> bool:
        return False

    def do_p(self, arg: str) -> None:
        """p expression: print its value."""
        found = self.evaluated(arg)
        if found is not None:
            self.say(repr(found[0]))

    def do_pp(self, arg: str) -> None:
        """pp expression: print its value over several lines."""
        found = self.evaluated(arg)
        if found is not None:
            self.say(pprint.pformat(found[0]))

    def do_list(self, arg: str) -> None:
        """l(ist): show the lines around the call."""
        del arg
        self.say(self.frame.listing())

    def do_where(self, arg: str) -> None:
        """w(here): show all frames, the present one marked."""
        del arg
        for i in reversed(range(len(self.frames))):
            f = self.frames[i]
            mark = ">" if i == self.index else " "
            self.say(f"{mark} {f.filename}({f.line}){f.function}()")

    def do_up(self, arg: str) -> None:
        """u(p): go to the caller's frame."""
        del arg
        self._move(1, "Oldest frame")

    def do_down(self, arg: str) -> None:
        """d(own): go back to the frame that was called."""
        del arg
        self._move(-1, "Newest frame")

    def _move(self, step: int, end: str) -> None:
        if not 0 <= self.index + step < len(self.frames):
            self.say(f"*** {end}")
            return
        self.index += step
        self.say(self.frame.listing())

    def do_continue(self, arg: str) -> bool:
        """c(ontinue): let the program go on."""
        del arg
        return True

    def do_quit(self, arg: str) -> None:
        """q(uit): end the program with bdb.BdbQuit."""
        del arg
        raise bdb.BdbQuit

    do_l, do_u, do_d, do_c, do_q = do_list, do_up, do_down, do_continue, do_quit
    do_w = do_bt = do_where
    do_EOF = do_continue


def _stop(frames: Sequence[tuple[str, int, str, Any]], values: Sequence[dict[str, Any]]) -> None:
    """Opens a session at a terminal; elsewhere prints where the program is and its variables."""
    stopped = [
        Frame(
            *place,
            {k: v.value if isinstance(v, _Untraced) else v for k, v in local.items()},
        )
        for place, local in zip(frames, values, strict=True)
    ]
    if sys.stdin is not None and sys.stdin.isatty():
        Session(stopped).cmdloop()
        return
    traced = {k: stopped[0].locals[k] for k, v in values[0].items() if not isinstance(v, _Untraced)}
    shown = "".join(f"\n   {name} = {value!r}" for name, value in traced.items())
    sys.stdout.write(f"breakpoint: {stopped[0].listing()}{shown}\n")


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stops the program here whenever it comes by, with the values of the variables around.

    At a terminal it opens a session that knows pdb's commands `p`, `pp`, `l`, `w`, `u`, `d`, `c`,
    `q` and evaluates expressions; elsewhere it prints the place and the traced variables. It works
    where `debug.callback` does, under `jit` and other transformations.

    `num_frames` limits how many of the callers' frames can be looked at, and `filter_frames` hides
    those of the library. Raises ValueError for another `backend` than "cli".

    >>> import xpr
    >>> @xpr.jit
    ... def doubled(x):
    ...     y = 2 * x
    ...     xpr.debug.breakpoint()
    ...     return y
    >>> value = doubled(3)  # doctest: +ELLIPSIS
    breakpoint: ...
       x = ...
       y = ...
    """
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint has the backend 'cli' only, got {backend!r}")
    if token is not None or kwargs:
        raise TypeError(f"debug.breakpoint takes no token and no further options, got {kwargs}")
    frames = _frames(sys._getframe(1), filter_frames, num_frames)
    if not frames:
        raise ValueError("debug.breakpoint found no frame to stop in")
    places = [(f.f_code.co_filename, f.f_lineno, f.f_code.co_name, f.f_globals) for f in frames]
    values = [{k: _shielded(v) for k, v in f.f_locals.items()} for f in frames]

    def stop(*values: dict[str, Any]) -> None:
        _stop(places, values)

    observe("debug.breakpoint", stop, values, {}, ordered, is_dynamic=_is_traced)
