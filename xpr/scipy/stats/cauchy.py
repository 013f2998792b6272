"""The Cauchy distribution: density 1 / (π scale (1 + z²)) with z = (x - loc) / scale.

>>> from xpr.scipy import stats
>>> stats.cauchy.cdf(1.0)
Array(0.75, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import quantile_of, standardized


def _below(z: Array) -> Array:
    """The probability of at most `z`, an angle: exact in both tails."""
    return jnp.arctan2(jnp.ones_like(z), -z) / math.pi


def _log_below(z: Array) -> Array:
    high = z > 0
    # The other tail, which is small, is what the logarithm of a number near 1 is made of.
    tail = _below(jnp.where(high, -z, z))
    return jnp.where(high, jnp.log1p(-tail), jnp.log(tail))


def _quantile(q: Array) -> Array:
    """The number that probability `q` lies below; exact near 0, 1/2 and 1."""
    tail = jnp.minimum(q, 1 - q)
    central = tail > 0.25
    middle = jnp.tan(math.pi * jnp.where(central, q - 0.5, 0.0))
    outer = 1 / jnp.tan(math.pi * jnp.where(central, 0.25, tail))
    return jnp.where(central, middle, jnp.where(q < 0.5, -outer, outer))


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`."""
    z, scale = standardized("cauchy.logpdf", x, loc, scale)
    size = jnp.abs(z)
    far = size > 1e4
    # 1 + z² is z² there; the square itself could overflow.
    log_sum = jnp.where(
        far,
        2 * jnp.log(jnp.where(far, size, 1.0)),
        jnp.log1p(jnp.square(jnp.where(far, 0.0, z))),
    )
    return -log_sum - jnp.log(scale) - math.log(math.pi)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    return _below(standardized("cauchy.cdf", x, loc, scale)[0])


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`."""
    return _log_below(standardized("cauchy.logcdf", x, loc, scale)[0])


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return _below(-standardized("cauchy.sf", x, loc, scale)[0])


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`."""
    return _log_below(-standardized("cauchy.logsf", x, loc, scale)[0])


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale = quantile_of("cauchy.ppf", q, loc, scale)
    return _quantile(q) * scale + loc


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `sf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale = quantile_of("cauchy.isf", q, loc, scale)
    return loc - _quantile(q) * scale
