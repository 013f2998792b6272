"""`minimize`, the one door to all methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array
from xpr.scipy.optimize._bfgs import minimize_bfgs
from xpr.scipy.optimize._lbfgs import minimize_lbfgs
from xpr.transforms.jit import jit

_LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


class OptimizeResults(NamedTuple):
    """What `minimize` finds.

    x: the final place [n]; fun, jac: value and gradient there; hess_inv: the estimated inverse of
    the Hessian [n, n], or None; success: whether the gradient is small enough; nfev, njev, nit:
    counts of values, gradients and steps; status: why the search ended. For BFGS that is 0
    (converged), 1 (too many steps), 3 (an interval with a good step cannot be narrowed further) or
    5 (no such interval found); for L-BFGS 0 (converged), 1 (too many steps), 2 (values), 3
    (gradients), 4 (too little gained) or 5 (a line search failed).

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy.optimize import minimize
    >>> found = minimize(lambda x: (x**2).sum(), jnp.ones(2), method="BFGS")
    >>> bool(found.success), float(found.fun)
    (True, 0.0)
    """

    x: Array
    success: bool | Array
    status: int | Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: int | Array
    njev: int | Array
    nit: int | Array


def minimize(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of `fun(x, *args)`, a real number, near `x0` [n].

    `method` is "BFGS", or "l-bfgs-experimental-do-not-rely-on-this", which keeps `maxcor` pairs of
    vectors instead of a matrix and takes complex `x0`. Derivatives are found by differentiation.
    `tol` bounds the gradient, as does the option `gtol`. `options` of both: maxiter, norm (which
    one of the gradient, the maximum by default), gtol (1e-5); of BFGS line_search_maxiter; of
    L-BFGS maxcor, ftol, maxfun, maxgrad, maxls. It can be compiled and vectorised, but not
    differentiated in reverse.

    Raises TypeError for `args` that are no tuple, `x0` that is not floating and unknown options,
    ValueError for other methods and an `x0` that is no vector.

    >>> import xpr.numpy as jnp
    >>> valley = lambda x, a: (1 - x[0]) ** 2 + a * (x[1] - x[0] ** 2) ** 2
    >>> found = minimize(valley, jnp.array([0.0, 2.0]), (10.0,), method="BFGS")
    >>> jnp.round(found.x, 2)
    Array([1., 1.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize requires a tuple of args, got {args!r}")
    chosen = method.lower()
    if chosen not in ("bfgs", _LBFGS):
        raise ValueError(f"Method {method} not recognized: it is 'BFGS' or {_LBFGS!r}")
    start = jnp.asarray(as_operand("minimize", x0, 1))
    if start.ndim != 1:
        raise ValueError(f"minimize requires a vector x0, got shape {start.shape}")
    if not (dtypes.is_float(start.dtype) or (chosen == _LBFGS and dtypes.is_inexact(start.dtype))):
        raise TypeError(f"minimize with {method} requires floating x0, got {start.dtype}")
    # Loops carry strong types.
    start = start.astype(start.dtype)
    settings = dict(options or {})
    if tol is not None:
        settings.setdefault("gtol", tol)

    def objective(x: Array) -> Array:
        return jnp.asarray(fun(x, *args))

    find = minimize_bfgs if chosen == "bfgs" else minimize_lbfgs
    # One program, instead of one for the loop and steps before it.
    found = jit(lambda x: find(objective, x, **settings))(start)
    return OptimizeResults(
        x=found.x,
        success=found.converged,
        status=found.status,
        fun=found.value,
        jac=found.gradient,
        hess_inv=getattr(found, "inverse", None),
        nfev=found.evaluations,
        njev=found.evaluations,
        nit=found.steps,
    )
