"""Arrays from nothing: counting along an axis, one value everywhere, no particular value."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.manual import in_order
from xpr.core.placing import bound_there, given_sharding, places_now, resharded
from xpr.core.primitive import DerivedRule, NotLinear, Primitive, Rule, define, get_primitive
from xpr.core.trace import Tracer, check_python_int, get_aval
from xpr.primitives._index_dims import Shape, canonicalize_shape, is_array
from xpr.primitives.convert import convert_type
from xpr.primitives.rules import BatchAxis, NoTangent
from xpr.primitives.shape import broadcast

__all__ = ["broadcasted_iota", "empty", "full", "full_like", "iota", "varying_like"]

_FAMILY = "creation"
Host = np.ndarray[Any, Any]
_PYTHON_TYPE: dict[str, Any] = {"i": int, "u": int, "f": float, "c": complex}


class _SameForAll(DerivedRule):
    """Batching without operands: all examples share one result."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def batch(axis: BatchAxis, args: Any, dims: Any, **params: Any) -> tuple[Any, None]:
            del axis, args, dims
            return primitive.bind(**params), None

        return batch


# ---- iota


def _iota_abstract(
    *, dtype: np.dtype[Any], shape: Shape, dimension: int, sharding: Any
) -> ShapedArray:
    if dtypes.kind(dtype) not in "iufc":
        raise TypeError(
            f"iota does not accept dtype {dtype}. "
            "Accepted dtypes are subtypes of integer, floating, complexfloating."
        )
    if any(d < 0 for d in shape):
        raise TypeError(f"iota shape must have every element be nonnegative, got {shape}.")
    if not 0 <= dimension < len(shape):
        raise ValueError(
            f"iota dimension must be between 0 and len(shape), got {dimension=} for {shape=}"
        )
    return ShapedArray(shape, dtype)


def _iota_reference(*, dtype: np.dtype[Any], shape: Shape, dimension: int, sharding: Any) -> Host:
    count = np.arange(shape[dimension]).astype(dtype)
    if len(shape) == 1:
        return count
    column = count.reshape((-1, *(1,) * (len(shape) - dimension - 1)))
    return np.array(np.broadcast_to(column, shape))


iota_p = define(
    "iota",
    family=_FAMILY,
    doc="0, 1, 2, ... along one axis.",
    abstract=_iota_abstract,
    reference=_iota_reference,
    jvp=NoTangent(),
    transpose=NotLinear("it has no operands"),
    batch=_SameForAll(),
)


def iota(dtype: Any, size: int) -> Array:
    """The numbers 0, 1, ..., size-1 in the given dtype (integer, floating or complex).

    Values that the dtype cannot hold wrap (integers) or are rounded (floats).

    >>> iota(np.int32, 3)
    Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Array:
    """An array of that shape whose elements are their own index along axis `dimension`.

    >>> broadcasted_iota(np.int32, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    if places_now(out_sharding):
        return resharded(
            "broadcasted_iota", out_sharding, lambda: broadcasted_iota(dtype, shape, dimension)
        )
    return bound_there(
        iota_p,
        dtype=dtypes.canonicalize(dtype),
        shape=canonicalize_shape("iota", shape),
        dimension=int(dimension),
        sharding=given_sharding("broadcasted_iota", out_sharding),
    )


# ---- empty


def _empty_abstract(*, dtype: np.dtype[Any], shape: Shape, out_sharding: Any) -> ShapedArray:
    if any(d < 0 for d in shape):
        raise TypeError(f"empty shape must have every element be nonnegative, got {shape}.")
    return ShapedArray(shape, dtype)


def _empty_reference(*, dtype: np.dtype[Any], shape: Shape, out_sharding: Any) -> Host:
    # Zeros rather than whatever memory holds: every program has one answer on every device.
    return np.zeros(shape, dtype)


empty_p = define(
    "empty",
    family=_FAMILY,
    doc="An array whose values nobody should read (they are zeros).",
    abstract=_empty_abstract,
    reference=_empty_reference,
    jvp=NoTangent(),
    transpose=NotLinear("it has no operands"),
    batch=_SameForAll(),
)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Array:
    """An array to be overwritten: its values mean nothing (here they are zeros).

    >>> from xpr import lax
    >>> lax.empty((2, 3), "float32").shape
    (2, 3)
    """
    if places_now(out_sharding):
        return resharded("empty", out_sharding, lambda: empty(shape, dtype))
    given = given_sharding("empty", out_sharding)
    sizes = canonicalize_shape("empty", shape)
    return bound_there(empty_p, shape=sizes, dtype=dtypes.canonicalize(dtype), out_sharding=given)


# ---- full


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Array:
    """An array of that shape filled with the scalar `fill_value`.

    The dtype is that of `fill_value` (weak for a Python number) unless given. Raises TypeError
    when `fill_value` is not a scalar.

    >>> full((2,), 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    sizes = canonicalize_shape("full", shape)
    aval = get_aval(fill_value)
    if aval.shape:
        raise TypeError(
            f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}."
        )
    weak = dtype is None and aval.weak_type
    target = aval.dtype if dtype is None else dtypes.canonicalize(dtype)
    return _constrained(broadcast(_as_scalar(fill_value, aval, target, weak), sizes), sharding)


def _constrained(x: Any, sharding: Any) -> Any:
    """`x` where a sharding says; its type stays as it is."""
    if sharding is None:
        return x
    if not hasattr(sharding, "mesh"):
        raise NotImplementedError(f"full takes shardings of a mesh, got {sharding}")
    return get_primitive("sharding_constraint").bind(
        x, sharding=sharding, unconstrained_dims=frozenset()
    )


def _as_scalar(value: Any, aval: ShapedArray, dtype: np.dtype[Any], weak: bool) -> Any:
    """`value` in `dtype`; a number stays a number, so that it becomes a literal in a jaxpr."""
    if aval.dtype == dtype and aval.weak_type == weak:
        return value
    if weak and not is_array(value):
        return _PYTHON_TYPE[dtypes.kind(dtype)](value)
    if is_array(value) or (dtypes.is_inexact(aval.dtype) and not dtypes.is_inexact(dtype)):
        return convert_type(value, dtype, weak)
    if dtypes.is_integer(dtype):
        check_python_int(value, dtype)
    return np.asarray(value).astype(dtype)[()]


def sharding_like(x: Any, shape: tuple[int, ...]) -> Any:
    """The sharding of an array or a type that has one, for arrays made like it; None for others.

    Only committed arrays have a place that others follow, and one that is cut over devices only for
    arrays of the same shape. The sharding of a traced array is part of its type.
    """
    if isinstance(x, Tracer) or not getattr(x, "committed", True):
        return None
    found = getattr(x, "sharding", None)
    if found is None or not hasattr(found, "is_fully_replicated"):
        return None
    return found if shape == tuple(x.shape) or found.is_fully_replicated else None


def varying_like(a: Any, made: Any) -> Any:
    """`made`, which varies as `a` does along the manual axes of a `shard_map`."""
    if not isinstance(a, Tracer) or not a.aval.vma:
        return made
    missing = in_order(a.aval.vma - get_aval(made).vma)
    return get_primitive("pvary").bind(made, axes=missing) if missing else made


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Array:
    """An array filled with `fill_value`, of the shape and dtype of `x` unless these are given.

    `x` may be anything that has a shape and a dtype. Without a `sharding` the result lies where a
    committed array `x` lies; one that is cut over devices is followed for the same shape only.

    >>> import xpr.numpy as jnp
    >>> full_like(jnp.ones((1, 2)), 3)
    Array([[3., 3.]], dtype=float32)
    """
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        own_shape, own_dtype = tuple(x.shape), dtypes.canonicalize(x.dtype)
        own_weak = bool(getattr(x, "weak_type", False))
        own_sharding = x.aval.sharding if isinstance(x, Tracer) else None
    else:
        aval = get_aval(x)
        own_shape, own_dtype, own_weak = aval.shape, aval.dtype, aval.weak_type
        own_sharding = None
    target = own_dtype if dtype is None else dtypes.canonicalize(dtype)
    weak = own_weak and dtype is None
    sizes = own_shape if shape is None else canonicalize_shape("full_like", shape)
    aval = get_aval(fill_value)
    if aval.shape:
        raise TypeError(
            "full must be called with scalar fill_value, got fill_value.shape "
            f"{aval.shape}. (full_like)"
        )
    like = own_sharding if sizes == own_shape else None
    out = broadcast(_as_scalar(fill_value, aval, target, weak), sizes, out_sharding=like)
    out = varying_like(x, out)
    place = sharding_like(x, sizes) if sharding is None else None
    if place is not None and not isinstance(out, Tracer):
        return out.to_device(place)
    return _constrained(out, sharding)
