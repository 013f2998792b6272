"""The von Mises distribution on the circle: density exp(κ cos x) / (2π I₀(κ)), κ >= 0.

>>> from xpr.scipy import stats
>>> stats.vonmises.pdf(0.0, 1.0)
Array(0.34171, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.special import bessel_i0e
from xpr.scipy.stats._common import LOG_2PI, promoted, valid


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density at the angle `x`."""
    x, kappa = promoted("vonmises.logpdf", x, kappa)
    x = valid(x, kappa >= 0)
    # κ (cos x - 1), without cancellation for the small angles that a large κ leaves.
    below_peak = -2 * kappa * jnp.square(jnp.sin(0.5 * x))
    return below_peak - (LOG_2PI + jnp.log(bessel_i0e(jnp.asarray(kappa))))


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density at the angle `x`."""
    return jnp.exp(logpdf(x, kappa))
