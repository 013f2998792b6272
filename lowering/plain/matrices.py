"""Factors of matrices for which StableHLO has operations."""

from __future__ import annotations

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register_plain
from xpr.primitives.linalg import cholesky_p, triangular_solve_p


def _cholesky(ctx: LoweringContext, x: Value, **_: object) -> Value:
    if x.aval.size == 0:
        return x
    found = ctx.assign("stablehlo.cholesky", [x], x.shape, x.dtype, {"lower": True})
    # What lies above the diagonal is left open.
    rank = len(x.shape)
    rows = ctx.iota("int32", x.shape, rank - 2)
    columns = ctx.iota("int32", x.shape, rank - 1)
    return ctx.select(ctx.compare("GE", rows, columns), found, ctx.full_like(found, 0))


def _triangular_solve(
    ctx: LoweringContext,
    a: Value,
    b: Value,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Value:
    if b.aval.size == 0:
        return b
    if conjugate_a and not transpose_a:
        a = ctx.complex(ctx.real(a), ctx.neg(ctx.imag(a))) if dtypes.is_complex(a.dtype) else a
    name = "ADJOINT" if transpose_a and conjugate_a else "TRANSPOSE" if transpose_a else None
    about = {
        "left_side": left_side,
        "lower": lower,
        "transpose_a": f"#stablehlo<transpose {name or 'NO_TRANSPOSE'}>",
        "unit_diagonal": unit_diagonal,
    }
    return ctx.assign("stablehlo.triangular_solve", [a, b], b.shape, b.dtype, about)


register_plain(triangular_solve_p, _triangular_solve)
register_plain(cholesky_p, _cholesky)
