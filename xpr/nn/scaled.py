"""Products of matrices whose elements share a scale in blocks along the contracted axis.

The formats are those of the OCP Microscaling Formats specification 1.0 (MXFP8: 32 elements of
float8_e4m3fn and a power of two) and NVFP4 (16 elements of float4_e2m1fn and a float8_e4m3fn). The
products themselves are computed in float32.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.core.source_info import user_stacklevel
from xpr.nn._operands import array_of
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives.convert import bitcast_convert_type
from xpr.primitives.dot_general import DotDimensionNumbers, dot_general
from xpr.transforms.custom_vjp import custom_vjp

# (lhs, rhs) as (B, M, K) and (B, N, K): contract over K for each B.
_ROWS_BY_ROWS = (((2,), (2,)), ((0,), (0,)))
# The bit patterns of float32: one step of the exponent, infinity, and 2^-127, which is subnormal.
_EXPONENT, _INFINITY, _LEAST_SCALE = 1 << 23, 0x7F80_0000, 1 << 22


@dataclass(slots=True)
class BlockScaleConfig:
    """How an operand of `scaled_dot_general` is quantized; made by `get_scaled_dot_general_config`.

    >>> import xpr
    >>> xpr.nn.get_scaled_dot_general_config("mxfp8").block_size
    32
    """

    mode: str
    block_size: int
    data_type: DTypeLike
    scale_type: DTypeLike
    global_scale: Array | None
    infer_only: bool


def get_scaled_dot_general_config(
    mode: Literal["nvfp4", "mxfp8"], global_scale: Array | None = None
) -> BlockScaleConfig:
    """The format `mode` for one operand of `scaled_dot_general`.

    `global_scale`, a float32 of shape (1,), divides the whole operand in the mode "nvfp4"; 1 if it
    is left out. Raises ValueError for another mode.

    >>> import xpr
    >>> xpr.nn.get_scaled_dot_general_config("nvfp4").block_size
    16
    """
    if mode == "nvfp4":
        if global_scale is None:
            global_scale = jnp.ones((1,), np.float32)
        return BlockScaleConfig(mode, 16, jnp.float4_e2m1fn, jnp.float8_e4m3fn, global_scale, False)
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, jnp.float8_e4m3fn, jnp.float8_e8m0fnu, None, False)
    raise ValueError(
        f"get_scaled_dot_general_config requires mode to be 'nvfp4' or 'mxfp8', got {mode!r}"
    )


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """The product of (B, M, K) and (B, N, K) over K, each scaled in blocks along K: (B, M, N).

    The scales have shapes (B, M, K') and (B, N, K'), where K is a multiple of K'; each multiplies a
    block of K / K' elements. Operands of any dtype are multiplied in float32; the result has the
    dtype `preferred_element_type`. Raises ValueError for shapes that do not fit.

    >>> import xpr, xpr.numpy as jnp
    >>> a, b = jnp.array([[[1, 2, 3]]]), jnp.array([[[4, 5, 6]]])
    >>> half = jnp.array([[[0.5]]])
    >>> xpr.nn.scaled_matmul(a, b, half, half)
    Array([[[8.]]], dtype=float32)
    """
    a, b, a_scales, b_scales = (
        array_of("scaled_matmul", x, i) for i, x in enumerate((lhs, rhs, lhs_scales, rhs_scales))
    )
    if any(x.ndim != 3 for x in (a, b, a_scales, b_scales)):
        raise ValueError(
            "scaled_matmul requires all inputs to be 3-dimensional arrays, got shapes "
            f"{a.shape}, {b.shape}, {a_scales.shape} and {b_scales.shape}"
        )
    for what, x, y in (("inputs", a, b), ("scales", a_scales, b_scales)):
        if (x.shape[0], x.shape[2]) != (y.shape[0], y.shape[2]):
            raise ValueError(
                f"scaled_matmul requires {what} to have matching batch (B) and contract (K) "
                f"dimensions, but got shapes {x.shape} and {y.shape}"
            )
    for x, scales in ((a, a_scales), (b, b_scales)):
        if x.shape[:2] != scales.shape[:2]:
            raise ValueError(
                "scaled_matmul requires scales to match the batch and non-contract dimensions of "
                f"inputs, but got shapes {x.shape} and {scales.shape}"
            )
        if (x.shape[2] % scales.shape[2] if scales.shape[2] else x.shape[2]) != 0:
            raise ValueError(
                "scaled_matmul requires the contract dimension to be a multiple of that of the "
                f"scales, got {x.shape[2]} and {scales.shape[2]}"
            )
    wanted = requested_dtype(preferred_element_type, "scaled_matmul")
    return _product(_scaled(a, a_scales), _scaled(b, b_scales)).astype(wanted)


def _scaled(x: Array, scales: Array) -> Array:
    """The elements times the scales of their blocks, in float32."""
    size = x.shape[2] // max(scales.shape[2], 1)
    return x.astype(np.float32) * jnp.repeat(scales.astype(np.float32), size, axis=2)


def _product(a: Array, b: Array) -> Array:
    return dot_general(a, b, _ROWS_BY_ROWS, preferred_element_type=np.float32)


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    preferred_element_type: DTypeLike = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:
    """`lax.dot_general` of operands that are quantized in blocks first, and its derivatives too.

    `configs` has the formats of `lhs`, `rhs` and of the cotangent of the result; without it this is
    `lax.dot_general`. Blocks run along the contracted axes taken together, whose size must be a
    multiple of the block's; for the derivatives in the mode "mxfp8" that holds for the other axes
    as well, while those in the mode "nvfp4" are not quantized but 0 for elements beyond the range
    of the format. `implementation` is ignored and deprecated.

    Raises ValueError for sizes that are no multiples of the block's, TypeError for dimension
    numbers that do not fit.

    >>> import xpr, xpr.numpy as jnp
    >>> x = jnp.arange(32.0).reshape(1, 32)
    >>> configs = [xpr.nn.get_scaled_dot_general_config("mxfp8")] * 3
    >>> xpr.nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)
    Array([[10440.]], dtype=float32)
    """
    if implementation is not None:
        warnings.warn(
            "scaled_dot_general ignores its argument implementation: the backend is chosen by xpr.",
            DeprecationWarning,
            stacklevel=user_stacklevel(),
        )
    a, b = array_of("scaled_dot_general", lhs), array_of("scaled_dot_general", rhs, 1)
    wanted = (
        None
        if preferred_element_type is None
        else requested_dtype(preferred_element_type, "scaled_dot_general")
    )
    if configs is None:
        return dot_general(a, b, dimension_numbers, preferred_element_type=wanted)
    (a_contract, b_contract), (a_batch, b_batch) = (
        tuple(tuple(axes) for axes in pair) for pair in dimension_numbers
    )
    rows, batch = _as_rows(a, a_contract, a_batch)
    columns, _ = _as_rows(b, b_contract, b_batch)
    free = [
        x.shape[d]
        for x, contract, batches in ((a, a_contract, a_batch), (b, b_contract, b_batch))
        for d in range(x.ndim)
        if d not in contract + batches
    ]
    formats = tuple(replace(c, global_scale=None) for c in configs)
    totals = tuple(1.0 if c.global_scale is None else c.global_scale for c in configs[:2])
    out = _quantized_product(rows, columns, totals, formats)
    return out.astype(wanted or jnp.promote_types(a.dtype, b.dtype)).reshape(*batch, *free)


def _as_rows(x: Array, contract: Sequence[int], batch: Sequence[int]) -> tuple[Array, list[int]]:
    """`x` with its axes gathered to (B, M, K), in float32, and the sizes of its batch axes."""
    free = [d for d in range(x.ndim) if d not in (*contract, *batch)]
    sizes = [[x.shape[d] for d in axes] for axes in (batch, free, contract)]
    moved = jnp.transpose(x, (*batch, *free, *contract)).reshape([math.prod(s) for s in sizes])
    return moved.astype(np.float32), sizes[0]


_Formats = tuple[BlockScaleConfig, ...]
# The numbers that divide the two operands as a whole.
_Totals = tuple[ArrayLike, ArrayLike]


@functools.partial(custom_vjp, nondiff_argnums=(3,))
def _quantized_product(a: Array, b: Array, totals: _Totals, formats: _Formats) -> Array:
    return _product(_quantized(a, totals[0], formats[0]), _quantized(b, totals[1], formats[1]))


def _quantized_product_fwd(
    a: Array, b: Array, totals: _Totals, formats: _Formats
) -> tuple[Array, tuple[Array, Array, _Totals]]:
    return _quantized_product(a, b, totals, formats), (a, b, totals)


def _quantized_product_bwd(
    formats: _Formats, saved: tuple[Array, Array, _Totals], cotangent: Array
) -> tuple[Array, Array, Any]:
    a, b, totals = saved
    flipped = cotangent.swapaxes(1, 2)
    if formats[2].mode == "nvfp4":
        to_a = _product(cotangent, b.swapaxes(1, 2))
        to_b = _product(flipped, a.swapaxes(1, 2))
        to_a = jnp.where(_in_range(a, totals[0], formats[0]), to_a, 0)
        to_b = jnp.where(_in_range(b, totals[1], formats[1]), to_b, 0)
    else:

        def product(ct: Array, other: Array, form: BlockScaleConfig) -> Array:
            return _product(
                _quantized(ct, 1.0, formats[2]), _quantized(other.swapaxes(1, 2), 1.0, form)
            )

        to_a, to_b = product(cotangent, b, formats[1]), product(flipped, a, formats[0])
    return to_a, to_b, tuple(jnp.zeros_like(t) for t in totals)


_quantized_product.defvjp(_quantized_product_fwd, _quantized_product_bwd)


def _greatest(dtype: DTypeLike) -> np.float32:
    return np.float32(dtypes.finfo(dtype).max)


def _in_range(x: Array, total: ArrayLike, config: BlockScaleConfig) -> Array:
    """Where the straight-through estimator lets a derivative pass: `x` is not clipped."""
    most = _greatest(config.data_type) * _greatest(config.scale_type)
    return jnp.abs(x) <= jnp.multiply(total, most)


def _quantized(x: Array, total: ArrayLike, config: BlockScaleConfig) -> Array:
    """What is left of a float32 `x` of shape (B, M, K) after storing it in the format.

    In the mode "nvfp4" it is divided by `total` first. Each block is divided by a scale that brings
    its greatest element near the greatest of the format, rounded, and multiplied again.
    """
    size, length = config.block_size, x.shape[2]
    if length == 0 or length % size:
        raise ValueError(
            "scaled_dot_general requires the contracted size to be a positive multiple of the "
            f"block size {size} of {config.mode!r}, got {length}"
        )
    most = _greatest(config.data_type)
    blocks = x.reshape(*x.shape[:2], length // size, size)
    if config.mode == "mxfp8":
        need = jnp.max(jnp.abs(blocks), axis=-1, keepdims=True) / most
        scale, inverse = _power_of_two(need)
        stored = jnp.clip(blocks * inverse, -most, most).astype(config.data_type)
        return (stored.astype(np.float32) * scale).reshape(x.shape)
    if config.mode != "nvfp4":
        raise ValueError(f"scaled_dot_general has no mode {config.mode!r}")
    blocks = blocks / total
    need = jnp.max(jnp.abs(blocks), axis=-1, keepdims=True) / most
    scale = jnp.clip(need, 0, _greatest(config.scale_type)).astype(config.scale_type)
    scale = scale.astype(np.float32)
    # A block of zeros has the scale 0, which must not divide.
    inner = jnp.clip(blocks / jnp.where(scale == 0, 1, scale), -most, most)
    return (_rounded_to_e2m1(inner) * scale * total).reshape(x.shape)


def _power_of_two(x: Array) -> tuple[Array, Array]:
    """The least power of two from 2^-127 on that is not below `x` >= 0, and its inverse.

    By the bits of float32, since compiled code may take subnormal numbers for zeros.
    """
    bits = bitcast_convert_type(x, np.uint32)
    rounded = jnp.where(bits <= _LEAST_SCALE, 0, (bits + np.uint32(_EXPONENT - 1)) // _EXPONENT)
    places = jnp.minimum(rounded, 253).astype(np.uint32)
    inverse = bitcast_convert_type((254 - places) * np.uint32(_EXPONENT), np.float32)
    finite = bits < _INFINITY
    scale = bitcast_convert_type(
        jnp.maximum(places * np.uint32(_EXPONENT), np.uint32(_LEAST_SCALE)), np.float32
    )
    return jnp.where(finite, scale, np.nan), jnp.where(finite, inverse, np.nan)


def _rounded_to_e2m1(x: Array) -> Array:
    """`x` in [-6, 6] rounded to 0, 0.5, 1, 1.5, 2, 3, 4 or 6 with a sign, halves to even.

    IREE has no type of four bits with a fraction, so this is done in float32.
    """
    size = jnp.abs(x)
    step = jnp.where(size < 2, 0.5, jnp.where(size < 4, 1.0, 2.0)).astype(np.float32)
    return jnp.round(x / step) * step
