"""How many cores there are for this process."""

from __future__ import annotations

import os

from xpr.runtimes import processes


def cores() -> int:
    """The cores that this process may use, shared with other processes that compute with it."""
    together = processes.current
    if together is not None and together.cores is not None:
        return together.cores
    return _OWN


def _own() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_OWN = _own()
