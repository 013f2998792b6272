"""The normal distribution: density exp(-z²/2) / (√(2π) scale) with z = (x - loc) / scale.

>>> from xpr.scipy import stats
>>> stats.norm.cdf(1.96)
Array(0.975, dtype=float32)
>>> stats.norm.logsf(20.0)
Array(-203.917, dtype=float32)
"""

from __future__ import annotations

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import log_ndtr, ndtr, ndtri
from xpr.scipy.stats._common import LOG_2PI, quantile_of, standardized


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`."""
    z, scale = standardized("norm.logpdf", x, loc, scale)
    return -0.5 * (z * z + LOG_2PI) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    return ndtr(standardized("norm.cdf", x, loc, scale)[0])


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`, finite far into the tail."""
    return log_ndtr(standardized("norm.logcdf", x, loc, scale)[0])


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return ndtr(-standardized("norm.sf", x, loc, scale)[0])


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`, finite far into the tail."""
    return log_ndtr(-standardized("norm.logsf", x, loc, scale)[0])


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale = quantile_of("norm.ppf", q, loc, scale)
    return (ndtri(q) * scale + loc).astype(float)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `sf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale = quantile_of("norm.isf", q, loc, scale)
    return (loc - ndtri(q) * scale).astype(float)
