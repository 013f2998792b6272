"""Ordinary differential equations, under the name of `jax.experimental.ode`.

>>> import xpr.numpy as jnp
>>> from xpr.experimental.ode import odeint
>>> odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0, 2.0])).round(3)
Array([1.   , 0.368, 0.135], dtype=float32)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core.trace import Tracer, is_valid_value
from xpr.experimental.ode._adjoint import solve
from xpr.experimental.ode._dormand_prince import Control
from xpr.flatten_util import ravel_pytree
from xpr.transforms.custom_vjp import closure_convert
from xpr.transforms.tracing import eval_shape
from xpr.tree_util import tree_leaves, tree_map, tree_structure

__all__ = ["odeint"]


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of dy/dt = `func(y, t, *args)` that is `y0` at `t[0]`, at the times `t`.

    Dormand and Prince's method of order 5. Its steps are such that the error of each, by the
    embedded method of order 4, is at most `atol` + `rtol` |y|, as the root of the mean square over
    all elements; values between the steps are those of the method's polynomial of order 4.

    Parameters:
        func: gives the derivative: a tree of arrays or numbers with as many elements as `y0`, which
            count in their order, as in a list of the derivatives of each element of a vector.
        y0: an array or a tree of arrays; integers become floats.
        t: the times, a vector of floats that increase.
        args: further arguments of `func`: arrays, or trees of them.
        rtol, atol: the error that a step may have, relative to the values and absolute. float32
            holds no solution to the default of 1.4e-8: ask for 1e-6 or so where speed counts.
        mxstep: the most steps between two of the times. Times that are not reached get NaN, and
            so do those behind a point where the solution has no end (JAX extrapolates).
        hmax: the largest step.

    Returns the tree of `y0`, with an axis for the times in front.

    Differentiable in reverse mode, with respect to `y0`, `t`, `args` and the arrays that `func`
    closes over, any number of times: the adjoint equation is solved backwards, with the same
    tolerances, so that no more is kept than the values at `t`. Forward mode raises TypeError.

    Raises TypeError if `t` holds no floats, if an argument is no array or if `func` gives more or
    fewer elements than `y0` has or a wider dtype, and ValueError if `t` is no vector or is known to
    decrease.

    >>> import xpr, xpr.numpy as jnp
    >>> def pendulum(state, t, length):
    ...     angle, speed = state
    ...     return speed, -9.81 / length * jnp.sin(angle)
    >>> times = jnp.linspace(0.0, 1.0, 3)
    >>> angle, speed = odeint(pendulum, (0.1, 0.0), times, 1.0, rtol=1e-6, atol=1e-6)
    >>> angle.round(3)
    Array([ 0.1  ,  0.001, -0.1  ], dtype=float32)
    >>> def last(length):
    ...     return odeint(pendulum, (0.1, 0.0), times, length, rtol=1e-6, atol=1e-6)[0][-1]
    >>> round(float(xpr.grad(last)(1.0)), 3)
    0.002

    Source: Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", chapter II.
    """
    for x in tree_leaves((y0, args)):
        if not is_valid_value(x):
            raise TypeError(
                f"The contents of odeint *args must be arrays or scalars, but got {x!r}"
            )
    times = _checked_times(t)
    y0, args = tree_map(_as_inexact, y0), tree_map(jnp.asarray, args)
    func = _checked_derivative(func, y0, times[0], args)
    converted, consts = closure_convert(func, y0, times[0], *args)
    control = Control(float(rtol), float(atol), float(mxstep), float(hmax))
    # Without tracers from outside the function itself is the key of what has been compiled.
    function = converted if consts or not isinstance(func, Hashable) else func
    return solve(function, control, y0, times, (*args, *consts))


def _as_inexact(y: Any) -> Any:
    y = jnp.asarray(y)
    return y if jnp.issubdtype(y.dtype, jnp.inexact) else y.astype(float)


def _checked_times(t: Any) -> Any:
    times = jnp.asarray(t)
    if not jnp.issubdtype(times.dtype, jnp.floating):
        raise TypeError(f"t must be an array of floats, but got {t}.")
    if times.ndim != 1 or not times.size:
        raise ValueError(f"t must be a vector of one time or more, got shape {times.shape}")
    if not isinstance(times, Tracer):
        steps = np.diff(np.asarray(times))
        if (steps < 0).any():
            i = int(np.argmax(steps < 0))
            raise ValueError(
                f"t must increase, but {times[i + 1]} comes after {times[i]}: to go back in time, "
                "solve for the time -t, with the derivative negated"
            )
    return times


def _checked_derivative(
    func: Callable[..., Any], y0: Any, t0: Any, args: Any
) -> Callable[..., Any]:
    """`func`, or what gives its result as a tree like `y0`; TypeError if that is not possible."""
    slope = eval_shape(func, y0, t0, *args)
    if tree_structure(slope) == tree_structure(y0) and all(
        (got.shape, got.dtype) == (y.shape, y.dtype)
        for got, y in zip(tree_leaves(slope), tree_leaves(y0), strict=True)
    ):
        return func
    sizes = [sum(math.prod(x.shape) for x in tree_leaves(tree)) for tree in (slope, y0)]
    if sizes[0] != sizes[1]:
        raise TypeError(
            "odeint: func gives the derivative of y0, so it must have as many elements: it gives "
            f"{sizes[0]} in {tree_structure(slope)}, and y0 has {sizes[1]} in {tree_structure(y0)}"
        )
    got, wanted = (jnp.result_type(*(x.dtype for x in tree_leaves(t))) for t in (slope, y0))
    if jnp.promote_types(got, wanted) != wanted:
        raise TypeError(
            "odeint: func gives the derivative of y0, so it must have the dtype of y0: it gives "
            f"{got.name} for {wanted.name}; convert y0 or the derivative"
        )
    return _LikeState(func)


@dataclass(frozen=True)
class _LikeState:
    """A derivative whose elements, in order, become a tree of the types of the state."""

    func: Callable[..., Any]

    def __call__(self, y: Any, t: Any, *args: Any) -> Any:
        flat, unravel = ravel_pytree(y)
        slope, _ = ravel_pytree(self.func(y, t, *args))
        return unravel(slope.astype(flat.dtype))
