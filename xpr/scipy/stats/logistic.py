"""The logistic distribution: cdf 1 / (1 + exp(-z)) with z = (x - loc) / scale.

The arguments of `ppf` and `isf` are probabilities, though they are called `x` as in JAX.

>>> from xpr.scipy import stats
>>> stats.logistic.ppf(0.25)
Array(-1.0986123, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.elementary import logistic as sigmoid
from xpr.scipy.stats._common import quantile_of, standardized


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`."""
    z, scale = standardized("logistic.logpdf", x, loc, scale)
    low = jnp.where(z < 0, z, -z)
    return low - 2 * jnp.log1p(jnp.exp(low)) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    return sigmoid(standardized("logistic.cdf", x, loc, scale)[0])


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return sigmoid(-standardized("logistic.sf", x, loc, scale)[0])


def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `x`; NaN for an `x` outside [0, 1]."""
    q, loc, scale = quantile_of("logistic.ppf", x, loc, scale)
    return (jnp.log(q) - jnp.log1p(-q)) * scale + loc


def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `sf` is `x`; NaN for an `x` outside [0, 1]."""
    q, loc, scale = quantile_of("logistic.isf", x, loc, scale)
    return (jnp.log1p(-q) - jnp.log(q)) * scale + loc
