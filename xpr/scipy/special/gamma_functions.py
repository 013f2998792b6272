"""Gamma, beta and the functions defined by them: logarithms, ratios, derivatives, zeta."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import _coefficients as tables
from xpr.scipy.special._numerics import (
    bernoulli_fractions,
    cos_pi,
    floats,
    horner,
    is_pole,
    is_whole,
    ratio,
    reals,
    rounded_once,
    sin_pi,
    strong,
    strong_reals,
    with_tangents,
)

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# Stirling's series is used from here on; it has B_2k / (2k (2k - 1) x**(2k - 1)) for k = 1, 2, ...
_STIRLING_FROM = 12.0


def _stirling_terms() -> tuple[float, ...]:
    numbers = bernoulli_fractions(20)
    terms = [numbers[2 * k] / Fraction(2 * k * (2 * k - 1)) for k in range(1, 9)]
    return tuple(float(t) for t in reversed(terms))


_STIRLING = _stirling_terms()


def stirling_rest(x: Array) -> Array:
    """log(gamma(x)) less (x - 1/2) log(x) - x + log(2 pi) / 2, for x >= 12."""
    inverse = 1.0 / x
    return inverse * horner(inverse * inverse, _STIRLING)


# ---- gamma and its logarithm


def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of gamma(`x`), for real `x`; inf at the poles.

    >>> import xpr.scipy.special as special
    >>> special.gammaln(5.0)
    Array(3.1780539, dtype=float32, weak_type=True)
    """
    return lax.lgamma(floats("gammaln", x)[0])


def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(`x`): NaN at negative whole numbers, -1 at -0.0.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.gammasgn(jnp.array([1.0, -0.5, -1.0]))
    Array([ 1., -1., nan], dtype=float32)
    """
    (x,) = strong_reals("gammasgn", x)
    odd = jnp.fmod(jnp.floor(x), 2.0) != 0
    sign = jnp.where((x < 0) & odd, -1.0, 1.0)
    sign = jnp.where(x == 0, jnp.copysign(1.0, x), sign)
    undefined = ((x < 0) & (x == jnp.floor(x))) | jnp.isnan(x)
    return jnp.where(undefined, np.nan, sign).astype(x.dtype)


def _positive_gamma(x: Array) -> Array:
    """gamma(x) for x >= 0."""
    moderate = x < _STIRLING_FROM
    near = jnp.where(moderate, x, 1.0)
    whole = jnp.floor(near)
    # gamma(1 + t) for t in [0, 1), and factors without rounding errors up to x.
    rest = near - whole
    value = ratio(rest, tables.GAMMA_1P)
    for k in range(1, 11):
        value = jnp.where(whole > k, value * (rest + float(k)), value)
    value = jnp.where(whole == 0, value / near, value)
    far = jnp.where(moderate, _STIRLING_FROM, x)
    # The power in two halves, since it would overflow before gamma does.
    half = jnp.power(far, 0.5 * far - 0.25)
    size = half * (jnp.exp(-far) * half)
    size = math.sqrt(2 * math.pi) * size * jnp.exp(stirling_rest(far))
    overflow = 36.0 if x.dtype == np.dtype(np.float32) else 172.0
    size = jnp.where(x > overflow, np.inf, size)
    return jnp.where(jnp.isnan(x), x, jnp.where(moderate, value, size))


def _real_gamma_value(x: Array) -> Array:
    value = _positive_gamma(jnp.abs(x))
    below = x < 0
    # Euler's reflection formula, with gamma(1 - x) = -x gamma(-x).
    sine = jnp.where(below, sin_pi(x), 1.0)
    # One division after the other: products may overflow or vanish where gamma(x) does not.
    mirrored = -math.pi / jnp.where(sine == 0, 1.0, sine) / value / jnp.where(below, x, 1.0)
    undefined = below & (x == jnp.floor(x))
    out = jnp.where(below, mirrored, jnp.where(x == 0, jnp.copysign(np.inf, x), value))
    return jnp.where(undefined, np.nan, out).astype(x.dtype)


_real_gamma = with_tangents(
    _real_gamma_value, lambda tangent, out, x: tangent * (out * lax.digamma(x))
)


def gamma(x: ArrayLike) -> Array:
    """The gamma function of a real or complex number; NaN at negative whole real numbers.

    Real numbers are reduced to [1, 2] by the recurrence, or taken by Stirling's series (DLMF
    5.11.1); complex ones are the exponential of `loggamma`.

    >>> import xpr.scipy.special as special
    >>> special.gamma(5.0)
    Array(24., dtype=float32)
    """
    (x,) = strong(*floats("gamma", x))
    if not dtypes.is_complex(x.dtype):
        return rounded_once(_real_gamma, x)
    at_pole = (x.imag == 0) & is_pole(x.real)
    safe = jnp.where(at_pole, jnp.ones_like(x), x)
    return jnp.where(at_pole, np.nan, jnp.exp(_complex_loggamma(safe)))


def _right_loggamma(z: Array) -> Array:
    """log(gamma(z)) where the real part of z is at least 1/2."""
    near = jnp.abs(z) < 10.0
    start = jnp.where(near, z, 1.0)
    # Two factors at a time: the argument of their product stays below pi.
    shift = jnp.zeros_like(z)
    for k in range(0, 10, 2):
        shift = shift + jnp.log((start + float(k)) * (start + float(k + 1)))
    far = jnp.where(near, z + 10.0, z)
    inverse = 1.0 / far
    rest = inverse * horner(inverse * inverse, _STIRLING)
    value = (far - 0.5) * jnp.log(far) - far + _HALF_LOG_TWO_PI + rest
    return value - jnp.where(near, shift, 0.0)


def _complex_loggamma(z: Array) -> Array:
    x, y = z.real, z.imag
    lower = jnp.signbit(y)
    # Both the recurrence and the reflection are used in the upper half-plane.
    upper = lax.complex(x, jnp.abs(y))
    left = x < 0.5
    turned = jnp.where(left, 1.0 - upper, upper)
    value = _right_loggamma(turned)
    # log(sin(pi z)) = -i pi z + log(1 - exp(2 pi i z)) + i pi / 2 - log 2, analytic above the axis.
    fraction = lax.complex(x - jnp.round(x), jnp.abs(y))
    at_pole = fraction == 0
    circle = jnp.expm1(2j * math.pi * jnp.where(at_pole | ~left, 0.25, fraction))
    safe = jnp.where(left, upper, 0.25)
    log_sine = jnp.log(-circle) - 1j * math.pi * safe + (0.5j * math.pi - math.log(2))
    value = jnp.where(left, math.log(math.pi) - log_sine - value, value)
    value = jnp.where(at_pole & left, np.inf, value)
    return jnp.where(lower, jnp.conj(value), value)


def loggamma(x: ArrayLike) -> Array:
    """The principal branch of the logarithm of gamma; NaN for real `x <= 0`.

    For complex `x` it is analytic but for the negative real axis, and differs from the logarithm of
    gamma by multiples of 2 pi i: Stirling's series, the recurrence and the reflection formula as
    in D. E. G. Hare, "Computing the principal branch of log-Gamma", J. Algorithms 25 (1997).

    >>> import xpr.scipy.special as special
    >>> special.loggamma(3.0)
    Array(0.6931472, dtype=float32, weak_type=True)
    """
    (x,) = floats("loggamma", x)
    if dtypes.is_complex(x.dtype):
        return _complex_loggamma(strong(x)[0])
    positive = x > 0
    return jnp.where(positive, lax.lgamma(jnp.where(positive, x, 1.0)), np.nan)


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """The logarithm of the multivariate gamma function of dimension `d` at `a`.

    It is d (d - 1) / 4 log(pi) plus the sum of gammaln(a - j / 2) for j from 0 to d - 1. `d` is
    a number known when the function is traced; TypeError otherwise.

    Of dimension 1 it is `gammaln`; here the logarithm of gamma(3) = 2:

    >>> from xpr.scipy import special
    >>> special.multigammaln(3.0, 1)
    Array(0.6931472, dtype=float32)
    """
    (a,) = strong(*floats("multigammaln", a))
    if isinstance(d, float):
        d = int(d)
    try:
        count = operator.index(d)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise TypeError(f"multigammaln requires d to be a Python integer, got {d!r}") from None
    constant = 0.25 * count * (count - 1) * math.log(math.pi)
    total = jnp.full_like(a, constant)
    for j in range(count):
        total = total + lax.lgamma(a - 0.5 * j)
    return total


# ---- ratios of gamma functions


def _log_ratio(x: Array, shift: Array) -> Array:
    """log(gamma(x) / gamma(x + shift)) for large x and x + shift, without cancellation."""
    total = x + shift
    inner = shift - (x - 0.5) * jnp.log1p(shift / x) - shift * jnp.log(total)
    return inner + stirling_rest(x) - stirling_rest(total)


def _positive_betaln(a: Array, b: Array) -> Array:
    """log(beta(a, b)) for positive numbers, and its limits at 0."""
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    # Stirling's series where the logarithms of gamma would cancel (DiDonato and Morris,
    # "Algorithm 708", ACM Trans. Math. Software 18 (1992)).
    start = 3.0 if a.dtype == np.dtype(np.float32) else _STIRLING_FROM
    one = (large >= start) & (small > 0) & jnp.isfinite(large)
    both = one & (small >= start)
    s, g = jnp.where(one, small, 1.0), jnp.where(one, large, 20.0)
    with_one = lax.lgamma(s) + _log_ratio(g, s)
    s, g = jnp.where(both, small, 20.0), jnp.where(both, large, 20.0)
    rest = stirling_rest(s) + stirling_rest(g) - stirling_rest(s + g) + _HALF_LOG_TWO_PI
    with_both = rest - (s - 0.5) * jnp.log1p(g / s) - g * jnp.log1p(s / g) - 0.5 * jnp.log(g)
    plain = lax.lgamma(small) + lax.lgamma(large) - lax.lgamma(a + b)
    plain = jnp.where(small == 0, jnp.where(jnp.isinf(large), np.nan, np.inf), plain)
    return jnp.where(both, with_both, jnp.where(one, with_one, plain))


def _has_limit(a: Array, b: Array) -> Array:
    """Whether the poles of gamma at `a` and at `a + b` make up for each other.

    That is so for whole numbers with a < 0 < b <= -a, where gamma(a) / gamma(a + b) has a limit.
    """
    return is_pole(a) & is_whole(b) & (b > 0) & (a + b <= 0)


def _betaln_value(a: Array, b: Array) -> Array:
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    total = a + b
    none, two = a >= 0, b < 0
    limit = _has_limit(a, b)
    # Gamma of negative numbers by reflection, whose factors make up beta functions of positive
    # ones, which do not cancel:
    #   a < 0 < b,  a + b <= 0:  beta(b, 1 - a - b) sin(pi (a + b)) / sin(pi a)
    #   a < 0 < b,  a + b > 0:   pi / (sin(pi a) b beta(1 - a, a + b))
    #   a, b < 0:                pi sin(pi (a + b)) / (sin(pi a) sin(pi b) (1 - a - b)
    #                            beta(1 - a, 1 - b))
    # For whole numbers the quotient of sines in the first line has the limit 1 or -1.
    one_below = ~none & ~two & (total <= 0)
    one_above = ~none & ~two & (total > 0)
    first = jnp.where(none, a, jnp.where(one_below, 1.0 - total, 1.0 - a))
    second = jnp.where(one_above, total, jnp.where(two, 1.0 - b, b))
    part = _positive_betaln(first, second)
    sine_a, sine_b = jnp.abs(sin_pi(a)), jnp.abs(sin_pi(b))
    # The sum's sine from what is left of each number, in which rounding the sum does no harm.
    sine_sum = jnp.abs(sin_pi((a - jnp.round(a)) + (b - jnp.round(b))))
    below = part + jnp.where(limit, 0.0, jnp.log(sine_sum) - jnp.log(sine_a))
    above = math.log(math.pi) - jnp.log(sine_a) - jnp.log(b) - part
    both = math.log(math.pi) + jnp.log(sine_sum / sine_a / sine_b) - jnp.log1p(-total) - part
    negative = jnp.where(one_below, below, jnp.where(one_above, above, both))
    infinite = ~none & (is_pole(a) | is_pole(b)) & ~limit
    negative = jnp.where(infinite, np.inf, negative)
    negative = jnp.where(jnp.isfinite(a) & jnp.isfinite(b), negative, np.nan)
    return jnp.where(none, part, negative)


def _by_digamma(tangent: Any, argument: Array, a: Array, b: Array) -> Array:
    return tangent * (lax.digamma(argument) - lax.digamma(a + b))


_betaln = with_tangents(
    _betaln_value,
    lambda tangent, out, a, b: _by_digamma(tangent, a, a, b),
    lambda tangent, out, a, b: _by_digamma(tangent, b, a, b),
)


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the absolute value of the beta function.

    >>> import xpr.scipy.special as special
    >>> special.betaln(2.0, 3.0)
    Array(-2.4849067, dtype=float32, weak_type=True)
    """
    return rounded_once(_betaln, *jnp.broadcast_arrays(*reals("betaln", a, b)))


def _gamma_of_sum(a: Array, b: Array) -> Array:
    """gamma(a + b), corrected for the rounding of the sum, to which it is sensitive."""
    total = a + b
    # What rounding left out (Knuth's two-sum), times the derivative of log(gamma), which need not
    # be accurate.
    part = total - a
    lost = (a - (total - part)) + (b - part)
    slope = jnp.log(jnp.maximum(total, 1.0) - 0.5)
    correction = jnp.where((total > 1) & jnp.isfinite(lost), lost * slope, 0.0)
    value = _real_gamma_value(total)
    return value + value * correction


def _beta_value(a: Array, b: Array) -> Array:
    largest = 30.0 if a.dtype == np.dtype(np.float32) else 165.0
    total = a + b
    inside = (jnp.abs(a) < largest) & (jnp.abs(b) < largest) & (jnp.abs(total) < largest)
    inside &= ~(is_pole(total) | is_pole(a) | is_pole(b))
    a_safe, b_safe = jnp.where(inside, a, 1.0), jnp.where(inside, b, 1.0)
    gammas = [_real_gamma_value(a_safe), _real_gamma_value(b_safe), _gamma_of_sum(a_safe, b_safe)]
    # The greater factor is divided first, since the product may overflow.
    high = jnp.where(jnp.abs(gammas[0]) > jnp.abs(gammas[1]), gammas[0], gammas[1])
    low = jnp.where(jnp.abs(gammas[0]) > jnp.abs(gammas[1]), gammas[1], gammas[0])
    direct = (high / gammas[2]) * low
    size = jnp.exp(_betaln_value(a, b))
    sign = gammasgn(a) * gammasgn(b) * gammasgn(total)
    out = jnp.where(inside, direct, sign * size)
    # At the poles of gamma(a + b) the beta function vanishes, unless it has one itself.
    out = jnp.where(is_pole(total) & ~is_pole(a) & ~is_pole(b), 0.0, out)
    at_negative = (is_pole(a) & (a < 0)) | (is_pole(b) & (b < 0)) | ((a == 0) & (b == 0))
    limit = _has_limit(a, b) | _has_limit(b, a)
    # (-1)**b of the one that is positive.
    alternating = jnp.where(limit, cos_pi(jnp.maximum(a, b)), 1.0)
    return jnp.where(at_negative, alternating * size, out)


_beta = with_tangents(
    _beta_value,
    lambda tangent, out, a, b: out * _by_digamma(tangent, a, a, b),
    lambda tangent, out, a, b: out * _by_digamma(tangent, b, a, b),
)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """gamma(a) gamma(b) / gamma(a + b), for real numbers.

    >>> import xpr.scipy.special as special
    >>> special.beta(2.0, 3.0)
    Array(0.08333334, dtype=float32)
    """
    return rounded_once(_beta, *jnp.broadcast_arrays(*strong_reals("beta", a, b)))


def _poch_value(z: Array, m: Array) -> Array:
    # Left of 0 by reflection: gamma(z + m) / gamma(z) is gamma(1 - z) / gamma(1 - z - m) times
    # sin(pi z) / sin(pi (z + m)), the quotient of sines being (-1)**m for whole m.
    whole = jnp.isfinite(m) & (m == jnp.round(m))
    mirrored = (z <= 0) & (z + m <= 0)
    start = jnp.where(mirrored, 1.0 - z - m, z)
    sines = sin_pi(z) / jnp.where(mirrored & ~whole, sin_pi(z + m), 1.0)
    factor = jnp.where(mirrored, jnp.where(whole, cos_pi(m), sines), 1.0)
    value = factor * _gamma_quotient(start, m)
    # gamma(z) is infinite and gamma(z + m) is not.
    value = jnp.where(is_pole(z) & (z + m > 0), 0.0, value)
    pole = is_pole(z + m) & ~is_pole(z)
    value = jnp.where(pole, np.inf, value)
    value = jnp.where(m == 0, 1.0, jnp.where(m == 1, z, value))
    return jnp.where(jnp.isnan(z) | jnp.isnan(m), np.nan, value)


def _gamma_quotient(x: Array, shift: Array) -> Array:
    """gamma(x + shift) / gamma(x)."""
    total = x + shift
    largest = 33.0 if x.dtype == np.dtype(np.float32) else 170.0
    inside = (jnp.abs(total) < largest) & (jnp.abs(x) < largest)
    start, step = jnp.where(inside, x, 1.0), jnp.where(inside, shift, 1.0)
    direct = _gamma_of_sum(start, step) / _real_gamma_value(start)
    series = (x >= _STIRLING_FROM) & (total >= _STIRLING_FROM) & ~inside
    start, step = jnp.where(series, x, 20.0), jnp.where(series, shift, 1.0)
    by_series = jnp.exp(-_log_ratio(start, step))
    sign = gammasgn(total) * gammasgn(x)
    by_logarithm = sign * jnp.exp(lax.lgamma(total) - lax.lgamma(x))
    return jnp.where(inside, direct, jnp.where(series, by_series, by_logarithm))


_poch = with_tangents(
    _poch_value,
    lambda tangent, out, z, m: tangent * out * (lax.digamma(z + m) - lax.digamma(z)),
    lambda tangent, out, z, m: tangent * out * lax.digamma(z + m),
)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer's symbol gamma(z + m) / gamma(z), or its limit where gamma(z) is infinite.

    >>> import xpr.scipy.special as special
    >>> special.poch(2.0, 3.0)
    Array(24., dtype=float32)
    """
    return rounded_once(_poch, *jnp.broadcast_arrays(*strong_reals("poch", z, m)))


# ---- incomplete functions


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function P(a, x), for a >= 0 and x >= 0.

    Of `a` = 1 it is 1 - exp(-x):

    >>> from xpr.scipy import special
    >>> special.gammainc(1.0, 2.0)
    Array(0.86466473, dtype=float32, weak_type=True)
    """
    return lax.igamma(*floats("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """1 - gammainc(a, x), accurate where that is near 1.

    Of `a` = 1 it is exp(-x):

    >>> from xpr.scipy import special
    >>> special.gammaincc(1.0, 2.0)
    Array(0.13533528, dtype=float32, weak_type=True)
    """
    return lax.igammac(*floats("gammaincc", a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function I_x(a, b), for a, b >= 0 and 0 <= x <= 1.

    >>> import xpr.scipy.special as special
    >>> special.betainc(1.0, 1.0, 0.25)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return lax.betainc(*reals("betainc", a, b, x))


# ---- derivatives of gamma, zeta


def digamma(x: ArrayLike) -> Array:
    """The derivative of `gammaln`.

    >>> import xpr.scipy.special as special
    >>> special.digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return lax.digamma(floats("digamma", x)[0])


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The `n`-th derivative of `digamma` at `x`.

    Raises ValueError unless `n` has an integer dtype; NaN for negative `n`.

    At n = x = 1 it is pi**2 / 6:

    >>> from xpr.scipy import special
    >>> special.polygamma(1, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    kind = get_aval(n).dtype
    if dtypes.kind(kind) not in "iu":
        raise ValueError(f"Argument `n` to polygamma must be of integer type. Got dtype {kind}.")
    return lax.polygamma(*floats("polygamma", n, x))


def _zeta_log_sum(x: Array, q: Array) -> Array:
    """The sum of log(q + k) (q + k)**-x: minus the derivative of zeta in x.

    The Euler-Maclaurin formula (DLMF 2.10.1) with ten terms before it.
    """
    total = jnp.zeros_like(x)
    for k in range(10):
        total = total + jnp.log(q + float(k)) * jnp.power(q + float(k), -x)
    n = q + 10.0
    log = jnp.log(n)
    power = jnp.power(n, -x)
    total = total + power * n * (log / (x - 1.0) + 1.0 / ((x - 1.0) * (x - 1.0)))
    total = total + 0.5 * power * log
    # The odd derivatives of log(t) t**-x, as (u log(t) + v) t**-(x + j).
    u, v = jnp.ones_like(x), jnp.zeros_like(x)
    numbers = bernoulli_fractions(20)
    scale = power
    for j in range(1, 18):
        u, v = -(x + float(j - 1)) * u, u - (x + float(j - 1)) * v
        scale = scale / n
        if j % 2:
            factor = float(numbers[j + 1] / math.factorial(j + 1))
            total = total - factor * (u * log + v) * scale
    return total


_zeta = with_tangents(
    lambda x, q: lax.zeta(x, q),
    lambda tangent, out, x, q: -tangent * _zeta_log_sum(x, q),
    lambda tangent, out, x, q: tangent * (-x * lax.zeta(x + 1.0, q)),
)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function, the sum of (q + k)**-x for k = 0, 1, 2, ...

    Differentiable in both arguments, in `x` for q > 0. Raises NotImplementedError without `q`.

    >>> import xpr.scipy.special as special
    >>> special.zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    if q is None:
        raise NotImplementedError(
            "Riemann zeta function not implemented; pass q != None to compute the Hurwitz Zeta "
            "function: q=1 for x > 1."
        )
    return rounded_once(_zeta, *floats("zeta", x, q))
