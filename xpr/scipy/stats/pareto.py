"""The Pareto distribution: density b / (scale z^(b + 1)) for z = (x - loc) / scale >= 1.

>>> from xpr.scipy import stats
>>> stats.pareto.sf(2.0, 3.0)
Array(0.125, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.nn.activations import log1mexp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import masked, quantile_of, standardized


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`; -inf where z < 1."""
    z, scale, b = standardized("pareto.logpdf", x, loc, scale, b)
    constant = jnp.log(b) - jnp.log(scale)
    return masked(z < 1, -math.inf, 2.0, lambda z: constant - (b + 1) * jnp.log(z), z)


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`; 0 where z < 1."""
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    z, _, b = standardized("pareto.cdf", x, loc, scale, b)
    return masked(z < 1, 0.0, 2.0, lambda z: -jnp.expm1(-b * jnp.log(z)), z)


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`."""
    z, _, b = standardized("pareto.logcdf", x, loc, scale, b)
    return masked(z < 1, -math.inf, 2.0, lambda z: log1mexp(b * jnp.log(z)), z)


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return jnp.exp(logsf(x, b, loc, scale))


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`."""
    z, _, b = standardized("pareto.logsf", x, loc, scale, b)
    return masked(z < 1, 0.0, 2.0, lambda z: -b * jnp.log(z), z)


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale, b = quantile_of("pareto.ppf", q, loc, scale, b)
    return jnp.exp(-jnp.log1p(-q) / b) * scale + loc
