"""Tangents that are known to be zero, and the types of tangents.

The tangent type of a floating or complex type is the type itself; that of integers and booleans is
`float0`, which has no values but zero. A `Zero` stands for a zero of any type, so that programs
never compute with zeros that are known beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.context import context
from xpr.core.manual import in_order
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval, is_valid_value

FLOAT0 = dtypes.float0


class Zero:
    """A tangent or cotangent known to be zero."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """The type of tangents of values of type `aval`."""
    return aval.to_tangent_aval()


def cotangent_aval(aval: ShapedArray) -> ShapedArray:
    """The type of cotangents of values of type `aval`.

    It is that of tangents, but for mesh axes that it names unreduced and reduced: cotangents of a
    value that is a part of a sum are the same for all parts, and the other way round.
    """
    if aval.is_high:
        return aval.to_ct_aval()  # type: ignore[attr-defined]
    found = tangent_aval(aval)
    sharding = found.sharding
    if sharding is None or not (sharding.spec.unreduced or sharding.spec.reduced):
        return found
    return found.update(sharding=sharding.with_spec(sharding.spec.to_ct_spec()))


def zero_tangent(x: Any) -> Zero:
    """The zero tangent of the value `x`."""
    return Zero(tangent_aval(get_aval(x)))


def zero_of_anything(x: Any) -> Zero:
    """As `zero_tangent`; auxiliary data that are no arrays have tangents of type float0."""
    return zero_tangent(x) if is_valid_value(x) else Zero(ShapedArray((), FLOAT0))


def is_float0(aval: ShapedArray) -> bool:
    """Whether values of type `aval` are tangents of integers or booleans."""
    return not aval.is_high and aval.dtype == FLOAT0


def zeros(aval: ShapedArray) -> Any:
    """An array of zeros of type `aval`, made under the current trace."""
    if aval.is_high:
        return aval.vspace_zero() if aval.has_qdd else aval.recorded_zero()  # type: ignore[attr-defined]
    if is_float0(aval):
        return np.zeros(aval.shape, FLOAT0)
    return full(aval, 0)


def ones(aval: ShapedArray) -> Any:
    """An array of ones of type `aval`, made under the current trace."""
    return full(aval, 1)


def full(aval: ShapedArray, value: float) -> Any:
    """An array of type `aval` with all elements equal to `value`."""
    scalar: Any = aval.dtype.type(value)
    # A Python number is weakly typed, but its dtype is the default one of its kind.
    if aval.weak_type and get_aval(scalar.item()).dtype == aval.dtype:
        scalar = scalar.item()
    sharding = aval.sharding
    if value and unreduced_axes(aval):
        # Spread, each device would have `value` as its part of the sum.
        whole = sharding.with_spec(sharding.spec.update(unreduced=frozenset()))
        return get_primitive("reshard").bind(
            full(aval.update(sharding=whole), value), sharding=sharding
        )
    if aval.shape or unreduced_axes(aval) or reduced_axes(aval):
        scalar = get_primitive("broadcast_in_dim").bind(
            scalar, shape=aval.shape, broadcast_dimensions=(), sharding=sharding
        )
    if aval.vma and context.manual_axes:
        return get_primitive("pvary").bind(scalar, axes=in_order(aval.vma))
    return scalar


def instantiate(x: Any) -> Any:
    """`x`, or an array of zeros where it is a `Zero`."""
    return zeros(x.aval) if type(x) is Zero else x


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents (or cotangents) of one value, either of which may be `Zero`."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    aval = get_aval(x)
    if aval.is_high:
        return aval.vspace_add(x, y)  # type: ignore[attr-defined]
    return get_primitive("add_any").bind(x, y)
