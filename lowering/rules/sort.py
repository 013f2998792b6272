"""Lowering of sorts: never `stablehlo.sort`, which IREE runs as a serial exchange sort.

All ways are stable, with NaN last: a short axis is sorted by counting, for each element, those
before it; on a target with host calls NumPy sorts; on other processors digits are counted in serial
loops; elsewhere a bitonic network runs as a loop. They compare integer codes that have the order of
the keys.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.registry import register
from xpr.lowering.rules import _top_scan
from xpr.lowering.rules._radix_sort import radix_order
from xpr.lowering.rules._sort_network import network_order, repeated_max
from xpr.lowering.rules._top_rounds import SHORT, block_size, top_positions
from xpr.lowering.rules.reduce import reduce_in_blocks
from xpr.primitives._sorting import sort_values, stable_order, top_order
from xpr.primitives.sort import approx_top_k_p, sort_p, top_k_p

_I32 = np.dtype(np.int32)
_I64 = np.dtype(np.int64)
_F32 = np.dtype(np.float32)

# A sort by counting compares all pairs: axes up to this length, and up to this many comparisons.
_COUNTING_LENGTH = 32
_COUNTING_WORK = 1 << 22
# Up to here k rounds of finding the greatest element beat a whole sort.
_ROUNDS = 8


def _sort_lower(
    ctx: LoweringContext, *operands: Value, dimension: int, is_stable: bool, num_keys: int
) -> Sequence[Value]:
    x = operands[0]
    n, size = x.shape[dimension] if x.shape else 1, x.aval.size
    if n <= 1 or size == 0:
        return operands
    ctx.module.flops += size * math.log2(n)
    if n <= _COUNTING_LENGTH and size * n <= _COUNTING_WORK:
        codes = [c for key in operands[:num_keys] for c in _codes(ctx, key)]
        here = _places(ctx, codes, dimension, n)
        return [_pick(ctx, v, here, dimension) for v in operands]
    if ctx.target.host_libraries:
        function = functools.partial(_host_sort, dimension=dimension, num_keys=num_keys)
        types = [(v.shape, v.dtype) for v in operands]
        return ctx.module.host_call(ctx, "sort", function, operands, types)
    # The sorted axis first: the network exchanges whole rows.
    moved = [_axis_first(ctx, v, dimension) for v in operands]
    rows = [ctx.reshape(v, (n, size // n)) for v in moved]
    codes = [c for v in rows[:num_keys] for c in _codes(ctx, v)]
    order = _order(ctx, codes)
    sorted_rows = [_take_rows(ctx, v, order) for v in rows]
    return [_axis_back(ctx, ctx.reshape(v, moved[0].shape), dimension) for v in sorted_rows]


def _order(ctx: LoweringContext, codes: Sequence[Value]) -> Value:
    """For each column, the rows in ascending order of `codes`, then of position (int32)."""
    if ctx.target.single_dispatch_loops:
        return radix_order(ctx, codes)
    return network_order(ctx, codes)


def _host_sort(*arrays: Any, dimension: int, num_keys: int) -> list[Any]:
    if len(arrays) == 1:
        return [sort_values(arrays[0], dimension)]
    order = stable_order(arrays[:num_keys], dimension)
    return [np.take_along_axis(a, order, dimension) for a in arrays]


def _axis_first(ctx: LoweringContext, x: Value, axis: int) -> Value:
    return ctx.transpose(x, (axis, *(i for i in range(len(x.shape)) if i != axis)))


def _axis_back(ctx: LoweringContext, x: Value, axis: int) -> Value:
    return ctx.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, len(x.shape))))


# ---- codes


def _codes(ctx: LoweringContext, x: Value) -> list[Value]:
    """Signed integers, foremost first, that compare as the values of `x` do; NaN is greatest."""
    kind = dtypes.kind(x.dtype)
    if kind == "c":
        return [c for part in ctx.parts(x) for c in _codes(ctx, part)]
    if kind == "f":
        wide = ctx.convert(x, _F32) if x.dtype.itemsize == 2 else x
        integer = _I32 if wide.dtype == _F32 else _I64
        greatest = np.iinfo(integer).max
        bits = ctx.bitcast(wide, integer)
        # Negative floats have descending bit patterns: flipping all but the sign mends that.
        flipped = ctx.xor(bits, ctx.full_like(bits, greatest))
        code = ctx.select(ctx.compare("LT", bits, 0), flipped, bits)
        code = ctx.select(ctx.compare("EQ", wide, 0), 0, code)
        return [ctx.select(ctx.compare("NE", wide, wide), greatest, code)]
    if x.dtype.itemsize < 4:
        return [ctx.convert(x, _I32)]
    if kind == "u":
        signed = ctx.bitcast(x, f"i{x.dtype.itemsize}")
        return [ctx.xor(signed, np.iinfo(signed.dtype).min)]
    return [x]


# ---- counting


def _places(ctx: LoweringContext, codes: Sequence[Value], axis: int, count: int) -> Value:
    """Whether the element comes at the place that a new last axis of size `count` says.

    Its place is the number of elements that come before it.
    """
    shape = codes[0].shape
    rank, n = len(shape), shape[axis]
    wide = (*shape, n)
    own = tuple(range(rank))
    # The other element runs along a new last axis, in the place of the sorted one.
    others = tuple(rank if i == axis else i for i in range(rank))
    before = ctx.compare("LT", ctx.iota(_I32, wide, rank), ctx.iota(_I32, wide, axis))
    for code in reversed(codes):
        mine = ctx.broadcast_in_dim(code, wide, own)
        other = ctx.broadcast_in_dim(code, wide, others)
        tie = ctx.compare("EQ", other, mine)
        before = ctx.or_(ctx.compare("LT", other, mine), ctx.and_(tie, before))
    place = ctx.reduce([ctx.convert(before, _I32)], [ctx.constant(0, _I32)], (rank,), _add_body)[0]
    found = (*shape, count)
    return ctx.compare("EQ", ctx.broadcast_in_dim(place, found, own), ctx.iota(_I32, found, rank))


def _add_body(inner: LoweringContext, a: Value, b: Value) -> list[Value]:
    return [inner.add(a, b)]


def _or_body(inner: LoweringContext, a: Value, b: Value) -> list[Value]:
    return [inner.or_(a, b)]


def _pick(ctx: LoweringContext, x: Value, here: Value, axis: int) -> Value:
    """Along `axis`, the element of `x` that `here` puts at each index of its last axis.

    One element of each sum is not nothing: the one at the wanted place.
    """
    rank = len(x.shape)
    kind = dtypes.kind(x.dtype)
    if kind == "f" and x.dtype.itemsize == 1:
        bits = np.dtype(np.uint8)
        return ctx.bitcast(_pick(ctx, ctx.bitcast(x, bits), here, axis), x.dtype)
    # Adding -0 changes no float, not even -0.
    nothing = {"b": False, "f": -0.0, "c": complex(-0.0, -0.0)}.get(kind, 0)
    broadcast = ctx.broadcast_in_dim(x, here.shape, tuple(range(rank)))
    chosen = ctx.select(here, broadcast, nothing)
    body = _or_body if kind == "b" else _add_body
    found = ctx.reduce([chosen], [ctx.constant(nothing, x.dtype)], (axis,), body)[0]
    # The index axis is last; it belongs at `axis`.
    order = (*range(axis), rank - 1, *range(axis, rank - 1))
    return ctx.transpose(found, order)


# ---- top_k


def _top_k_lower(ctx: LoweringContext, x: Value, *, k: int, axis: int) -> Sequence[Value]:
    values, indices = ctx.out_avals
    if values.size == 0:
        return [ctx.constant(0, a.dtype, a.shape) for a in (values, indices)]
    n = x.shape[axis]
    if n <= _COUNTING_LENGTH and x.aval.size * n <= _COUNTING_WORK:
        here = _places(ctx, [ctx.not_(c) for c in _codes(ctx, x)], axis, k)
        return [_pick(ctx, v, here, axis) for v in (x, ctx.iota(_I32, x.shape, axis))]
    has_pairs = _has_short_codes(x.dtype) and "int64" not in ctx.target.missing_types
    if k <= _ROUNDS and has_pairs and x.aval.size <= np.iinfo(_I32).max:
        return _top_in_rounds(ctx, x, k, axis)
    if ctx.target.host_libraries:
        function = functools.partial(_host_top_k, k=k, axis=axis)
        types = [(a.shape, a.dtype) for a in (values, indices)]
        return ctx.module.host_call(ctx, "top_k", function, [x], types)
    moved = _axis_first(ctx, x, axis)
    rows = ctx.reshape(moved, (n, x.aval.size // n))
    # The complement reverses the order of integers without overflow.
    codes = [ctx.not_(c) for c in _codes(ctx, rows)]
    order = repeated_max(ctx, codes[0], k) if k <= _ROUNDS else _order(ctx, codes)
    order = ctx.slice(order, (0, 0), (k, order.shape[1]))
    shape = (k, *moved.shape[1:])
    return [
        _axis_back(ctx, ctx.reshape(v, shape), axis) for v in (_take_rows(ctx, rows, order), order)
    ]


def _has_short_codes(dtype: np.dtype[Any]) -> bool:
    """Whether `_codes` gives a single one of 32 bits."""
    return not dtypes.is_complex(dtype) and dtype.itemsize <= 4


def _top_in_rounds(ctx: LoweringContext, x: Value, k: int, axis: int) -> list[Value]:
    """The `k` greatest elements, for a small `k`."""
    last = len(x.shape) - 1
    there = (*(i for i in range(last + 1) if i != axis), axis)
    back = (*range(axis), last, *range(axis, last))
    moved = ctx.barrier(ctx.transpose(x, there)) if axis != last else x
    n = moved.shape[last]
    rows = ctx.reshape(moved, (x.aval.size // n, n))
    shape = (*moved.shape[:last], k)
    if ctx.target.single_dispatch_loops and _top_scan.is_coded(x.dtype):
        found = _top_in_one_dispatch(ctx, rows, k)
        if found is not None:
            return [ctx.transpose(ctx.reshape(v, shape), back) for v in found]
    order = top_positions(ctx, rows, k, lambda part: _codes(ctx, part)[0])
    row = ctx.mul(ctx.iota(_I32, order.shape, 0), n)
    values = _take_elements(ctx, rows, ctx.add(row, order))
    return [ctx.transpose(ctx.reshape(v, shape), back) for v in (values, order)]


def _top_in_one_dispatch(ctx: LoweringContext, rows: Value, k: int) -> list[Value] | None:
    """The same as a loop over the rows, behind a dispatch for the greatest of each block.

    None if that would be too much for one core.
    """
    count, n = rows.shape
    block = block_size(n, k) if n >= SHORT else 1
    if count * (n if block == 1 else n // block + k * block) * k > _top_scan.MOST_WORK:
        return None
    if block == 1:
        return ctx.inline(_top_scan.top_of_rows, ctx.barrier(rows), k=k)
    whole = n // block * block
    blocks = ctx.slice(rows, (0, 0), (count, whole)) if whole < n else rows
    blocks = ctx.reshape(blocks, (count, n // block, block))
    code = _codes(ctx, blocks)[0]
    maxima = reduce_in_blocks(ctx, code, "maximum", np.iinfo(_I32).min, (2,))
    return ctx.inline(_top_scan.top_of_blocks, rows, ctx.barrier(maxima), k=k, block=block)


def _host_top_k(x: Any, *, k: int, axis: int) -> list[Any]:
    order = top_order(x, k, axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


def _approx_top_k_lower(
    ctx: LoweringContext, x: Value, *, k: int, is_max_k: bool, **params: Any
) -> Sequence[Value]:
    axis = params["reduction_dimension"] % len(x.shape)
    size = k if params["aggregate_to_topk"] else x.shape[axis]
    values, indices = _top_k_lower(ctx, x if is_max_k else ctx.neg(x), k=size, axis=axis)
    return [values if is_max_k else ctx.neg(values), indices]


def _take_rows(ctx: LoweringContext, x: Value, order: Value) -> Value:
    """The element of each column of `x` at the row that `order` says; both of rank 2."""
    n, columns = x.shape
    wide = _I64 if n * columns > np.iinfo(_I32).max else _I32
    index = ctx.convert(order, wide)
    if columns > 1:
        column = ctx.iota(wide, order.shape, 1)
        index = ctx.add(ctx.mul(index, columns), column)
    return _take_elements(ctx, x, index)


def _take_elements(ctx: LoweringContext, x: Value, index: Value) -> Value:
    """The elements of `x` at row-major positions."""
    found = ctx.assign(
        "stablehlo.gather",
        [ctx.reshape(x, (x.aval.size,)), ctx.reshape(index, (index.aval.size, 1))],
        (index.aval.size,),
        x.dtype,
        {
            "dimension_numbers": GatherNumbers((), (0,), (0,), 1),
            "indices_are_sorted": False,
            "slice_sizes": (1,),
        },
    )
    return ctx.reshape(found, index.shape)


register(sort_p, _sort_lower)
register(top_k_p, _top_k_lower)
register(approx_top_k_p, _approx_top_k_lower)
