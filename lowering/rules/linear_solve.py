"""A linear solve is compiled as the program that finds the solution."""

from __future__ import annotations

from typing import Any

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._programs import inline_program
from xpr.primitives.linear_solve import linear_solve_p


def _linear_solve_lower(
    ctx: LoweringContext, *operands: Value, solve: ClosedJaxpr, **_: Any
) -> list[Value]:
    return inline_program(ctx, solve, operands)


register(linear_solve_p, _linear_solve_lower)
