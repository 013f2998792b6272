"""BFGS with limited memory: Nocedal and Wright, Numerical Optimization (2nd ed.), algorithm 7.5.

Complex variables are pairs of real ones: Sorber, Van Barel and De Lathauwer, "Unconstrained
optimization of real functions in complex variables", SIAM Journal on Optimization 22 (2012), show
that both views give the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.lax.loops import scan, while_loop
from xpr.numpy._typing import Array
from xpr.primitives.elementwise import complex as complex_of
from xpr.scipy.optimize._line_search import Objective, dot, line_search
from xpr.transforms.derivatives import value_and_grad

_NO_LIMIT = np.iinfo(np.int32).max


class LBFGSState(NamedTuple):
    """Where the search is after `steps` steps; the last rows of the histories are the newest.

    `status` is 0 (fine), 1 (too many steps), 2 (evaluations), 3 (gradients), 4 (the function
    decreases too little) or 5 (a line search failed).
    """

    x: Array
    value: Array
    gradient: Array
    moves: Array
    changes: Array
    weights: Array  # 1 / curvature of each pair, 0 where there is none
    scale: Array
    steps: Array
    evaluations: Array
    converged: Array
    failed: Array
    status: Array


def minimize_lbfgs(
    fun: Objective,
    x0: Array,
    maxiter: int | None = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    gtol: float = 1e-5,
    maxfun: int | None = None,
    maxgrad: int | None = None,
    maxls: int = 20,
) -> LBFGSState:
    """A minimum of `fun` near `x0` [n], found when the `norm` of the gradient is below `gtol`.

    `norm` is an order of `linalg.norm`, or a function.

    The last `maxcor` pairs of steps and changes of the gradient are kept. The search fails after
    `maxiter` steps (200 n by default, if no other limit is given), `maxfun` or `maxgrad`
    evaluations, a step that gains less than `ftol`, or a line search without result in `maxls`
    steps.
    """
    if maxiter is None and maxfun is None and maxgrad is None:
        maxiter = 200 * x0.shape[0]
    if dtypes.is_complex(x0.dtype):
        return _of_complex(fun, x0, (maxiter, norm, maxcor, ftol, gtol, maxfun, maxgrad, maxls))
    size = _norm_of(norm)
    value, gradient = value_and_grad(fun)(x0)
    none = jnp.zeros((), jnp.int32)
    first = LBFGSState(
        x=x0,
        value=value,
        gradient=gradient,
        moves=jnp.zeros((maxcor, *x0.shape), x0.dtype),
        changes=jnp.zeros((maxcor, *x0.shape), x0.dtype),
        weights=jnp.zeros((maxcor,), x0.dtype),
        scale=jnp.ones((), x0.dtype),
        steps=none,
        evaluations=none + 1,
        converged=size(gradient) < gtol,
        failed=jnp.zeros((), bool),
        status=none,
    )

    def goes_on(state: LBFGSState) -> Array:
        return ~state.converged & ~state.failed

    def step(state: LBFGSState) -> LBFGSState:
        direction = _direction(state)
        found = line_search(fun, state.x, direction, state.value, state.gradient, maxiter=maxls)
        best = found.best
        move = best.step.astype(direction.dtype) * direction
        steps, evaluations = state.steps + 1, state.evaluations + found.evaluations
        converged = size(found.gradient) < gtol
        status = jnp.where(state.value - best.value < ftol, 4, 0)
        # The later ones hide the earlier ones.
        limits = ((3, maxgrad, evaluations), (2, maxfun, evaluations), (1, maxiter, steps))
        for code, limit, count in limits:
            status = jnp.where(count >= (_NO_LIMIT if limit is None else limit), code, status)
        status = jnp.where(converged, 0, jnp.where(found.failed, 5, status))
        return _remember(state, move, found.gradient - state.gradient)._replace(
            x=state.x + move,
            value=best.value,
            gradient=found.gradient,
            steps=steps,
            evaluations=evaluations,
            converged=converged,
            failed=status > 0,
            status=status.astype(jnp.int32),
        )

    return while_loop(goes_on, step, first)


def _norm_of(norm: Any) -> Callable[[Array], Any]:
    """The function that `norm` is, or the norm of that order."""
    return norm if callable(norm) else lambda gradient: jnp.linalg.norm(gradient, ord=norm)


def _of_complex(fun: Objective, x0: Array, options: tuple[Any, ...]) -> LBFGSState:
    """The search in the real and imaginary parts; the norm is that of the complex gradient."""
    maxiter, norm, *others = options
    size = _norm_of(norm)

    def joined(parts: Array) -> Array:
        real, imag = jnp.split(parts, 2)
        return complex_of(real, imag)

    parts = jnp.concatenate([x0.real, x0.imag])
    found = minimize_lbfgs(
        lambda u: fun(joined(u)), parts, maxiter, lambda g: size(joined(g)), *others
    )
    # Gradients with respect to complex numbers are conjugates here, as `grad` gives them.
    return found._replace(x=joined(found.x), gradient=joined(found.gradient).conj())


def _direction(state: LBFGSState) -> Array:
    """Minus the estimated inverse Hessian times the gradient: the two loops of algorithm 7.4."""
    pairs = (state.moves, state.changes, state.weights)

    def back(q: Array, pair: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        move, change, weight = pair
        share = weight * dot(move, q)
        return q - share * change, share

    def forth(q: Array, pair: tuple[Array, ...]) -> tuple[Array, None]:
        move, change, weight, share = pair
        return q + (share - weight * dot(change, q)) * move, None

    q, shares = scan(back, -state.gradient, pairs, reverse=True)
    return scan(forth, state.scale * q, (*pairs, shares))[0]


def _remember(state: LBFGSState, move: Array, change: Array) -> LBFGSState:
    """The newest pair in place of the oldest one; without positive curvature it has no weight."""
    curvature = dot(change, move)
    good = curvature > 0
    weight = jnp.where(good, 1 / curvature, 0)
    scale = jnp.where(good, curvature / dot(change, change), state.scale)

    def pushed(history: Array, new: Array) -> Array:
        return jnp.concatenate([history[1:], new[None]])

    return state._replace(
        moves=pushed(state.moves, move),
        changes=pushed(state.changes, change),
        weights=pushed(state.weights, weight),
        scale=scale,
    )
