"""Solutions of ordinary differential equations by Dormand and Prince's method of order 5.

The pair of orders 5 and 4: Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980).
Its dense output of order 4: Shampine, "Some practical Runge-Kutta formulas" (1986). The choice of
steps: Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr.lax import scan, while_loop

# Where a stage is evaluated: the share of the step, and the weights of the derivatives before it.
# The last stage is the new value itself, so the next step begins with its derivative.
NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
WEIGHTS = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# The value of order 5 less that of order 4.
ERROR = (
    71 / 57600,
    0.0,
    -71 / 16695,
    71 / 1920,
    -17253 / 339200,
    22 / 525,
    -1 / 40,
)
# y(t + s h) = y(t) + h sum_i k_i sum_j DENSE[i][j] s^(j + 1)
DENSE = (
    (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
    (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
    (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
    (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
    (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
)
ORDER = 5
SAFETY = 0.9
GROWTH = 10.0
SHRINKAGE = 0.2
# The smallest step, in spacings of the time's numbers.
SMALLEST = 10.0

Derivative = Callable[[Any, Any], Any]


class Control(NamedTuple):
    """What bounds the error and the steps."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


class State(NamedTuple):
    """Where the solver is, and the polynomial of the step that led there."""

    y: Any
    f: Any  # the derivative at y
    t: Any
    h: Any  # the next step; 0 when no step can be small enough
    y_before: Any
    t_before: Any
    dense: Any  # a row for each power of the share of the step, from the first


def integrate(f: Derivative, y0: Any, ts: Any, control: Control) -> Any:
    """The values at all `ts`, of a vector `y0` at the first of them.

    `f(y, t)` is the derivative, of the shape and dtype of `y0`. Times that cannot be reached get
    NaN: where steps would have to be smaller than the numbers of the time tell apart, or where
    `control.mxstep` are not enough.
    """
    f0 = f(y0, ts[0])
    start = State(
        y0,
        f0,
        ts[0],
        jnp.minimum(first_step(f, y0, f0, ts[0], control), control.hmax),
        y0,
        ts[0],
        jnp.zeros((len(DENSE[0]), *y0.shape), y0.dtype),
    )

    def to_next_time(state: State, target: Any) -> tuple[State, Any]:
        def unfinished(carry: tuple[State, Any]) -> Any:
            state, count = carry
            going = (state.t < target) & (state.h > 0)
            return going if math.isinf(control.mxstep) else going & (count < control.mxstep)

        def one_more(carry: tuple[State, Any]) -> tuple[State, Any]:
            return step(f, carry[0], control), carry[1] + 1

        state, _ = while_loop(unfinished, one_more, (state, jnp.zeros((), jnp.int32)))
        value = jnp.where(state.t >= target, _interpolated(state, target), math.nan)
        return state, value.astype(y0.dtype)

    _, values = scan(to_next_time, start, ts[1:])
    return jnp.concatenate([y0[None], values])


def step(f: Derivative, state: State, control: Control) -> State:
    """One try: the state behind the step, or a smaller step from where it was."""
    y, t = state.y, state.t
    h = state.h.astype(_real(y.dtype))
    slopes, point = [state.f], y
    for share, weights in zip(NODES, WEIGHTS, strict=True):
        point = y + h * _combined(weights, slopes)
        slopes.append(f(point, t + share * state.h))
    ratio = _size_of(h * _combined(ERROR, slopes), y, point, control).astype(t.dtype)
    accepted = ratio <= 1
    h_next = jnp.minimum(next_step(state.h, ratio), control.hmax)
    smallest = SMALLEST * np.finfo(t.dtype).eps * jnp.abs(t)
    hopeless = ~accepted & (state.h <= jnp.maximum(smallest, np.finfo(t.dtype).tiny))
    h_next = jnp.where(hopeless, 0.0, jnp.maximum(h_next, smallest)).astype(t.dtype)
    columns = zip(*DENSE, strict=True)
    dense = jnp.stack([h * _combined(column, slopes) for column in columns])
    after = State(point, slopes[-1], t + state.h, h_next, y, t, dense)
    kept = state._replace(h=h_next)
    return State(*(jnp.where(accepted, new, old) for new, old in zip(after, kept, strict=True)))


def next_step(h: Any, ratio: Any) -> Any:
    """The step by which an error of `ratio` times the allowed one would be a little below that.

    A step that was good enough is not made smaller. An error that is no number is a large one.
    """
    ratio = jnp.where(jnp.isfinite(ratio), ratio, np.inf)
    least = jnp.where(ratio < 1, 1.0, SHRINKAGE)
    factor = jnp.clip(SAFETY * jnp.maximum(ratio, 1e-10) ** (-1 / ORDER), least, GROWTH)
    return h * factor.astype(h.dtype)


def first_step(f: Derivative, y0: Any, f0: Any, t0: Any, control: Control) -> Any:
    """A step with which an explicit Euler step would be about right, as the book has it."""
    scale = control.atol + control.rtol * jnp.abs(y0)
    d0, d1 = _norm(y0 / scale), _norm(f0 / scale)
    vague = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = jnp.where(vague, 1e-6, 0.01 * d0 / jnp.where(vague, 1.0, d1)).astype(d0.dtype)
    f1 = f(y0 + h0 * f0, t0 + h0.astype(t0.dtype))
    d2 = _norm((f1 - f0) / scale) / h0
    largest = jnp.maximum(d1, d2)
    flat = largest <= 1e-15
    by_slopes = (0.01 / jnp.where(flat, 1.0, largest)) ** (1 / ORDER)
    h1 = jnp.where(flat, jnp.maximum(1e-6, 1e-3 * h0), by_slopes)
    smallest = SMALLEST * np.finfo(t0.dtype).eps * jnp.abs(t0)
    return jnp.maximum(jnp.minimum(100 * h0, h1).astype(t0.dtype), smallest)


def _interpolated(state: State, time: Any) -> Any:
    length = state.t - state.t_before
    share = jnp.where(length > 0, (time - state.t_before) / jnp.where(length > 0, length, 1), 0)
    share = share.astype(_real(state.y.dtype))
    value = jnp.zeros_like(state.y)
    for power in reversed(range(len(DENSE[0]))):
        value = share * (state.dense[power] + value)
    return state.y_before + value


def _size_of(error: Any, y0: Any, y1: Any, control: Control) -> Any:
    """The root of the mean square of the error, in units of what is allowed."""
    allowed = control.atol + control.rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    # A vector of no elements has no error.
    return _norm(error / allowed) / math.sqrt(max(error.size, 1))


def _norm(vector: Any) -> Any:
    return jnp.sqrt(jnp.sum(jnp.abs(vector) ** 2))


def _combined(weights: tuple[float, ...], slopes: list[Any]) -> Any:
    terms = [w * k for w, k in zip(weights, slopes, strict=True) if w]
    return sum(terms[1:], terms[0])


def _real(dtype: Any) -> Any:
    return jnp.finfo(dtype).dtype
