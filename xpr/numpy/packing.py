"""Several numbers in one: indices of several axes as one, bits as bytes, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._promote import as_operand, convert
from xpr.numpy._select import select_where
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.logic import to_bool
from xpr.numpy.manipulation import broadcast_arrays, moveaxis, ravel
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import canonicalize_axis, canonicalize_shape
from xpr.primitives.convert import convert_type
from xpr.primitives.joining import unstack
from xpr.primitives.reduce import reduce_sum

_BYTE = np.dtype(np.uint8)


# ---- indices


def _floor_divmod(x: Any, size: int) -> tuple[Any, Any]:
    by = get_aval(x).dtype.type(size)
    rest = el.rem(x, by)
    zero = get_aval(x).dtype.type(0)
    below = cmp.lt(rest, zero)
    one = get_aval(x).dtype.type(1)
    quotient = el.div(x, by)
    return select_where(below, el.sub(quotient, one), quotient), select_where(
        below, el.add(rest, by), rest
    )


def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """The indices along each axis of an array of that shape, of elements numbered row by row.

    Negative numbers count from the end; numbers out of range mean the nearest end. The results
    have the dtype of `indices`. Raises TypeError for indices that are no integers.

    >>> import xpr.numpy as jnp
    >>> jnp.unravel_index(jnp.array([1, 5]), (2, 3))
    (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = as_operand("unravel_index", indices)
    aval = get_aval(x)
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"unravel_index requires integer indices, got {aval.dtype}")
    sizes = canonicalize_shape("unravel_index", shape)
    # Small integers may not hold the sizes.
    work = dtypes.joined(aval.dtype, np.dtype(np.int32))
    left = convert_type(x, work, aval.weak_type)
    parts = []
    for size in reversed(sizes):
        if size:
            left, part = _floor_divmod(left, size)
        else:
            part = el.sub(left, left)
        parts.append(part)
    zero = work.type(0)
    above = cmp.gt(left, zero)
    below = cmp.lt(left, work.type(-1)) if dtypes.kind(work) == "i" else cmp.lt(left, zero)
    found = []
    for size, part in zip(sizes, reversed(parts), strict=True):
        part = select_where(above, work.type(max(size - 1, 0)), select_where(below, zero, part))
        found.append(convert_type(part, aval.dtype, aval.weak_type))
    return tuple(found)


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Sequence[int],
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike = None,
) -> Array:
    """The numbers, row by row (or column by column, order "F"), of elements given by indices.

    `multi_index` has integer arrays of indices, one for each axis; `dims` is the shape. Indices
    out of range raise ValueError in mode "raise", which wants concrete ones; mean the nearest end
    in mode "clip"; are taken modulo the size in mode "wrap"; are used as they are in mode "ignore".

    Raises ValueError for indices that are no integers and for other modes and orders. The result
    is int32 (int64 with enable_x64) unless `dtype` is given.

    >>> import xpr.numpy as jnp
    >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([2, 1])), (2, 3))
    Array([2, 4], dtype=int32)
    """
    if hasattr(multi_index, "ndim"):
        parts = list(unstack(as_operand("ravel_multi_index", multi_index)))
    else:
        parts = [as_operand("ravel_multi_index", m, i) for i, m in enumerate(multi_index)]
    sizes = canonicalize_shape("ravel_multi_index", dims)
    if len(parts) != len(sizes):
        raise ValueError(
            f"ravel_multi_index requires an index for each axis, got {len(parts)} for dims {sizes}"
        )
    for part in parts:
        if not dtypes.is_integer(get_aval(part).dtype):
            raise ValueError(f"dtype={get_aval(part).dtype!r} is not an integer type.")
    if mode not in ("raise", "wrap", "clip", "ignore"):
        raise ValueError(f"invalid {mode=}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    if order not in ("C", "F"):
        raise ValueError(f"invalid {order=}. Expected 'C' or 'F'")
    result = (
        dtypes.default_dtype("i") if dtype is None else requested_dtype(dtype, "ravel_multi_index")
    )
    work = dtypes.joined(result, dtypes.default_dtype("i"))
    total: Any = convert(0, work)
    strides = [math.prod(sizes[i + 1 :] if order == "C" else sizes[:i]) for i in range(len(sizes))]
    for part, size, stride in zip(parts, sizes, strides, strict=True):
        part = _in_range(convert(part, work), size, mode)
        moved = el.mul(part, work.type(stride))
        x, y = broadcast_arrays(total, moved)
        total = el.add(x, y)
    return convert_type(total, result)


def _in_range(x: Any, size: int, mode: str) -> Any:
    dtype = get_aval(x).dtype
    if mode == "raise":
        if isinstance(x, Tracer):
            raise x._concretization(
                "The error occurred because ravel_multi_index was jit-compiled with mode='raise'. "
                "Use mode='wrap' or mode='clip' instead."
            )
        host = concrete(x, "")
        if host.size and not (0 <= host.min() and host.max() < size):
            raise ValueError(
                f"invalid entry in coordinates array: indices {host.min()} to {host.max()} along "
                f"an axis of size {size}"
            )
    elif mode == "clip":
        return el.min(el.max(x, dtype.type(0)), dtype.type(max(size - 1, 0)))
    elif mode == "wrap":
        return _floor_divmod(x, size)[1]
    return x


# ---- bits


def _check_bitorder(bitorder: str) -> None:
    if bitorder not in ("little", "big"):
        raise ValueError(f"'order' must be either 'little' or 'big', got {bitorder!r}")


def _last(name: str, x: Any, axis: int | None) -> tuple[Any, int | None]:
    """The operand with `axis` last (flattened where it is None), and where that axis stood."""
    if axis is None:
        return ravel(x), None
    place = canonicalize_axis(axis, get_aval(x).ndim)
    return moveaxis(x, place, -1), place


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Whether the elements along `axis` are not 0, eight to a byte; without axis flattened.

    The first element is the highest bit of its byte, or the lowest with `bitorder="little"`; the
    last byte is filled up with zeros. Raises TypeError unless the dtype is bool or an integer type.

    >>> import xpr.numpy as jnp
    >>> jnp.packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    x = as_operand("packbits", a)
    if dtypes.kind(get_aval(x).dtype) not in "biu":
        raise TypeError(
            f"Expected an input array of integer or boolean data type, got {get_aval(x).dtype}"
        )
    _check_bitorder(bitorder)
    x, place = _last("packbits", x, axis)
    x = convert_type(to_bool(x), _BYTE)
    *lead, size = x.shape
    count = -(-size // 8)
    if size % 8:
        config = [(0, 0, 0)] * len(lead) + [(0, 8 * count - size, 0)]
        x = sh.pad(x, _BYTE.type(0), config)
    x = sh.reshape(x, (*lead, count, 8))
    weights = sh.broadcast_in_dim(_weights(bitorder), get_aval(x).shape, (len(lead) + 1,))
    packed = reduce_sum(bits.shift_left(x, weights), (len(lead) + 1,))
    return packed if place is None else moveaxis(packed, -1, place)


def _weights(bitorder: str) -> Any:
    order = np.arange(8, dtype=_BYTE)
    return order if bitorder == "little" else order[::-1].copy()


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes along `axis`, as the numbers 0 and 1; without axis flattened.

    The highest bit comes first, or the lowest with `bitorder="little"`. `count` cuts the result
    off or fills it up with zeros; a negative one is how many bits to leave out. Raises TypeError
    unless the dtype is uint8.

    >>> import xpr.numpy as jnp
    >>> jnp.unpackbits(jnp.array([5], dtype=jnp.uint8))
    Array([0, 0, 0, 0, 0, 1, 0, 1], dtype=uint8)
    """
    x = as_operand("unpackbits", a)
    if get_aval(x).dtype != _BYTE:
        raise TypeError(
            f"Expected an input array of unsigned byte data type, got {get_aval(x).dtype}"
        )
    _check_bitorder(bitorder)
    x, place = _last("unpackbits", x, axis)
    shape = get_aval(x).shape
    spread = sh.broadcast_in_dim(x, (*shape, 8), range(len(shape)))
    places = sh.broadcast_in_dim(_weights(bitorder), (*shape, 8), (len(shape),))
    found = bits.bitwise_and(bits.shift_right_logical(spread, places), _BYTE.type(1))
    size = 8 * shape[-1]
    found = sh.reshape(found, (*shape[:-1], size))
    if count is not None:
        length = max(size + count, 0) if count < 0 else count
        if length <= size:
            found = sl.slice_in_dim(found, 0, length, axis=len(shape) - 1)
        else:
            config = [(0, 0, 0)] * (len(shape) - 1) + [(0, length - size, 0)]
            found = sh.pad(found, _BYTE.type(0), config)
    return found if place is None else moveaxis(found, -1, place)
