"""The beta distribution on [0, 1]: density z^(a-1) (1-z)^(b-1) / (B(a, b) scale).

z = (x - loc) / scale.

>>> from xpr.scipy import stats
>>> stats.beta.cdf(0.5, 2.0, 2.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import betainc, betaln
from xpr.scipy.stats._common import log_complement, masked, standardized, times_log


def _outside(z: Array) -> Array:
    return (z < 0) | (z > 1)


def _below(a: Any, b: Any, z: Array) -> Array:
    """The probability of at most `z`."""
    # Where all is below, the derivative should be 0: betainc's formula for it is not.
    inner = masked(_outside(z), 0.0, 0.5, lambda z: betainc(a, b, z), z)
    return jnp.where(z > 1, 1.0, inner)


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density at `x`; -inf outside the support."""
    z, scale, a, b = standardized("beta.logpdf", x, loc, scale, a, b)
    constant = betaln(a, b) + jnp.log(scale)

    def formula(z: Array) -> Array:
        low, high = times_log(a - 1, jnp.log, z, 0.0), times_log(b - 1, log_complement, z, 1.0)
        return low + high - constant

    return masked(_outside(z), -math.inf, 0.5, formula, z)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density at `x`; 0 outside the support."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of at most `x`, the regularised incomplete beta function."""
    z, _, a, b = standardized("beta.cdf", x, loc, scale, a, b)
    return _below(a, b, z)


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability of at most `x`."""
    z, _, a, b = standardized("beta.logcdf", x, loc, scale, a, b)
    return masked(z <= 0, -math.inf, 0.5, lambda z: jnp.log(_below(a, b, z)), z)


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    z, _, a, b = standardized("beta.sf", x, loc, scale, a, b)
    return _below(b, a, 1 - z)


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability of more than `x`."""
    z, _, a, b = standardized("beta.logsf", x, loc, scale, a, b)
    return masked(z >= 1, -math.inf, 0.5, lambda z: jnp.log(_below(b, a, 1 - z)), z)
