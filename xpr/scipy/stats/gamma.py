"""The gamma distribution: density z^(a-1) exp(-z) / (Γ(a) scale) for z = (x - loc) / scale >= 0.

>>> from xpr.scipy import stats
>>> stats.gamma.pdf(2.0, 3.0)
Array(0.27067, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import gammainc, gammaincc, gammaln
from xpr.scipy.stats._common import masked, standardized, times_log


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`; -inf below `loc`."""
    z, scale, a = standardized("gamma.logpdf", x, loc, scale, a)
    # At infinity the formula is inf - inf.
    outside = (z < 0) | (z == math.inf)
    constant = gammaln(a) + jnp.log(scale)
    return masked(
        outside, -math.inf, 1.0, lambda z: times_log(a - 1, jnp.log, z, 0.0) - z - constant, z
    )


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`; 0 below `loc`."""
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`, the regularised incomplete gamma function P(a, z)."""
    z, _, a = standardized("gamma.cdf", x, loc, scale, a)
    return masked(z <= 0, 0.0, 1.0, lambda z: gammainc(a, z), z)


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`."""
    z, _, a = standardized("gamma.logcdf", x, loc, scale, a)
    return masked(z <= 0, -math.inf, 1.0, lambda z: jnp.log(gammainc(a, z)), z)


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`, the regularised incomplete gamma function Q(a, z)."""
    z, _, a = standardized("gamma.sf", x, loc, scale, a)
    return masked(z <= 0, 1.0, 1.0, lambda z: gammaincc(a, z), z)


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`."""
    z, _, a = standardized("gamma.logsf", x, loc, scale, a)
    return masked(z <= 0, 0.0, 1.0, lambda z: jnp.log(gammaincc(a, z)), z)
