"""Shapes and axes: reshape, transpose, broadcast, flip, rotate, roll.

Operands are arrays or numbers of any dtype, which the result keeps. Lists and None raise TypeError,
axes out of range ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.placing import given_sharding, places_now, resharded
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand
from xpr.numpy._promote import broadcast_to as broadcast_to_shape
from xpr.numpy._typing import Array, ArrayLike, Axis, Shape
from xpr.primitives import elementwise as el
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import canonicalize_axes, canonicalize_axis, canonicalize_shape
from xpr.primitives.convert import convert_type, copy_p
from xpr.primitives.joining import concatenate

# ---- shape


def reshape(
    a: ArrayLike,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """The elements of `a` in another shape, in which one size may be -1: the rest decides it.

    `order="F"` reads and writes with the first axis changing fastest. Arrays never change, so
    `copy` only matters for donation. Raises TypeError for a shape of another size, and for sizes
    that are traced or no integers; ValueError for another `order`.

    >>> import xpr.numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    x = as_operand("reshape", a)
    aval = get_aval(x)
    sizes = _full_shape(aval.shape, canonicalize_shape("reshape", shape))
    if order == "C":
        found = as_array(sh.reshape(x, sizes, out_sharding=out_sharding))
    elif order == "F":
        backwards = range(aval.ndim - 1, -1, -1)
        forwards = range(len(sizes) - 1, -1, -1)

        def turned(place: Any) -> Array:
            return as_array(
                sh.transpose(sh.reshape(x, sizes[::-1], backwards, out_sharding=place), forwards)
            )

        if places_now(out_sharding):
            found = resharded("reshape", out_sharding, lambda: turned(None))
        else:
            given = given_sharding("reshape", out_sharding)
            found = turned(None if given is None else _turned_around(given, len(sizes)))
    elif order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    else:
        raise ValueError(f"Unexpected value for 'order' argument: {order}.")
    return copy_p.bind(found) if copy else found


def _turned_around(sharding: Any, ndim: int) -> Any:
    """The sharding of an array whose transpose is sharded as given."""
    entries = sharding.normalized_spec(ndim)[::-1]
    return sharding.with_spec(sharding.spec.update(partitions=entries))


def _full_shape(old: Shape, new: Shape) -> Shape:
    """`new` with its -1 replaced; TypeError unless it has as many elements as `old`."""
    size = math.prod(old)
    unknown = new.count(-1)
    if unknown > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {new}")
    known = math.prod(d for d in new if d != -1)
    text = f"cannot reshape array of shape {old} (size {size}) into shape {new}"
    if unknown:
        if known <= 0 or size % known:
            raise TypeError(
                f"{text} because the product of specified axis sizes ({known}) "
                f"does not evenly divide {size}"
            )
        return tuple(size // known if d == -1 else d for d in new)
    if known != size or min(new, default=0) < 0:
        raise TypeError(f"{text} (size {known})")
    return new


def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The elements of `a` in one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F")
    Array([1, 3, 2, 4], dtype=int32)
    """
    x = as_operand("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return reshape(x, (get_aval(x).size,), order, out_sharding=out_sharding)


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """`a` with axes of size 1 inserted, so that they stand at `axis` of the result.

    Raises ValueError for an axis named twice.

    >>> import xpr.numpy as jnp
    >>> jnp.expand_dims(jnp.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    x = as_operand("expand_dims", a)
    axes = axis if isinstance(axis, Sequence) else (axis,)
    return as_array(sh.expand_dims(x, axes))


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """`a` without the axes of size 1, or without the given ones.

    Raises ValueError when a given axis has another size.

    >>> import xpr.numpy as jnp
    >>> jnp.squeeze(jnp.ones((1, 3, 1))).shape
    (3,)
    """
    x = as_operand("squeeze", a)
    if axis is None:
        shape = get_aval(x).shape
        axis = tuple(i for i, n in enumerate(shape) if n == 1)
    return as_array(sh.squeeze(x, axis))


def atleast_1d(*arys: ArrayLike) -> Any:
    """The operands with at least one axis; a list unless there is exactly one operand.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_1d(5)
    Array([5], dtype=int32, weak_type=True)
    """
    return _each("atleast_1d", arys, lambda x, ndim: sh.reshape(x, (1,)) if ndim == 0 else x)


def atleast_2d(*arys: ArrayLike) -> Any:
    """The operands with at least two axes, new ones in front.

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_2d(jnp.ones(3)).shape
    (1, 3)
    """
    return _each("atleast_2d", arys, lambda x, ndim: sh.expand_dims(x, range(2 - ndim)))


def atleast_3d(*arys: ArrayLike) -> Any:
    """The operands with at least three axes: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1).

    >>> import xpr.numpy as jnp
    >>> jnp.atleast_3d(jnp.ones(3)).shape
    (1, 3, 1)
    """
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _each("atleast_3d", arys, lambda x, ndim: sh.expand_dims(x, new.get(ndim, ())))


def _each(name: str, arys: Sequence[Any], change: Any) -> Any:
    found = []
    for i, a in enumerate(arys):
        x = as_operand(name, a, i)
        found.append(as_array(change(x, get_aval(x).ndim)))
    return found[0] if len(found) == 1 else found


# ---- broadcasting


def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: Any = None) -> Array:
    """`array` spread over `shape` by NumPy's rules: new axes in front, axes of size 1 repeated.

    Raises ValueError when the shapes do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if out_sharding is not None:
        return resharded("broadcast_to", out_sharding, lambda: broadcast_to(array, shape))
    x = as_operand("broadcast_to", array)
    sizes = canonicalize_shape("broadcast_to", shape)
    have = get_aval(x).shape
    if len(sizes) < len(have):
        raise ValueError(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={have} shape={sizes}"
        )
    return as_array(broadcast_to_shape(x, sizes))


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The operands, each broadcast to the shape they have in common.

    >>> import xpr.numpy as jnp
    >>> jnp.broadcast_arrays(jnp.array([1, 2]), 3)
    [Array([1, 2], dtype=int32), Array([3, 3], dtype=int32, weak_type=True)]
    """
    xs = [as_operand("broadcast_arrays", a, i) for i, a in enumerate(args)]
    shape = sh.broadcast_shapes(*(get_aval(x).shape for x in xs))
    return [as_array(broadcast_to_shape(x, shape)) for x in xs]


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that arrays of `shapes` (sequences or integers) broadcast to.

    >>> broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    return sh.broadcast_shapes(*(canonicalize_shape("broadcast_shapes", s) for s in shapes))


# ---- order of the axes


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """`a` with its axes reversed, or in the order `axes`.

    Raises TypeError when `axes` is no permutation.

    >>> import xpr.numpy as jnp
    >>> jnp.transpose(jnp.ones((2, 3, 4)), (0, 2, 1)).shape
    (2, 4, 3)
    """
    x = as_operand("transpose", a)
    ndim = get_aval(x).ndim
    if axes is None:
        return as_array(sh.transpose(x, range(ndim - 1, -1, -1)))
    return as_array(sh.transpose(x, [canonicalize_axis(i, ndim) for i in axes]))


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """`a` with its axes in the order `axes`; the array API's name for `transpose`.

    >>> import xpr.numpy as jnp
    >>> jnp.permute_dims(jnp.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    return transpose(as_operand("permute_dims", a), axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """`x` with its last two axes swapped; ValueError when it has fewer than two.

    >>> import xpr.numpy as jnp
    >>> jnp.matrix_transpose(jnp.ones((2, 3, 4))).shape
    (2, 4, 3)
    """
    x = as_operand("matrix_transpose", x)
    ndim = get_aval(x).ndim
    if ndim < 2:
        raise ValueError(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={ndim}"
        )
    return as_array(sh.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2)))


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """`a` with the axes `source` moved to `destination`; the others keep their order.

    >>> import xpr.numpy as jnp
    >>> jnp.moveaxis(jnp.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_operand("moveaxis", a)
    ndim = get_aval(x).ndim
    old, new = canonicalize_axes(source, ndim), canonicalize_axes(destination, ndim)
    if len(old) != len(new):
        raise ValueError(f"Inconsistent number of elements: {len(old)} vs {len(new)}")
    order = [i for i in range(ndim) if i not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return as_array(sh.transpose(x, order))


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """`a` with two axes swapped.

    >>> import xpr.numpy as jnp
    >>> jnp.swapaxes(jnp.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_operand("swapaxes", a)
    ndim = get_aval(x).ndim
    order = list(range(ndim))
    i, j = canonicalize_axis(axis1, ndim), canonicalize_axis(axis2, ndim)
    order[i], order[j] = order[j], order[i]
    return as_array(sh.transpose(x, order))


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """`a` with `axis` moved back until it stands before the axis that was at `start`.

    Use `moveaxis` in new code. Raises ValueError unless -ndim <= start <= ndim.

    >>> import xpr.numpy as jnp
    >>> jnp.rollaxis(jnp.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_operand("rollaxis", a)
    ndim = get_aval(x).ndim
    old = canonicalize_axis(axis, ndim)
    if not -ndim <= start <= ndim:
        raise ValueError(f"{start=} must satisfy {-ndim}<=start<={ndim}")
    new = start + ndim if start < 0 else start
    return moveaxis(x, old, new - 1 if old < new else new)


# ---- order of the elements


def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """`m` with the order of the elements reversed along `axis`: all axes, or the given ones.

    >>> import xpr.numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    return _flip("flip", m, axis)


def fliplr(m: ArrayLike) -> Array:
    """`m` reversed along its second axis.

    >>> import xpr.numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 1],
           [4, 3]], dtype=int32)
    """
    return _flip("fliplr", m, 1)


def flipud(m: ArrayLike) -> Array:
    """`m` reversed along its first axis.

    >>> import xpr.numpy as jnp
    >>> jnp.flipud(jnp.array([[1, 2], [3, 4]]))
    Array([[3, 4],
           [1, 2]], dtype=int32)
    """
    return _flip("flipud", m, 0)


def _flip(name: str, m: Any, axis: Axis) -> Array:
    x = as_operand(name, m)
    ndim = get_aval(x).ndim
    axes = tuple(range(ndim)) if axis is None else canonicalize_axes(axis, ndim)
    return as_array(sh.rev(x, axes) if axes else x)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """`m` turned by `k` right angles in the plane of two axes, from the first towards the second.

    Raises ValueError for fewer than two axes, and for a plane of one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x = as_operand("rot90", m)
    shape = get_aval(x).shape
    if len(shape) < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {shape}, which has ndim {len(shape)}"
        )
    if len(axes) != 2:
        raise ValueError(f"rot90 requires two axes, got {axes}")
    first, second = (canonicalize_axis(i, len(shape)) for i in axes)
    if first == second:
        raise ValueError("Axes must be different")
    match int(k) % 4:
        case 0:
            return as_array(x)
        case 1:
            return swapaxes(_flip("rot90", x, second), first, second)
        case 2:
            return _flip("rot90", x, (first, second))
        case _:
            return _flip("rot90", swapaxes(x, first, second), second)


def roll(
    a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:
    """`a` with its elements moved on by `shift` places along `axis`, the last ones coming first.

    Without `axis` the elements are moved in row-major order. `shift` and `axis` may be sequences,
    which are broadcast against each other; `shift` may be traced. Raises ValueError when they do
    not fit, or have more than one axis.

    >>> import xpr.numpy as jnp
    >>> jnp.roll(jnp.arange(5), 2)
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    x = as_operand("roll", a)
    shape = get_aval(x).shape
    if isinstance(shift, (list, tuple)):
        traced = any(isinstance(s, Tracer) for s in shift)
        shift = concatenate([_as_row(s) for s in shift], 0) if traced else np.asarray(shift)
    by = as_operand("roll", shift, 1)
    if axis is None:
        row = sh.reshape(x, (math.prod(shape),))
        return as_array(sh.reshape(_roll(row, by, (0,)), shape))
    return as_array(_roll(x, by, canonicalize_axes(axis, len(shape))))


def _as_row(s: Any) -> Any:
    return sh.reshape(convert_type(s, dtypes.default_dtype("i")), (1,))


def _roll(x: Any, shift: Any, axes: Shape) -> Any:
    given = get_aval(shift).shape
    if len(given) > 1:
        raise ValueError("'shift' and 'axis' arguments to roll must be scalars or 1D arrays")
    count = sh.broadcast_shapes(given, (len(axes),))[0]
    axes = axes * count if len(axes) == 1 else axes
    if not isinstance(shift, Tracer):
        amounts = np.broadcast_to(np.asarray(shift), (count,)).astype(np.int64).tolist()
        for axis, amount in zip(axes, amounts, strict=True):
            x = _roll_static(x, amount, axis)
        return x
    if not dtypes.is_integer(get_aval(shift).dtype):
        shift = convert_type(shift, dtypes.default_dtype("i"))
    spread = broadcast_to_shape(shift, (count,))
    for i, axis in enumerate(axes):
        x = _roll_traced(x, sl.index_in_dim(spread, i, keepdims=False), axis)
    return x


def _roll_static(x: Any, shift: int, axis: int) -> Any:
    size = get_aval(x).shape[axis]
    start = -shift % size if size else 0
    if not start:
        return x
    parts = [sl.slice_in_dim(x, start, size, axis=axis), sl.slice_in_dim(x, 0, start, axis=axis)]
    return concatenate(parts, axis)


def _roll_traced(x: Any, shift: Any, axis: int) -> Any:
    size = get_aval(x).shape[axis]
    if not size:
        return x
    dtype = dtypes.default_dtype("i")
    shift = convert_type(shift, dtype)
    # The remainder has the sign of the shift; in the doubled array every start is in place.
    start = el.sub(dtype.type(size), el.rem(shift, dtype.type(size)))
    start = el.rem(start, dtype.type(size))
    return sl.dynamic_slice_in_dim(
        concatenate([x, x], axis), start, size, axis, allow_negative_indices=False
    )
