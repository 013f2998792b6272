"""How the elements of a value lie in the array that they were taken from."""

from __future__ import annotations

from collections.abc import Collection

from xpr.lowering.ir.alignment import is_strided_part
from xpr.lowering.ir.attributes import Padding
from xpr.lowering.ir.graph import Op, Value
from xpr.lowering.ir.rewrite import BARRIER
from xpr.lowering.ir.traits import SLICES
from xpr.lowering.ir.types import bits_of


def is_strided(x: Value, known: Collection[Value] = ()) -> bool:
    """Whether the elements come straight from a strided slice, or from a value `known` to be one.

    Such are arguments and results of functions, which the compiler may inline.
    """
    while (op := x.op) is not None and x not in known:
        if op.name in SLICES:
            if _has_steps(op) or is_permuted(op.operands[0]):
                return True
        elif op.name not in (
            "stablehlo.reshape",
            "stablehlo.transpose",
            "stablehlo.broadcast_in_dim",
        ):
            return False
        x = op.operands[0]
    return x in known


def is_permuted(x: Value) -> bool:
    """Whether the axes may lie in another order than in memory."""
    while (op := x.op) is not None:
        if op.name == "stablehlo.transpose":
            return True
        if op.name != "stablehlo.reshape" and op.name not in SLICES:
            return False
        x = op.operands[0]
    return False


def is_from_barrier(x: Value) -> bool:
    """Whether it is the very array that a barrier gives, perhaps of another shape or type."""
    while (op := x.op) is not None:
        if op.name == BARRIER:
            return True
        if op.name not in ("stablehlo.reshape", "stablehlo.bitcast_convert"):
            return False
        x = op.operands[0]
    return False


def widening_of(x: Value) -> Op | None:
    """The conversion to a wider type that the elements come straight from, if there is one."""
    while (op := x.op) is not None:
        if op.name == "stablehlo.convert":
            return op if bits_of(op.operands[0].dtype) < bits_of(x.dtype) else None
        if op.name not in ("stablehlo.reshape", "stablehlo.transpose") and op.name not in SLICES:
            return None
        x = op.operands[0]
    return None


def _has_steps(op: Op) -> bool:
    apart = is_strided_part(op.operands[0].shape, op.result.shape)
    return apart or any(step != 1 for step in op.attributes.get("strides", ()))


def is_running_sum(op: Op) -> bool:
    """Whether some window of a reduction covers all elements before one, or all behind it."""
    padding = op.attributes["padding"]
    assert isinstance(padding, Padding)
    sizes = op.attributes["window_dimensions"]
    return any(n > 1 and n - 1 in edges for n, edges in zip(sizes, padding.edges, strict=True))
