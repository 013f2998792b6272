"""The wrapped Cauchy distribution on [0, 2π].

The density is (1 - c²) / (2π (1 + c² - 2c cos x)) for 0 < c < 1.

>>> from xpr.scipy import stats
>>> stats.wrapcauchy.pdf(0.0, 0.5)
Array(0.47746, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import LOG_2PI, masked, promoted, valid


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density at the angle `x`; -inf outside [0, 2π]."""
    x, c = promoted("wrapcauchy.logpdf", x, c)
    x = valid(x, c > 0, c < 1)
    # 1 + c² - 2c cos x, as a sum of squares that keeps its digits where it is small.
    gap = jnp.square(1 - c)
    constant = jnp.log(1 - c) + jnp.log1p(c) - LOG_2PI
    return masked(
        (x < 0) | (x > 2 * math.pi),
        -math.inf,
        1.0,
        lambda x: constant - jnp.log(gap + 4 * c * jnp.square(jnp.sin(0.5 * x))),
        x,
    )


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density at the angle `x`; 0 outside [0, 2π]."""
    return jnp.exp(logpdf(x, c))
