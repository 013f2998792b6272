"""Products of a few rows and a large matrix, by kernels that come with xpr.

The time of such a product is that of reading the matrix, so each element is read once, in the order
in which it lies in memory, and none is packed. Where the matrix lies in rows along its free index,
multiples of rows are added (`sums`), in parts if there are few columns, whose sum is a second
dispatch; where it lies along the contracted one, each element is a product of rows (`dots`).
"""

from __future__ import annotations

import math

import numpy as np

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.traits import Kind
from xpr.lowering.ir.types import element_type
from xpr.lowering.rules._kernel_calls import (
    LARGEST,
    MOST_GROUPS,
    Operand,
    as_it_lies,
    available,
    call,
    transposed,
)
from xpr.primitives.dot_general import DotDims

# Elements of the matrix from which on the kernels are used. IREE computes what comes before and
# behind a smaller one in the same dispatch.
_LEAST = 1 << 16
_LEAST_DEPTH, _LEAST_COLUMNS = 32, 32
# So many rows, or fewer; more are packed, or left to IREE.
_MOST_ROWS = 64

# A workgroup reads about so many bytes of a matrix, of rows of so many bytes.
_GROUP_BYTES = 1 << 19
_BLOCK_BYTES, _LEAST_BLOCK_BYTES = 1 << 14, 1 << 11
_SUMS_BYTES = 1 << 15
_MOST_PARTS = 16


def few_rows_product(
    ctx: LoweringContext, lhs: Value, rhs: Value, dims: DotDims, dtype: np.dtype
) -> Value | None:
    """The contraction in `dtype`; None for any other product, and without kernels."""
    if dtype.name not in ("float32", "float64") or not lhs.dtype == rhs.dtype == dtype:
        return None
    batch, m, n, k = dims.sizes(lhs.shape, rhs.shape)
    few, many = min(m, n), max(m, n)
    if few > _MOST_ROWS or many < _LEAST_COLUMNS or k < _LEAST_DEPTH or batch > MOST_GROUPS:
        return None
    if many * k < _LEAST or batch * max(k, few) * many >= LARGEST:
        return None
    names = [f"{kernel}_{element_type(dtype)}" for kernel in ("sums", "total", "dots")]
    if not available(ctx, "few_rows", *names):
        return None
    first = (lhs, dims.lhs_batch, dims.lhs_contract)
    second = (rhs, dims.rhs_batch, dims.rhs_contract)
    rows, matrix = (first, second) if m <= n else (second, first)
    if _is_computed(matrix[0]):
        return None
    large = as_it_lies(*matrix)
    if large is None or (large.free != 1 and large.depth != 1):
        return None
    result = Value(dims.out_shape(lhs.shape, rhs.shape), dtype)
    small = as_it_lies(*rows)
    # Of the result's elements, along the rows and along the columns.
    apart = (n, 1) if m <= n else (1, n)
    if large.free == 1:
        if small is None:
            small = transposed(ctx, *rows)
        _sums(ctx, small, large, result, (batch, few, many, k), apart)
        return result
    if small is None or (small.depth != 1 and k > 1):
        small = transposed(ctx, *rows)
    block = _columns(many, -(-_GROUP_BYTES // (k * dtype.itemsize)), 8)
    numbers = (few, many, k, small.free, small.batch, large.free, large.batch, *apart, block)
    groups = (-(-many // block), 1, batch)
    call(ctx, "few_rows", "dots", [small.value, large.value], [result], numbers, groups)
    return result


def _is_computed(x: Value) -> bool:
    """Whether it is made by operations on elements: IREE does them where it reads the matrix.

    (2048 rows of bytes, scaled, times a vector, ms: 0.29 in one dispatch, and 2.4 where a kernel
    reads what another dispatch has stored; times four vectors 0.78 and 2.0.)
    """
    op = x.op
    while op is not None and op.kind is Kind.LAYOUT:
        op = op.operands[0].op
    return op is not None and op.kind is Kind.ELEMENTWISE


def _sums(
    ctx: LoweringContext,
    small: Operand,
    large: Operand,
    result: Value,
    sizes: tuple[int, int, int, int],
    apart: tuple[int, int],
) -> None:
    batch, few, many, k = sizes
    dtype = result.dtype
    lanes = 64 // dtype.itemsize
    row = min(_BLOCK_BYTES, max(_LEAST_BLOCK_BYTES, _SUMS_BYTES // few))
    block = _columns(many, row // dtype.itemsize, lanes)
    across = -(-many // block)
    parts = -(-many * k * dtype.itemsize // (_GROUP_BYTES * across))
    parts = min(parts, max(1, _MOST_PARTS // (across * batch)), -(-k // _LEAST_DEPTH))
    depth = -(-k // parts)
    parts = -(-k // depth)
    numbers = (few, many, k, small.free, small.depth, small.batch, large.depth, large.batch)
    in_order = apart == (many, 1) or few == 1
    sums = result if parts == 1 and in_order else Value((batch * parts * few * many,), dtype)
    groups = (across, parts, batch)
    call(
        ctx,
        "few_rows",
        "sums",
        [small.value, large.value],
        [sums],
        (*numbers, block, depth, parts),
        groups,
    )
    if sums is not result:
        groups = (across, few, batch)
        if few == 1:
            apart = (many, 1)
        call(ctx, "few_rows", "total", [sums], [result], (few, many, parts, *apart, block), groups)


def _columns(count: int, most: int, multiple: int) -> int:
    """The columns of a block: about the same for all blocks, at most `most`."""
    each = math.ceil(count / math.ceil(count / max(most, multiple)))
    return -(-each // multiple) * multiple
