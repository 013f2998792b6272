"""The normal distribution of vectors.

>>> from xpr.scipy import stats
>>> import xpr.numpy as jnp
>>> stats.multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
Array(-1.837877, dtype=float32)
"""

from __future__ import annotations

import xpr.numpy as jnp
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import check_arraylike, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.linalg import cholesky, triangular_solve
from xpr.scipy.stats import norm
from xpr.scipy.stats._common import LOG_2PI


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """The logarithm of the density at the vectors `x`, `[..., n]`.

    `mean` is `[..., n]` and `cov` `[..., n, n]`, positive definite (of other matrices comes NaN),
    or a number that stands for that multiple of the identity; leading axes are broadcast. If
    `mean` is a number, so are the elements of `x`, of the variances `cov`. Raises ValueError for
    other shapes and NotImplementedError for `allow_singular`.
    """
    if allow_singular is not None:
        raise NotImplementedError("allow_singular argument of multivariate_normal.logpdf")
    check_arraylike("multivariate_normal.logpdf", x, mean, cov)
    x, mean, cov = map(as_array, promote_dtypes_inexact(x, mean, cov))
    if mean.ndim == 0:
        return norm.logpdf(x, mean, jnp.sqrt(cov))
    n = mean.shape[-1]
    shape = jnp.broadcast_shapes(x.shape, mean.shape)
    difference = jnp.broadcast_to(x, shape) - jnp.broadcast_to(mean, shape)
    if cov.ndim == 0:
        distance = jnp.sum(jnp.square(difference), axis=-1) / cov
        log_determinant = n * jnp.log(cov)
    else:
        if cov.ndim < 2 or cov.shape[-2:] != (n, n) or difference.shape[-1] != n:
            raise ValueError("multivariate_normal.logpdf got incompatible shapes")
        factor = cholesky(cov)
        batch = jnp.broadcast_shapes(difference.shape[:-1], cov.shape[:-2])
        # The matrix and the vectors of one batch; without leading axes of the matrix, one solve.
        if cov.ndim == 2:
            columns = jnp.moveaxis(difference, -1, 0).reshape(n, -1)
            solved = triangular_solve(factor, columns, left_side=True, lower=True)
            distance = jnp.sum(jnp.square(solved), axis=0).reshape(batch)
        else:
            spread = jnp.broadcast_to(factor, (*batch, n, n))
            column = jnp.broadcast_to(difference, (*batch, n))[..., None]
            solved = triangular_solve(spread, column, left_side=True, lower=True)
            distance = jnp.sum(jnp.square(solved[..., 0]), axis=-1)
        diagonal = jnp.diagonal(factor, axis1=-2, axis2=-1)
        log_determinant = 2 * jnp.sum(jnp.log(diagonal), axis=-1)
    return -0.5 * (distance + n * LOG_2PI + log_determinant)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density at the vectors `x`; see `logpdf`."""
    return jnp.exp(logpdf(x, mean, cov))
