"""The error function and its relatives: erf, erfc, erfinv, erfcx, dawsn, wofz, fresnel.

erfcx, dawsn and wofz are values of the Faddeeva function w(z) = exp(-z**2) erfc(-iz), computed by
the trapezoidal rule with residues of M. Al Azah and S. N. Chandler-Wilde, "Computation of the
complex error function using modified trapezoidal rules", SIAM J. Numer. Anal. 59 (2021).
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
    exp_neg_square,
    floats,
    ratio,
    rounded_once,
    sin_pi,
    strong,
    strong_reals,
    with_tangents,
)

_ROOT_PI = math.sqrt(math.pi)
# The number of nodes of the trapezoidal rule: its error is about exp(-pi * nodes).
_NODES = {"float32": 7, "float64": 12}


def erf(x: ArrayLike) -> Array:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to `x`.

    `x` is real; integers become floats. Raises TypeError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.erf(0.5)
    Array(0.5204999, dtype=float32, weak_type=True)
    """
    return lax.erf(floats("erf", x)[0])


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), accurate for large `x` too.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.erfc(jnp.array([0.0, jnp.inf]))
    Array([1., 0.], dtype=float32)
    """
    return lax.erfc(floats("erfc", x)[0])


def erfinv(x: ArrayLike) -> Array:
    """The number whose error function is `x`: infinite at -1 and 1, NaN beyond.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.erfinv(jnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """
    return lax.erf_inv(floats("erfinv", x)[0])


# ---- the Faddeeva function


def _rule(dtype: Any) -> tuple[float, list[tuple[float, float, float, float]]]:
    """The step h, and the nodes and weights at (k + 1/2) h and at (k + 1) h."""
    count = _NODES[np.dtype(dtype).name]
    step = math.sqrt(math.pi / count)
    nodes = []
    for k in range(count):
        half, whole = (k + 0.5) * step, (k + 1) * step
        last = k == count - 1
        nodes.append((half, math.exp(-half * half), whole, 0 if last else math.exp(-whole * whole)))
    return step, nodes


def _bounded(y: Array) -> tuple[Array, Array]:
    """The lesser of `y` and a bound, and the factor by which 1/y is less than that of the bound.

    Beyond it the functions here are multiples of 1/y. Small terms of their rules would vanish,
    where numbers below the normal range are taken for 0.
    """
    bound = 1e6 if y.dtype == np.dtype(np.float32) else 1e12
    return jnp.minimum(y, bound), jnp.where(y > bound, bound / y, 1.0)


def _erfcx_value(x: Array) -> Array:
    step, nodes = _rule(x.dtype)
    y, factor = _bounded(jnp.abs(x))
    total = jnp.zeros_like(y)
    for t, weight, _, _ in nodes:
        total = total + weight / (y + t * t / y)
    # The residue; 0 where the rule does without it.
    turn = 2 * math.pi / step
    near = y < 0.5 * turn
    inside = jnp.where(near, y, 0.0)
    decay = jnp.exp(-turn * inside)
    residue = 2.0 * jnp.exp(inside * (inside - turn)) / (1.0 + decay)
    upper = factor * ((2 * step / math.pi) * total + jnp.where(near, residue, 0.0))
    # exp(y**2) overflows where its reciprocal, computed without rounding y**2, vanishes.
    return jnp.where(x >= 0, upper, jnp.where(jnp.isnan(x), x, 2.0 / exp_neg_square(y) - upper))


def _erfcx_slope(tangent: Any, out: Any, x: Array) -> Any:
    # 2 x erfcx(x) - 2/sqrt(pi) cancels for large x, the derivative of the rule does not.
    step, nodes = _rule(x.dtype)
    y = jnp.maximum(x, 7.0)
    total = jnp.zeros_like(y)
    for t, weight, _, _ in nodes:
        denominator = y + t * t / y
        total = total + weight * ((t / y) * (t / y) - 1.0) / denominator / denominator
    slope = jnp.where(x > 7.0, (2 * step / math.pi) * total, 2.0 * x * out - 2 / _ROOT_PI)
    return tangent * slope


_erfcx = with_tangents(_erfcx_value, _erfcx_slope)


def erfcx(x: ArrayLike) -> Array:
    """exp(x**2) erfc(x), which neither overflows nor vanishes for large `x`.

    Real or complex; 16-bit floats are computed in float32 and rounded once.

    >>> import xpr.scipy.special as special
    >>> special.erfcx(100.0)
    Array(0.00564161, dtype=float32)
    """
    (x,) = strong(*floats("erfcx", x))
    if dtypes.is_complex(x.dtype):
        return _wofz(1j * x)
    return rounded_once(_erfcx, x)


def _dawsn_value(x: Array) -> Array:
    step, nodes = _rule(x.dtype)
    y, factor = _bounded(jnp.abs(x))
    phase = y / step - jnp.round(y / step)
    middle = jnp.abs(phase) > 0.25  # near the nodes (k + 1/2) h, so that those at k h are taken
    total = jnp.where(middle, 0.5 / jnp.where(middle, y, 1.0), 0.0)
    for half, half_weight, whole, whole_weight in nodes:
        t = jnp.where(middle, jnp.full_like(y, whole), half)
        weight = jnp.where(middle, jnp.full_like(y, whole_weight), half_weight)
        total = total + weight / ((y - t) * (1.0 + t / jnp.maximum(y, 0.4)))
    angle = math.pi * jnp.where(jnp.isfinite(phase), phase, 0.0)
    tangent = jnp.tan(jnp.where(middle, 0.5 * math.pi * jnp.sign(phase) - angle, angle))
    bell = exp_neg_square(y)
    pole = jnp.where(middle, -tangent, tangent) * bell
    value = factor * (0.5 * _ROOT_PI * ((2 * step / math.pi) * total + pole))
    value = jnp.where(y < 0.5, _dawsn_series(jnp.minimum(y, 0.5)), value)
    return jnp.where(jnp.isnan(x), x, jnp.copysign(value, x))


def _dawsn_series(x: Array) -> Array:
    """The power series (DLMF 7.6.1), where the terms of the rule would cancel."""
    square = -2.0 * x * x
    total = jnp.ones_like(x)
    for k in range(14, 0, -1):
        total = 1.0 + total * square / (2 * k + 1)
    return x * total


def _dawsn_slope(tangent: Any, out: Any, x: Array) -> Any:
    # 1 - 2 x F(x) cancels for large x, the derivative of the rule does not.
    step, nodes = _rule(x.dtype)
    y = jnp.maximum(jnp.abs(x), 8.0)
    total = jnp.zeros_like(y)
    for t, weight, _, _ in nodes:
        denominator = y - t * t / y
        total = total - weight * (1.0 + (t / y) * (t / y)) / denominator / denominator
    far = (step / _ROOT_PI) * total
    return tangent * jnp.where(jnp.abs(x) > 8.0, far, 1.0 - 2.0 * x * out)


_dawsn = with_tangents(_dawsn_value, _dawsn_slope)


def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral, exp(-x**2) times the integral of exp(t**2) from 0 to `x`.

    Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.dawsn(1.0)
    Array(0.5380795, dtype=float32)
    """
    return rounded_once(_dawsn, *strong_reals("dawsn", x))


def _quadrant(x: Array, y: Array) -> tuple[Array, Array]:
    """Real and imaginary part of w(x + iy) for x >= 0 and y >= 0, of moderate size."""
    step, nodes = _rule(x.dtype)
    turn = 2 * math.pi / step
    phase = x / step - jnp.round(x / step)
    # So far from the axis the residue is negligible.
    plain = y >= 0.5 * turn
    middle = ~plain & (y < x) & (jnp.abs(phase) > 0.25)
    square = x * x + y * y
    safe = jnp.where(square == 0, 1.0, square)
    real = jnp.where(middle, 0.5 * y / safe, 0.0)
    imag = jnp.where(middle, 0.5 * x / safe, 0.0)
    for half, half_weight, whole, whole_weight in nodes:
        t = jnp.where(middle, jnp.full_like(x, whole), half)
        weight = jnp.where(middle, jnp.full_like(x, whole_weight), half_weight)
        low, high = x - t, x + t
        weight = weight / (low * low + y * y) / (high * high + y * y)
        real = real + weight * y * (square + t * t)
        imag = imag + weight * x * (low * high + y * y)
    scale = 2 * step / math.pi
    sign = jnp.where(middle, jnp.full_like(x, -1.0), 1.0)
    inside = jnp.where(plain, 0.0, y)
    decay = jnp.exp(-turn * inside)
    # exp(2 pi i x / h), by what x / h is more than a whole number.
    cosine, sine = jnp.cos(2 * math.pi * phase), jnp.sin(2 * math.pi * phase)
    below_real, below_imag = sign + decay * cosine, decay * sine
    size = 2.0 * exp_neg_square(x) * jnp.exp(inside * (inside - turn))
    angle = 2.0 * x * inside
    turned_real = jnp.cos(angle) * cosine + jnp.sin(angle) * sine
    turned_imag = jnp.cos(angle) * sine - jnp.sin(angle) * cosine
    size = jnp.where(plain, 0.0, size / (below_real * below_real + below_imag * below_imag))
    real = scale * real + size * (turned_real * below_real + turned_imag * below_imag)
    imag = scale * imag + size * (turned_imag * below_real - turned_real * below_imag)
    return real, imag


def _wofz_value(z: Array) -> Array:
    a, b = z.real, z.imag
    x, y = jnp.abs(a), jnp.abs(b)
    # Beyond `far`, two terms of the expansion i / (sqrt(pi) z) (1 + 1 / (2 z**2)) suffice.
    far_from = 1e4 if a.dtype == np.dtype(np.float32) else 1e8
    far = (x > far_from) | (y > far_from)
    top = jnp.where(far, jnp.maximum(x, y), 1.0)
    u, v = x / top, y / top
    u, v = jnp.where(jnp.isinf(x), 1.0, u), jnp.where(jnp.isinf(y), 1.0, v)
    norm = _ROOT_PI * (u * u + v * v) * top
    norm = jnp.where(far, norm, 1.0)
    real, imag = _quadrant(jnp.where(far, 1.0, x), jnp.where(far, 1.0, y))
    real, imag = jnp.where(far, v / norm, real), jnp.where(far, u / norm, imag)
    # In the lower half-plane w(z) = 2 exp(-z**2) - w(-z), where -z is x + iy or its mirror image.
    lower = b < 0
    growth = 2.0 * jnp.exp((y - x) * (y + x))
    angle = 2.0 * x * y
    real = jnp.where(lower, growth * jnp.cos(angle) - real, real)
    imag = jnp.where(lower, growth * jnp.sin(angle) + imag, imag)
    undefined = jnp.isnan(a) | jnp.isnan(b)
    real = jnp.where(undefined, np.nan, real)
    imag = jnp.where(undefined, np.nan, jnp.copysign(1.0, a).astype(imag.dtype) * imag)
    return lax.complex(real, imag)


_wofz = with_tangents(
    _wofz_value, lambda tangent, out, z: tangent * (-2.0 * z * out + 2j / _ROOT_PI)
)


def wofz(z: ArrayLike) -> Array:
    """The Faddeeva function w(z) = exp(-z**2) erfc(-iz); the result is complex.

    >>> import xpr.scipy.special as special
    >>> special.wofz(1j)
    Array(0.42758358+0.j, dtype=complex64)
    """
    (z,) = floats("wofz", z)
    wide = np.complex128 if z.dtype in (np.dtype(np.float64), np.dtype(np.complex128)) else None
    return _wofz(z.astype(wide or np.complex64))


# ---- Fresnel integrals


def _fresnel_value(x: Array) -> tuple[Array, Array]:
    y = jnp.abs(x)
    near = y < 1.5
    inner = jnp.where(near, y, 1.0)
    fourth = inner * inner * inner * inner
    sine = inner * inner * inner * ratio(fourth, tables.FRESNEL_S)
    cosine = inner * ratio(fourth, tables.FRESNEL_C)
    outer = jnp.where(near, 2.0, y)
    inverse = 1.0 / outer
    fourth = inverse * inverse * inverse * inverse
    f = inverse * ratio(fourth, tables.FRESNEL_F) / math.pi
    g = inverse * inverse * inverse * ratio(fourth, tables.FRESNEL_G) / math.pi**2
    sin_half, cos_half = _half_square_angle(outer)
    far_sine = 0.5 - (f * cos_half + g * sin_half)
    far_cosine = 0.5 + (f * sin_half - g * cos_half)
    sine = jnp.where(near, sine, far_sine)
    cosine = jnp.where(near, cosine, far_cosine)
    return _odd(x, sine), _odd(x, cosine)


def _odd(x: Array, value: Array) -> Array:
    """`value`, computed for |x|, with the sign of x; NaN where that is."""
    return jnp.where(jnp.isnan(x), x, jnp.copysign(value, x))


def _half_square_angle(x: Array) -> tuple[Array, Array]:
    """sin and cos of pi x**2 / 2, where x**2 is reduced modulo 4 without rounding.

    With x = n + r, n whole, x**2 = n**2 + 2 n r + r**2, and n r has no more bits than x.
    """
    x = jnp.where(jnp.isfinite(x), x, 0.0)
    whole = jnp.round(x)
    rest = x - whole
    remainder = jnp.fmod(whole, 4.0)
    turns = 0.5 * (jnp.fmod(remainder * remainder, 4.0) + jnp.fmod(2.0 * (whole * rest), 4.0))
    turns = turns + 0.5 * (rest * rest)
    return sin_pi(turns), sin_pi(turns + 0.5)


_fresnel = with_tangents(
    _fresnel_value,
    lambda tangent, out, x: tuple(tangent * part for part in _half_square_angle(x)),
)


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The Fresnel integrals (S(x), C(x)), of sin and cos of pi t**2 / 2 from 0 to `x`.

    Rational approximations of the power series' and the auxiliary functions of the NIST Digital
    Library of Mathematical Functions, 7.5. Raises NotImplementedError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.fresnel(1.0)
    (Array(0.43825918, dtype=float32), Array(0.7798934, dtype=float32))
    """
    (x,) = strong(*floats("fresnel", x))
    if dtypes.is_complex(x.dtype):
        raise NotImplementedError("fresnel does not support complex-valued inputs.")
    return rounded_once(_fresnel, x)
