"""Exponentially scaled modified Bessel functions of order 0 and 1, for float32 and float64."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.numerics import special_tables as tables
from xpr.lowering.numerics.expr import Expr, by_dtype, polynomial, where


def _near_and_far(size: Expr, near: Sequence[float], far: Sequence[float]) -> tuple[Expr, Expr]:
    inside = polynomial(0.25 * size.min(8.0) - 1.0, near)
    bounded = size.max(8.0)
    return inside, polynomial(16.0 / bounded - 1.0, far) / bounded.sqrt()


def i0e(x: Expr) -> Expr:
    """exp(-|x|) I0(x)."""
    size = abs(x)
    near, far = _near_and_far(
        size,
        by_dtype(x, tables.I0_NEAR_SINGLE, tables.I0_NEAR_DOUBLE),
        by_dtype(x, tables.I0_FAR_SINGLE, tables.I0_FAR_DOUBLE),
    )
    return where(size <= 8.0, near, far)


def i1e(x: Expr) -> Expr:
    """exp(-|x|) I1(x), an odd function."""
    size = abs(x)
    near, far = _near_and_far(
        size,
        by_dtype(x, tables.I1_NEAR_SINGLE, tables.I1_NEAR_DOUBLE),
        by_dtype(x, tables.I1_FAR_SINGLE, tables.I1_FAR_DOUBLE),
    )
    return where(size <= 8.0, x * near, far.copysign(x))
