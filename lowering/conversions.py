"""Conversions to wider types on targets that compute them again in each dispatch that reads them.

There IREE leaves the wide values in the memory that a workgroup shares, which is too small for them
where a dispatch folds long rows: conversions that several operations read get barriers. Those to
integers of 64 bits always do: Mesa's driver compares what it knows to have been narrower with
constants, and is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.copies import copied

if TYPE_CHECKING:
    from xpr.lowering.context import LoweringContext
    from xpr.lowering.targets.base import Target
    from xpr.lowering.value import Value


def is_repeated(target: Target, x: np.dtype[Any], d: np.dtype[Any]) -> bool:
    """Whether `target` repeats conversions from `x` to `d`, which only add bits to elements."""
    if not target.repeats_conversions:
        return False
    integers = dtypes.kind(x) in "iub" and dtypes.kind(d) in "iu"
    floats = dtypes.kind(x) == dtypes.kind(d) == "f"
    return (integers or floats) and (d.itemsize > x.itemsize or dtypes.kind(x) == "b")


@dataclass
class Conversions:
    """The conversions that one builder has written."""

    known: dict[tuple[Value, np.dtype[Any]], Value] = field(default_factory=dict)
    """By operand and type: two of the same are one to the compiler."""

    candidates: list[Value] = field(default_factory=list)
    """Those that may need barriers."""

    def note(self, ctx: LoweringContext, x: Value, out: Value) -> Value:
        """What to use for `out`, the conversion of `x` that was written last."""
        if out.dtype.itemsize == 8 and out.dtype.kind in "iu":
            out = ctx.barrier(out) if out.shape else copied(ctx, out)
        else:
            self.candidates.append(out)
        self.known[x, out.dtype] = out
        return out

    def settle(self, ctx: LoweringContext, results: Sequence[Value], *, inlined: bool) -> None:
        """Puts those that are read more than once behind barriers.

        The results of a function that may be inlined, and the operands of one that is called, may
        be read often.
        """
        for value in self.candidates:
            # A call's operands, and results of what may be inlined, count as read twice.
            uses = sum(2 if op.name == "func.call" else 1 for op in value.uses)
            uses += (2 if inlined else 1) * sum(v is value for v in results)
            if uses > 1 and value.op is not None:
                ctx.hold(value.op)
