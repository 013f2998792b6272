"""Where the NaNs and infinities of a program's results come from.

Each value of a walk carries the first step that made a NaN that is still in it, and the first that
made an infinity. A NaN that a mask drops is forgotten, so that the steps named at the end are
those whose NaNs reach the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xpr.core.dtypes import float0
from xpr.core.jaxpr import ClosedJaxpr
from xpr.interpreters.reference import interpret_equation
from xpr.interpreters.walk import Array, Domain, Step, Walker

INPUT = -1
"""The origin of what arguments and constants hold."""

_MOST_KEPT = 1000
"""Steps are kept with their operands, so that their number must be limited."""


class Tracked:
    """An array, and for `nan` and `inf` the number of the step that made the first one in it."""

    __slots__ = ("array", "inf", "nan")

    def __init__(self, array: Array, nan: int | None, inf: int | None) -> None:
        self.array = array
        self.nan = nan
        self.inf = inf


def has_nan(array: Array) -> bool:
    """Whether an array holds NaN."""
    return can_hold(array) and bool(np.isnan(array).any())


def has_inf(array: Array) -> bool:
    """Whether an array holds an infinity."""
    return can_hold(array) and bool(np.isinf(array).any())


def can_hold(array: Array) -> bool:
    """Whether the elements are floating-point or complex numbers; ml_dtypes' are of kind V."""
    return array.dtype != float0 and array.dtype.kind in "fcV"


class Origins(Domain):
    """Arrays with the steps that made their NaNs and infinities."""

    def __init__(self) -> None:
        self.steps: dict[int, Step] = {}
        """The steps that made a NaN or an infinity, by their numbers."""

    def lift(self, array: Array) -> Tracked:
        """A constant: the step that reads it counts as the one that makes its NaN."""
        return Tracked(array, None, None)

    def argument(self, array: Array) -> Tracked:
        """An argument of the whole program."""
        nan = INPUT if has_nan(array) else None
        return Tracked(array, nan, INPUT if has_inf(array) else None)

    def concrete(self, value: Tracked) -> Array:
        return value.array

    def take(self, value: Tracked, index: int) -> Tracked:
        return self._subset(value, value.array[index])

    def stack(self, values: Sequence[Tracked], aval: Any) -> Tracked:
        array = super().stack([v.array for v in values], aval)
        return Tracked(array, _earliest(v.nan for v in values), _earliest(v.inf for v in values))

    def evaluate(self, step: Step) -> list[Tracked]:
        arrays = interpret_equation(step.eqn, [o.array for o in step.operands])
        return [self._result(step, a) for a in arrays]

    def leave(self, step: Step, results: list[Tracked]) -> list[Tracked]:
        """A constant that a program returns is made by the equation that runs the program."""
        for value in results:
            if value.nan is None and has_nan(value.array):
                value.nan = self._origin(step, value.array, "nan")
            if value.inf is None and has_inf(value.array):
                value.inf = self._origin(step, value.array, "inf")
        return results

    @staticmethod
    def _subset(value: Tracked, array: Array) -> Tracked:
        nan = value.nan if value.nan is not None and has_nan(array) else None
        return Tracked(array, nan, value.inf if value.inf is not None and has_inf(array) else None)

    def _result(self, step: Step, array: Array) -> Tracked:
        nan = self._origin(step, array, "nan") if has_nan(array) else None
        inf = self._origin(step, array, "inf") if has_inf(array) else None
        return Tracked(array, nan, inf)

    def _origin(self, step: Step, array: Array, what: str) -> int:
        """The earliest step whose value reaches this array; this one, if no operand has any."""
        test = np.isnan if what == "nan" else np.isinf
        mine = test(array)
        found = [
            getattr(o, what)
            for o in step.operands
            if getattr(o, what) is not None
            and (o.array.shape != array.shape or bool((test(o.array) & mine).any()))
        ]
        if found:
            return min(found)
        if len(self.steps) < _MOST_KEPT:
            self.steps[step.number] = step
        return step.number


def _earliest(origins: Iterator[int | None]) -> int | None:
    return min((o for o in origins if o is not None), default=None)


def find_origins(
    closed: ClosedJaxpr, args: Sequence[Array]
) -> tuple[list[Tracked], dict[int, Step]]:
    """The results of a program with their origins, and the steps that these number."""
    domain = Origins()
    found = Walker(domain).run(closed, [domain.argument(np.asarray(a)) for a in args])
    return found, domain.steps


def first_origin(
    closed: ClosedJaxpr, args: Sequence[Array], what: str
) -> tuple[Step | None, Step | None]:
    """The step that made the first `nan` or `inf` in the results; for a NaN made of an infinity,
    also the step that made that one.

    None where the results hold none, or it came with the arguments.
    """
    results, steps = find_origins(closed, args)
    numbers = [getattr(r, what) for r in results]
    number = min((n for n in numbers if n is not None), default=INPUT)
    step = steps.get(number)
    if step is None:
        return None, None
    infinite = min((o.inf for o in step.operands if o.inf is not None), default=INPUT)
    return step, steps.get(infinite) if what == "nan" else None
