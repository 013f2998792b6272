"""The exact remainder of floating-point division.

IREE calls a C function for it: a slow one in float32, and one that it does not have in float64.
"""

from __future__ import annotations

import math

import numpy as np

from xpr.lowering.numerics.exponential import scaled
from xpr.lowering.numerics.expr import Expr, least_normal, where

_I64, _F64 = np.dtype(np.int64), np.dtype(np.float64)
_I32, _U32 = np.dtype(np.int32), np.dtype(np.uint32)


def _reduced_once(r: Expr, m: Expr) -> Expr:
    return where(r >= m, r - m, r)


def _product_modulo(a: Expr, b: Expr, m: Expr, inverse: Expr) -> Expr:
    """a * b modulo m for int64 0 <= a, b < m < 2**53, where `inverse` is 1 / m as float64.

    The quotient is estimated in floating point, within a few units; wrapping arithmetic then gives
    the small difference of the two products exactly.
    """
    quotient = (a.to(_F64) * b.to(_F64) * inverse).to(_I64)
    rest = a * b - quotient * m + (m << 3)
    for shift in (3, 2, 1, 0):
        rest = _reduced_once(rest, m << shift)
    return rest


def fmod(x: Expr, y: Expr) -> Expr:
    """x - trunc(x / y) y without rounding, with the sign of x."""
    if x.dtype == np.float32:
        if {"float64", "int64"} & x.ctx.target.missing_types:
            return _fmod_single(x, y)
        # A remainder of float32 numbers is a float32 number, and their exponents differ by less.
        return _fmod_double(x.to(_F64), y.to(_F64), 4).to(np.float32)
    return _fmod_double(x, y, 6)


def is_simple(divisor: float) -> bool:
    """Whether `fmod_simple` takes it: a power of two by which no quotient overflows."""
    size = abs(divisor)
    return 1 <= size <= 2.0**15 and math.frexp(size)[0] == 0.5


def fmod_simple(x: Expr, divisor: float) -> Expr:
    """`fmod` for such a power of two: no step rounds, and an infinity less itself is NaN."""
    size, divisor = abs(x), abs(divisor)
    rest = (size - (size * (1 / divisor)).floor() * divisor).copysign(x)
    # Numbers that are smaller stay what they are, though arithmetic takes tiny ones for zeros.
    return where(size < divisor, x, rest)


def _fmod_double(x: Expr, y: Expr, squarings: int) -> Expr:
    """`fmod` for float64 whose exponents differ by less than 2**(squarings + 5).

    With x = a 2**n 2**e and y = m 2**e for whole numbers a, m < 2**53 the remainder is
    (a 2**n modulo m) 2**e; the power of two modulo m comes from repeated squaring.
    """
    size, divisor = abs(x), abs(y)
    defined = (size < np.inf) & (divisor >= least_normal(y))
    useful = defined & (size >= divisor) & (divisor < np.inf)
    size, divisor = where(useful, size, 1.0), where(useful, divisor, 1.0)
    a, m = (v.bits(_I64) for v in (size, divisor))
    exponent = m >> 52
    n = (a >> 52) - exponent
    mask, hidden = (1 << 52) - 1, 1 << 52
    a, m = (a & mask) | hidden, (m & mask) | hidden
    inverse = 1.0 / m.to(_F64)
    power = a.like(1) << (n >> squarings)
    for bit in reversed(range(squarings)):
        power = _product_modulo(power, power, m, inverse)
        doubled = _reduced_once(power << 1, m)
        power = where(((n >> bit) & 1).ne(0), doubled, power)
    rest = _product_modulo(_reduced_once(a, m), power, m, inverse)
    value = scaled(rest.to(_F64), exponent - 1075).copysign(x)
    return where(useful, value, where(defined & ~y.is_nan(), x, np.nan))


# Exponents of float32 numbers differ by less than this many of the steps below.
_STEP = 8
_STEPS = 35


def _fmod_single(x: Expr, y: Expr) -> Expr:
    """`fmod` for float32 without types of 64 bits.

    With x = a 2**n 2**e and y = m 2**e for whole numbers a, m < 2**24 as above; the power of two is
    multiplied to the remainder a few bits at a time.
    """
    size, divisor = abs(x), abs(y)
    defined = (size < np.inf) & (divisor >= least_normal(y))
    useful = defined & (size >= divisor) & (divisor < np.inf)
    size, divisor = where(useful, size, 1.0), where(useful, divisor, 1.0)
    a, m = (v.bits(_U32) for v in (size, divisor))
    exponent = m >> 23
    n = (a >> 23) - exponent
    mask, hidden = (1 << 23) - 1, 1 << 23
    a, m = (a & mask) | hidden, (m & mask) | hidden
    rest = _modulo(a, m)
    for _ in range(_STEPS):
        step = n.min(_STEP)
        rest = _modulo(rest << step, m)
        n = n - step
    value = scaled(rest.to(np.float32), exponent.bits(_I32) - 150).copysign(x)
    return where(useful, value, where(defined & ~y.is_nan(), x, np.nan))


def _modulo(a: Expr, m: Expr) -> Expr:
    return Expr(a.ctx, a.ctx.rem(a.value, m.value))
