"""The method of Broyden, Fletcher, Goldfarb and Shanno.

Nocedal and Wright, Numerical Optimization (2nd ed. 2006), algorithm 6.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr.lax.loops import while_loop
from xpr.numpy._typing import Array
from xpr.primitives.dot_general import Precision
from xpr.scipy.optimize._line_search import Objective, dot, line_search
from xpr.transforms.derivatives import value_and_grad


class BFGSState(NamedTuple):
    """Where the search is after `steps` steps; `status` is that of the last line search."""

    x: Array
    value: Array
    gradient: Array
    inverse: Array  # the estimated inverse of the Hessian
    previous: Array  # the value before the last step
    steps: Array
    evaluations: Array
    converged: Array
    failed: Array
    status: Array


def minimize_bfgs(
    fun: Objective,
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> BFGSState:
    """A minimum of `fun` near `x0` [n], found when the `norm` of the gradient is below `gtol`.

    At most `maxiter` steps, 200 n by default. The final status is 0 (found), 1 (too many steps),
    or 2 more than that of the line search that failed.
    """
    limit = 200 * x0.shape[0] if maxiter is None else maxiter
    value, gradient = value_and_grad(fun)(x0)
    none = jnp.zeros((), jnp.int32)
    first = BFGSState(
        x=x0,
        value=value,
        gradient=gradient,
        inverse=jnp.eye(x0.shape[0], dtype=x0.dtype),
        # So that the first step is as long as 1, if the function is as a parabola.
        previous=value + jnp.linalg.norm(gradient).astype(value.dtype) / 2,
        steps=none,
        evaluations=none + 1,
        converged=jnp.linalg.norm(gradient, ord=norm) < gtol,
        failed=jnp.zeros((), bool),
        status=none,
    )

    def goes_on(state: BFGSState) -> Array:
        return ~state.converged & ~state.failed & (state.steps < limit)

    def step(state: BFGSState) -> BFGSState:
        direction = -_product(state.inverse, state.gradient)
        # What the last step gained, if this one gains as much (N & W, equation 3.60).
        expected = 2.02 * (state.value - state.previous) / dot(state.gradient, direction)
        first_step = jnp.where((expected > 0) & (expected < 1), expected, 1.0)
        found = line_search(
            fun,
            state.x,
            direction,
            state.value,
            state.gradient,
            first_step,
            maxiter=line_search_maxiter,
        )
        move = found.best.step.astype(direction.dtype) * direction
        return BFGSState(
            x=state.x + move,
            value=found.best.value,
            gradient=found.gradient,
            inverse=_updated(state.inverse, move, found.gradient - state.gradient),
            previous=state.value,
            steps=state.steps + 1,
            evaluations=state.evaluations + found.evaluations,
            converged=jnp.linalg.norm(found.gradient, ord=norm) < gtol,
            failed=found.failed,
            status=found.status,
        )

    last = while_loop(goes_on, step, first)
    unfinished = jnp.where(last.failed, 2 + last.status, 1)
    return last._replace(status=jnp.where(last.converged, 0, unfinished))


def _product(matrix: Array, vector: Array) -> Array:
    return jnp.matmul(matrix, vector, precision=Precision.HIGHEST)


def _updated(inverse: Array, move: Array, change: Array) -> Array:
    """The inverse Hessian that maps `change` of the gradient to `move` (N & W, equation 6.17).

    The products are written out, which takes n^2 operations. A pair without positive curvature,
    which comes from a line search that failed, changes nothing.
    """
    curvature = dot(change, move)
    turned = _product(inverse, change)
    scale = (curvature + dot(change, turned)) / (curvature * curvature)
    cross = jnp.outer(turned, move)
    new = inverse + scale * jnp.outer(move, move) - (cross + cross.T) / curvature
    return jnp.where((curvature > 0) & jnp.isfinite(scale), new, inverse)
