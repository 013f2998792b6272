"""Conversions between dtypes, bit patterns and precisions; copies and barriers."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.memory_spaces import moved_array
from xpr.core.primitive import NotLinear, define
from xpr.core.source_info import user_stacklevel
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.families import require_kind
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    ElementwiseBatch,
    Linear,
    LinearJVP,
    NoTangent,
    Zero,
    is_linear,
    move_axis,
    shape_of,
    zero_tangent,
)
from xpr.tree_util import tree_flatten, tree_unflatten

__all__ = [
    "bitcast_convert_type",
    "convert_element_type",
    "optimization_barrier",
    "reduce_precision",
]

_FAMILY = "convert"
_NdArray = np.ndarray[Any, Any]

# ---- convert_element_type


def _convert_element_type_abstract(
    x: ShapedArray, *, new_dtype: np.dtype[Any], weak_type: bool
) -> ShapedArray:
    if x.dtype != new_dtype and "x" in dtypes.kind(x.dtype) + dtypes.kind(new_dtype):
        _check_extended_conversion(x.dtype, new_dtype)
    return ShapedArray(x.shape, new_dtype, weak_type, x.sharding)


def _check_extended_conversion(old: Any, new: Any) -> None:
    """Raises ValueError unless one of the dtypes, an extended one, says that it has it."""
    for dtype, rule, pair in ((new, "convert_to", (old, new)), (old, "convert_from", (old, new))):
        if isinstance(dtype, dtypes.ExtendedDType):
            allows = getattr(dtype._rules, rule, None)
            if allows is not None and allows(*pair):
                return
    raise ValueError(f"Cannot convert_element_type from {old} to {new}")


def _saturated(x: _NdArray, dtype: np.dtype[Any]) -> _NdArray:
    """Floats truncated to integers; too great or small ones become the nearest, NaN becomes 0."""
    info = dtypes.iinfo(dtype)
    wide = x.astype(np.float64)
    wide = np.where(wide == wide, wide, 0.0)
    if info.bits <= 32:
        return np.minimum(np.maximum(wide, info.min), info.max).astype(dtype)
    # The greatest 64-bit integer is no float64: float() gives the power of two above it.
    above, below = wide >= float(info.max), wide < float(info.min)
    inside = np.where(above | below, 0.0, wide).astype(dtype)
    outside = np.where(above, dtype.type(info.max), dtype.type(info.min))
    return np.where(above | below, outside, inside)


def _convert_element_type_reference(
    x: _NdArray, *, new_dtype: np.dtype[Any], weak_type: bool
) -> _NdArray:
    if x.dtype == new_dtype:
        return x
    old, new = dtypes.kind(x.dtype), dtypes.kind(new_dtype)
    if x.dtype in dtypes.SMALL_INT_TYPES:
        x = x.astype(f"{old}1")  # NumPy does not convert them to one another
    if new == "b":
        wide = x.astype(np.float32) if x.dtype in dtypes.FLOAT8_TYPES else x
        return wide != np.zeros((), wide.dtype)
    if old == "c" and new != "c":
        x, old = x.real, "f"
    if old == "f" and new in "iu":
        return _saturated(x, new_dtype)
    return x.astype(new_dtype)


def _convert_element_type_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    out = convert_element_type_p.bind(x, **params)
    if not dtypes.is_inexact(params["new_dtype"]):
        return out, zero_tangent(out)
    return out, convert_element_type_p.bind(t, **params)


def _convert_element_type_transpose(ct: Any, x: Linear, **_: Any) -> list[Any]:
    # Of a complex cotangent for a real operand this takes the real part, and the other way round
    # it makes the imaginary part zero: both are the transposes of what happens to the operand.
    return [ops.convert(ct, x.aval.dtype, x.aval.weak_type)]


convert_element_type_p = define(
    "convert_element_type",
    family=_FAMILY,
    doc="x as another dtype, value by value.",
    abstract=_convert_element_type_abstract,
    reference=_convert_element_type_reference,
    jvp=_convert_element_type_jvp,
    transpose=_convert_element_type_transpose,
    batch=ElementwiseBatch(),
)


def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """`operand`, of any dtype, converted to `new_dtype` value by value.

    Floats become integers by truncation; values that do not fit become the nearest integer that
    does, and NaN becomes 0. Integers are cut to the bits that fit. To booleans: what is not 0 is
    True. Complex numbers lose their imaginary part, with a ComplexWarning. A conversion that
    changes nothing gives `operand` itself. 64-bit types become 32-bit ones, with a UserWarning,
    unless enable_x64 is set.

    Raises ValueError when `new_dtype` is None and TypeError when it is not a dtype.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.convert_element_type(jnp.array([1.9, -300.0]), jnp.int8)
    Array([   1, -128], dtype=int8)
    """
    if new_dtype is None:
        raise ValueError("dtype must be specified.")
    extended = isinstance(new_dtype, dtypes.ExtendedDType)
    wanted = new_dtype if extended else np.dtype(new_dtype)
    dtype = dtypes.canonicalize(wanted)
    if dtype != wanted and new_dtype not in (int, float, np.complex128, complex):
        warnings.warn(
            f"Explicitly requested dtype {wanted} requested in convert_element_type is not "
            f"available, and will be truncated to dtype {dtype}. To enable more dtypes, set "
            "xpr.config.update('enable_x64', True) or the environment variable XPR_ENABLE_X64.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    return convert_type(operand, dtype)


def wide_index(x: Any) -> Any:
    """`x`, but integers of less than a byte as int32: few places can be counted in them."""
    if type(x) is int or get_aval(x).dtype not in dtypes.SMALL_INT_TYPES:
        return x
    return convert_type(x, np.dtype(np.int32))


def convert_type(
    operand: Any, new_dtype: np.dtype[Any] | None = None, weak_type: bool = False
) -> Array:
    """As `convert_element_type`, for a canonical dtype (None: the present one) and weak type."""
    if type(operand) is int and new_dtype is not None:
        # The integer may fit the new dtype and not the default one.
        value = np.asarray(operand)
        if value.dtype == object and dtypes.kind(new_dtype) in "fc":
            value = np.asarray(float(operand))  # OverflowError beyond float64
        if value.dtype == object:
            raise OverflowError(f"Python int {operand} too large to convert to {new_dtype}")
        operand = _convert_element_type_reference(value, new_dtype=new_dtype, weak_type=False)
    aval = get_aval(operand)
    dtype = aval.dtype if new_dtype is None else new_dtype
    if aval.dtype == dtype and aval.weak_type == weak_type and isinstance(operand, Array):
        return operand
    if dtypes.is_complex(aval.dtype) and not dtypes.is_complex(dtype):
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=user_stacklevel(),
        )
    return convert_element_type_p.bind(operand, new_dtype=dtype, weak_type=bool(weak_type))


# ---- bitcast_convert_type


def _bitcast_abstract(x: ShapedArray, *, new_dtype: np.dtype[Any]) -> ShapedArray:
    old = x.dtype
    if old != new_dtype and any(dtypes.kind(d) in "bc" for d in (old, new_dtype)):
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand "
            f"and destination types match. Got operand dtype={old}, new_dtype={new_dtype}. "
            "Consider using the arr.view() method instead."
        )
    packed = (*dtypes.SMALL_INT_TYPES, *dtypes.SMALL_FLOAT_TYPES[len(dtypes.FLOAT8_TYPES) :])
    if old != new_dtype and (old in packed or new_dtype in packed):
        raise TypeError(f"bitcast_convert_type needs whole bytes, got {old} and {new_dtype}")
    shape = x.shape
    if old.itemsize > new_dtype.itemsize:
        shape = (*shape, old.itemsize // new_dtype.itemsize)
    elif old.itemsize < new_dtype.itemsize:
        last = shape[-1] if shape else 1
        if not shape or last * old.itemsize != new_dtype.itemsize:
            raise ValueError(
                f"Attempting to convert array of shape {shape} from {old} of size "
                f"{8 * old.itemsize} bits to {new_dtype} of size {8 * new_dtype.itemsize}, "
                f"bits but {last} * {8 * old.itemsize} != {8 * new_dtype.itemsize}"
            )
        shape = shape[:-1]
    return ShapedArray(shape, new_dtype)


def _bitcast_reference(x: _NdArray, *, new_dtype: np.dtype[Any]) -> _NdArray:
    shape = x.shape
    if x.dtype.itemsize > new_dtype.itemsize:
        shape = (*shape, x.dtype.itemsize // new_dtype.itemsize)
    elif x.dtype.itemsize < new_dtype.itemsize:
        shape = shape[:-1]
    if math.prod(shape) == 0:
        return np.zeros(shape, new_dtype)
    return np.ascontiguousarray(x).reshape(-1).view(new_dtype).reshape(shape)


def _bitcast_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, new_dtype: np.dtype[Any]
) -> tuple[Any, Dim]:
    (x,), (dim,) = args, dims
    if dim is not None and 0 < dim == len(shape_of(x)) - 1:
        # The last axis holds the parts of the new elements, or the parts come after it.
        x, dim = move_axis(x, dim, 0), 0
    return bitcast_convert_type_p.bind(x, new_dtype=new_dtype), dim


bitcast_convert_type_p = define(
    "bitcast_convert_type",
    family=_FAMILY,
    doc="The bits of x read as another dtype.",
    abstract=_bitcast_abstract,
    reference=_bitcast_reference,
    jvp=NoTangent(),
    transpose=NotLinear("bits are not numbers"),
    batch=_bitcast_batch,
)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """The bits of `operand` read as `new_dtype`.

    With a type n times narrower the result gets a new last axis of size n, least significant part
    first; with one n times wider the last axis, of size n, disappears. Booleans and complex
    numbers are only taken to themselves. Raises TypeError for other dtypes and ValueError for
    another size of the last axis.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.bitcast_convert_type(jnp.float32(1.0), jnp.uint16)
    Array([    0, 16256], dtype=uint16)
    """
    return bitcast_convert_type_p.bind(operand, new_dtype=dtypes.canonicalize(new_dtype))


# ---- reduce_precision


def _reduce_precision_abstract(
    x: ShapedArray, *, exponent_bits: int, mantissa_bits: int
) -> ShapedArray:
    require_kind("reduce_precision", x, "f")
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(
            f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}"
        )
    return x


def _reduce_precision_reference(x: _NdArray, *, exponent_bits: int, mantissa_bits: int) -> _NdArray:
    info = dtypes.finfo(x.dtype)
    wide = x.astype(np.float64)
    finite = np.isfinite(wide)
    if mantissa_bits < info.nmant:
        # In units of the last place that is kept, rint rounds to even. Denormals have the last
        # place of the least normal numbers.
        unit = np.maximum(np.frexp(wide)[1] - 1, info.minexp) - mantissa_bits
        scaled = np.ldexp(wide, -unit)
        rounded = np.rint(scaled)
        if mantissa_bits == 0:
            # The bits left are the exponent's: halves go to the even one.
            half = np.abs(scaled - np.trunc(scaled)) == 0.5
            down = half & ((unit + info.minexp) % 2 != 0)
            rounded = np.where(down, np.trunc(scaled), rounded)
        wide = np.where(finite, np.ldexp(rounded, unit), wide)
    if exponent_bits < info.bits - info.nmant - 1:
        exponent, bias = np.frexp(wide)[1] - 1, 2 ** (exponent_bits - 1) - 1
        wide = np.where(finite & (exponent > bias), np.copysign(np.inf, wide), wide)
        wide = np.where(finite & (exponent <= -bias), np.copysign(0.0, wide), wide)
    return wide.astype(x.dtype)


reduce_precision_p = define(
    "reduce_precision",
    family=_FAMILY,
    doc="x rounded to fewer exponent and mantissa bits.",
    abstract=_reduce_precision_abstract,
    reference=_reduce_precision_reference,
    # Rounding counts as the identity, and tangents are rounded likewise.
    jvp=LinearJVP(),
    transpose=lambda ct, x, **params: [reduce_precision_p.bind(ct, **params)],
    batch=ElementwiseBatch(),
)


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """A floating array rounded as if stored with that many exponent and mantissa bits.

    Rounds to nearest, halves to even. What is too great becomes an infinity; what is below the
    normal numbers of a type with fewer exponent bits becomes 0. Raises ValueError for
    `exponent_bits < 1` or `mantissa_bits < 0`.

    >>> from xpr import lax
    >>> lax.reduce_precision(1.2001, 5, 3)
    Array(1.25, dtype=float32, weak_type=True)
    """
    return reduce_precision_p.bind(
        operand,
        exponent_bits=operator.index(exponent_bits),
        mantissa_bits=operator.index(mantissa_bits),
    )


# ---- copies and barriers


def _copy_abstract(x: ShapedArray) -> ShapedArray:
    return x


def _copy_reference(x: _NdArray) -> _NdArray:
    return x.copy()


def _device_put_abstract(x: ShapedArray, *, memory_space: str) -> ShapedArray:
    return x.update(memory_space=memory_space)


def _device_put_reference(x: Any, *, memory_space: str) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else moved_array(x, memory_space)


def _device_put_transpose(ct: Any, x: Any, *, memory_space: str) -> list[Any]:
    del memory_space
    return [device_put_p.bind(ct, memory_space=x.aval.memory_space)]


def _optimization_barrier_abstract(*avals: ShapedArray) -> Sequence[ShapedArray]:
    return list(avals)


def _optimization_barrier_reference(*arrays: _NdArray) -> Sequence[_NdArray]:
    return list(arrays)


def _through_barrier(tangents: Sequence[Any]) -> list[Any]:
    """Tangents or cotangents behind a barrier of their own; zeros need none."""
    kept = iter(optimization_barrier_p.bind(*(t for t in tangents if type(t) is not Zero)))
    return [t if type(t) is Zero else next(kept) for t in tangents]


def _optimization_barrier_jvp(
    primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    return optimization_barrier_p.bind(*primals), _through_barrier(tangents)


def _optimization_barrier_transpose(cts: Sequence[Any], *args: Any) -> list[Any]:
    found = _through_barrier(cts)
    return [ct if is_linear(x) else None for ct, x in zip(found, args, strict=True)]


def _optimization_barrier_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim]
) -> tuple[Sequence[Any], Sequence[Dim]]:
    return optimization_barrier_p.bind(*args), dims


copy_p = define(
    "copy",
    family=_FAMILY,
    doc="A copy of x.",
    abstract=_copy_abstract,
    reference=_copy_reference,
    jvp=LinearJVP(),
    transpose=lambda ct, x: [copy_p.bind(ct)],
    batch=ElementwiseBatch(),
)
device_put_p = define(
    "device_put",
    family=_FAMILY,
    doc="x in the memory of the device, or in that of the host.",
    abstract=_device_put_abstract,
    reference=_device_put_reference,
    jvp=LinearJVP(),
    transpose=_device_put_transpose,
    batch=ElementwiseBatch(),
    eager="inline",
)
optimization_barrier_p = define(
    "optimization_barrier",
    family=_FAMILY,
    doc="Its operands, computed before anything that uses one of the results.",
    abstract=_optimization_barrier_abstract,
    reference=_optimization_barrier_reference,
    jvp=_optimization_barrier_jvp,
    transpose=_optimization_barrier_transpose,
    batch=_optimization_barrier_batch,
    multiple_results=True,
)


def optimization_barrier(operand: Any, /) -> Any:
    """A pytree of arrays, kept as it is across which the compiler moves and merges no work.

    All of `operand` is computed before anything that uses a part of the result.

    >>> from xpr import lax
    >>> lax.optimization_barrier({"a": 1.0})
    {'a': Array(1., dtype=float32, weak_type=True)}
    """
    leaves, tree = tree_flatten(operand)
    return tree_unflatten(tree, optimization_barrier_p.bind(*leaves))
