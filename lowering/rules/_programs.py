"""Programs that are parameters of an equation, written where the equation stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr
from xpr.lowering.context import LoweringContext, Value


def inline_program(
    ctx: LoweringContext, closed: ClosedJaxpr, operands: Sequence[Value]
) -> list[Value]:
    """The results of `closed` on `operands`, its equations emitted into `ctx`."""
    consts = [ctx.dense(np.asarray(c)) for c in closed.consts]
    return ctx.module.lower_jaxpr(ctx, closed.jaxpr, consts, operands)
