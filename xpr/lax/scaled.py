"""Products of matrices whose elements share scales in blocks along the contracted axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.dot_general import DotDims, dot_general

__all__ = ["scaled_dot"]

_DEFAULTS = {2: (((1,), (0,)), ((), ())), 3: (((2,), (1,)), ((0,), (0,)))}
_Axes = Sequence[int]


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`dot_general` of operands times their scales, as formats with shared exponents need it.

    `dimension_numbers` is as in `dot_general`; for operands of rank 2 the matrix product is the
    default, for rank 3 a batch of them. A scale has the rank and the sizes of its operand, but for
    one contracting axis: of size k / s, where each element scales s neighbours, s >= 2.

    Operands and scales have any dtype, such as float8_e4m3fn and float8_e8m0fnu (the OCP
    Microscaling Formats); they are multiplied and summed in float32 at least. The result is
    bfloat16 or `preferred_element_type`.

    Raises TypeError for ranks below 2 and sizes that do not go together.

    >>> x = np.ones((2, 4), np.float32)
    >>> scale = np.array([[0.5, 2.0], [1.0, 1.0]], np.float32)
    >>> scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type=np.float32)
    Array([[5., 5.],
           [4., 4.]], dtype=float32)
    """
    left, right = get_aval(lhs), get_aval(rhs)
    given = {"lhs": left, "rhs": right}
    for name, scale in (("lhs_scale", lhs_scale), ("rhs_scale", rhs_scale)):
        if scale is not None:
            given[name] = get_aval(scale)
    ranks = {name: aval.ndim for name, aval in given.items()}
    if len(set(ranks.values())) > 1:
        shown = ", ".join(f"{name} of rank {rank}" for name, rank in ranks.items())
        raise TypeError(f"scaled_dot requires operands and scales of one rank, got {shown}")
    if left.ndim < 2:
        raise TypeError(f"scaled_dot requires operands of rank 2 or more, got rank {left.ndim}")
    if dimension_numbers is None:
        if left.ndim not in _DEFAULTS:
            raise TypeError(
                f"scaled_dot requires dimension_numbers for operands of rank {left.ndim}"
            )
        dimension_numbers = _DEFAULTS[left.ndim]
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    dims = DotDims(tuple(lhs_contract), tuple(rhs_contract), tuple(lhs_batch), tuple(rhs_batch))
    dims.check_shapes(left.shape, right.shape)
    wanted = dtypes.canonicalize(
        dtypes.bfloat16 if preferred_element_type is None else preferred_element_type
    )
    # Not as the user's settings say: they may forbid what is meant here.
    wide = wanted if wanted.itemsize >= 4 else np.dtype(np.float32)
    a = _scaled("lhs", lhs, lhs_scale, dims.lhs_contract, wide)
    b = _scaled("rhs", rhs, rhs_scale, dims.rhs_contract, wide)
    return ops.convert(dot_general(a, b, dims.numbers), wanted)


def _scaled(name: str, x: Any, scale: Any, contracting: _Axes, dtype: np.dtype[Any]) -> Any:
    """The elements times the scales of their blocks, in `dtype`."""
    converted = ops.convert(x, dtype)
    if scale is None:
        return converted
    shape, sizes = get_aval(x).shape, get_aval(scale).shape
    blocks, repeated, kept = [], [], []
    for axis, (size, count) in enumerate(zip(shape, sizes, strict=True)):
        kept.append(len(repeated))
        if size == count:
            blocks.append(1)
            repeated.append(size)
            continue
        if axis not in contracting:
            raise TypeError(
                f"scaled_dot requires axis {axis} of {name} and of its scale to have one size, got "
                f"{size} and {count}"
            )
        if not count or size % count:
            raise TypeError(
                f"scaled_dot requires the size {size} of the contracting axis {axis} of {name} to "
                f"be divisible by that of its scale, got {count}"
            )
        blocks.append(size // count)
        repeated += [count, size // count]
    if all(size < 2 for axis, size in enumerate(blocks) if axis in contracting):
        raise TypeError(
            f"scaled_dot requires the contracting axis of {name} to be at least twice as long as "
            f"that of its scale, got shapes {shape} and {sizes}"
        )
    spread = ops.broadcast_in_dim(ops.convert(scale, dtype), repeated, kept)
    return ops.mul(converted, ops.reshape(spread, shape))
