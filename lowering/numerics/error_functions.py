"""The error function, its complement and its inverse, for float32 and float64."""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics import special_tables as tables
from xpr.lowering.numerics.exponential import exp_of_sum, log
from xpr.lowering.numerics.expr import Expr, by_dtype, exact_product, polynomial, where


def _erf_near(x: Expr) -> Expr:
    """erf(x) for |x| <= 1."""
    coefficients = by_dtype(x, tables.ERF_SINGLE, tables.ERF_DOUBLE)
    return x * polynomial(x * x, coefficients)


def _erfc_far(x: Expr) -> Expr:
    """erfc(x) for x >= 1/2.

    (1 + 2x) exp(x**2) erfc(x) is nearly constant (Shepherd and Laframboise, "Chebyshev
    Approximation of (1 + 2x) exp(x**2) erfc x", Mathematics of Computation 36, 1981). The rounding
    of x**2 would be magnified by the exponential, so it is carried along.
    """
    bounded = x.min(by_dtype(x, 11.0, 28.0))
    t = (bounded - 3.0) / (bounded + 3.0)
    factor = polynomial(t, by_dtype(x, tables.ERFC_SINGLE, tables.ERFC_DOUBLE))
    square, rest = exact_product(bounded, bounded)
    return exp_of_sum(-square, -rest) * (factor / (2.0 * bounded + 1.0))


def _erfc_roughly(x: Expr) -> Expr:
    """erfc(x) for x >= 1 with an error far below the rounding of 1 - erfc(x), and quickly.

    The fourth power of a polynomial takes half the operations of an exponential. A higher power
    would need a shorter polynomial, but magnify its rounding errors.
    """
    root = polynomial(x.min(4.0) - 1.5, tables.ROOT_ERFC_SINGLE)
    square = root * root
    return square * square


def _erf_single(x: Expr) -> Expr:
    """erf(x) in float32. What overflows in the form that is not chosen does no harm."""
    size = abs(x)
    return where(size < 1.0, _erf_near(size), 1.0 - _erfc_roughly(size)).copysign(x)


def erf(x: Expr) -> Expr:
    """The error function."""
    if x.dtype == np.float32:
        return _erf_single(x)
    size = abs(x)
    far = _erfc_far(size.max(1.0))
    return where(size < 1.0, _erf_near(size.min(1.0)), 1.0 - far).copysign(x)


def erfc(x: Expr) -> Expr:
    """The complementary error function 1 - erf(x)."""
    size = abs(x)
    far = _erfc_far(size.max(0.5))
    near = 1.0 - _erf_near(x.max(-0.5).min(0.5))
    return where(size < 0.5, near, where(x < 0.0, 2.0 - far, far))


def erf_inv(x: Expr) -> Expr:
    """The inverse of the error function.

    x times a polynomial in w = -log(1 - x**2), or in its root where w is large (Giles,
    "Approximating the erfinv function", GPU Computing Gems, 2010), with coefficients of our own.
    """
    size = abs(x)
    inside = size < 1.0
    bounded = where(inside, x, 0.0)
    # This product is accurate where 1 - x**2 would not be.
    w = -log((1.0 - bounded) * (1.0 + bounded))
    root = w.sqrt()
    if x.dtype == np.float32:
        centre = polynomial(w.min(5.0) - 2.5, tables.INV_CENTRE_SINGLE)
        tail = polynomial(root.max(2.2) - 3.0, tables.INV_TAIL_SINGLE)
        factor = where(w < 5.0, centre, tail)
    else:
        centre = polynomial(w.min(6.25) - 3.125, tables.INV_CENTRE_DOUBLE)
        middle = polynomial(root.max(2.5).min(4.0) - 3.25, tables.INV_MIDDLE_DOUBLE)
        tail = polynomial(root.max(4.0) - 5.0, tables.INV_TAIL_DOUBLE)
        factor = where(w < 6.25, centre, where(w < 16.0, middle, tail))
    border = where(size.eq(1.0), np.inf * x, x.like(np.nan))
    return where(inside, bounded * factor, border)
