"""A hand-written program as one dispatch of IREE's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.builder import Builder, Results
from xpr.lowering.ir.stablehlo import I1
from xpr.lowering.loops.registers.context import register_element

_BYTE = np.dtype(np.int8)


def memory_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of elements in a dispatch's memory: no booleans, and integers are signed."""
    if dtype == I1:
        return _BYTE
    return np.dtype(f"i{dtype.itemsize}") if dtypes.kind(dtype) == "u" else dtype


def memory_type(shape: Shape, dtype: np.dtype[Any]) -> str:
    """The type of a flat array as a dispatch sees it."""
    return f"tensor<{math.prod(shape)}x{register_element(memory_dtype(dtype))}>"


def flat_memory(ctx: LoweringContext, x: Value) -> Value:
    """`x` as a flat array of a type that registers are read from."""
    x = ctx.convert(x, _BYTE) if x.dtype == I1 else ctx.bitcast(x, memory_dtype(x.dtype))
    return ctx.reshape(x, (math.prod(x.shape),))


def shaped(ctx: LoweringContext, x: Value, shape: Shape, dtype: np.dtype[Any]) -> Value:
    """A flat result of a dispatch in its own shape and dtype."""
    x = ctx.reshape(x, shape)
    return ctx.compare("NE", x, 0) if dtype == I1 else ctx.bitcast(x, dtype)


def emit_dispatch(
    ctx: LoweringContext, inner: Builder, results: Sequence[Value], types: Results
) -> list[Value]:
    """A dispatch of one workgroup with the operations of `inner`, which compute `results`.

    They may use values of the program around them.
    """
    inner.append("flow.return", results)
    found = [Value(shape, dtype) for shape, dtype in types]
    ctx.append("flow.dispatch.region", (), found, regions=[inner.block])
    return found
