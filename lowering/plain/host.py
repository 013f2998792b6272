"""Calls of Python: custom calls by a name of xpr's, `xpr_python_callback`.

Programs with these can be read, and other tools run them once they know a function of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import LoweringRule, register_plain
from xpr.primitives import callback


def _custom_call(name: str, *, has_side_effect: bool = False) -> LoweringRule:
    def lower(ctx: LoweringContext, *operands: Value, **_: Any) -> Sequence[Value]:
        types = [(a.shape, a.dtype) for a in ctx.out_avals]
        about = {"call_target_name": f'"{name}"', "has_side_effect": has_side_effect}
        return ctx.op("stablehlo.custom_call", operands, types, about)

    return lower


_CALLBACK = "xpr_python_callback"
register_plain(callback.pure_callback_p, _custom_call(_CALLBACK))
register_plain(callback.io_callback_p, _custom_call(_CALLBACK, has_side_effect=True))
register_plain(callback.debug_callback_p, _custom_call(_CALLBACK, has_side_effect=True))
