"""Whether the results of a recorded call are right, up to rounding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xpr.accuracy.intervals import Intervals, Ranged
from xpr.accuracy.wide import is_real, widened
from xpr.interpreters.walk import Array, Walker, arrays_for
from xpr.recording.calls import Recording

RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"


class Verdict(NamedTuple):
    """What came of a check, and why."""

    kind: str
    reason: str = ""


def judged(recording: Recording) -> Verdict:
    """Whether each result is within the bounds of all programs of the same operations.

    `unknown` where nothing can be said: an operation has no rule, arrays are missing, or integers
    and branches depend on how numbers are rounded.
    """
    if recording.closed is None or any(a is None for a in recording.args):
        return Verdict(UNKNOWN, "the program or its arguments were not recorded")
    if recording.outcome != "ok" or any(r is None for r in recording.results):
        return Verdict(UNKNOWN, "the call has no results to compare")
    closed = recording.closed
    dtypes = {v.aval.dtype for e in closed.eqns for v in e.outvars if is_real(v.aval.dtype)}
    unit = max((_unit(d) for d in dtypes), default=2.0**-24)
    domain = Intervals(unit)
    args = arrays_for(closed, recording.args)
    try:
        expected = Walker(domain).run(closed, [domain.lift(a) for a in args])
    except NotImplementedError as error:
        return Verdict(UNKNOWN, str(error))
    if domain.undecided:
        place = next(iter(domain.undecided))
        return Verdict(UNKNOWN, f"rounding decides at {place}")
    for i, (want, found) in enumerate(zip(expected, recording.results, strict=True)):
        reason = _difference(want, np.asarray(found))
        if reason:
            return Verdict(WRONG, f"result {i}: {reason}")
    return Verdict(RIGHT)


def _unit(dtype: Any) -> float:
    """The unit roundoff, doubled: results of library functions count for several of it."""
    if dtype == np.float64:
        return 2.0**-52
    return float(np.abs(np.nextafter(dtype.type(1), dtype.type(2)).astype(np.float64) - 1))


def _difference(want: Ranged, found: Array) -> str:
    """Where a result is out of bounds; empty where it is not."""
    if want.bounds is None:
        same = want.value == found
        if want.value.dtype.kind == "V" or bool(np.all(same)):
            return ""
        place = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
        return f"{found[place]} at {list(place)}, and the reference has {want.value[place]}"
    low, high = want.bounds
    wide = widened(found)
    with np.errstate(all="ignore"):
        out = (wide < low) | (wide > high) | (np.isnan(wide) & np.isfinite(low) & np.isfinite(high))
        # The same number as the reference's, or the same NaN, is right where bounds are too narrow.
        reference = widened(want.value)
        out &= (wide != reference) & ~(np.isnan(wide) & np.isnan(reference))
    if not np.any(out):
        return ""
    place = tuple(int(i) for i in np.argwhere(out)[0])
    return (
        f"{found[place]} at {list(place)}, and the reference has {want.value[place]}, "
        f"between {low[place]:.9g} and {high[place]:.9g} in any order of rounding"
    )
