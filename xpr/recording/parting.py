"""Where two runtimes part: each operation on the same operands, by both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr
from xpr.core.dtypes import float0
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.origins import can_hold
from xpr.interpreters.reference import called_program
from xpr.interpreters.walk import Array, Step, Walker

_HOLD_PROGRAMS = ("scan", "while", "cond", "shard_map", "custom_linear_solve")
_ULPS = 64
"""What functions of libraries may differ by, in units of the last place."""


class _PartedError(Exception):
    """An operation whose results differ."""


def first_difference(
    closed: ClosedJaxpr, args: Sequence[Array], against: str
) -> tuple[Step | None, list[Array]]:
    """The first step whose results on the device `against` differ by more than rounding.

    Its `results` are then those of the reference rules, followed by those of the device.
    """
    device = xpr.devices(against)[0]
    compiled: dict[Any, Any] = {}
    parted: list[Step] = []

    def after(step: Step) -> None:
        eqn = step.eqn
        if called_program(eqn) is not None or eqn.primitive.name in _HOLD_PROGRAMS:
            return
        run = compiled.get(id(eqn))
        if run is None:
            run = compiled[id(eqn)] = xpr.jit(_function(eqn), device=device)
        found = [np.asarray(x) for x in run(*step.operands)]
        expected = step.results or []
        if any(_differ(a, b, step) for a, b in zip(expected, found, strict=True)):
            step.results = [*expected, *found]
            parted.append(step)
            raise _PartedError

    try:
        return None, Walker(after=after).run(closed, args)
    except _PartedError:
        return parted[0], []


def _function(eqn: Any) -> Any:
    def operation(*operands: Any) -> list[Any]:
        found = eqn.primitive.bind(*operands, **eqn.params)
        return list(found) if eqn.primitive.multiple_results else [found]

    return operation


def _differ(a: Array, b: Array, step: Step) -> bool:
    """Whether two results differ by more than rounding; sums may be in any order."""
    if a.dtype == float0:
        return False
    if not can_hold(a):
        return not np.array_equal(a, b)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    eps = float(np.finfo(a.dtype).eps) if a.dtype.kind in "fc" else 2.0**-7
    x, y = a.astype(wide), b.astype(wide)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return True
    sizes = [o.size for o in step.operands if can_hold(o)]
    terms = max([1, *(s // max(1, a.size) for s in sizes)])
    largest = max(
        (
            float(np.max(np.abs(o.astype(wide)), initial=0.0, where=np.isfinite(o)))
            for o in step.operands
            if can_hold(o)
        ),
        default=0.0,
    )
    bound = _ULPS * eps * np.abs(x)
    if terms > 1:
        bound = bound + eps * terms * max(largest, largest**2)
    with np.errstate(all="ignore"):
        return bool(np.any((np.abs(x - y) > bound + np.finfo(np.float32).tiny) & np.isfinite(x)))
