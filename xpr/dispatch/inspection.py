"""What there is: live arrays and processes."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.sharded_array import ShardedArrayImpl
from xpr.runtimes import registry

# Not by isinstance, which asks some objects for their class and so runs code of theirs.
_KINDS = frozenset((ArrayImpl, ShardedArrayImpl))


def live_arrays(platform: str | None = None) -> list[ArrayImpl]:
    """All arrays of the backend `platform` (or of the default one) that were not deleted.

    Python's garbage collector is asked, so that making arrays costs nothing; arrays that
    `gc.freeze` put out of its sight are missing. Raises RuntimeError for an unknown platform.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.arange(3)
    >>> any(a is x for a in xpr.live_arrays())
    True
    """
    runtime = registry.get_runtime(platform or registry.default_backend())
    return [
        a
        for a in gc.get_objects()
        if type(a) in _KINDS
        and any(b.device.runtime is runtime for b in a._buffers)
        and not a.is_deleted()
    ]


@contextmanager
def array_garbage_collection_guard(new_val: str) -> Iterator[None]:
    """Looks for arrays that only Python's garbage collector frees: their memory is held too long.

    "log" logs each collection that frees arrays as an error of the logger `xpr.memory`, "fatal"
    ends the process then, "allow" does nothing. Such arrays belong to cycles of references.

    >>> import xpr, xpr.numpy as jnp
    >>> with xpr.array_garbage_collection_guard("log"):
    ...     jnp.ones(2) + 1
    Array([2., 2.], dtype=float32)
    """
    if new_val not in ("allow", "log", "fatal"):
        raise ValueError(f"expected one of allow, log, fatal, got {new_val!r}")
    import logging  # noqa: PLC0415  takes 4 ms, which importing xpr need not

    watched: list[weakref.ref[ArrayImpl]] = []

    def look(phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            watched[:] = [weakref.ref(a) for a in gc.get_objects() if type(a) in _KINDS]
            return
        lost = sum(r() is None for r in watched)
        watched.clear()
        if lost:
            logging.getLogger("xpr.memory").error(
                "%d arrays were deleted by the garbage collector instead of reference counting: "
                "break the cycles of references that they belong to",
                lost,
            )
            if new_val == "fatal":
                os.abort()

    if new_val != "allow":
        gc.callbacks.append(look)
    try:
        yield
    finally:
        if new_val != "allow":
            gc.callbacks.remove(look)


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that compute together with the devices of `backend`.

    >>> import xpr
    >>> xpr.process_indices()
    [0]
    """
    return sorted({d.process_index for d in registry.devices(backend)})


def process_index(backend: str | None = None) -> int:
    """The number of this process among those of the devices of `backend`.

    0 in a program of one process:

    >>> import xpr
    >>> xpr.process_index()
    0
    """
    del backend
    return registry.this_process()


def process_count(backend: str | None = None) -> int:
    """How many processes the devices of `backend` belong to.

    >>> import xpr
    >>> xpr.process_count()
    1
    """
    return len(process_indices(backend))
