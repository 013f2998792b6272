"""Which programs return before they have run, and their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core import source_info
from xpr.core.config import own_settings, state, with_settings
from xpr.runtimes.base import Executable
from xpr.runtimes.queue import queue_of

LARGE_COST = 1e9
"""Operations plus bytes of a CPU program that is worth a queue: some 10 ms of work."""


class HandedOn(Executable):
    """A program whose calls go on to another executable of it, which is the one that runs."""

    def __init__(self, inner: Executable) -> None:
        self.inner = inner
        self.signature = inner.signature
        self.device = inner.device
        self.name = inner.name


class DeferredExecutable(HandedOn):
    """A program that is queued when it is called; its results are waited for when they are read."""

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        if state.async_dispatch == "never":
            return self.inner(buffers)
        inner = self.inner
        if self.signature.host_calls:
            inner = _WithSettings(inner, own_settings())
        return queue_of(self.device).submit(inner, buffers, source_info.current())


class _WithSettings(HandedOn):
    """One call of a program whose functions see the settings of the thread that made the call."""

    def __init__(self, inner: Executable, settings: dict[str, Any]) -> None:
        super().__init__(inner)
        self._settings = settings

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        with with_settings(self._settings):
            return self.inner(buffers)


def deferred(executable: Executable) -> Executable:
    """`executable`, queued where the setting `async_dispatch` or its size asks for that."""
    choice = state.async_dispatch
    is_large = not executable.device.runtime.is_host or executable.signature.cost >= LARGE_COST
    if choice == "always" or (choice == "auto" and is_large):
        return DeferredExecutable(executable)
    return executable
