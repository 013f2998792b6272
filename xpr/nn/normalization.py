"""Functions that look at whole axes: softmax and its relatives, sums in logarithms, z-scores.

`axis` is None for all axes, an integer or a tuple of integers. Elements where the boolean `where`
is False take no part.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, overload

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.core.trace import get_aval, is_eager
from xpr.nn._operands import array_of
from xpr.numpy._promote import check_arraylike, promote_args_inexact
from xpr.numpy._typing import Array, ArrayLike, Axis
from xpr.numpy.reductions import reduced_axes
from xpr.primitives.custom import stop_gradient
from xpr.primitives.power import rsqrt
from xpr.transforms.custom_jvp import custom_jvp


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
    where: ArrayLike | None = None,
) -> Array: ...


@overload
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
    where: ArrayLike | None = None,
) -> tuple[Array, Array]: ...


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Array | tuple[Array, Array]:
    """log(sum(b exp(a))) along `axis`, without overflow; `b` is 1 if it is left out.

    -inf for elements that are all -inf, and of none. With `return_sign` the result is a pair, the
    logarithm of the sum's absolute value and its sign; without it a negative sum gives NaN.
    Integers become floats. Raises ValueError for an axis out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.logsumexp(jnp.array([1000.0, 1000.0]))
    Array(1000.6932, dtype=float32)
    """
    if where is not None:
        # What is left out must not send NaNs into the gradient.
        a = jnp.where(where, a, 0)
    weights: Any = None
    if b is None:
        (x,), dtype = promote_args_inexact("logsumexp", a)
    else:
        (x, weights), dtype = promote_args_inexact("logsumexp", a, b)
    x = array_of("logsumexp", x)
    if weights is not None:
        x, weights = jnp.broadcast_arrays(x, weights)
    # Infinities with weight 0 count for nothing.
    counted = x if weights is None else jnp.where(weights != 0, x, -np.inf)
    axes = reduced_axes(axis, x.ndim)
    top = jnp.max(counted.real, axes, keepdims=True, where=where, initial=-np.inf)
    # The result does not depend on the shift, so neither does its derivative.
    shift = stop_gradient(jnp.where(jnp.isfinite(top), top, 0)).astype(x.dtype)
    is_complex = dtypes.is_complex(dtype)
    if weights is not None:
        terms = weights * jnp.exp(_exponents_of_weighted(x, counted, weights, shift))
    elif dtype == np.float64:
        out = _log_of_sum(x - shift, axes, where)
        return _with_sign(out + shift, axes, keepdims, return_sign)
    else:
        terms = jnp.exp(x - shift)
    total = jnp.sum(terms, axes, keepdims=keepdims, where=where)
    shift = shift if keepdims else jnp.squeeze(shift, axes)
    size = jnp.abs(total) if return_sign or not is_complex else total
    out = jnp.log(size) + (shift.real if size.dtype != x.dtype else shift)
    if return_sign:
        return out, jnp.sign(total)
    return out if weights is None or is_complex else jnp.where(total < 0, np.nan, out)


def _exponents_of_weighted(x: Array, counted: Array, weights: Any, shift: Array) -> Array:
    """`x - shift`, where powers with weight 0 are finite: the derivatives by these weights."""
    if dtypes.is_complex(x.dtype):
        return counted - shift
    limit = math.log(float(jnp.finfo(x.dtype).max)) - 1.0
    unweighted = jnp.minimum(jnp.where(jnp.isnan(x), -np.inf, x) - shift, limit)
    return jnp.where(weights != 0, counted - shift, unweighted)


def _log_of_sum(x: Array, axes: tuple[int, ...], where: ArrayLike | None) -> Array:
    """log(sum(exp(x))) of float64 numbers, the greatest of which is 0 if it was finite.

    What the powers less than 1 add to these is seen even where it is small against 1.
    """
    greatest = x == 0
    count = jnp.sum(greatest, axes, dtype=x.dtype, keepdims=True, where=where)
    # The powers of the greatest are counted; expm1 has their derivatives.
    terms = jnp.where(greatest, jnp.expm1(x), jnp.exp(jnp.where(greatest, -1.0, x)))
    rest = jnp.sum(terms, axes, keepdims=True, where=where)
    base = jnp.maximum(count, 1.0)
    return jnp.log(base) + jnp.log1p((rest + (count - base)) / base)


def _with_sign(out: Array, axes: tuple[int, ...], keepdims: bool, return_sign: bool) -> Any:
    """The logarithm of a sum of positive numbers, and the sum's sign if that is asked for."""
    out = out if keepdims else jnp.squeeze(out, axes)
    if not return_sign:
        return out
    sign = jnp.where(jnp.isnan(out), np.nan, jnp.where(out == -np.inf, 0.0, 1.0))
    return out, sign.astype(out.dtype)


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """log(mean(exp(x))) along `axis`, without overflow.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.logmeanexp(jnp.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    shape = get_aval(x).shape
    if where is None:
        count = math.prod(shape[d] for d in reduced_axes(axis, len(shape)))
        return total - jnp.log(jnp.asarray(count, total.dtype))
    chosen = jnp.broadcast_to(array_of("logmeanexp", where, 1), shape)
    return total - jnp.log(jnp.sum(chosen, axis, total.dtype, keepdims=keepdims))


def _shifted(x: Array, axis: Axis, where: ArrayLike | None) -> tuple[Array, Array]:
    """`x` with -inf for what is left out, and its greatest element along `axis`."""
    top = jnp.max(x, axis, where=where, initial=-np.inf, keepdims=True)
    return x if where is None else jnp.where(where, x, -np.inf), top


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along `axis`: positive numbers that add up to 1.

    Elements left out by `where` give 0; an element +inf gives NaN. The result has the shape of `x`
    and its dtype (float32 for integers).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.softmax(jnp.array([1000.0, 1000.0]))
    Array([0.5, 0.5], dtype=float32)
    >>> xpr.nn.softmax(jnp.zeros(3), where=jnp.array([True, True, False]))
    Array([0.5, 0.5, 0. ], dtype=float32)
    """
    # The rule for derivatives is not needed where nothing is traced.
    return (_softmax.fun if is_eager() else _softmax)(x, where, axis)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _softmax(x: ArrayLike, where: ArrayLike | None, axis: Axis) -> Array:
    kept, top = _shifted(array_of("softmax", x), axis, where)
    terms = jnp.exp(kept - top)
    out = terms / jnp.sum(terms, axis, where=where, keepdims=True)
    return out if where is None else jnp.where(where, out, 0)


@_softmax.defjvp
def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, where), (tangent, _) = primals, tangents
    out = _softmax(x, where, axis)
    mean = jnp.sum(out * tangent, axis, where=where, keepdims=True)
    # Reverse mode sums before it turns the sign of `mean`: of a difference it would turn the sign
    # of every element first, for which IREE takes three times as long.
    return out, out * (tangent + -mean)


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)), without the loss of small values; -inf for what `where` leaves out.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log_softmax(jnp.array([0.0, 1000.0]))
    Array([-1000.,     0.], dtype=float32)
    """
    kept, top = _shifted(array_of("log_softmax", x), axis, where)
    shifted = kept - stop_gradient(top)
    out = shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, where=where, keepdims=True))
    return out if where is None else jnp.where(where, out, -np.inf)


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) along `axis`.

    `mean` and `variance` are those of the elements where `where` holds, unless they are given.
    `algorithm` is how the variance is computed: "fast" as mean(x^2) - mean(x)^2, which loses digits
    when the mean is large, "stable" as mean((x - mean)^2). ValueError for any other.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.standardize(jnp.array([1.0, 3.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    given = [v for v in (mean, variance, where) if v is not None]
    check_arraylike("standardize", x, *given)
    if algorithm not in ("fast", "stable"):
        raise ValueError(
            f"standardize requires algorithm to be 'fast' or 'stable', got {algorithm!r}"
        )
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    centred = jnp.subtract(x, mean)
    if variance is None and algorithm == "stable":
        variance = jnp.mean(jnp.square(centred), axis, keepdims=True, where=where)
    elif variance is None:
        squares = jnp.mean(jnp.square(x), axis, keepdims=True, where=where)
        # Rounding may leave a small negative number.
        variance = jnp.clip(squares - jnp.square(mean), 0)
    return centred * rsqrt(jnp.add(variance, epsilon))
