"""The inverse of the complementary error function, accurate where `erfinv(1 - y)` is not."""

from __future__ import annotations

import math
from typing import Any

import xpr.numpy as jnp
from xpr import lax
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special._numerics import reals, rounded_once, with_tangents
from xpr.scipy.special.error_functions import erfcx
from xpr.scipy.special.statistical import ndtri


def _erfcinv_value(y: Array) -> Array:
    # 1 - y is exact from 1/2 on. Below it rounds, where the quantile of y/2 has its own formula.
    near = y >= 0.5
    tail = ndtri(jnp.where(near, 0.25, 0.5 * y)) * -math.sqrt(0.5)
    return jnp.where(near, lax.erf_inv(1.0 - y), tail)


def _erfcinv_slope(tangent: Any, out: Array, y: Array) -> Any:
    # exp(z**2) multiplies the error of z by 2 z**2: the tails take it from erfcx(z) / erfc(z).
    far = jnp.abs(out) > 1.0
    central = jnp.exp(jnp.square(jnp.where(far, 0.0, out)))
    rest = jnp.where(far, jnp.minimum(y, 2.0 - y), 1.0)
    height = jnp.where(far & jnp.isfinite(out), jnp.abs(out), 1.0)
    return tangent * (-0.5 * math.sqrt(math.pi)) * jnp.where(far, erfcx(height) / rest, central)


_erfcinv = with_tangents(_erfcinv_value, _erfcinv_slope)


def erfcinv(y: ArrayLike) -> Array:
    """The number whose complementary error function is `y`: infinite at 0 and 2, NaN beyond.

    Accurate for small `y`, where `erfinv(1 - y)` rounds. `y` is real; integers become floats, and
    16-bit floats are computed in float32 and rounded once. Raises ValueError for complex numbers.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.erfcinv(jnp.array([0.0, 1e-30, 1.0, 2.0, 3.0]))
    Array([     inf, 8.148616, 0.      ,     -inf,      nan], dtype=float32)
    """
    return rounded_once(_erfcinv, *reals("erfcinv", y))
