"""The exponential distribution: density exp(-z) / scale for z = (x - loc) / scale >= 0.

>>> from xpr.scipy import stats
>>> stats.expon.logsf(6.0, scale=2.0)
Array(-3., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.nn.activations import log1mexp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import masked, quantile_of, standardized


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`; -inf below `loc`."""
    z, scale = standardized("expon.logpdf", x, loc, scale)
    return jnp.where(z < 0, -math.inf, -z - jnp.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`; 0 below `loc`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    z, _ = standardized("expon.cdf", x, loc, scale)
    return masked(z < 0, 0.0, 1.0, lambda z: -jnp.expm1(-z), z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`."""
    z, _ = standardized("expon.logcdf", x, loc, scale)
    return masked(z < 0, -math.inf, 1.0, log1mexp, z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return jnp.exp(logsf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`."""
    z, _ = standardized("expon.logsf", x, loc, scale)
    return jnp.where(z < 0, 0.0, -z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale = quantile_of("expon.ppf", q, loc, scale)
    return loc - jnp.log1p(-q) * scale
