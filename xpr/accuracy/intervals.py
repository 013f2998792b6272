"""Interval arithmetic: rules that enclose the exact results of operations.

Bounds are float64. Each rule rounds outwards, so that the exact result of the operation on any
numbers within the operands' bounds is within those of the result. Branches and trip counts are
those of the computed program, and so are integers and truth values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.accuracy.wide import is_real, wide_call, widened, written
from xpr.core.jaxpr import JaxprEqn, Literal
from xpr.interpreters.reference import interpret_equation
from xpr.interpreters.walk import Array, Domain, Step

EPS = float(np.finfo(np.float64).eps)
"""The unit by which bounds are rounded outwards where they are those of exact results."""
_TINY = float(np.finfo(np.float64).tiny)


class Bounds(NamedTuple):
    """The least and the greatest number that a value may be."""

    low: Array
    high: Array

    @property
    def middle(self) -> Array:
        return self.low + (self.high - self.low) / 2

    @property
    def radius(self) -> Array:
        """Half the width, rounded up."""
        m = self.middle
        return np.maximum(self.high - m, m - self.low) * (1 + 2 * EPS)

    @property
    def magnitude(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


class Ranged:
    """A computed array, and the bounds of the exact one; integers are exact."""

    __slots__ = ("bounds", "value")

    def __init__(self, value: Array, bounds: Bounds | None) -> None:
        self.value = value
        self.bounds = bounds

    def as_bounds(self) -> Bounds:
        if self.bounds is not None:
            return self.bounds
        wide = self.value.astype(np.float64)
        return Bounds(wide, wide)


Rule = Callable[[JaxprEqn, Sequence[Ranged], float], Bounds]
"""Of an equation, its operands, and the unit roundoff by which the results are widened."""


class Intervals(Domain):
    """Computed values with their bounds."""

    def __init__(self, unit: float | None = None) -> None:
        """`unit` is the unit roundoff of each operation; None: exact ones, in float64's bounds.

        With that of a type, the bounds are those of every program that computes the same
        operations in this type, in whatever order sums are.
        """
        self._unit = EPS if unit is None else unit
        self.undecided: dict[str, int] = {}
        """Lines of comparisons whose bounds overlap; the computed answer is followed there."""

    def lift(self, array: Array) -> Ranged:
        if not is_real(array.dtype):
            return Ranged(array, None)
        return Ranged(array, Bounds(widened(array), widened(array)))

    def literal(self, literal: Literal) -> Ranged:
        """Of a number such as 0.1 both what the user wrote and its value in the type."""
        found = self.lift(np.asarray(literal.val, literal.aval.dtype))
        if found.bounds is None or np.isnan(found.bounds.low):
            return found
        exact = written(literal)
        low, high = (
            f(end, exact) for f, end in zip((np.minimum, np.maximum), found.bounds, strict=True)
        )
        return Ranged(found.value, Bounds(low, high))

    def concrete(self, value: Ranged) -> Array:
        return value.value

    def take(self, value: Ranged, index: int) -> Ranged:
        b = value.bounds
        bounds = None if b is None else Bounds(b.low[index], b.high[index])
        return Ranged(value.value[index], bounds)

    def stack(self, values: Sequence[Ranged], aval: Any) -> Ranged:
        value = super().stack([v.value for v in values], aval)
        if not is_real(aval.dtype):
            return Ranged(value, None)
        wide = [v.as_bounds() for v in values]
        if not wide:
            return Ranged(value, Bounds(widened(value), widened(value)))
        return Ranged(
            value, Bounds(np.stack([b.low for b in wide]), np.stack([b.high for b in wide]))
        )

    def evaluate(self, step: Step) -> list[Ranged]:
        results = self._enclosed(step)
        if self._unit == EPS:
            return results
        return [_within_type(r, step) for r in results]

    def _enclosed(self, step: Step) -> list[Ranged]:
        eqn, operands = step.eqn, step.operands
        values = interpret_equation(eqn, [o.value for o in operands])
        if any(v.dtype.kind == "c" for v in values):
            raise _refused(eqn, "complex numbers have no order")
        if not any(is_real(v.dtype) for v in values):
            self._note_undecided(step)
            return [Ranged(v, None) for v in values]
        if all(o.bounds is None for o in operands):
            return [Ranged(v, _own(v)) for v in values]
        name = eqn.primitive.name
        if name in _EACH:
            low = wide_call(eqn, [_wide(o, 0) for o in operands])
            high = wide_call(eqn, [_wide(o, 1) for o in operands])
            pairs = list(zip(values, low, high, strict=True))
            return [Ranged(v, Bounds(a, b) if is_real(v.dtype) else None) for v, a, b in pairs]
        if name == "sort" and len(operands) == 1:
            low, high = (wide_call(eqn, [_wide(operands[0], i)])[0] for i in (0, 1))
            return [Ranged(values[0], Bounds(low, high))]
        rule = RULES.get(name)
        if rule is None:
            raise _refused(eqn, "it has no rule that encloses its results")
        with np.errstate(all="ignore"):
            bounds = _cleaned(rule(eqn, operands, self._unit), values[0])
        return [Ranged(values[0], bounds)]

    def _note_undecided(self, step: Step) -> None:
        """Remembers where integers and truth values may be others for other numbers in bounds."""
        bounds = [o.as_bounds() for o in step.operands if o.bounds is not None]
        is_wide = any(np.any(b.low < b.high) for b in bounds)
        if is_wide and step.eqn.primitive.name in ("lt", "le", "gt", "ge", "eq", "ne"):
            x, y = (o.as_bounds() for o in step.operands)
            is_wide = bool(np.any((x.low <= y.high) & (y.low <= x.high)))
        if is_wide:
            place = str(step.eqn.source_info)
            self.undecided[place] = self.undecided.get(place, 0) + 1


def _within_type(x: Ranged, step: Step) -> Ranged:
    """Bounds in a type: numbers that overflow in it, or that are converted to it, have none."""
    if x.bounds is None or x.value.dtype == np.float64:
        return x
    is_small = x.value.dtype not in (np.dtype(np.float16), np.dtype(np.float32))
    most = float(np.finfo(np.float32).max) if is_small else float(np.finfo(x.value.dtype).max)
    lost = x.bounds.magnitude >= most
    if step.eqn.primitive.name in ("convert_element_type", "reduce_precision"):
        sources = [a.aval.dtype for a in step.eqn.invars]
        if is_small or x.value.dtype == np.float16 or np.dtype(np.float64) in sources:
            lost = np.ones_like(lost)
    low, high = np.where(lost, -np.inf, x.bounds.low), np.where(lost, np.inf, x.bounds.high)
    return Ranged(x.value, Bounds(low, high))


def _refused(eqn: JaxprEqn, why: str) -> NotImplementedError:
    return NotImplementedError(
        f"error_bars: {eqn.primitive.name} at {eqn.source_info} cannot be enclosed: {why}; "
        'mode="random" and mode="double" run any program'
    )


def _own(value: Array) -> Bounds | None:
    return Bounds(widened(value), widened(value)) if is_real(value.dtype) else None


def _wide(x: Ranged, end: int) -> Array:
    return x.value if x.bounds is None else x.bounds[end]


def _cleaned(b: Bounds, value: Array) -> Bounds:
    """Without NaN, which means that a bound is not known; a computed NaN has no bounds."""
    low = np.where(np.isnan(b.low), -np.inf, b.low)
    high = np.where(np.isnan(b.high), np.inf, b.high)
    unknown = np.isnan(widened(value))
    return Bounds(np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))


def outward(low: Array, high: Array, unit: float, ulps: int = 1) -> Bounds:
    """Bounds moved outwards by as many units of the last place."""
    slack, least = ulps * unit, _least(unit)
    return Bounds(low - (np.abs(low) * slack + least), high + (np.abs(high) * slack + least))


def _least(unit: float) -> float:
    """What results near zero may be off by: numbers below the least normal one may become 0."""
    return _TINY if unit == EPS else float(np.finfo(np.float32).tiny)


_EACH = frozenset(
    "reshape broadcast_in_dim transpose squeeze slice rev concatenate pad gather dynamic_slice "
    "dynamic_update_slice tile split stack unstack copy convert_element_type device_put "
    "optimization_barrier select_n reduce_max reduce_min max min cummax cummin clamp scatter floor "
    "ceil round sign reduce_precision reduce_window_max reduce_window_min scatter-max scatter-min "
    "real stop_gradient name".split()
)
"""Operations that do not decrease in any operand, and that select or move numbers."""

_LIBRARY_ULPS = 8
"""What functions of libraries may be off by, in units of the last place of float64."""


def _ends(eqn: JaxprEqn, x: Bounds) -> tuple[Array, Array]:
    return wide_call(eqn, [x.low])[0], wide_call(eqn, [x.high])[0]


def _increasing(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    return outward(*_ends(eqn, operands[0].as_bounds()), unit, _LIBRARY_ULPS)


def _decreasing(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    low, high = _ends(eqn, operands[0].as_bounds())
    return outward(high, low, unit, _LIBRARY_ULPS)


def _root(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    """Of functions of positive numbers: bounds below zero belong to no exact result."""
    x = operands[0].as_bounds()
    clipped = Bounds(np.maximum(x.low, 0.0), x.high)
    if eqn.primitive.name == "rsqrt":
        low, high = _ends(eqn, clipped)
        return outward(high, low, unit, _LIBRARY_ULPS)
    return outward(*_ends(eqn, clipped), unit, _LIBRARY_ULPS)


def _lipschitz(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    """Sine and cosine: their slope is at most 1."""
    x = operands[0].as_bounds()
    at, radius = wide_call(eqn, [x.middle])[0], x.radius
    b = outward(at - radius, at + radius, unit, _LIBRARY_ULPS)
    return Bounds(np.maximum(b.low, -1.0), np.minimum(b.high, 1.0))


def _even(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    """Functions of the magnitude that increase with it."""
    x = operands[0].as_bounds()
    least = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    return outward(*_ends(eqn, Bounds(least, x.magnitude)), unit, _LIBRARY_ULPS)


def _integer_pow(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    y, x = eqn.params["y"], operands[0].as_bounds()
    if y >= 0:
        return (_even if y % 2 == 0 else _increasing)(eqn, operands, unit)
    has_zero = (x.low <= 0) & (x.high >= 0)
    b = outward(*_sorted_ends(eqn, x), unit, _LIBRARY_ULPS)
    return Bounds(np.where(has_zero, -np.inf, b.low), np.where(has_zero, np.inf, b.high))


def _sorted_ends(eqn: JaxprEqn, x: Bounds) -> tuple[Array, Array]:
    a, b = _ends(eqn, x)
    return np.minimum(a, b), np.maximum(a, b)


def _pow(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    """On positive bases the power is monotone in each operand: its ends are at corners."""
    x, y = (o.as_bounds() for o in operands)
    corners = [np.power(a, b) for a in x for b in y]
    b = outward(np.minimum.reduce(corners), np.maximum.reduce(corners), unit, _LIBRARY_ULPS)
    fine = x.low > 0
    return Bounds(np.where(fine, b.low, np.nan), np.where(fine, b.high, np.nan))


def _neg(_: JaxprEqn, operands: Sequence[Ranged], __: float) -> Bounds:
    x = operands[0].as_bounds()
    return Bounds(-x.high, -x.low)


def _add(_: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    x, y = (o.as_bounds() for o in operands)
    return outward(x.low + y.low, x.high + y.high, unit)


def _sub(_: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    x, y = (o.as_bounds() for o in operands)
    return outward(x.low - y.high, x.high - y.low, unit)


def _mul(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    x, y = (o.as_bounds() for o in operands)
    if eqn.invars[0] is eqn.invars[1] and not isinstance(eqn.invars[0], Literal):
        least = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(x.low**2, x.high**2))
        return outward(least, x.magnitude**2, unit)
    corners = [np.where((a == 0) | (b == 0), 0.0, a * b) for a in x for b in y]
    return outward(np.minimum.reduce(corners), np.maximum.reduce(corners), unit)


def _div(_: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    x, y = (o.as_bounds() for o in operands)
    corners = [a / b for a in x for b in y]
    b = outward(np.minimum.reduce(corners), np.maximum.reduce(corners), unit)
    has_zero = (y.low <= 0) & (y.high >= 0)
    return Bounds(np.where(has_zero, -np.inf, b.low), np.where(has_zero, np.inf, b.high))


def _sums(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    """Sums of one operand, or of updates: middle and radius, and the error of n additions.

    Higham, "Accuracy and Stability of Numerical Algorithms", chapter 4: a sum of n numbers in any
    order is off by at most (n - 1) eps times the sum of their magnitudes.
    """
    floats = [o.bounds is not None for o in operands]
    bounds = [o.as_bounds() for o in operands]

    def call(parts: Sequence[Array]) -> Array:
        given = [p if f else o.value for p, f, o in zip(parts, floats, operands, strict=True)]
        return wide_call(eqn, given)[0]

    middle = call([b.middle for b in bounds])
    radius = call([b.radius for b in bounds])
    size = call([b.magnitude for b in bounds])
    n = max(o.value.size for o in operands) + 2
    if eqn.primitive.name == "reduce_sum":
        n = n // max(1, middle.size) + 2
    radius = (radius + 2 * n * unit * size) * (1 + n * EPS) + _least(unit)
    return Bounds(middle - radius, middle + radius)


def _products(eqn: JaxprEqn, operands: Sequence[Ranged], unit: float) -> Bounds:
    """Products of matrices and convolutions, by middle and radius (Rump's arithmetic)."""
    x, y = (o.as_bounds() for o in operands)

    def call(a: Array, b: Array) -> Array:
        return wide_call(eqn, [a, b])[0]

    middle = call(x.middle, y.middle)
    radius = call(np.abs(x.middle), y.radius) + call(x.radius, y.magnitude)
    n = operands[1].value.size + 2
    if eqn.primitive.name == "dot_general":
        # M K times K N numbers give M N sums of K terms; a batch of B multiplies this by B.
        sizes = [o.value.size for o in operands]
        n = int(np.sqrt(sizes[0] * sizes[1] / max(1, middle.size))) + 2
    radius = (radius + 2 * n * unit * call(x.magnitude, y.magnitude)) * (1 + n * EPS) + _least(unit)
    return Bounds(middle - radius, middle + radius)


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        "exp exp2 expm1 log1p tanh sinh atan asinh erf logistic cbrt asin atanh acosh".split(),
        _increasing,
    ),
    **dict.fromkeys(("acos", "erfc"), _decreasing),
    **dict.fromkeys(("sqrt", "log", "rsqrt"), _root),
    **dict.fromkeys(("sin", "cos"), _lipschitz),
    **dict.fromkeys(("abs", "square", "cosh"), _even),
    **dict.fromkeys(("reduce_sum", "cumsum", "scatter-add", "reduce_window_sum"), _sums),
    **dict.fromkeys(("dot_general", "conv_general_dilated"), _products),
    "integer_pow": _integer_pow,
    "pow": _pow,
    "neg": _neg,
    "add": _add,
    "add_any": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
}
"""What encloses the result of each operation; others are refused by name."""
