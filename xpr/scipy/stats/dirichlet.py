"""The Dirichlet distribution on vectors of positive numbers whose sum is 1.

>>> from xpr.scipy import stats
>>> import xpr.numpy as jnp
>>> stats.dirichlet.pdf(jnp.array([0.2, 0.3, 0.5]), jnp.ones(3))
Array(2., dtype=float32)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import check_arraylike, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.special import lgamma
from xpr.scipy.stats._common import valid

# How far a sum in 16 and 32 bits may be from 1, in units of the dtype's rounding; 64 bits: 1e-10.
_ROUNDINGS = 100


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density at `x`, whose first axis, of length K or K - 1, is the vector.

    `alpha` is `[K]`; an `x` of K - 1 numbers lacks the last one. The result has the shape of the
    other axes of `x`: -inf where a number is not positive or the sum is not 1, NaN where `alpha`
    is not positive. Raises ValueError for other shapes.
    """
    check_arraylike("dirichlet.logpdf", x, alpha)
    vectors, a = map(as_array, promote_dtypes_inexact(x, alpha))
    if a.ndim != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={a.shape}")
    if vectors.ndim == 0 or vectors.shape[0] not in (a.shape[0], a.shape[0] - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={vectors.shape}, alpha.shape={a.shape}"
        )
    if vectors.shape[0] != a.shape[0]:
        rest = 1 - jnp.sum(vectors, axis=0, keepdims=True)
        vectors = jnp.concatenate([vectors, rest], axis=0)
    a = a.reshape(a.shape + (1,) * (vectors.ndim - 1))
    a = valid(a, jnp.all(a > 0))
    tolerance = max(1e-10, _ROUNDINGS * float(dtypes.finfo(vectors.dtype).eps))
    total = jnp.sum(vectors, axis=0)
    outside = jnp.any(vectors <= 0, axis=0) | (jnp.abs(total - 1) > tolerance)
    kernel = jnp.sum((a - 1) * jnp.log(jnp.where(outside, 1.0, vectors)), axis=0)
    constant = lgamma(jnp.sum(a)) - jnp.sum(lgamma(a))
    found = jnp.where(outside, -math.inf, kernel + constant)
    return jnp.where(jnp.isnan(constant), constant, found)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density at `x`; see `logpdf`."""
    return jnp.exp(logpdf(x, alpha))
