"""Products with matrices of blocks in low precision, by kernels that come with xpr.

Two dispatches: one rounds the rows of the other operand to int8, with a scale for each block; the
other one multiplies them by the blocks as they lie in memory, so that no array of the matrix's
numbers is ever made. The code is in `runtimes/native/products/blocks.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.lowering import prebuilt
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.graph import PrebuiltKernel
from xpr.primitives.blocks import LAYOUTS
from xpr.primitives.dot_general import DotDims

_F32, _I8 = np.dtype(np.float32), np.dtype(np.int8)

# The layouts that there are kernels for, and whether the halves of a block come apart in the
# rounded rows, as in the kernels' source.
_KERNELS = {"q8_0": False, "q4_0": True}

# Numbers of the matrix that a workgroup multiplies with one row: some ten microseconds' work.
_GROUP = 1 << 17
# A workgroup takes a multiple of so many rows: `kRows` in the kernels' source.
_ROWS = 16

# What the interface of dispatches has place for.
_LARGEST = 1 << 31
_MOST_ROWS = 1 << 20


@dataclass(frozen=True)
class Blocks:
    """What an array was made of: bytes in a layout, and what products may round."""

    data: Value
    layout: str
    activations: str


def remember(
    ctx: LoweringContext, numbers: Value, data: Value, layout: str, activations: str
) -> None:
    """Says that `numbers` are those of blocks, for products that read these instead."""
    if ctx.target.block_kernels is not None:
        ctx.module.module.blocks[numbers] = Blocks(data, layout, activations)


def block_product(
    ctx: LoweringContext, lhs: Value, rhs: Value, dims: DotDims, precision: Any
) -> Value | None:
    """The contraction by such kernels, in float32; None where there are none, or they do not fit.

    One operand must be of blocks along the contracted axis, and the program must not have asked for
    a precision.
    """
    if ctx.target.block_kernels is None or precision not in (None, (None, None)):
        return None
    if dims.lhs_batch or len(dims.lhs_contract) != 1:
        return None
    found = _matrix(ctx, rhs, dims.rhs_contract[0])
    x, axis = lhs, dims.lhs_contract[0]
    if (swapped := found is None) and (found := _matrix(ctx, lhs, axis)) is not None:
        x, axis = rhs, dims.rhs_contract[0]
    if found is None or x.dtype.kind == "c" or (kind := ctx.target.block_kernels()) is None:
        return None
    lead = [i for i in range(len(x.shape)) if i != axis]
    rows = tuple(x.shape[i] for i in lead)
    m, k = math.prod(rows), x.shape[axis]
    columns = found.data.shape[:-1]
    n = math.prod(columns)
    if max(n * k, m * k * 2, m * n) >= _LARGEST or m > _MOST_ROWS:
        return None
    # Rows behind each other; a transposition of a single row is none.
    x = ctx.convert(x, _F32)
    x = ctx.reshape(x, (m, k)) if m == 1 else ctx.reshape(ctx.transpose(x, [*lead, axis]), (m, k))
    result = _product(ctx, kind, x, found, m, n, k)
    if not swapped:
        return ctx.reshape(result, (*rows, *columns))
    turned = ctx.reshape(result, (n, m)) if 1 in (m, n) else ctx.transpose(result, (1, 0))
    return ctx.reshape(turned, (*columns, *rows))


def _matrix(ctx: LoweringContext, x: Value, contracted: int) -> Blocks | None:
    """The blocks that an operand is made of, if they run along its contracted axis."""
    op = x.op
    while op is not None and op.name in ("stablehlo.transpose", "stablehlo.convert"):
        if op.name == "stablehlo.transpose":
            dims = op.attributes["dims"]
            contracted = dims[contracted]
            free = [d for d in dims if d != contracted]
            if free != sorted(free):
                return None
        (x,) = op.operands
        op = x.op
    found = ctx.module.module.blocks.get(x)
    if found is None or contracted != len(x.shape) - 1 or found.layout not in _KERNELS:
        return None
    return found if found.activations == "int8" else None


def _product(
    ctx: LoweringContext, kind: str, x: Value, matrix: Blocks, m: int, n: int, k: int
) -> Value:
    rounded = Value((m, k // 32 * 40), _I8)
    apart = int(_KERNELS[matrix.layout])
    _call(ctx, kind, "round_blocks", [x], [rounded], (k, apart), m)
    result = Value((m, n), _F32)
    # IREE has no unsigned integers outside of StableHLO, where dispatches are.
    data = ctx.bitcast(matrix.data, _I8)
    data = ctx.reshape(data, (n, LAYOUTS[matrix.layout].bytes_of(k)))
    rows = max(_GROUP // (k * _ROWS), 1) * _ROWS
    name = f"blocks_{matrix.layout}"
    _call(ctx, kind, name, [rounded, data], [result], (m, n, k, rows), -(-n // rows))
    return result


def _call(
    ctx: LoweringContext,
    kind: str,
    kernel: str,
    operands: Sequence[Value],
    results: Sequence[Value],
    numbers: Sequence[int],
    workgroups: int,
) -> None:
    symbol = f"xpr_{kernel}"
    name = f"products_{kind}"
    ctx.module.module.prebuilt[symbol] = PrebuiltKernel(
        function=f"{symbol}_{kind}",
        object_path=prebuilt.path(name),
        object_digest=prebuilt.digest(name),
        element="i8",
        operands=len(operands),
        results=len(results),
        numbers=len(numbers),
    )
    attributes = {"symbol": symbol, "numbers": numbers, "workgroups": (workgroups, 1, 1)}
    ctx.append("flow.dispatch", operands, results, attributes)
