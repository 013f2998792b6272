"""Arrays from values: `array`, `asarray`, and arrays filled with one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.placing import bound_there, given_sharding, places_now, resharded
from xpr.core.trace import Tracer, get_aval, is_eager, is_valid_value
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.default_device import default_device
from xpr.dispatch.host_values import host_value
from xpr.dispatch.transfer import device_put
from xpr.numpy._concrete import as_array, from_host
from xpr.numpy._promote import as_operand, broadcast_to, check_arraylike, convert
from xpr.numpy._typing import ArrayLike, DType, DTypeLike, Shape
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives._index_dims import canonicalize_shape
from xpr.primitives.convert import convert_element_type_p, convert_type, copy_p
from xpr.primitives.creation import sharding_like, varying_like
from xpr.primitives.joining import concatenate
from xpr.primitives.shape import broadcast_in_dim_p, expand_dims
from xpr.runtimes import exhausted
from xpr.runtimes.host import host_copy

_NUMBERS = frozenset((bool, int, float, complex))


def placed(x: Any, device: Any) -> Any:
    """`x` on `device`, or where it is when that is None."""
    return x if device is None else device_put(x, device)


# ---- array


def array(
    object: Any,
    dtype: DTypeLike = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array with the values of `object`: an array, a number, or nested sequences of these.

    The dtype is the promoted one of all values unless given; a single Python number stays weakly
    typed. NumPy arrays are copied, so that writing to them later changes nothing. `ndmin` adds
    leading axes of size 1. Floats become integers by saturation when an array is converted.

    Raises TypeError for other objects, dtypes and byte orders that xpr has no arrays of,
    ValueError for None and ragged sequences, OverflowError for integers that do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.array([[1, 2], [3, 4.5]])
    Array([[1. , 2. ],
           [3. , 4.5]], dtype=float32)
    """
    return _array("array", object, dtype, copy, order, ndmin, device, out_sharding)


def _array(
    name: str,
    source: Any,
    dtype: Any,
    copy: bool,
    order: Any,
    ndmin: int,
    device: Any,
    sharding: Any,
) -> Array:
    if sharding is not None:
        return resharded(
            name, sharding, lambda: _array(name, source, dtype, copy, order, ndmin, device, None)
        )
    if order not in (None, "K"):
        raise NotImplementedError("Only implemented for order='K'")
    wanted = None if dtype is None else requested_dtype(dtype, name)
    x = _from_object(source, wanted)
    if copy and x is source:
        x = copy_p.bind(x)
    if x.ndim < ndmin:
        x = expand_dims(x, range(ndmin - x.ndim))
    return placed(x, device)


def asarray(
    a: Any,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`a` as an array: itself where it is one already, else as `array`.

    >>> import xpr.numpy as jnp
    >>> jnp.asarray(1.5)
    Array(1.5, dtype=float32, weak_type=True)
    """
    return _array("asarray", a, dtype, bool(copy), order, 0, device, out_sharding)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of the array `a`.

    >>> import xpr.numpy as jnp
    >>> jnp.copy(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def _from_object(x: Any, dtype: DType | None) -> Any:
    """`x` as an array of `dtype`; `x` itself when it is one."""
    if isinstance(x, Array):
        return x if dtype is None else convert_type(x, dtype)
    if type(x) in _NUMBERS:
        if dtype is None:
            return as_array(x)
        return from_host(_host_array(x, dtype))
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(x, dtype)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if x is None:
        raise ValueError("None is not a valid value for jnp.array")
    if hasattr(type(x), "__jax_array__"):
        return _from_object(x.__jax_array__(), dtype)
    if is_valid_value(x):
        return as_array(x)
    if isinstance(x, (str, bytes, dict, set)):
        raise _no_array(x)
    if isinstance(x, range):
        return from_host(_host_array(x, dtype or dtypes.default_dtype("i")))
    host = np.asarray(x)
    if host.dtype.kind in "OSU":
        raise _no_array(x)
    return _from_numpy(host, dtype)


def _no_array(x: Any) -> TypeError:
    return TypeError(
        f"Value {x!r} with dtype {np.asarray(x).dtype} is not a valid JAX array type. Only arrays "
        f"of numeric types are supported by JAX. Its type is {type(x)}."
    )


def _host_array(x: Any, dtype: DType) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.array(x, dtype=dtype)


def _from_numpy(x: Any, dtype: DType | None) -> Array:
    aval, host = host_value(x)  # raises for objects, strings and foreign byte orders
    if dtype is None or dtype == aval.dtype:
        # Aligned, or the first program that reads or overwrites it would copy it once more.
        return from_host(host_copy(host) if host is x else np.asarray(host), aval)
    whole = np.asarray(x)
    with np.errstate(all="ignore"):
        out = convert_element_type_p.reference(whole, new_dtype=dtype, weak_type=False)
    return from_host(np.array(out) if out is whole else np.asarray(out))


# ---- nested sequences


class _Leaves:
    """What the leaves of nested sequences are: their types, and whether arrays are among them."""

    def __init__(self) -> None:
        self.pairs: set[tuple[DType, bool]] = set()
        self.arrays = False
        self.traced = False

    def look(self, items: Iterable[Any]) -> None:
        items = list(items)
        kinds = set(map(type, items))
        if kinds <= _NUMBERS:
            for kind in kinds:
                aval = get_aval(kind())
                self.pairs.add((aval.dtype, aval.weak_type))
            return
        for x in items:
            self._look_at(x)

    def _look_at(self, x: Any) -> None:
        if isinstance(x, (list, tuple)):
            self.look(x)
            return
        if isinstance(x, Array):
            self.arrays = True
            self.traced = self.traced or isinstance(x, Tracer)
        elif hasattr(type(x), "__jax_array__"):
            self.arrays = self.traced = True
            x = x.__jax_array__()
        elif x is None:
            raise ValueError("None is not a valid value for jnp.array")
        elif not is_valid_value(x):
            x = np.asarray(x)
            if x.dtype.kind in "OSU":
                raise _no_array(x)
        aval = get_aval(x)
        self.pairs.add((aval.dtype, aval.weak_type))


def _from_sequence(items: Sequence[Any], dtype: DType | None) -> Array:
    leaves = _Leaves()
    leaves.look(items)
    if dtype is None:
        dtype = (
            dtypes.canonicalize(dtypes.promote_avals(*leaves.pairs)[0])
            if leaves.pairs
            else dtypes.default_dtype("f")
        )
    if leaves.traced or isinstance(dtype, dtypes.ExtendedDType):
        return _stacked(items, dtype)
    values = _host_values(items) if leaves.arrays else items
    return from_host(_host_array(values, dtype))


def _host_values(items: Any) -> Any:
    if isinstance(items, (list, tuple)):
        return [_host_values(x) for x in items]
    return items._value if isinstance(items, ArrayImpl) else items


def _stacked(items: Sequence[Any], dtype: DType) -> Array:
    rows = [convert_type(_from_object(x, dtype), dtype) for x in items]
    shapes = {r.shape for r in rows}
    if len(shapes) > 1:
        raise ValueError(
            "All input arrays must have the same shape, got shapes "
            + ", ".join(map(str, sorted(shapes)))
        )
    return concatenate([expand_dims(r, (0,)) for r in rows], 0)


# ---- one value everywhere


def _sizes(name: str, shape: Any) -> Shape:
    sizes = canonicalize_shape(name, shape)
    if any(d < 0 for d in sizes):
        raise TypeError(
            f"broadcast_in_dim shape must have every element be nonnegative, got {sizes}. ({name})"
        )
    return sizes


def _filled(shape: Shape, value: Any, dtype: Any, sharding: Any = None) -> Array:
    """An array of one host value, recorded as a broadcast when a function is traced."""
    if places_now(sharding):
        return resharded("full", sharding, lambda: _filled(shape, value, dtype))
    if isinstance(dtype, dtypes.ExtendedDType):
        from xpr.primitives._keys import full_of_elements  # noqa: PLC0415  keys are rare

        return full_of_elements(shape, value, dtype)
    if is_eager() and sharding is None:
        # Zeros come from the system untouched, which costs nothing until they are read.
        try:
            host = np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
        except MemoryError as error:
            exhausted.reraise(error, default_device())
            raise
        return from_host(host, ShapedArray(shape, dtype), computed=True)
    scalar = dtype.type(value)
    return bound_there(
        broadcast_in_dim_p, scalar, shape=shape, broadcast_dimensions=(), sharding=sharding
    )


def _is_float0(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype == dtypes.float0


def _no_values(shape: Any) -> Any:
    """What stands for the tangents of integers: an array of NumPy, without values."""
    return np.zeros(shape, dtypes.float0)


def _created_dtype(name: str, shape: Any, dtype: Any) -> Any:
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"{name}: {dtype!r} is not a dtype. Did you accidentally write "
            f"`jax.numpy.{name}({shape}, {dtype})` when you meant "
            f"`jax.numpy.{name}(({shape}, {dtype}))`, with one tuple for the shape?"
        )
    return requested_dtype(float if dtype is None else dtype, name)


def zeros(
    shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of zeros, float32 unless `dtype` is given; of dtype float0, a NumPy array.

    Raises TypeError for sizes that are no nonnegative integers.

    >>> import xpr.numpy as jnp
    >>> jnp.zeros((2,), dtype=int)
    Array([0, 0], dtype=int32)
    """
    if _is_float0(dtype):
        return _no_values(_sizes("zeros", shape))
    given = given_sharding("zeros", out_sharding)
    wanted = _created_dtype("zeros", shape, dtype)
    return placed(_filled(_sizes("zeros", shape), 0, wanted, given), device)


def ones(
    shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of ones, float32 unless `dtype` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.ones((2, 3))
    Array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """
    given = given_sharding("ones", out_sharding)
    wanted = _created_dtype("ones", shape, dtype)
    return placed(_filled(_sizes("ones", shape), 1, wanted, given), device)


def empty(
    shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array whose values mean nothing (they are zeros), float32 unless `dtype` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.empty((2, 3)).shape
    (2, 3)
    """
    given = given_sharding("empty", out_sharding)
    wanted = _created_dtype("empty", shape, dtype)
    return placed(_filled(_sizes("empty", shape), 0, wanted, given), device)


def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of `fill_value`, which is broadcast to `shape`; its dtype unless `dtype` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.full((2, 2), jnp.array([1, 2]))
    Array([[1, 2],
           [1, 2]], dtype=int32)
    """
    given = given_sharding("full", out_sharding)
    if isinstance(dtype, dtypes.ExtendedDType):
        return placed(_filled(_sizes("full", shape), fill_value, dtype, given), device)
    value = as_operand("full", fill_value, 1)
    wanted = None if dtype is None else requested_dtype(dtype, "full")
    return placed(_spread(value, wanted, _sizes("full", shape), sharding=given), device)


def _spread(
    value: Any, dtype: DType | None, shape: Shape, weak: bool = False, sharding: Any = None
) -> Array:
    if dtype is not None:
        value = convert(value, dtype, weak) if weak else _converted(value, dtype)
    if get_aval(value).shape == shape and shape and sharding is None:
        return as_array(value)
    if not get_aval(value).shape and not places_now(sharding):
        return bound_there(
            broadcast_in_dim_p, value, shape=shape, broadcast_dimensions=(), sharding=sharding
        )
    if sharding is not None:
        return resharded("full", sharding, lambda: broadcast_to(value, shape))
    return broadcast_to(value, shape)


def _converted(value: Any, dtype: DType) -> Any:
    if type(value) in (bool, int):
        return _host_array(value, dtype)[()]  # raises OverflowError for what does not fit
    return convert(value, dtype)


# ---- like another array


def _type_of(name: str, a: Any) -> tuple[Shape, DType, bool]:
    """Shape, dtype and weak type of an array, a number or anything with a shape and a dtype."""
    if not is_valid_value(a) and hasattr(a, "shape") and hasattr(a, "dtype"):
        return tuple(a.shape), dtypes.canonicalize(a.dtype), bool(getattr(a, "weak_type", False))
    aval = get_aval(as_operand(name, a))
    return aval.shape, aval.dtype, aval.weak_type


def _place_like(a: Any, shape: Shape, device: Any) -> Any:
    """The device asked for, else where `a` was put, if an array of this shape can follow it."""
    return sharding_like(a, shape) if device is None else device


def _sharding_like(name: str, a: Any, shape: Shape, given: Any) -> Any:
    """The sharding asked for, else that of the type of `a` for an array of the same shape."""
    if given is not None:
        return given_sharding(name, given)
    return a.aval.sharding if isinstance(a, Tracer) and a.aval.shape == shape else None


def _like(
    name: str, a: Any, value: Any, dtype: DTypeLike, shape: Any, device: Any, sharding: Any = None
) -> Array:
    own_shape, own_dtype, own_weak = _type_of(name, a)
    if _is_float0(own_dtype if dtype is None else dtype):
        return _no_values(own_shape if shape is None else _sizes(name, shape))
    wanted = own_dtype if dtype is None else requested_dtype(dtype, name)
    sizes = own_shape if shape is None else _sizes(name, shape)
    device = _place_like(a, sizes, device)
    given = _sharding_like(name, a, sizes, sharding)
    if own_weak and dtype is None:
        scalar = convert_type(value, wanted, True)
        made = _spread(scalar, None, sizes, sharding=given)
    else:
        made = _filled(sizes, value, wanted, given)
    return placed(varying_like(a, made), device)


def zeros_like(
    a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Zeros with the shape and dtype of `a`, unless these are given.

    `a` may be anything that has a shape and a dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.zeros_like(jnp.arange(3))
    Array([0, 0, 0], dtype=int32)
    """
    return _like("zeros_like", a, 0, dtype, shape, device, out_sharding)


def ones_like(
    a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Ones with the shape and dtype of `a`, unless these are given.

    >>> import xpr.numpy as jnp
    >>> jnp.ones_like(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    return _like("ones_like", a, 1, dtype, shape, device, out_sharding)


def empty_like(
    prototype: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """An array like `prototype` whose values mean nothing (they are zeros).

    >>> import xpr.numpy as jnp
    >>> jnp.empty_like(jnp.arange(3)).dtype
    dtype('int32')
    """
    return _like("empty_like", prototype, 0, dtype, shape, device, out_sharding)


def full_like(
    a: Any, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *,
    device: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """An array of `fill_value`, broadcast, with the shape and dtype of `a` unless these are given.

    >>> import xpr.numpy as jnp
    >>> jnp.full_like(jnp.arange(3), 7)
    Array([7, 7, 7], dtype=int32)
    """
    own_shape, own_dtype, own_weak = _type_of("full_like", a)
    wanted = own_dtype if dtype is None else requested_dtype(dtype, "full_like")
    sizes = own_shape if shape is None else _sizes("full_like", shape)
    device = _place_like(a, sizes, device)
    value = as_operand("full_like", fill_value, 1)
    weak = own_weak and dtype is None and not get_aval(value).shape
    given = _sharding_like("full_like", a, sizes, out_sharding)
    if isinstance(wanted, dtypes.ExtendedDType):
        return placed(varying_like(a, _filled(sizes, fill_value, wanted, given)), device)
    return placed(varying_like(a, _spread(value, wanted, sizes, weak, given)), device)
