"""Sine, cosine and tangent of float32 and float64, accurate over the whole range.

Arguments are reduced by multiplying their integer mantissa with just those bits of 2/pi that
matter for its exponent, in fixed-point arithmetic (Payne and Hanek, "Radian Reduction for
Trigonometric Functions", SIGNUM 1983). The words of 2/pi are picked by a few selects instead of a
table lookup, so that everything vectorises, and one path serves all arguments. Polynomials are
near-minimax, from Chebyshev interpolation in 60 digits.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics.expr import Expr, by_dtype, polynomial, where

# 2/pi = 0.A2F9836E..., enough 64-bit words for the greatest float64.
_TWO_OVER_PI = (
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)

# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2 on |r| <= 1, with errors
# 3.4e-19 and 1.9e-20 (double), 1.9e-10 and 1.6e-11 (single).
_SIN_DOUBLE = (
    -0.16666666666666666,
    0.0083333333333333,
    -0.00019841269841216566,
    2.755731919201122e-06,
    -2.5052099244914114e-08,
    1.6057701922579786e-10,
    -7.549371704181243e-13,
)
_COS_DOUBLE = (
    0.041666666666666664,
    -0.001388888888888887,
    2.4801587301557676e-05,
    -2.7557319206204856e-07,
    2.087675190511727e-09,
    -1.1469999475427464e-11,
    4.7251147064766145e-14,
)
_SIN_SINGLE = (-0.16666667, 0.008333327, -0.00019838175, 2.7060669e-06)
_COS_SINGLE = (0.041666668, -0.0013888883, 2.4799003e-05, -2.7142923e-07)

_U32, _U64, _I32, _I64 = (np.dtype(t) for t in (np.uint32, np.uint64, np.int32, np.int64))


def _words(width: int, leading_zeros: int, count: int) -> list[int]:
    """The bits of 2/pi after that many zeros, in `count` words of `width` bits."""
    bits = sum(w << (64 * (len(_TWO_OVER_PI) - 1 - i)) for i, w in enumerate(_TWO_OVER_PI))
    excess = 64 * len(_TWO_OVER_PI) + leading_zeros - width * count
    bits >>= excess
    return [(bits >> (width * (count - 1 - i))) & ((1 << width) - 1) for i in range(count)]


def _window(offset: Expr, words: list[int], steps: int, wanted: int) -> list[Expr]:
    """`wanted` words of the bits that begin at `offset`, one of 2**steps words times their width.

    Choosing a run of words takes one round of selects for each bit of its index.
    """
    width = 8 * offset.dtype.itemsize
    index, shift = offset >> (5 if width == 32 else 6), offset & (width - 1)
    run = [offset.like(w) for w in words]
    for step in reversed(range(steps)):
        distance = 1 << step
        upper = (index & distance).ne(0)
        run = [where(upper, run[i + distance], run[i]) for i in range(wanted + distance)]
    # A shift by the full width is undefined, hence the two steps to the right.
    rest = (width - 1) - shift
    return [(run[i] << shift) | ((run[i + 1] >> 1) >> rest) for i in range(wanted)]


# Both reductions see x = m 2**e with a whole number m. A bit of 2/pi worth 2**-i adds
# m 2**(e - i), which is whole turns for i < e - 1. With the bits from e - 1 on as an integer of n
# bits, its product with m modulo 2**n is x * 2/pi modulo 4, two bits before the binary point.


def _high_half(a: Expr, b: Expr) -> Expr:
    """The upper 32 bits of the product of two uint32."""
    if "uint64" in a.ctx.target.missing_types:
        low = 0xFFFF
        ah, al, bh, bl = a >> 16, a & low, b >> 16, b & low
        first = ah * bl + ((al * bl) >> 16)
        second = al * bh + (first & low)
        return ah * bh + (first >> 16) + (second >> 16)
    return ((a.to(_U64) * b.to(_U64)) >> 32).to(_U32)


def _reduce_single(x: Expr) -> tuple[Expr, Expr]:
    """The quadrant (modulo 4) and the reduced argument of float32 |x| >= 1."""
    bits = x.bits(_U32)
    offset = ((bits >> 23) & 0xFF).max(127) - 127
    mantissa = (bits & 0x7FFFFF) | 0x800000
    w0, w1, w2 = _window(offset & 127, _words(32, 25, 7), 2, 3)
    product = mantissa * w1
    low = product + _high_half(mantissa, w2)
    carry = (low < product).to(_U32)
    turns = mantissa * w0 + _high_half(mantissa, w1) + carry
    fraction = ((turns << 2) | (low >> 30)).bits(_I32)
    rest = ((low << 2) >> 1).bits(_I32)
    value = fraction.to(np.float32) + rest.to(np.float32) * 2.0**-31
    return (turns + (1 << 29)) >> 30, value * float(np.pi * 2.0**-33)


def _high_product(a: Expr, b: Expr) -> Expr:
    """The upper 64 bits of the product of two uint64 of which `a` has at most 53 bits."""
    low = 0xFFFFFFFF
    ah, al, bh, bl = a >> 32, a & low, b >> 32, b & low
    cross = al * bh
    middle = ((al * bl) >> 32) + (cross & low) + ah * bl
    return ah * bh + (cross >> 32) + (middle >> 32)


def _reduce_double(x: Expr) -> tuple[Expr, Expr]:
    """The quadrant (modulo 4) and the reduced argument of float64 |x| >= 1."""
    bits = x.bits(_U64)
    offset = ((bits >> 52) & 0x7FF).max(1023) - 1023
    mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    w0, w1, w2 = _window(offset & 1023, _words(64, 54, 19), 4, 3)
    product = mantissa * w1
    low = product + _high_product(mantissa, w2)
    carry = (low < product).to(_U64)
    turns = mantissa * w0 + _high_product(mantissa, w1) + carry
    fraction = ((turns << 2) | (low >> 62)).bits(_I64)
    rest = ((low << 2) >> 1).bits(_I64)
    value = fraction.to(np.float64) + rest.to(np.float64) * 2.0**-63
    return (turns + (1 << 61)) >> 62, value * float(np.pi * 2.0**-65)


def _quadrant_and_rest(x: Expr) -> tuple[Expr, Expr]:
    """q modulo 4 (unsigned, of the float's width) and r with |x| = q pi / 2 + r, |r| <= 1."""
    size = abs(x)
    quadrant, rest = by_dtype(x, _reduce_single, _reduce_double)(x)
    small = size < 1.0
    return where(small, 0, quadrant), where(small, size, rest)


def reduced_sine(r: Expr) -> Expr:
    """The sine for |r| <= 1."""
    z = r * r
    return r + r * (z * polynomial(z, by_dtype(r, _SIN_SINGLE, _SIN_DOUBLE)))


def reduced_cosine(r: Expr) -> Expr:
    """The cosine for |r| <= 1."""
    z = r * r
    return (1.0 - 0.5 * z) + z * z * polynomial(z, by_dtype(r, _COS_SINGLE, _COS_DOUBLE))


def _finite_or_nan(x: Expr, value: Expr) -> Expr:
    return where(abs(x) < np.inf, value, np.nan)


def sin_cos(x: Expr) -> tuple[Expr, Expr]:
    """The sine and the cosine."""
    quadrant, r = _quadrant_and_rest(x)
    s, c = reduced_sine(r), reduced_cosine(r)
    odd = (quadrant & 1).ne(0)
    sine, cosine = where(odd, c, s), where(odd, s, c)
    sine = where((quadrant & 2).ne(0), -sine, sine)
    cosine = where(((quadrant + 1) & 2).ne(0), -cosine, cosine)
    sine = where(x.sign_bit(), -sine, sine)
    return _finite_or_nan(x, sine), _finite_or_nan(x, cosine)


def sin(x: Expr) -> Expr:
    """The sine."""
    return sin_cos(x)[0]


def cos(x: Expr) -> Expr:
    """The cosine."""
    return sin_cos(x)[1]


def tan(x: Expr) -> Expr:
    """The tangent."""
    quadrant, r = _quadrant_and_rest(x)
    s, c = reduced_sine(r), reduced_cosine(r)
    odd = (quadrant & 1).ne(0)
    value = where(odd, -c, s) / where(odd, s, c)
    return _finite_or_nan(x, where(x.sign_bit(), -value, value))
