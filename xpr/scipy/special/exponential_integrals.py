"""Exponential, sine and cosine integrals, and the dilogarithm.

The rational approximations interpolate the functions at Chebyshev points; the intervals are those
of W. J. Cody and H. C. Thacher, "Chebyshev approximations for the exponential integral Ei(x)",
Math. Comp. 23 (1969), and of the auxiliary functions in DLMF 6.2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core import dtypes
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import _coefficients as tables
from xpr.scipy.special._numerics import (
    bernoulli_fractions,
    floats,
    only_32_or_64,
    ratio,
    rounded_once,
    strong,
    strong_reals,
    with_tangents,
)

# The even terms of the dilogarithm's series in -log(x): B_2k / (2k + 1)!.
_DEBYE = tuple(
    float(bernoulli_fractions(20)[2 * k] / math.factorial(2 * k + 1)) for k in range(1, 11)
)


# ---- exp1, expi


def _exp1_value(x: Array) -> Array:
    near = x <= 1
    inner = jnp.where(near & (x > 0), x, 1.0)
    value = inner * ratio(inner, tables.EXP1_SMALL) - jnp.log(inner) - np.euler_gamma
    outer = jnp.where(near, 2.0, x)
    far = jnp.exp(-outer) * ratio(1.0 / outer, tables.EXP1_LARGE) / outer
    value = jnp.where(near, value, jnp.where(jnp.isposinf(x), 0.0, far))
    value = jnp.where(x == 0, np.inf, value)
    return jnp.where((x < 0) | jnp.isnan(x), np.nan, value)


_exp1 = with_tangents(_exp1_value, lambda tangent, out, x: -tangent * jnp.exp(-x) / x)


def exp1(x: ArrayLike) -> Array:
    """The exponential integral E1, the integral of exp(-t) / t from `x` to infinity.

    NaN for negative `x`. Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.exp1(1.0)
    Array(0.21938384, dtype=float32)
    """
    return rounded_once(_exp1, *strong_reals("exp1", x))


def _expi_value(x: Array) -> Array:
    name = x.dtype.name
    root, rest = tables.EXPI_ROOT[name]
    near = x < 6
    inner = jnp.where(near & (x > 0), x, 1.0)
    distance = (inner - root) - rest
    # Both terms vanish at the zero of the function, so that nothing cancels there.
    value = jnp.log1p(jnp.where(inner < 2, distance, 0.0) / root)
    value = jnp.where(inner < 2, value, jnp.log(inner / root))
    value = jnp.where(inner < 0.1, jnp.log(inner / root), value)
    value = value + distance * ratio(inner / 3.0 - 1.0, tables.EXPI_SMALL)
    outer = jnp.where(near, 8.0, x)
    inverse = 1.0 / outer
    scaled = ratio(24.0 * inverse - 3.0, tables.EXPI_6)
    scaled = jnp.where(outer >= 12, ratio(48.0 * inverse - 3.0, tables.EXPI_12), scaled)
    scaled = jnp.where(outer >= 24, ratio(48.0 * inverse - 1.0, tables.EXPI_24), scaled)
    # The exponential in two halves, since it would overflow before the quotient does.
    half = jnp.exp(0.5 * outer)
    far = half * (scaled * (half / outer))
    far = jnp.where(jnp.isposinf(outer), np.inf, far)
    value = jnp.where(near, value, far)
    value = jnp.where(x < 0, -_exp1_value(-x), value)
    return jnp.where(x == 0, -np.inf, jnp.where(jnp.isnan(x), np.nan, value))


_expi = with_tangents(_expi_value, lambda tangent, out, x: tangent * jnp.exp(x) / x)


def expi(x: ArrayLike) -> Array:
    """The exponential integral Ei, the principal value of exp(t) / t from -inf to `x`.

    -inf at 0. Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.expi(1.0)
    Array(1.8951178, dtype=float32)
    """
    return rounded_once(_expi, *strong_reals("expi", x))


# ---- expn


def _expn_series(n: Array, x: Array, terms: int) -> Array:
    """The power series (DLMF 8.19.8) for whole n >= 2 and 0 < x <= 1."""
    total = jnp.zeros_like(x)
    power = jnp.ones_like(x)
    for m in range(terms):
        offset = float(m) - (n - 1.0)
        skipped = offset == 0
        total = total - jnp.where(skipped, 0.0, power / jnp.where(skipped, 1.0, offset))
        power = power * (-x / float(m + 1))
    # (-x)**(n - 1) / (n - 1)! (digamma(n) - log(x)), which is soon negligible.
    log = jnp.log(x)
    size = jnp.exp((n - 1.0) * log - lax.lgamma(n))
    sign = jnp.where(jnp.fmod(n, 2.0) == 0, -1.0, 1.0)
    return total + sign * size * (lax.digamma(n) - log)


def _expn_fraction(n: Array, x: Array, terms: int) -> Array:
    """The continued fraction (DLMF 8.19.17, its even part), from its tail, for x > 1."""
    value = jnp.zeros_like(x)
    for k in range(terms, 0, -1):
        value = float(k) * (n + float(k - 1)) / (x + n + float(2 * k) - value)
    return jnp.exp(-x) / (x + n - value)


def _expn_value(n: Array, x: Array) -> Array:
    single = x.dtype == np.dtype(np.float32)
    near = x <= 1
    plain = (n >= 2) & (x > 0) & (x < np.inf)
    n_safe = jnp.where(plain, n, 2.0)
    small = _expn_series(n_safe, jnp.where(plain & near, x, 1.0), 12 if single else 20)
    outer = jnp.where(plain & ~near, x, 2.0)
    value = jnp.where(near, small, _expn_fraction(n_safe, outer, 20 if single else 90))
    value = jnp.where(n == 1, _exp1_value(x), value)
    value = jnp.where(n == 0, jnp.exp(-x) / x, value)
    at_zero = jnp.where(n > 1, 1.0 / jnp.where(n > 1, n - 1.0, 1.0), np.inf)
    value = jnp.where(x == 0, at_zero, jnp.where(jnp.isposinf(x), 0.0, value))
    defined = (n >= 0) & (n == jnp.floor(n)) & (x >= 0)
    return jnp.where(defined, value, np.nan)


def _expn_slope(tangent: Any, out: Any, n: Array, x: Array) -> Any:
    lower = _expn(jnp.maximum(n - 1.0, 0.0), x)
    at_0 = -jnp.exp(-x) * (1.0 / x + 1.0 / (x * x))
    return tangent * jnp.where(n == 0, at_0, -lower)


_expn = with_tangents(_expn_value, None, _expn_slope)


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The integral of exp(-x t) / t**n for t from 1 to infinity.

    `n` is a whole number >= 0 and `x` >= 0; NaN elsewhere. The derivative in `n` is taken for 0.
    Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.expn(2, 1.0)
    Array(0.14849555, dtype=float32)
    """
    operands = strong_reals("expn", _listed(n), _listed(x))
    return rounded_once(_expn, *jnp.broadcast_arrays(*operands))


def _listed(x: Any) -> Any:
    return jnp.asarray(x) if isinstance(x, (list, tuple)) else x


# ---- sici


def _sici_value(x: Array) -> tuple[Array, Array]:
    y = jnp.abs(x)
    near = y < 4
    inner = jnp.where(near, y, 1.0)
    square = inner * inner
    sine = inner * ratio(square, tables.SI_SMALL)
    safe = jnp.where(inner == 0, 1.0, inner)
    cosine = np.euler_gamma + jnp.log(safe) + square * ratio(square, tables.CIN_SMALL)
    outer = jnp.where(near | jnp.isinf(y), 8.0, y)
    inverse = 1.0 / outer
    f = inverse * ratio(inverse * inverse, tables.SICI_F)
    g = inverse * inverse * ratio(inverse * inverse, tables.SICI_G)
    far_sine = 0.5 * math.pi - f * jnp.cos(outer) - g * jnp.sin(outer)
    far_cosine = f * jnp.sin(outer) - g * jnp.cos(outer)
    sine = jnp.where(near, sine, jnp.where(jnp.isinf(y), 0.5 * math.pi, far_sine))
    cosine = jnp.where(near, cosine, jnp.where(jnp.isinf(y), 0.0, far_cosine))
    cosine = jnp.where(y == 0, -np.inf, cosine)
    undefined = jnp.isnan(x)
    sine = jnp.where(undefined, x, jnp.copysign(sine, x))
    return sine, jnp.where(undefined | jnp.isneginf(x), np.nan, cosine)


def _sici_slopes(tangent: Any, out: Any, x: Array) -> tuple[Any, Any]:
    return tangent * jnp.sinc(x / math.pi), tangent * jnp.cos(x) / x


_sici = with_tangents(_sici_value, _sici_slopes)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine and cosine integrals (Si(x), Ci(x)); Ci is -inf at 0.

    For negative `x`, where Ci is complex, the result is its real part, which is Ci(-x).

    Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.sici(1.0)
    (Array(0.94608307, dtype=float32), Array(0.3374039, dtype=float32))
    """
    (x,) = strong(*floats("sici", x))
    if dtypes.is_complex(x.dtype):
        raise ValueError(f"Argument `x` to sici must be real-valued. Got dtype {x.dtype}.")
    return rounded_once(_sici, x)


# ---- spence


def _debye_series(u: Array) -> Array:
    """The dilogarithm of 1 - exp(-u), for |u| <= log(2)."""
    square = u * u
    total = jnp.full_like(u, _DEBYE[-1])
    for c in reversed(_DEBYE[:-1]):
        total = total * square + c
    return u * (1.0 - 0.25 * u + square * total)


def _spence_value(x: Array) -> Array:
    # Reflection below 1/2 and inversion above 2 (DLMF 25.12.6 and 25.12.4).
    low, high = x < 0.5, x > 2
    middle = jnp.where(low | high | jnp.isnan(x), 1.0, x)
    log_middle = jnp.log(middle)
    low_x = jnp.where(low & (x > 0), x, 0.25)
    log_rest = jnp.log1p(-low_x)
    high_log = jnp.log(jnp.where(high, x, 3.0))
    # 1/x may be taken by its logarithm too, but that is as large as log(x). From 1e30 on its part
    # in the sum is nothing, and compiled programs take subnormal numbers for 0.
    inverse = 1.0 / jnp.where(high, jnp.minimum(x, 1e30), 3.0)
    mirrored = jnp.where(inverse < 0.5, inverse, 0.25)
    inner = math.pi**2 / 6 - jnp.log(mirrored) * jnp.log1p(-mirrored)
    inner = inner - _debye_series(-jnp.log1p(-mirrored))
    value = _debye_series(-log_middle)
    below = math.pi**2 / 6 - jnp.log(low_x) * log_rest - _debye_series(-log_rest)
    value = jnp.where(low, jnp.where(x == 0, math.pi**2 / 6, below), value)
    value = jnp.where(high, -inner - 0.5 * high_log * high_log, value)
    return jnp.where((x < 0) | jnp.isnan(x), np.nan, value)


def _spence_slope(tangent: Any, out: Any, x: Array) -> Any:
    near = jnp.abs(x - 1.0) < 1e-3
    gap = jnp.where(near, x - 1.0, 0.0)
    series = -1.0 + gap * (0.5 - gap * (1 / 3 - gap * (0.25 - gap * (0.2 - gap / 6))))
    return tangent * jnp.where(near, series, jnp.log(x) / jnp.where(near, 1.0, 1.0 - x))


_spence = with_tangents(_spence_value, _spence_slope)


def spence(x: ArrayLike) -> Array:
    """Spence's function, the integral of log(t) / (1 - t) from 1 to `x`; NaN for negative `x`.

    It is the dilogarithm of 1 - x, by its series in the logarithm of `x` (Bernoulli's numbers over
    factorials) with reflection and inversion. float32 and float64 only: TypeError otherwise.

    >>> import xpr.scipy.special as special
    >>> special.spence(2.0)
    Array(-0.822467, dtype=float32)
    """
    return _spence(only_32_or_64("spence", x))
