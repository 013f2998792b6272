"""Arrays of several processes, and what one process has of them."""

from __future__ import annotations

from typing import Any

from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.sharded_array import from_buffers
from xpr.dispatch.transfer import placed
from xpr.sharding import NamedSharding


def as_global(x: Any, local: NamedSharding, whole: NamedSharding) -> ArrayImpl:
    """What this process has of an array that is spread as `whole`, as the whole of it.

    `local` is the same over this process's part of the mesh; `x` is put there if it is elsewhere,
    and shares the memory otherwise.
    """
    x = placed(x, local)
    x._check_alive()
    here, there = local.shard_counts(x.ndim), whole.shard_counts(x.ndim)
    shape = tuple(n // a * b for n, a, b in zip(x.shape, here, there, strict=True))
    return from_buffers(x.aval.update(shape=shape, sharding=None), x._aliases(), whole)


def as_local(x: ArrayImpl, local: NamedSharding) -> ArrayImpl:
    """What this process holds of an array, which shares the memory: it is spread as `local`."""
    x._check_alive()
    here, there = local.shard_counts(x.ndim), x.sharding.shard_counts(x.ndim)
    shape = tuple(n // b * a for n, a, b in zip(x.shape, here, there, strict=True))
    return from_buffers(x.aval.update(shape=shape, sharding=None), x._aliases(), local)
