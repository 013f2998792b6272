"""Products of matrices by kernels that come with xpr, for processors that there are kernels for.

Two dispatches: one packs the operands into panels, in the order in which the other one reads them,
as in Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008). The code is
in `runtimes/native/products/`, compiled ahead of time: a program that calls it is compiled sooner
than one whose products IREE has to tile. Each element is summed in the order of the contracted
index by fused multiplications and additions, as in IREE's products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.rules._kernel_calls import LARGEST, MOST_GROUPS, Operand, call, kind, operand
from xpr.primitives.dot_general import DotDims

# Multiplications, in all and for each element of a batch, from which on a product is packed. IREE's
# own code for float32 is as fast for smaller ones, and computes what comes before and behind in the
# same dispatch (us, packed and IREE's, one run: 128x128x128 34 and 26, 256x256x256 168 and 155,
# 64 of 128x64x128 765 and 944 with the second one transposed); for float64 it is not (64x64x64 12
# and 23, 128x128x128 53 and 95, 16x512x512 236 and 911).
_WORK = {"float32": (1 << 23, 1 << 20), "float64": (1 << 16, 1 << 16)}
# The same in float32 where rows are not of whole vectors.
_UNEVEN_WORK = (1 << 19, 1 << 19)
_EVEN = 32
_LEAST = 16

# A workgroup computes a block of at most so many panels of each operand; blocks are smaller where
# there would be few, down to so many multiplications.
_BLOCK_ROWS, _BLOCK_COLUMNS = 9, 8
_FEW_BLOCKS = 16
_SMALL_BLOCK = 1 << 20

# How many panels a workgroup packs: `kPanels` in the kernels' source.
_PACKED_TOGETHER = 4


@dataclass(frozen=True)
class _Tile:
    """The part of a result that a kernel holds in registers: rows, and the bytes of a row."""

    rows: int
    row_bytes: int

    def columns(self, dtype: np.dtype[Any]) -> int:
        return self.row_bytes // dtype.itemsize


_TILES = {"avx512": _Tile(14, 128), "avx2": _Tile(6, 64)}


def packed_product(
    ctx: LoweringContext, lhs: Value, rhs: Value, dims: DotDims, dtype: np.dtype[Any]
) -> Value | None:
    """The contraction in `dtype` by such kernels; None where there are none, or they do not pay."""
    if ctx.target.product_kernels is None or dtype.name not in _WORK:
        return None
    batch, m, n, k = dims.sizes(lhs.shape, rhs.shape)
    if not _pays(batch, m, n, k, dtype) or (name := kind(ctx)) is None:
        return None
    lhs, rhs = ctx.convert(lhs, dtype), ctx.convert(rhs, dtype)
    if not _fits(_TILES[name], batch, m, n, k, dtype):
        return None
    first = operand(ctx, lhs, dims.lhs_batch, dims.lhs_contract)
    second = operand(ctx, rhs, dims.rhs_batch, dims.rhs_contract)
    result = Value(dims.out_shape(lhs.shape, rhs.shape), dtype)
    _emit(ctx, _TILES[name], first, second, (batch, m, n, k), result)
    return result


def packed_matrices(
    ctx: LoweringContext,
    first: Operand,
    second: Operand,
    sizes: tuple[int, int, int, int],
    shape: tuple[int, ...],
) -> Value | None:
    """The product of operands as they lie, as an array of this shape: (batch, m, n).

    `sizes` are those of the batch, m, n and the contracted index. None where `packed_product` is.
    """
    dtype = first.value.dtype
    if ctx.target.product_kernels is None or dtype.name not in _WORK:
        return None
    if not _pays(*sizes, dtype) or (name := kind(ctx)) is None:
        return None
    if not _fits(_TILES[name], *sizes, dtype):
        return None
    result = Value(shape, dtype)
    _emit(ctx, _TILES[name], first, second, sizes, result)
    return result


def _fits(tile: _Tile, batch: int, m: int, n: int, k: int, dtype: np.dtype[Any]) -> bool:
    """Whether indices of all elements are numbers that dispatches take."""
    return max(*_packed_sizes(tile, batch, m, n, k, dtype), batch * m * n) < LARGEST


def _packed_sizes(
    tile: _Tile, batch: int, m: int, n: int, k: int, dtype: np.dtype[Any]
) -> tuple[int, int]:
    columns = tile.columns(dtype)
    panels = -(-m // tile.rows), -(-n // columns)
    return batch * panels[0] * tile.rows * k, batch * panels[1] * columns * k


def _emit(
    ctx: LoweringContext,
    tile: _Tile,
    first: Operand,
    second: Operand,
    sizes: tuple[int, int, int, int],
    result: Value,
) -> None:
    dtype = result.dtype
    batch, m, n, k = sizes
    columns = tile.columns(dtype)
    panels = -(-m // tile.rows), -(-n // columns)
    packed = [Value((size,), dtype) for size in _packed_sizes(tile, batch, m, n, k, dtype)]
    strides = [getattr(x, axis) for x in (first, second) for axis in ("free", "depth", "batch")]
    call(
        ctx,
        "products",
        "pack",
        [first.value, second.value],
        packed,
        (m, n, k, *strides),
        (sum(-(-count // _PACKED_TOGETHER) for count in panels), 1, batch),
    )
    rows, across = _blocks(*panels, batch, tile.rows * columns * k)
    call(
        ctx,
        "products",
        "product",
        packed,
        [result],
        (m, n, k, rows * tile.rows, across * columns),
        (-(-panels[1] // across), -(-panels[0] // rows), batch),
    )


def _pays(batch: int, m: int, n: int, k: int, dtype: np.dtype[Any]) -> bool:
    if min(m, n, k) < _LEAST or batch > MOST_GROUPS:
        return False
    uneven = dtype.name == "float32" and n % _EVEN != 0 and min(n, k) >= _EVEN
    least, least_each = _UNEVEN_WORK if uneven else _WORK[dtype.name]
    each = m * n * k
    return each >= least_each and batch * each >= least


def _blocks(rows: int, columns: int, batch: int, tile_work: int) -> tuple[int, int]:
    """How many panels of each operand a workgroup takes, about the same for all."""
    down, across = min(rows, _BLOCK_ROWS), min(columns, _BLOCK_COLUMNS)
    while (
        batch * -(-rows // down) * -(-columns // across) < _FEW_BLOCKS
        and down * across * tile_work > _SMALL_BLOCK
        and max(down, across) > 1
    ):
        if down >= 2 * across:
            down = -(-down // 2)
        else:
            across = -(-across // 2)
    down = -(-rows // -(-rows // down))
    return down, -(-columns // -(-columns // across))
