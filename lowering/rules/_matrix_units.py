"""Products that GPUs' matrix units compute in parts: those of small integers, and of float32.

The units multiply floats of 16 bits exactly and sum in float32. Integers of 8 bits are such floats,
and a sum of them is exact as long as it is below 2^24: the summed axis is cut into blocks of sums
below 2^23, which become int32. A float32 is the sum of a bfloat16 and a rest of which another
bfloat16 holds the next 8 bits, so that three products have a relative error of some 2^-16, less
than with TensorFloat-32 (2^-11); this needs the user's leave, given by `precision`.
(G. Henry, P. T. P. Tang, A. Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For
Higher-Precision Computations, ARITH 2019.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Value
from xpr.primitives._precision import DotAlgorithm, DotAlgorithmPreset, Precision
from xpr.primitives.convert import convert_element_type
from xpr.primitives.dot_general import DotDims

_F16, _F32, _I32 = (np.dtype(t) for t in (np.float16, np.float32, np.int32))
_U16, _U32 = np.dtype(np.uint16), np.dtype(np.uint32)
_BF16 = dtypes.bfloat16

# Sums below it are exact in float32, in whatever order, with a bit to spare.
_EXACT = 1 << 23
# With fewer rows or columns the time goes into reading the operands.
_LEAST = 16

Product = Callable[[Value, Value], Value]
"""A contraction of two operands, summed in float32."""


# ---- integers


def integer_product(
    ctx: LoweringContext, lhs: Value, rhs: Value, dims: DotDims, wide: np.dtype[Any], emit: Any
) -> Value | None:
    """The product of integers of 8 bits by the units; None where they do not compute it.

    `emit(ctx, lhs, rhs, dims, dtype)` writes the products of floats.
    """
    if not ctx.target.forms.small_integers_in_units or wide.itemsize > _I32.itemsize:
        return None
    if not all(dtypes.kind(x.dtype) in "iu" and x.dtype.itemsize == 1 for x in (lhs, rhs)):
        return None
    batch, m, n, k = dims.sizes(lhs.shape, rhs.shape)
    if min(m, n, k) < _LEAST:
        return None
    greatest = (max(-int(i.min), int(i.max)) for i in (dtypes.iinfo(x.dtype) for x in (lhs, rhs)))
    block = 1 << int(math.log2(_EXACT / math.prod(greatest)))
    blocks = -(-k // block)
    left = _blocked(ctx, lhs, dims.lhs_batch, dims.lhs_contract, (batch, m), blocks, block)
    right = _blocked(ctx, rhs, dims.rhs_batch, dims.rhs_contract, (batch, n), blocks, block)
    sums = emit(ctx, left, right, DotDims((3,), (3,), (0, 2), (0, 2)), _F32)
    whole = ctx.convert(sums, _I32)
    if blocks > 1:
        zero = ctx.constant(0, _I32)
        (whole,) = ctx.reduce([whole], [zero], (1,), lambda inner, a, b: [inner.add(a, b)])
    # Sums that exceed narrower integers wrap around.
    return ctx.reshape(ctx.convert(whole, wide), dims.out_shape(lhs.shape, rhs.shape))


def _blocked(
    ctx: LoweringContext,
    x: Value,
    batch: tuple[int, ...],
    contract: tuple[int, ...],
    sizes: tuple[int, int],
    blocks: int,
    block: int,
) -> Value:
    """The elements as float16, by batch, free axes, block and place in the block."""
    free = [i for i in range(len(x.shape)) if i not in (*batch, *contract)]
    k = math.prod(x.shape[i] for i in contract)
    rows = ctx.reshape(ctx.transpose(x, (*batch, *free, *contract)), (*sizes, k))
    if blocks == 1:
        block = k
    elif k % block:
        none, rest = [0, 0, 0], [0, 0, blocks * block - k]
        rows = ctx.pad(rows, ctx.constant(0, rows.dtype), none, rest, none)
    # Without the barrier it would be a product of integers again.
    halves = ctx.barrier(ctx.convert(rows, _F16))
    return ctx.reshape(halves, (*sizes, blocks, block))


# ---- float32


def parts_of(precision: Any) -> int | None:
    """How many products of bfloat16 the user allows for one of float32; None for exact ones."""
    if isinstance(precision, DotAlgorithmPreset):
        return _PRESETS.get(precision)
    if isinstance(precision, DotAlgorithm):
        types = {np.dtype(precision.lhs_precision_type), np.dtype(precision.rhs_precision_type)}
        count = precision.num_primitive_operations
        return count if types == {_BF16} and count in (1, 3) else None
    if isinstance(precision, tuple) and Precision.HIGHEST not in precision:
        return 3
    return None


_PRESETS = {
    DotAlgorithmPreset.BF16_BF16_BF16: 1,
    DotAlgorithmPreset.BF16_BF16_F32: 1,
    DotAlgorithmPreset.BF16_BF16_F32_X3: 3,
    DotAlgorithmPreset.TF32_TF32_F32: 3,
}


def float_product(
    ctx: LoweringContext, lhs: Value, rhs: Value, wide: np.dtype[Any], precision: Any, emit: Product
) -> Value | None:
    """The product of float32 in parts, if the target has the units and the user lets it."""
    if _BF16.name not in ctx.target.forms.narrow_products or wide != _F32:
        return None
    parts = parts_of(precision)
    if parts is None or not (lhs.dtype == rhs.dtype == _F32):
        return None
    if parts == 1:
        return emit(*(ctx.inline(convert_element_type, x, new_dtype=_BF16) for x in (lhs, rhs)))
    (a, b), (c, d) = _parts(ctx, lhs), _parts(ctx, rhs)
    rest = ctx.add(emit(a, d), emit(b, c))
    # An infinity times a rest of 0 is no number; it counts in the first product alone.
    rest = ctx.select(ctx.compare("EQ", rest, rest), rest, 0)
    return ctx.add(emit(a, c), rest)


def _parts(ctx: LoweringContext, x: Value) -> tuple[Value, Value]:
    """The leading 8 bits of each element, and the next ones; cut off, so that none overflows."""
    high = _cut_off(ctx, x)
    wide = ctx.convert(high, _F32)
    exact = ctx.compare("EQ", x, wide)
    return high, _cut_off(ctx, ctx.select(exact, 0, ctx.sub(x, wide)))


def _cut_off(ctx: LoweringContext, x: Value) -> Value:
    """The upper half of the bits of float32 as bfloat16; a NaN whose bits lie below stays one."""
    bits = ctx.binary("shift_right_logical", ctx.bitcast(x, _U32), 16)
    bits = ctx.select(ctx.compare("EQ", x, x), bits, 0x7FC0)
    return ctx.bitcast(ctx.convert(bits, _U16), _BF16)
