"""The Laplace distribution: density exp(-|z|) / (2 scale) with z = (x - loc) / scale.

>>> from xpr.scipy import stats
>>> stats.laplace.pdf(0.0, scale=2.0)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import standardized


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`."""
    z, scale = standardized("laplace.logpdf", x, loc, scale)
    return -jnp.abs(z) - jnp.log(scale) - math.log(2)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    z, _ = standardized("laplace.cdf", x, loc, scale)
    # Not exp(-|z|), whose derivative at the middle would be 0.
    tail = 0.5 * jnp.exp(jnp.where(z < 0, z, -z))
    return jnp.where(z < 0, tail, 1 - tail)
