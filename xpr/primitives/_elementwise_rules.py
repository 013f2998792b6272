"""Derivatives and transposes of elementwise arithmetic that are more than a line."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.rules import (
    broadcast_to,
    full_like,
    is_linear,
    shape_of,
    unbroadcast,
    zero_tangent,
)


def add_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ct, shape_of(z)) if is_linear(z) else None for z in (x, y)]


def sub_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [
        unbroadcast(ct, shape_of(x)) if is_linear(x) else None,
        unbroadcast(ops.neg(ct), shape_of(y)) if is_linear(y) else None,
    ]


def mul_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    if is_linear(x):
        return [unbroadcast(ops.mul(ct, y), shape_of(x)), None]
    return [None, unbroadcast(ops.mul(x, ct), shape_of(y))]


def div_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [unbroadcast(ops.div(ct, y), shape_of(x)), None]


def rem_by_divisor(t: Any, out: Any, x: Any, y: Any) -> Any:
    quotient = ops.div(x, y)
    whole = ops.bind("floor", ops.bind("abs", quotient))
    return ops.mul(ops.neg(t), ops.mul(ops.bind("sign", quotient), whole))


def share(x: Any, out: Any, y: Any) -> Any:
    """How much of the extreme `out` of x and y is x: 1, 0, or 1/2 where both are equal."""
    shape = shape_of(out)
    chosen = ops.select(ops.eq(broadcast_to(x, shape), out), full_like(out, 1), full_like(out, 0))
    both = ops.eq(broadcast_to(x, shape), broadcast_to(y, shape))
    return ops.div(chosen, ops.select(both, full_like(out, 2), full_like(out, 1)))


def abs_tangent(t: Any, out: Any, x: Any) -> Any:
    aval = get_aval(x)
    if not dtypes.is_complex(aval.dtype):
        # At 0 this takes the derivative from the right, as JAX does.
        return ops.select(ops.bind("ge", x, full_like(x, 0)), t, ops.neg(t))
    # An infinite number has the direction of its infinite parts.
    infinite = ops.eq(out, full_like(out, np.inf))
    unit = ops.bind("complex", *(_infinite_part(ops.bind(p, x)) for p in ("real", "imag")))
    size = ops.convert(ops.select(infinite, ops.bind("abs", unit), out), aval.dtype)
    x = ops.select(infinite, unit, x)
    nonzero = ops.select(ops.eq(size, full_like(size, 0)), full_like(size, 1), size)
    direction = ops.div(ops.bind("conj", x, input_dtype=aval.dtype), nonzero)
    return ops.bind("real", ops.mul(t, direction))


def _infinite_part(x: Any) -> Any:
    """1 or -1 for the infinities, 0 for finite numbers."""
    infinite = ops.eq(ops.bind("abs", x), full_like(x, np.inf))
    return ops.select(infinite, ops.bind("sign", x), ops.mul(x, full_like(x, 0)))


def sign_tangent(t: Any, out: Any, x: Any) -> Any:
    dtype = get_aval(x).dtype
    if not dtypes.is_complex(dtype):
        return zero_tangent(out)
    # A number moves its direction by the part of the tangent across it.
    along = ops.bind("real", ops.mul(t, ops.bind("conj", out, input_dtype=dtype)))
    across = ops.sub(t, ops.mul(out, ops.convert(along, dtype)))
    size = ops.convert(ops.bind("abs", x), dtype)
    origin = ops.eq(size, full_like(size, 0))
    moved = ops.div(across, ops.select(origin, full_like(size, 1), size))
    return ops.select(origin, full_like(moved, 0), moved)


def conj_transpose(ct: Any, x: Any, *, input_dtype: Any) -> list[Any]:
    whole = ops.bind("conj", ct, input_dtype=get_aval(ct).dtype)
    return [whole if dtypes.is_complex(np.dtype(input_dtype)) else ops.bind("real", whole)]


def complex_transpose(ct: Any, x: Any, y: Any) -> list[Any]:
    return [
        unbroadcast(ops.bind("real", ct), shape_of(x)) if is_linear(x) else None,
        unbroadcast(ops.neg(ops.bind("imag", ct)), shape_of(y)) if is_linear(y) else None,
    ]
