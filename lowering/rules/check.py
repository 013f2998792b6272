"""Checks that `checkify` has not taken out of the program: no compiled program can raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.primitives.check import NOT_FUNCTIONALIZED, check_p


def _check_lower(ctx: LoweringContext, *operands: Value, debug: bool, **_: Any) -> Sequence[Value]:
    del ctx, operands
    if not debug:
        raise ValueError(NOT_FUNCTIONALIZED)
    return []


register(check_p, _check_lower)
