"""What there is: live arrays and processes."""

from __future__ import annotations

import gc

from xpr.dispatch.array import ArrayImpl
from xpr.runtimes import registry


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
        if type(a) is ArrayImpl and a.device.runtime is runtime and not a.is_deleted()
    ]


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that compute together with the devices of `backend`."""
    return sorted({d.process_index for d in registry.devices(backend)})
