"""Updates of parts of arrays as dispatches that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.loops.memory.dispatch import memory_call
from xpr.lowering.loops.refusal import NotInMemory

# Of arrays of so many bytes a copy costs more than a dispatch takes to compile, if updates are so
# many times smaller: the dispatch overwrites its operand, while IREE copies one whose update reads
# an index on the host, or reads the array itself.
_LEAST_WORTH_A_COPY = 256 << 10
_LEAST_SPARSITY = 8
# One thread writes them all.
_MOST_UPDATED = 1 << 15


def is_sparse(ctx: LoweringContext, x: Value, updates: Value) -> bool:
    """Whether they change so little of a large array that a copy of this would take most time.

    In branches and loops IREE does not see that others read the array that would be overwritten.
    """
    if ctx.in_region:
        return False
    if x.dtype.kind in "bc" or splat_of(x) is not None:
        return False  # These are converted or made for the dispatch, which costs as much as a copy.
    if updates.aval.size > _MOST_UPDATED:
        return False
    least = max(_LEAST_WORTH_A_COPY, _LEAST_SPARSITY * updates.aval.nbytes)
    return x.aval.nbytes >= least


def bits(ctx: LoweringContext, x: Value) -> Value:
    """Small floats that are only moved as integers: the dispatch does not know their types."""
    is_small = dtypes.kind(x.dtype) == "f" and x.dtype.itemsize <= 2
    return ctx.bitcast(x, np.dtype(f"u{x.dtype.itemsize}")) if is_small else x


def in_memory(
    ctx: LoweringContext, primitive: Primitive, operands: Sequence[Value], **params: Any
) -> Value | None:
    """The operation as one dispatch of one thread; None if that cannot be."""

    def program(*values: Any) -> list[Any]:
        return [primitive.bind(*values, **params)]

    try:
        (found,) = memory_call(ctx, trace_to_jaxpr(program, [v.aval for v in operands]), operands)
    except NotInMemory:
        return None
    return found
