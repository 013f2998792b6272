"""A step along a direction of descent that meets the strong Wolfe conditions.

Nocedal and Wright, Numerical Optimization (2nd ed. 2006), algorithms 3.5 and 3.6, as one loop that
evaluates the function once a turn: while no interval is known that holds a good step, its upper end
is infinite, and trial steps double; then the interval is narrowed by interpolation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.lax.loops import while_loop
from xpr.numpy._typing import Array
from xpr.primitives.dot_general import Precision
from xpr.transforms.derivatives import value_and_grad
from xpr.tree_util import tree_map

# Trial steps in an interval must keep that part of it away from its ends.
_CUBIC_MARGIN, _QUADRATIC_MARGIN = 0.2, 0.1
_MAX_ZOOMS = 30

Objective = Callable[[Array], Array]


def dot(x: Array, y: Array) -> Array:
    """The product of vectors in full precision."""
    return jnp.dot(x, y, precision=Precision.HIGHEST)


class Point(NamedTuple):
    """A step with the value and the slope there."""

    step: Any
    value: Any
    slope: Any


class LineSearch(NamedTuple):
    """What `line_search` finds.

    `best` is the step to take, `gradient` that at its end: if `failed`, of the lowest point that
    decreases enough, perhaps the start. `status` is 0, 1 (the interval cannot be narrowed further)
    or 3 (too many steps).
    """

    best: Point
    gradient: Array
    failed: Array
    evaluations: Array
    status: Array


class _State(NamedTuple):
    """Few arrays, since compiled programs of batches choose among all of them in one place."""

    low: Point  # the lowest step so far that decreases enough
    gradient: Any  # at `low`
    high: Point  # the other end of the interval, at infinity before there is one
    third: Point  # the point that was left last, for interpolation
    turns: Any  # evaluations
    zooms: Any  # evaluations since there has been an interval
    status: Any


_SEARCHING, _FOUND, _STUCK, _TOO_MANY = -1, 0, 1, 3


def _quadratic_minimum(low: Point, other: Point) -> Array:
    """Where the parabola with the value and slope of `low` and the value of `other` is least."""
    gap = other.step - low.step
    curvature = (other.value - low.value - low.slope * gap) / (gap * gap)
    return low.step - low.slope / (2 * curvature)


def _cubic_minimum(low: Point, other: Point, third: Point) -> Array:
    """Where the cubic through three points, with the slope of `low`, has its minimum."""
    gap1, gap2 = other.step - low.step, third.step - low.step
    # What the tangent leaves, over the square: linear in the step.
    rest1 = (other.value - low.value - low.slope * gap1) / (gap1 * gap1)
    rest2 = (third.value - low.value - low.slope * gap2) / (gap2 * gap2)
    cubic = (rest1 - rest2) / (gap1 - gap2)
    square = rest1 - cubic * gap1
    root = jnp.sqrt(square * square - 3 * cubic * low.slope)
    return low.step + (root - square) / (3 * cubic)


def _narrower(state: _State) -> Array:
    """The next step inside the interval: by a cubic, else a parabola, else the middle."""
    ends = state.low.step, state.high.step
    least, most = jnp.minimum(*ends), jnp.maximum(*ends)
    width = most - least
    middle = (least + most) / 2

    def inside(step: Array, margin: float) -> Array:
        # False for NaN, which interpolation gives where it is not possible.
        return (step > least + margin * width) & (step < most - margin * width)

    parabola = _quadratic_minimum(state.low, state.high)
    cubic = _cubic_minimum(state.low, state.high, state.third)
    found = jnp.where(inside(parabola, _QUADRATIC_MARGIN), parabola, middle)
    return jnp.where(inside(cubic, _CUBIC_MARGIN), cubic, found)


def _either(condition: Array, first: Any, second: Any) -> Any:
    return tree_map(lambda a, b: jnp.where(condition, a, b), first, second)


def line_search(
    fun: Objective,
    x: Array,
    direction: Array,
    value: Array,
    gradient: Array,
    first_step: Any = 1.0,
    c1: float = 1e-4,
    c2: float = 0.9,
    maxiter: int = 20,
) -> LineSearch:
    """A step a with f(a) <= f(0) + c1 a f'(0) and |f'(a)| <= c2 |f'(0)|, f(a) = `fun(x + a p)`.

    p [n] is the `direction`, `value` and `gradient` are those of `fun` at `x` [n]; `first_step` is
    tried first. At most `maxiter` steps are tried before an interval is known.
    """
    dtype = value.dtype
    smallest = 1e-5 if dtypes.finfo(dtype).bits < 64 else 1e-10

    def at(step: Array) -> tuple[Point, Array]:
        found, slopes = value_and_grad(fun)(x + step.astype(direction.dtype) * direction)
        point = Point(step, found.astype(dtype), dot(slopes, direction).astype(dtype))
        return point, slopes

    zero = jnp.zeros((), dtype)
    start = Point(zero, value, dot(gradient, direction).astype(dtype))
    nowhere = Point(zero + np.inf, zero + np.nan, zero + np.nan)

    def turn(state: _State) -> _State:
        low, high = state.low, state.high
        doubled = jnp.where(state.turns == 0, first_step, 2 * low.step).astype(dtype)
        zooming = jnp.isfinite(high.step)
        trial, trial_gradient = at(jnp.where(zooming, _narrower(state), doubled))
        allowed = start.value + c1 * trial.step * start.slope
        # NaN is too high as well.
        low_enough = (trial.value <= allowed) & ((trial.value < low.value) | (state.turns == 0))
        flat = jnp.abs(trial.slope) <= -c2 * start.slope
        # The trial is the new low end; the interval lies on the side to which it goes down.
        passed = jnp.where(high.step >= low.step, trial.slope >= 0, trial.slope <= 0)
        third = _either(low_enough & ~passed, low, high)
        new_high = _either(low_enough, _either(passed, low, high), trial)
        new_low, new_gradient = _either(low_enough, (trial, trial_gradient), (low, state.gradient))
        zooms = state.zooms + zooming.astype(state.zooms.dtype)
        narrow = jnp.abs(new_high.step - new_low.step) <= smallest
        stuck = jnp.where(narrow | (zooms >= _MAX_ZOOMS), _STUCK, _SEARCHING)
        status = jnp.where(low_enough & flat, _FOUND, stuck).astype(jnp.int32)
        return _State(new_low, new_gradient, new_high, third, state.turns + 1, zooms, status)

    def goes_on(state: _State) -> Array:
        looking = jnp.isfinite(state.high.step) | (state.turns < maxiter)
        return (state.status == _SEARCHING) & looking

    none = jnp.zeros((), jnp.int32)
    state = while_loop(
        goes_on, turn, _State(start, gradient, nowhere, nowhere, none, none, none + _SEARCHING)
    )
    status = jnp.where(state.status == _SEARCHING, _TOO_MANY, state.status)
    return LineSearch(state.low, state.gradient, state.status != _FOUND, state.turns, status)
