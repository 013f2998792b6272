"""Hyperbolic functions and their inverses, for float32 and float64.

Written with expm1, exp, log and log1p in the usual forms (Kahan, "Branch Cuts for Complex
Elementary Functions", 1987), which lose no accuracy near 0.
"""

from __future__ import annotations

import numpy as np

from xpr.lowering.numerics.exponential import exp, expm1, log, log1p
from xpr.lowering.numerics.expr import Expr, by_dtype, where

_LN2 = float(np.log(2.0))


def _large(x: Expr) -> float:
    """Where e**x is still finite and e**-x no longer matters beside it."""
    return by_dtype(x, 80.0, 700.0)


def sinh(x: Expr) -> Expr:
    """The hyperbolic sine."""
    size = abs(x)
    e = expm1(size.min(_large(x)))
    near = 0.5 * (e + e / (e + 1.0))
    root = exp(0.5 * size)
    return where(size > _large(x), (0.5 * root) * root, near).copysign(x)


def cosh(x: Expr) -> Expr:
    """The hyperbolic cosine."""
    size = abs(x)
    e = exp(size.min(_large(x)))
    near = 0.5 * e + 0.5 / e
    root = exp(0.5 * size)
    return where(size > _large(x), (0.5 * root) * root, near)


def tanh(x: Expr) -> Expr:
    """The hyperbolic tangent; IREE's own is good and fast in float32."""
    if x.dtype == np.float32:
        return x.unary("tanh")
    e = expm1((2.0 * abs(x)).min(50.0))
    return (e / (e + 2.0)).copysign(x)


def asinh(x: Expr) -> Expr:
    """The inverse hyperbolic sine."""
    size = abs(x)
    limit = by_dtype(x, 1e9, 1e18)
    bounded = size.min(limit)
    square = bounded * bounded
    near = log1p(bounded + square / (1.0 + (square + 1.0).sqrt()))
    far = log(size) + _LN2
    return where(size > limit, far, near).copysign(x)


def acosh(x: Expr) -> Expr:
    """The inverse hyperbolic cosine; NaN for x < 1."""
    limit = by_dtype(x, 1e9, 1e18)
    t = x.min(limit) - 1.0
    near = log1p(t + (t * (t + 2.0)).sqrt())
    far = log(x) + _LN2
    return where(x < 1.0, np.nan, where(x > limit, far, near))


def atanh(x: Expr) -> Expr:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    size = abs(x)
    value = 0.5 * log1p(2.0 * (size / (1.0 - size)))
    return where(size > 1.0, np.nan, value).copysign(x)
