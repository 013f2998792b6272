"""Student's t distribution with `df` degrees of freedom; normal for an infinite `df`.

The density is Γ((df+1)/2) / (Γ(df/2) √(π df) scale) (1 + z²/df)^(-(df+1)/2), z = (x - loc) / scale.

>>> from xpr.scipy import stats
>>> stats.t.pdf(0.0, 2.0)
Array(0.353553, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.special import lgamma
from xpr.scipy.stats._common import LOG_2PI, standardized

# log Γ(x + 1/2) - log Γ(x) - log(x) / 2 is the sum of these over x, x³, x⁵, ... (asymptotic).
_GAMMA_RATIO = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336, -31 / 18432, 691 / 180224)
_LARGE = 12.0


def _log_constant(df: Array) -> Array:
    """log Γ((df+1)/2) - log Γ(df/2) - log(π df) / 2.

    The difference of two large logarithms would leave few digits: the series takes its place.
    """
    half = 0.5 * df
    large = half > _LARGE
    inverse = 1 / jnp.where(large, half, _LARGE)
    square, series = inverse * inverse, jnp.zeros_like(inverse)
    for coefficient in reversed(_GAMMA_RATIO):
        series = series * square + coefficient
    x = jnp.where(large, 1.0, half)
    exact = lgamma(x + 0.5) - lgamma(x) - 0.5 * jnp.log(x)
    return jnp.where(large, series * inverse, exact) - 0.5 * LOG_2PI


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`."""
    z, scale, df = standardized("t.logpdf", x, loc, scale, df)
    normal = df == math.inf
    finite = jnp.where(normal, 1.0, df)
    power = jnp.where(normal, 0.5 * z * z, 0.5 * (finite + 1) * jnp.log1p(z * z / finite))
    constant = jnp.where(normal, -0.5 * LOG_2PI, _log_constant(finite))
    return constant - power - jnp.log(scale)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, df, loc, scale))
