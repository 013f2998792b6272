"""Lowering of contractions."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.registry import register
from xpr.lowering.rules._block_products import block_product
from xpr.lowering.rules._few_rows import few_rows_product
from xpr.lowering.rules._matrix_units import float_product, integer_product
from xpr.lowering.rules._packed_products import packed_product
from xpr.lowering.rules.reduce import reduce_in_blocks
from xpr.primitives.convert import convert_element_type
from xpr.primitives.dot_general import DotDims, accumulation_dtype, dot_general_p

_F32 = np.dtype(np.float32)

# Products of at least so many multiplications in these dtypes are BLAS's where there is a host:
# IREE's float64 products take 2 to 6 times as long. Its float32 products take 1.4 times as long on
# two idle cores, and stay: beside another busy process BLAS's threads, which wait by spinning, made
# an MLP take 5 times as long as IREE did, and they slow down the rest of a program for 0.1 s.
_BY_HOST = ("float64", "complex128")
_HOST_WORK = 1 << 24
# From so many multiplications on, a product with a vector may become a reduction.
_REDUCTION_WORK = 1 << 14


def emit_dot(
    ctx: LoweringContext, lhs: Value, rhs: Value, dims: DotDims, dtype: np.dtype[Any]
) -> Value:
    """`stablehlo.dot_general` with a result of type `dtype`."""
    shape = dims.out_shape(lhs.shape, rhs.shape)
    numbers = {
        "batching": (dims.lhs_batch, dims.rhs_batch),
        "contracting": (dims.lhs_contract, dims.rhs_contract),
    }
    return ctx.assign("stablehlo.dot_general", (lhs, rhs), shape, dtype, numbers)


def _dot_general_lower(
    ctx: LoweringContext,
    lhs: Value,
    rhs: Value,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any = None,
) -> Value:
    dims = DotDims.of(dimension_numbers)
    out = ctx.out_avals[0]
    if 0 in (*lhs.shape, *rhs.shape):
        return ctx.constant(0, out.dtype, out.shape)
    wide = accumulation_dtype(lhs.dtype, rhs.dtype, out.dtype)
    batch, m, n, k = dims.sizes(lhs.shape, rhs.shape)
    # One flop per result is counted for every equation.
    ctx.module.flops += (2.0 * k - 1) * batch * m * n
    found = block_product(ctx, lhs, rhs, dims, precision)
    if found is None:
        found = few_rows_product(ctx, lhs, rhs, dims, wide)
    if found is None:
        found = packed_product(ctx, lhs, rhs, dims, wide)
    if found is not None:
        return ctx.inline(convert_element_type, found, new_dtype=out.dtype)
    if ctx.target.host_libraries and wide.name in _BY_HOST and min(m, n, k) >= 64:
        if batch * m * n * k >= _HOST_WORK:
            function = functools.partial(
                dot_general_p.reference,
                dimension_numbers=dimension_numbers,
                precision=precision,
                preferred_element_type=out.dtype,
            )
            types = [(out.shape, out.dtype)]
            return ctx.module.host_call(ctx, "dot_general", function, [lhs, rhs], types)[0]
    found = integer_product(ctx, lhs, rhs, dims, wide, emit_dot)
    if found is None and min(m, n) > 1:
        emit = functools.partial(_emit_sum, ctx, dims)
        found = float_product(ctx, lhs, rhs, wide, precision, emit)
    if found is None:
        found = contract(ctx, lhs, rhs, dims, wide)
    return ctx.inline(convert_element_type, found, new_dtype=out.dtype)


def _emit_sum(ctx: LoweringContext, dims: DotDims, lhs: Value, rhs: Value) -> Value:
    return emit_dot(ctx, lhs, rhs, dims, _F32)


def contract(
    ctx: LoweringContext, lhs: Value, rhs: Value, dims: DotDims, wide: np.dtype[Any]
) -> Value:
    """The contraction summed in `wide`."""
    if dtypes.kind(wide) == "b":
        # The compiler has no product of booleans. The number of true pairs is positive where there
        # is one, however it is rounded.
        return ctx.compare("NE", contract(ctx, lhs, rhs, dims, _F32), 0)
    batch, m, n, k = dims.sizes(lhs.shape, rhs.shape)
    forms = ctx.target.forms
    as_sums = forms.vector_products_as_sums and min(m, n) == 1 and k >= 16
    if as_sums and batch * m * n * k >= _REDUCTION_WORK:
        first = _Side(lhs, dims.lhs_contract, dims.lhs_batch)
        second = _Side(rhs, dims.rhs_contract, dims.rhs_batch)
        large, small = (first, second) if n == 1 else (second, first)
        if m == n or large.rank - 1 not in large.contract:
            found = _reduced_products(ctx, large, small, wide)
            return ctx.reshape(found, dims.out_shape(lhs.shape, rhs.shape))
    if not are_narrow(ctx, lhs, rhs, wide):
        lhs, rhs = ctx.convert(lhs, wide), ctx.convert(rhs, wide)
    return emit_dot(ctx, lhs, rhs, dims, wide)


def are_narrow(ctx: LoweringContext, lhs: Value, rhs: Value, wide: np.dtype[Any]) -> bool:
    """Whether the target multiplies such operands, and sums in `wide`, without a conversion."""
    narrow = ctx.target.forms.narrow_products
    return lhs.dtype == rhs.dtype and lhs.dtype.name in narrow and wide == _F32


@dataclass(frozen=True)
class _Side:
    """An operand of a contraction."""

    value: Value
    contract: tuple[int, ...]
    batch: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.value.shape)


def _reduced_products(
    ctx: LoweringContext, large: _Side, small: _Side, wide: np.dtype[Any]
) -> Value:
    """The contraction of an operand with one of a single free element, as a sum of products.

    IREE's vector-matrix product reads the matrix column by column; the sum over leading axes goes
    row by row, in blocks, and is several times faster.
    """
    shape = large.value.shape
    places = dict(zip(small.contract, large.contract, strict=True))
    places |= dict(zip(small.batch, large.batch, strict=True))
    # Free axes of the small operand have size 1.
    paired = sorted(places)
    value = ctx.reshape(small.value, tuple(small.value.shape[i] for i in paired))
    places_of_small = [places[i] for i in paired]
    broadcast = ctx.broadcast_in_dim(ctx.convert(value, wide), shape, places_of_small)
    products = ctx.mul(ctx.convert(large.value, wide), broadcast)
    sums = reduce_in_blocks(ctx, products, "add", 0, large.contract)
    left = [i for i in range(large.rank) if i not in large.contract]
    free = [i for i in left if i not in large.batch]
    return ctx.transpose(sums, [left.index(i) for i in (*large.batch, *free)])


register(dot_general_p, _dot_general_lower)
