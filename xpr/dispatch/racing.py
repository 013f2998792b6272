"""The first calls of a program, computed by NumPy while the compiler works on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.config import own_settings, with_settings
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.reference import Array, interpret, interrupted_by
from xpr.runtimes.base import Buffer, Device, Executable

if TYPE_CHECKING:
    from xpr.dispatch.compiling import PendingModule


class _LostError(Exception):
    """The compiler was faster."""


class RacingExecutable(Executable):
    """A program that is being compiled: whichever is done first gives a call's results.

    That is the compiler and the program that it made, or the reference rules, in a thread of their
    own. The rules of an abandoned call end before their next equation.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        pending: PendingModule,
        device: Device,
        compiled: Callable[[], Executable],
    ) -> None:
        """`compiled` waits for the compiled program; `closed` must have no effects."""
        self.device = device
        self._closed = closed
        self._pending = pending
        self._compiled = compiled

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        donated = [i for i, _ in self._pending.donations]
        if self._pending.is_done():
            return self._compiled()(buffers)
        operands = [b.host_view() for b in buffers]
        race = _Race(self._closed, operands)
        try:
            race.run(self._pending.on_end)
        except BaseException:
            race.lost = True
            raise
        if race.results is None:
            if donated:
                race.join()  # it reads what the compiled program writes to
            return self._compiled()(buffers)
        found = [self._buffer(r, operands) for r in race.results]
        for index in donated:
            buffers[index].delete()
        return found

    def _buffer(self, result: Array, operands: Sequence[Array]) -> Buffer:
        # A rule may return a view of its operand, or the same array twice.
        shared = result.base is not None or any(np.may_share_memory(result, x) for x in operands)
        return self.device.runtime.buffer_from_host(
            np.array(result) if shared else result, self.device, copy=not shared
        )


class _Race:
    """One call by the reference rules, until somebody else has its results."""

    def __init__(self, closed: ClosedJaxpr, operands: Sequence[Array]) -> None:
        self.results: list[Array] | None = None
        self.lost = False
        self._closed = closed
        self._operands = operands
        self._settings = own_settings()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._interpret, name="xpr-race", daemon=True)

    def run(self, on_other_end: Callable[[Callable[[], None]], None]) -> None:
        """Waits until there are results, or the other way has come to its end."""
        try:
            self._thread.start()
        except RuntimeError:  # no thread is to be had, as while the process ends
            self.lost = True
            return
        on_other_end(self._over.set)
        self._over.wait()
        self.lost = self.results is None

    def join(self) -> None:
        """Waits until the rules read the operands no more."""
        if self._thread.ident is not None:
            self._thread.join()

    def _interpret(self) -> None:
        count = len(self._closed.consts)
        consts, args = self._operands[:count], self._operands[count:]
        # What fails by the rules is left to the compiled program, which fails or does not.
        with contextlib.suppress(Exception):
            with with_settings(self._settings), interrupted_by(self._check):
                self.results = interpret(self._closed, consts, args)
            self._over.set()

    def _check(self) -> None:
        if self.lost:
            raise _LostError
