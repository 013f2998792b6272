"""Taylor series of functions, under the name of `jax.experimental.jet`.

>>> import xpr.numpy as jnp
>>> from xpr.experimental.jet import jet
>>> value, series = jet(jnp.sin, (0.0,), ((1.0, 0.0, 0.0),))
>>> [float(d) for d in series]
[1.0, 0.0, -1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xpr.numpy as jnp
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.trace import get_aval, is_valid_value
from xpr.experimental.jet import _series as ps
from xpr.experimental.jet._series import Series
from xpr.experimental.jet.programs import evaluate
from xpr.scipy.special import gammaln
from xpr.transforms.arguments import FlatFunction
from xpr.transforms.tracing import check_callable
from xpr.tree_util import tree_structure, tree_unflatten

__all__ = ["fact", "jet"]


def fact(n: Any) -> Any:
    """n! as a floating-point array, of integers or of an array of them: the divisors of a series.

    >>> fact(4)
    Array(24., dtype=float32, weak_type=True)
    """
    return jnp.exp(gammaln(n + 1.0))


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """The derivatives of `fun` along curves: its Taylor series, given those of its arguments.

    Argument i is the curve x(t) with x(0) = `primals[i]` and the derivatives `series[i]` at t = 0,
    the first, the second, and so on. The result are the value of `fun` at t = 0, and a list of the
    derivatives of `fun(x(t))`, for each array that `fun` returns. So the n-th derivative of a
    function f of a number is the last of `jet(f, (x,), ((1.0, 0.0, ..., 0.0),))[1]`.

    Series pass through a program once, whose work grows with the square of their length, where
    derivatives of derivatives double it each time. What has no rule for series (sorting, linear
    algebra, gamma functions) is differentiated repeatedly. The rules that a user gave for
    derivatives are not asked. Where a function is not smooth, such as `x**0.5` at 0, derivatives
    are not numbers.

    Parameters:
        primals: arrays or numbers; integers become floats.
        series: for each of them a sequence of arrays of its shape, all of one length.
        factorial_scaled: whether `series` and the result hold derivatives; if not, they hold the
            coefficients of the powers of t, which are the derivatives divided by factorials.

    Raises ValueError for lengths and shapes that differ and for what is no array.

    >>> import xpr.numpy as jnp
    >>> def f(x, y):
    ...     return x * y**2
    >>> value, (first, second) = jet(f, (2.0, 3.0), ((1.0, 0.0), (1.0, 0.0)))
    >>> float(value), float(first), float(second)
    (18.0, 21.0, 16.0)

    Source: Bettencourt, Johnson and Duvenaud, "Taylor-mode automatic differentiation for
    higher-order derivatives in JAX", 2019; Griewank and Walther, "Evaluating Derivatives",
    chapter 13.
    """
    check_callable(fun, "jet")
    if len(primals) != len(series):
        raise ValueError(f"jet requires a series for each primal, got {len(primals)} primals and "
                         f"{len(series)} series")  # fmt: skip
    lengths = {len(terms) for terms in series}
    if len(lengths) > 1:
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    order = lengths.pop() if lengths else 0
    scales = ps.factorials(order + 1) if factorial_scaled else [1.0] * (order + 1)
    operands = [
        _curve(i, x, terms, scales)
        for i, (x, terms) in enumerate(zip(primals, series, strict=True))
    ]
    flat = FlatFunction(fun, tree_structure((tuple(primals), {})))
    closed = trace_to_jaxpr(flat, [get_aval(ps.primal(x)) for x in operands])
    found = evaluate(closed, operands)
    values = tree_unflatten(flat.out_tree, [jnp.asarray(ps.primal(y)) for y in found])
    terms = [[d * s for d, s in zip(_terms(y, order), scales[1:], strict=True)] for y in found]
    return values, tree_unflatten(flat.out_tree, terms)


def _terms(y: Any, order: int) -> list[Any]:
    if isinstance(y, Series):
        return y.coefficients[1:]
    aval = get_aval(y)
    dtype = aval.dtype if ps.is_inexact(y) else jnp.result_type(float)
    return [jnp.zeros(aval.shape, dtype)] * order


def _curve(i: int, x: Any, terms: Sequence[Any], scales: Sequence[float]) -> Any:
    for value in (x, *terms):
        if not is_valid_value(value):
            raise ValueError(f"primal value at position {i} is not an array: {x!r}, {terms!r}")
    primal = jnp.asarray(x)
    if not ps.is_inexact(primal):
        primal = primal.astype(float)
    coefficients = [primal]
    for k, term in enumerate(terms):
        term = jnp.asarray(term)
        if term.shape != primal.shape:
            raise ValueError(
                f"jet: term {k + 1} of the series at position {i} has the shape {term.shape}, its "
                f"primal {primal.shape}"
            )
        coefficients.append(term.astype(primal.dtype) / scales[k + 1])
    return Series(coefficients)
