"""Numbers that are written in a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.graph import Op, Shape, Value
from xpr.lowering.ir.types import scalar_text

LITERAL = "literal"
"""The attribute of constants that stand in the jaxpr, or are made of such; it says nothing of the
value."""

_NUMBERS = {"b": int, "i": int, "u": int, "f": float, "c": complex}
_LAYOUT = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "vector.broadcast"})


def constant_attributes(value: Any, dtype: np.dtype[Any], shape: Shape) -> dict[str, Any]:
    """The attributes of a tensor filled with one number."""
    dense = "dense<>" if 0 in shape else f"dense<{scalar_text(value, dtype)}>"
    return {"value": dense, "number": _NUMBERS[dtypes.kind(dtype)](value)}


def splat_of(x: Value) -> float | None:
    """The real number that all elements of a constant are, however it is broadcast; else None."""
    return number_of(x) if x.dtype.kind in "biuf" else None


def number_of(x: Value) -> Any:
    """`splat_of` for complex numbers, too."""
    op = source_of(x)
    return op.attributes.get("number") if op is not None else None


def source_of(x: Value) -> Op | None:
    """What a value comes from, past what broadcasts or reshapes it; None for an argument."""
    op = x.op
    while op is not None and op.name in _LAYOUT:
        op = op.operands[0].op
    return op


def is_hidden_zero(x: Value) -> bool:
    """Whether it is the last bit of n (n + 1): zero, which no compiler knows."""
    if x.op is None or x.op.name != "stablehlo.and":
        return False
    product = x.op.operands[0].op
    if product is None or product.name != "stablehlo.multiply":
        return False
    n, other = product.operands
    return other.op is not None and other.op.name == "stablehlo.add" and other.op.operands[0] is n
