"""How many cores there are for this process."""

from __future__ import annotations

import functools
import os

from xpr.runtimes import processes


def cores() -> int:
    """The cores that this process may use: as many as `XPR_NUM_THREADS` says, where it is set.

    Otherwise those of the machine that it may run on, shared with the processes that compute with
    it. Raises ValueError when `XPR_NUM_THREADS` is no positive integer.
    """
    asked = _asked()
    if asked is not None:
        return asked
    together = processes.current
    if together is not None and together.cores is not None:
        return together.cores
    return _OWN


@functools.cache
def _asked() -> int | None:
    text = os.environ.get("XPR_NUM_THREADS")
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"XPR_NUM_THREADS must be a positive integer, got {text!r}")
    return int(text)


def _own() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_OWN = _own()
