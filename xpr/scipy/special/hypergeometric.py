"""Confluent and Gauss's hypergeometric functions of real numbers.

Both are power series where those converge well; elsewhere transformations of the NIST Digital
Library of Mathematical Functions, chapters 13 and 15, lead to such series.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special._numerics import (
    cos_pi,
    is_pole,
    rounded_once,
    strong_reals,
)
from xpr.scipy.special.gamma_functions import gamma, gammasgn
from xpr.transforms.custom_jvp import custom_jvp

# A series that has not converged by then is left as it is.
_MOST_TERMS = 3000
# The terms of expansions in powers of at most a tenth.
_FEW_TERMS = 26


# ---- power series


def _sums(
    tops: Sequence[Array], bottoms: Sequence[Array], x: Array, slopes: bool
) -> tuple[Array, list[Array]]:
    """The sum of the series with these parameters, and its derivatives in each if `slopes`.

    The term of order k + 1 is that of order k times x, times each of tops + k, over each of
    bottoms + k and over k + 1. Terms are added until none changes its sum.
    """
    count = len(tops) + len(bottoms) if slopes else 0
    eps = float(dtypes.finfo(x.dtype).eps)
    # Parameters that pass close to 0 make a term small before the terms grow again.
    turning = functools.reduce(jnp.maximum, [-p for p in (*tops, *bottoms)])

    def step(state: Any) -> Any:
        k, term, total, parts, sums = state
        above = [p + k for p in tops]
        below = functools.reduce(jnp.multiply, [q + k for q in bottoms]) * (k + 1.0)
        factor = functools.reduce(jnp.multiply, above) * x / below
        derived = []
        for i in range(len(tops) if slopes else 0):
            others = [p for j, p in enumerate(above) if j != i]
            derived.append(functools.reduce(jnp.multiply, others, x) / below)
        derived += [-factor / (q + k) for q in bottoms] if slopes else []
        parts = [t * factor + term * d for t, d in zip(parts, derived, strict=True)]
        term = term * factor
        sums = [s + t for s, t in zip(sums, parts, strict=True)]
        return k + 1.0, term, total + term, parts, sums

    def unfinished(state: Any) -> Any:
        k, term, total, parts, sums = state
        active = (jnp.abs(term) > eps * jnp.abs(total)) | ((k <= turning) & (term != 0))
        for t, s in zip(parts, sums, strict=True):
            active |= (jnp.abs(t) > eps * jnp.abs(s)) | ((k <= turning) & (t != 0))
        return jnp.any(active) & (k < _MOST_TERMS)

    one, zeros = jnp.ones_like(x), [jnp.zeros_like(x)] * count
    start = (jnp.zeros((), x.dtype), one, one, zeros, zeros)
    _, _, total, _, sums = lax.while_loop(unfinished, step, step(start))
    return total, sums


@custom_jvp
def _power_series(*operands: Any) -> Array:
    """The series with the upper parameters, the lower one and x, in this order."""
    *tops, bottom, x = map(as_array, operands)
    return _sums(tops, [bottom], x, False)[0]


@_power_series.defjvp
def _power_series_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    *tops, bottom, x = map(as_array, primals)
    total, slopes = _sums(tops, [bottom], x, True)
    factor = functools.reduce(jnp.multiply, tops) / bottom
    slopes.append(factor * _power_series(*(p + 1.0 for p in tops), bottom + 1.0, x))
    parts = [t * s for t, s in zip(tangents, slopes, strict=True)]
    return total, functools.reduce(jnp.add, parts)


def _gamma_ratio(tops: Sequence[Array], bottoms: Sequence[Array]) -> Array:
    """The product of gamma at `tops` over that at `bottoms`; 0 where one of these is a pole."""
    limit = 12.0 if tops[0].dtype.itemsize <= 4 else 80.0
    large = functools.reduce(jnp.logical_or, [jnp.abs(v) > limit for v in (*tops, *bottoms)])
    # All in one array, since every use of gamma makes a compiled program much longer.
    values = jnp.stack([*tops, *bottoms])
    upper = np.arange(values.shape[0]).reshape((-1,) + (1,) * tops[0].ndim) < len(tops)
    pole = is_pole(values) & ~upper
    direct = gamma(jnp.where(large[None] | pole, 1.0, values))
    factors = jnp.where(pole, 0.0, jnp.where(upper, direct, 1.0 / direct))
    logarithms = lax.lgamma(jnp.where(large[None] & ~pole, values, 1.0))
    logarithm = jnp.sum(jnp.where(upper, logarithms, -logarithms), 0)
    sign = jnp.prod(jnp.where(pole, 0.0, gammasgn(jnp.where(pole, 1.0, values))), 0)
    return jnp.where(large, sign * jnp.exp(logarithm), jnp.prod(factors, 0))


# ---- the confluent function


def _confluent_expansion(a: Array, b: Array, x: Array) -> Array:
    """M(a, b, -x) for large x > 0 (DLMF 13.7.2), up to its least term."""
    term = total = jnp.ones_like(x)
    # The quotient of two terms is least where (k + 1)**2 is about this: they may grow before.
    turn = jnp.abs(a * (a - b + 1.0))
    for k in range(40 if x.dtype.itemsize <= 4 else 60):
        following = term * (a + float(k)) * (a - b + float(k + 1)) / (float(k + 1) * x)
        useful = (jnp.abs(following) <= jnp.abs(term)) | ((k + 1.0) ** 2 < turn)
        term = jnp.where(useful, following, 0.0)
        total = total + term
    return _gamma_ratio([b], [b - a]) * jnp.power(x, -a) * total


def _hyp1f1(a: Array, b: Array, x: Array) -> Array:
    single = x.dtype == np.dtype(np.float32)
    polynomial = is_pole(a)
    special = jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(x) | jnp.isinf(x) | (is_pole(b) & ~polynomial)
    a_safe, b_safe = jnp.where(special, 1.0, a), jnp.where(special, 1.0, b)
    mirrored = (x < 0) & ~polynomial & ~special
    size = jnp.abs(x)
    # A polynomial times exp(x) has no such expansion.
    # Its least term is small enough; the series' terms stay below exp(88) with single precision.
    spread = jnp.abs(a) + jnp.abs(a - b)
    least = jnp.minimum(40.0 + spread, 80.0) if single else 60.0 + 2.0 * spread
    far = mirrored & ~is_pole(b - a) & (size > least)
    far &= size > 3.0 * (jnp.abs(a) + jnp.abs(b)) * jnp.maximum(1.0, jnp.abs(a - b) / 10.0)
    # Kummer's transformation (DLMF 13.2.39): terms of alternating sign become positive ones.
    inner = jnp.where(special | far, 0.0, jnp.where(mirrored, -x, x))
    value = _power_series(jnp.where(mirrored, b_safe - a_safe, a_safe), b_safe, inner)
    value = jnp.where(mirrored, jnp.exp(jnp.where(mirrored, x, 0.0)) * value, value)
    outer = [jnp.where(far, v, s) for v, s in ((a_safe, 1.0), (b_safe, 2.0), (size, 100.0))]
    value = jnp.where(far, _confluent_expansion(*outer), value)
    # At +inf as exp(x) x**(a - b) / gamma(a), at -inf as x**-a / gamma(b - a).
    upward = jnp.where(
        polynomial, jnp.where(a == 0, 1.0, np.nan), np.inf * gammasgn(b) * gammasgn(a)
    )
    downward = jnp.where(a > 0, 0.0, jnp.where(a == 0, 1.0, np.nan))
    value = jnp.where(jnp.isinf(x), jnp.where(x > 0, upward, downward), value)
    value = jnp.where(is_pole(b) & ~polynomial, np.inf, value)
    return jnp.where(jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(x), np.nan, value)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function M(a, b, x), for real numbers.

    The sum of (a)_k / (b)_k x**k / k!; inf where `b` is 0 or a negative whole number.
    Differentiable in all arguments. Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.hyp1f1(1.0, 1.0, 1.0)
    Array(2.718282, dtype=float32)
    """
    return rounded_once(_hyp1f1, *jnp.broadcast_arrays(*strong_reals("hyp1f1", a, b, x)))


# ---- Gauss's function


def _with_logarithm(a: Array, b: Array, m: Array, y: Array) -> Array:
    """F(a, b; a + b + m; 1 - y) for whole m >= 0 and small y (DLMF 15.8.10)."""
    c = a + b + m
    # A sum of m terms, which soon are negligible, ...
    term = jnp.ones_like(y)
    total = jnp.zeros_like(y)
    for k in range(_FEW_TERMS):
        total = total + jnp.where(m > k, term, 0.0)
        divisor = (k + 1.0 - m) * (k + 1.0)
        divisor = jnp.where(divisor == 0, 1.0, divisor)
        term = term * (a + float(k)) * (b + float(k)) / divisor * y
    some = m > 0
    finite = _gamma_ratio([jnp.where(some, m, 1.0), c], [a + m, b + m]) * total
    # ... and one with logarithms, from n = m on.
    term = jnp.ones_like(y)
    total = jnp.zeros_like(y)
    a, b = a + m, b + m
    log = jnp.log(y) - lax.digamma(jnp.ones_like(y)) - lax.digamma(m + 1.0)
    log = log + lax.digamma(a) + lax.digamma(b)
    for k in range(_FEW_TERMS):
        total = total + term * log
        term = term * (a + float(k)) * (b + float(k)) / ((k + 1.0) * (m + (k + 1.0))) * y
        log = log + (1.0 / (a + float(k)) + 1.0 / (b + float(k)))
        log = log - (1.0 / (k + 1.0) + 1.0 / (m + (k + 1.0)))
    sign = jnp.power(y, m) * cos_pi(m)
    infinite = -sign * _gamma_ratio([c], [a - m, b - m, m + 1.0]) * total
    return jnp.where(some, finite, 0.0) + infinite


def _near_one(a: Array, b: Array, c: Array, excess: Array, whole: Array, y: Array) -> Array:
    """F(a, b; c; 1 - y) for small y > 0 and excess = c - a - b, which may be `whole`."""
    gap = jnp.where(whole, 0.5, excess)
    # DLMF 15.8.4, both series in one loop.
    lower = jnp.stack([1.0 - gap, gap + 1.0])
    series = _power_series(jnp.stack([a, c - a]), jnp.stack([b, c - b]), lower, jnp.stack([y, y]))
    first = _gamma_ratio([c, gap], [c - a, c - b]) * series[0]
    second = _gamma_ratio([c, -gap], [a, b]) * jnp.power(y, gap)
    plain = first + second * series[1]
    # Euler's transformation makes a negative excess positive.
    turned = whole & (excess < 0)
    p, q = jnp.where(turned, c - a, a), jnp.where(turned, c - b, b)
    m = jnp.where(whole, jnp.abs(jnp.round(excess)), 1.0)
    degenerate = _with_logarithm(jnp.where(whole, p, 0.5), jnp.where(whole, q, 0.5), m, y)
    degenerate = jnp.where(turned, jnp.power(y, jnp.where(turned, excess, 1.0)), 1.0) * degenerate
    return jnp.where(whole, degenerate, plain)


def _inside(a: Array, b: Array, c: Array, x: Array, polynomial: Array) -> Array:
    """F(a, b; c; x) for x < 1, or for any x where it is a polynomial."""
    # Pfaff's transformation (DLMF 15.8.1) from negative x into (0, 1).
    turned = (x < 0) & ~polynomial
    swapped = turned & (jnp.abs(a) > jnp.abs(b))
    p, q = jnp.where(swapped, b, a), jnp.where(swapped, a, b)
    excess = jnp.where(turned, q - p, c - a - b)
    q = jnp.where(turned, c - q, q)
    y = jnp.where(turned, 1.0 / (1.0 - x), 1.0 - x)
    z = jnp.where(turned, -x * y, x)
    # Around 1 there is a series in 1 - z, another one where the excess is whole, and close to whole
    # numbers neither is accurate: there the series in z is taken as far as it converges.
    eps = float(dtypes.finfo(x.dtype).eps)
    distance = jnp.abs(excess - jnp.round(excess))
    whole = distance <= 4.0 * eps * (jnp.abs(a) + jnp.abs(b) + jnp.abs(c))
    slow = ~whole & (distance < math.sqrt(eps)) & (z < 0.985)
    near_one = (z > 0.9) & ~polynomial & ~is_pole(q) & ~slow
    inner = _power_series(p, q, c, jnp.where(near_one, 0.0, z))
    outer = [jnp.where(near_one, v, s) for v, s in ((p, 0.5), (q, 0.5), (c, 1.25), (excess, 0.25))]
    close = jnp.where(near_one, y, 0.1)
    value = _near_one(outer[0], outer[1], outer[2], outer[3], whole & near_one, close)
    value = jnp.where(near_one, value, inner)
    return jnp.where(turned, jnp.exp(p * jnp.log(jnp.where(turned, y, 1.0))) * value, value)


def _hyp2f1(a: Array, b: Array, c: Array, x: Array) -> Array:
    polynomial = is_pole(a) | is_pole(b)
    undefined = jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(c) | jnp.isnan(x)
    outside = (x >= 1) & ~polynomial
    pole = is_pole(c) & ~polynomial
    special = undefined | outside | pole | jnp.isinf(x)
    p, q, r = (jnp.where(special, s, v) for v, s in ((a, 0.5), (b, 0.5), (c, 1.25)))
    value = _inside(p, q, r, jnp.where(special, 0.0, x), polynomial & ~special)
    # Gauss's sum at 1 (DLMF 15.4.20).
    at_one = (x == 1) & (c - a - b > 0) & ~polynomial & ~pole
    p, q, r = (jnp.where(at_one, v, s) for v, s in ((a, 0.5), (b, 0.5), (c, 2.0)))
    border = jnp.where(at_one, _gamma_ratio([r, r - p - q], [r - p, r - q]), np.inf)
    value = jnp.where(outside | pole, border, value)
    return jnp.where(undefined | jnp.isneginf(x), np.nan, value)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function F(a, b; c; x), for real numbers.

    The sum of (a)_k (b)_k / (c)_k x**k / k!, continued to x < -1; infinite for x > 1 unless `a` or
    `b` makes it a polynomial, and where `c` is 0 or a negative whole number. Differentiable in all
    arguments. Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.hyp2f1(1.0, 1.0, 2.0, 0.5)
    Array(1.3862946, dtype=float32)
    """
    return rounded_once(_hyp2f1, *jnp.broadcast_arrays(*strong_reals("hyp2f1", a, b, c, x)))
