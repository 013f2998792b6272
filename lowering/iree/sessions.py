"""Sessions of the compiler that are kept for the next compile with the same flags.

A new session knows no operation. Its first compile loads some thirty dialects, and each list of
passes that is run makes its rewrite patterns of all of them, which for a small program takes
longer than anything else but machine code. Here a session stays for the next program, with the
lists of passes that were run in it. What MLIR keeps of each program, its types and constants,
stays too: so a session ends after some compiles, or some text. One in which a compile has failed
ends at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Sequence

from xpr.lowering.iree.compiler_library import Library
from xpr.lowering.iree.mlir import Mlir
from xpr.runtimes import fork

_MOST_COMPILES = 64
_MOST_TEXT = 8 << 20
_MOST_KEPT = 2
"""Sessions, each for flags of its own."""


class Session:
    """One session, and the lists of passes that were run in it."""

    def __init__(self, library: Library, flags: Sequence[str]) -> None:
        self.flags = tuple(flags)
        self.keep = False
        """Whether it may serve another compile: nothing has failed in it."""

        self._library = library
        self._compiles = self._text = 0
        self._owner: int | None = None
        self._is_new = True
        self._managers: dict[str, int] = {}
        self._dialects = 0
        self.handle: int = library.SessionCreate()
        encoded = [flag.encode() for flag in flags]
        argv = (ctypes.c_char_p * len(encoded))(*encoded)
        try:
            library.check(library.SessionSetFlags(self.handle, len(encoded), argv))
        except BaseException:
            self.end()
            raise
        self._context: int = library.SessionBorrowContext(self.handle)

    @property
    def has_threads(self) -> bool:
        """Whether it has compiled on several cores."""
        return self._owner is not None

    def suits(self, flags: Sequence[str], parallel: bool) -> bool:
        """Whether it may compile with these flags, on several cores or on one."""
        if self.flags != tuple(flags):
            return False
        # Its threads do not come along when a process is forked.
        return self._owner is None or (parallel and self._owner == os.getpid())

    def begin(self, text: str, parallel: bool) -> None:
        """A program is compiled next."""
        mlir: Mlir = self._library.mlir
        self.keep = False
        self._compiles += 1
        self._text += len(text)
        if not parallel and self._is_new:
            mlir.ContextEnableMultithreading(self._context, False)
        elif parallel and self._owner is None:
            if not self._is_new:
                mlir.ContextEnableMultithreading(self._context, True)
            self._owner = os.getpid()
        self._is_new = False

    def manager(self, passes: str) -> int | str:
        """What runs a list of passes over modules; or why there are no such passes."""
        mlir: Mlir = self._library.mlir
        dialects = mlir.ContextGetNumLoadedDialects(self._context)
        if dialects != self._dialects:
            # What was made before knows nothing of the new ones.
            self._forget_managers()
            self._dialects = dialects
        found: int | str | None = self._managers.get(passes)
        if found is None:
            found = mlir.pass_manager(self._context, passes)
            if isinstance(found, int):
                self._managers[passes] = found
        return found

    def is_worn(self) -> bool:
        """Whether it is to end, so that its memory is given back."""
        return self._compiles >= _MOST_COMPILES or self._text >= _MOST_TEXT

    def end(self) -> None:
        """Gives its memory back."""
        self._forget_managers()
        self._library.SessionDestroy(self.handle)

    def _forget_managers(self) -> None:
        for manager in self._managers.values():
            self._library.mlir.PassManagerDestroy(manager)
        self._managers.clear()


_lock = threading.Lock()
_kept: list[Session] = []
"""What waits for the next compile, that which was used last at the end."""


@fork.in_child
def _forget_threads() -> None:
    global _lock
    _lock = threading.Lock()
    # The threads of the others do not exist here, not even to be ended.
    _kept[:] = [s for s in _kept if not s.has_threads]


@contextlib.contextmanager
def session(
    library: Library, flags: Sequence[str], text: str, *, parallel: bool, shared: bool = True
) -> Iterator[Session]:
    """A session for one compile, which no other compile uses meanwhile.

    If it is ``shared``, an earlier compile may have used it, and it is kept for another one when
    the compile says so.

    Raises ``RuntimeError`` if a flag is unknown.
    """
    parallel = parallel and os.getpid() == library.process
    with _lock:
        found = next((s for s in _kept if shared and s.suits(flags, parallel)), None)
        if found is not None:
            _kept.remove(found)
    if found is None:
        found = Session(library, flags)
    surplus = [found]
    try:
        found.begin(text, parallel)
        yield found
        if shared and found.keep and not found.is_worn():
            with _lock:
                _kept.append(found)
                surplus = _kept[:-_MOST_KEPT]
                del _kept[:-_MOST_KEPT]
    finally:
        for one in surplus:
            one.end()
