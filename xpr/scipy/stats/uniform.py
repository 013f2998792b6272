"""The uniform distribution on [loc, loc + scale].

>>> from xpr.scipy import stats
>>> stats.uniform.pdf(3.0, loc=1.0, scale=4.0)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._promote import without_weak_type
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import quantile_of, standardized


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`; -inf outside the interval."""
    z, scale = standardized("uniform.logpdf", x, loc, scale)
    outside = (z < 0) | (z > 1)
    # 0 * z: NaN stays NaN, and the shape is that of all arguments.
    inside = 0 * jnp.where(outside, 0.0, z) - jnp.log(scale)
    return jnp.where(outside, -math.inf, inside)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`; 0 outside the interval."""
    z, scale = standardized("uniform.pdf", x, loc, scale)
    outside = (z < 0) | (z > 1)
    return jnp.where(outside, 0.0, (0 * jnp.where(outside, 0.0, z) + 1) / scale)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    z, _ = standardized("uniform.cdf", x, loc, scale)
    return without_weak_type(jnp.clip(z, 0.0, 1.0))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number whose `cdf` is `q`; NaN for a `q` outside [0, 1]."""
    q, loc, scale = quantile_of("uniform.ppf", q, loc, scale)
    return q * scale + loc
