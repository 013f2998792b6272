"""Spherical harmonics."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core import dtypes
from xpr.core.errors import ConcretizationTypeError, TracerArrayConversionError
from xpr.core.trace import get_aval
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special._numerics import strong_reals


def _legendre(n: Array, m: Array, theta: Array, n_max: int) -> Array:
    """The associated Legendre function of cos(theta), normalised on the sphere, for m >= 0.

    From P(m, m) upwards in n, by the recurrence of Holmes and Featherstone, "A unified approach to
    the Clenshaw summation and the recursive computation of very high degree and order normalised
    associated Legendre functions", J. Geodesy 76 (2002). Condon and Shortley's sign is in it.
    """
    x, sine = jnp.cos(theta), jnp.sin(theta)

    def sectoral(k: Any, value: Array) -> Array:
        k = k.astype(theta.dtype)
        factor = -jnp.sqrt((2.0 * k + 1.0) / (2.0 * k)) * sine
        return jnp.where(k <= m, value * factor, value)

    first = jnp.full_like(x, math.sqrt(0.25 / math.pi))
    first = lax.fori_loop(1, n_max + 1, sectoral, first)

    def upward(k: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        older, old, kept = state
        k = k.astype(theta.dtype)
        above = k > m
        # Roots of what is not taken are roots of 1, so that their slopes are finite.
        low = jnp.where(above, k * k - m * m, 1.0)
        a = jnp.sqrt((4.0 * k * k - 1.0) / low)
        before = jnp.where(above & (k - 1.0 > m), (k - 1.0) * (k - 1.0) - m * m, 0.0)
        b = jnp.sqrt(before / jnp.where(above, 4.0 * (k - 1.0) * (k - 1.0) - 1.0, 1.0))
        value = jnp.where(above, a * (x * old - b * older), old)
        return jnp.where(above, old, older), value, jnp.where(k == n, value, kept)

    state = (jnp.zeros_like(x), first, jnp.where(n == m, first, 0.0))
    return lax.fori_loop(1, n_max + 1, upward, state)[2]


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonic of degree `n` and order `m`; complex.

    It is sqrt((2n + 1) / (4 pi) (n - m)! / (n + m)!) P(n, m, cos(theta)) exp(i m phi), where P is
    the associated Legendre function with Condon and Shortley's sign, `theta` the polar and `phi`
    the azimuthal angle. The four are broadcast against each other. `n_max` is the greatest degree,
    the maximum of `n` if it is left out, which a traced `n` does not allow. The result is 0 for
    |m| > n. Raises NotImplementedError for `diff_n`, TypeError unless `n` and `m` are integers.

    >>> import xpr.scipy.special as special
    >>> special.sph_harm_y(0, 0, 0.5, 0.5)
    Array(0.2820948+0.j, dtype=complex64)
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y does not offer derivatives by diff_n: use grad")
    for name, value in (("n", n), ("m", m)):
        kind = get_aval(value).dtype
        if dtypes.kind(kind) not in "iu":
            raise TypeError(f"sph_harm_y requires integer {name}, got dtype {kind}")
    top = _greatest(n) if n_max is None else operator.index(n_max)
    angles = strong_reals("sph_harm_y", theta, phi)
    dtype = angles[0].dtype
    degree, order = (jnp.asarray(v).astype(dtype) for v in (n, m))
    degree, order, polar, azimuth = jnp.broadcast_arrays(degree, order, *angles)
    size = jnp.abs(order)
    value = _legendre(degree, size, polar, top)
    value = jnp.where(degree > top, np.nan, jnp.where(size > degree, 0.0, value))
    # Y(n, -m) is (-1)**m times the conjugate of Y(n, m).
    odd = jnp.fmod(size, 2.0) == 1
    value = jnp.where((order < 0) & odd, -value, value)
    return lax.complex(value * jnp.cos(order * azimuth), value * jnp.sin(order * azimuth))


def _greatest(n: Any) -> int:
    try:
        known = np.asarray(n)
    except TracerArrayConversionError:
        raise ConcretizationTypeError(
            "sph_harm_y requires n_max, the greatest degree, where n is traced"
        ) from None
    return int(known.max()) if known.size else 0
