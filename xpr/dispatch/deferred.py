"""Which programs return before they have run, and their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core import source_info
from xpr.core.config import state
from xpr.runtimes.base import Executable
from xpr.runtimes.queue import queue_of

LARGE_COST = 1e9
"""Operations plus bytes of a CPU program that is worth a queue: some 10 ms of work."""


class DeferredExecutable(Executable):
    """A program that is queued when it is called; its results are waited for when they are read."""

    def __init__(self, inner: Executable) -> None:
        self.inner = inner
        self.signature = inner.signature
        self.device = inner.device

    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        if state.async_dispatch == "never":
            return self.inner(buffers)
        return queue_of(self.device).submit(self.inner, buffers, source_info.current())


def deferred(executable: Executable) -> Executable:
    """`executable`, queued where the setting `async_dispatch` or its size asks for that."""
    choice = state.async_dispatch
    is_large = not executable.device.runtime.is_host or executable.signature.cost >= LARGE_COST
    if choice == "always" or (choice == "auto" and is_large):
        return DeferredExecutable(executable)
    return executable
