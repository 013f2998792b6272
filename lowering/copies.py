"""Arrays with the same elements of which no compiler knows that they are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from xpr.lowering.context import LoweringContext
    from xpr.lowering.value import Value


def copied(ctx: LoweringContext, x: Value) -> Value:
    """Another array with the bits of `x`: the last bit of n (n + 1), which is zero, is added."""
    if x.dtype.kind == "c":
        return ctx.by_parts(lambda part: copied(ctx, part), x)
    if x.dtype == np.bool_:
        return ctx.compare("NE", copied(ctx, ctx.convert(x, np.uint8)), 0)
    bits = ctx.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
    zero = ctx.and_(ctx.mul(bits, ctx.add(bits, 1)), 1)
    return ctx.bitcast(ctx.xor(bits, zero), x.dtype)


def owned(ctx: LoweringContext, x: Value) -> Value:
    """`x`, to be updated: a copy if it comes from a barrier.

    IREE takes what a barrier gives for an array of its own, and overwrites what went into it.
    """
    return copied(ctx, x) if x.barred and x.shape and 0 not in x.shape else x
