"""The left-skewed Gumbel distribution: the smallest of many numbers, z = (x - loc) / scale.

The logarithm of the density is z - exp(z) - log(scale).

>>> from xpr.scipy import stats
>>> stats.gumbel_l.logcdf(-100.0)
Array(-100., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats import _gumbel as standard
from xpr.scipy.stats._common import quantile_of, standardized


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`."""
    z, scale = standardized("gumbel_l.logpdf", x, loc, scale)
    return standard.log_density(-z) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    z, _ = standardized("gumbel_l.cdf", x, loc, scale)
    return standard.above(-z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`."""
    z, _ = standardized("gumbel_l.logcdf", x, loc, scale)
    return standard.log_above(-z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    z, _ = standardized("gumbel_l.sf", x, loc, scale)
    return jnp.exp(standard.log_below(-z))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`."""
    z, _ = standardized("gumbel_l.logsf", x, loc, scale)
    return standard.log_below(-z)


def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `p`; NaN for a `p` outside [0, 1]."""
    p, loc, scale = quantile_of("gumbel_l.ppf", p, loc, scale)
    return loc - standard.upper_quantile(p) * scale
