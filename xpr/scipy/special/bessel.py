"""Bessel functions of the first kind, and modified ones of orders 0 and 1."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core import dtypes
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives._collective_sums import vary_together
from xpr.scipy.special._numerics import floats, horner, rounded_once, strong, with_tangents


def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) I0(x), the scaled modified Bessel function of order 0.

    >>> import xpr.scipy.special as special
    >>> special.i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return lax.bessel_i0e(floats("i0e", x)[0])


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.i0(jnp.array([0.0, 1.0]))
    Array([1.       , 1.2660658], dtype=float32)
    """
    return _i0(floats("i0", x)[0])


def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) I1(x), the scaled modified Bessel function of order 1.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.i1e(jnp.array([0.0, 1.0]))
    Array([0.        , 0.20791042], dtype=float32)
    """
    return lax.bessel_i1e(floats("i1e", x)[0])


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.i1(jnp.array([0.0, 1.0]))
    Array([0.       , 0.5651591], dtype=float32)
    """
    return _i1(floats("i1", x)[0])


def _unscaled(x: Array, scaled: Array, limit: Array) -> Array:
    """exp(|x|) times `scaled`, and `limit` for infinite `x`."""
    # In two halves, since exp(|x|) overflows before the product.
    finite = ~jnp.isinf(x)
    half = jnp.exp(0.5 * jnp.abs(jnp.where(finite, x, 0.0)))
    return jnp.where(finite, half * (half * scaled), limit)


def _i1_over_x(x: Array) -> Array:
    """I1(x) / x, by its series near 0, so that derivatives do not cancel: DLMF 10.25.2."""
    near = jnp.abs(x) < 1.0
    square = jnp.square(jnp.where(near, x, 0.0))
    terms = [0.5 / (4.0**k * math.factorial(k) * math.factorial(k + 1)) for k in range(9)]
    far = jnp.where(near, 1.0, x)
    return jnp.where(near, horner(square, terms[::-1]), _i1(far) / far)


# exp(|x|) has a corner at 0, which the functions do not have.
_i0 = with_tangents(
    lambda x: _unscaled(x, lax.bessel_i0e(x), jnp.abs(x)),
    lambda tangent, out, x: tangent * _i1(x),
)
_i1 = with_tangents(
    lambda x: _unscaled(x, lax.bessel_i1e(x), x),
    lambda tangent, out, x: tangent * (_i0(x) - _i1_over_x(x)),
)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind and orders 0 to `v` at real `z`.

    The result has the shape (v + 1, *z.shape). Miller's backward recurrence (DLMF 3.6(iii)) from
    order `n_iter`, normalised by J0 + 2 (J2 + J4 + ...) = 1: `n_iter` should be larger than |z| and
    `v` by some 15 (float32) or 30. Raises ValueError for complex `z`, for negative `v` and where
    `n_iter` is not above `v`.

    >>> import xpr.scipy.special as special
    >>> special.bessel_jn(1.0, v=1)
    Array([0.7651977 , 0.44005057], dtype=float32)
    """
    (z,) = strong(*floats("bessel_jn", z))
    if dtypes.is_complex(z.dtype):
        raise ValueError("complex input not supported.")
    order, start = operator.index(v), operator.index(n_iter)
    if order < 0 or start <= order:
        raise ValueError(f"bessel_jn requires 0 <= v < n_iter, got v={order} and n_iter={start}")
    return rounded_once(lambda z: _miller(z, order, start), z)


def _miller(z: Array, order: int, start: int) -> Array:
    """J0 to J of `order`, from `start` down."""
    at_zero = z == 0
    safe = jnp.where(at_zero, 1.0, z)
    # Large values are scaled down on the way, and kept[k] with them.
    big = 1e10 if z.dtype.itemsize <= 4 else 1e100

    def step(carry: Any, k: Array) -> tuple[Any, None]:
        upper, middle, total, kept = carry
        lower = 2.0 * k * middle / safe - upper
        # `lower` has the order k - 1.
        total = total + jnp.where(k % 2 == 1, jnp.where(k == 1, 1.0, 2.0), 0.0) * lower
        orders = jnp.arange(order + 1, dtype=z.dtype).reshape((-1,) + (1,) * z.ndim)
        kept = jnp.where(orders == k - 1.0, lower[None], kept)
        shrink = jnp.where(jnp.abs(lower) > big, 1.0 / big, 1.0)
        return (middle * shrink, lower * shrink, total * shrink, kept * shrink[None]), None

    zero = jnp.zeros_like(safe)
    tiny = jnp.full_like(safe, 1e-10 if z.dtype.itemsize <= 4 else 1e-100)
    kept = jnp.zeros((order + 1, *z.shape), z.dtype)
    steps = jnp.arange(start, 0, -1).astype(z.dtype)
    (_, _, total, kept), _ = lax.scan(step, vary_together((zero, tiny, zero, kept), z), steps)
    first = np.zeros((order + 1,) + (1,) * z.ndim)
    first[0] = 1.0
    return jnp.where(at_zero[None], jnp.asarray(first, z.dtype), kept / total[None])
