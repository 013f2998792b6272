"""Differences, gradients and integrals of sampled values, interpolation, and unwrapped angles."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    check_arraylike,
    convert,
    promote_dtypes,
    promote_dtypes_inexact,
    scalar_type,
    to_inexact,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.cumulative import cumsum
from xpr.numpy.logic import not_equal
from xpr.numpy.manipulation import moveaxis, ravel
from xpr.numpy.reductions import reduced_axes, sum
from xpr.numpy.searching import searchsorted
from xpr.numpy.sorting import argsort
from xpr.numpy.ufuncs import remainder, subtract
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.gather import index_take
from xpr.primitives.joining import concatenate
from xpr.primitives.shape import reshape
from xpr.primitives.slicing import slice_in_dim

# ---- differences


def _ends(x: Any, end: Any, axis: int) -> Any:
    """What goes before or after `x` along `axis`: scalars become one layer."""
    value = as_array(end)
    if not value.ndim:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return broadcast_to(value, shape)
    return value


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along `axis`, taken `n` times; of booleans whether they differ.

    `prepend` and `append` are put before and after `a` first. Raises ValueError for an array
    without axes and a negative `n`.

    >>> import xpr.numpy as jnp
    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    x = as_array(as_operand("diff", a))
    order = operator.index(n)
    if order == 0:
        return x
    if order < 0:
        raise ValueError(f"order must be non-negative but got {order}")
    if not x.ndim:
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    place = canonicalize_axis(axis, x.ndim)
    parts = [x]
    if prepend is not None:
        parts.insert(0, _ends(x, as_operand("diff", prepend, 3), place))
    if append is not None:
        parts.append(_ends(x, as_operand("diff", append, 4), place))
    if len(parts) > 1:
        x = concatenate(promote_dtypes(*parts), place)
    change = not_equal if x.dtype == dtypes.BOOL else subtract
    for _ in range(order):
        size = x.shape[place]
        if not size:
            return x
        x = change(slice_in_dim(x, 1, size, axis=place), slice_in_dim(x, 0, size - 1, axis=place))
    return x


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of neighbours in the flattened array, between `to_begin` and `to_end`.

    >>> import xpr.numpy as jnp
    >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_end=99)
    Array([ 3,  5, 99], dtype=int32)
    """
    found = diff(ravel(as_operand("ediff1d", ary)))
    parts = [found]
    if to_begin is not None:
        parts.insert(0, ravel(convert(as_operand("ediff1d", to_begin, 2), found.dtype)))
    if to_end is not None:
        parts.append(ravel(convert(as_operand("ediff1d", to_end, 1), found.dtype)))
    return concatenate(parts, 0)


# ---- gradients and integrals


def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Any:
    """The derivative of samples along each axis, a list, or along one axis, an array.

    Central differences of second order inside, one-sided ones of first order at the edges.
    `varargs` is one distance for all axes, or one for each: a number, or the vector of places.
    Raises ValueError for fewer than two samples and another number of distances,
    NotImplementedError for `edge_order`.

    >>> import xpr.numpy as jnp
    >>> jnp.gradient(jnp.array([1.0, 2.0, 4.0]))
    Array([1. , 1.5, 2. ], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    check_arraylike("gradient", f, *varargs)
    x, *steps = promote_dtypes_inexact(f, *varargs)
    x = as_array(x)
    axes = reduced_axes(axis, x.ndim)
    if len(steps) == 0:
        steps = [scalar_type(x)(1)] * len(axes)
    elif len(steps) == 1:
        steps = steps * len(axes)
    elif len(steps) != len(axes):
        raise ValueError(
            f"Invalid number of spacing arguments {len(steps)} for {axis=}: "
            f"expected 1 or {len(axes)}"
        )
    if any(x.shape[i] < 2 for i in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least 2 elements are required."
        )
    found = [_gradient_along(x, h, i) for h, i in zip(steps, axes, strict=True)]
    return found[0] if len(found) == 1 else found


def _gradient_along(x: Any, h: Any, axis: int) -> Array:
    size = x.shape[axis]

    def part(start: int, stop: int) -> Any:
        return slice_in_dim(x, start, stop, axis=axis)

    first, last = el.sub_p.bind(part(1, 2), part(0, 1)), el.sub_p.bind(part(-1, size), part(-2, -1))
    if get_aval(h).ndim == 0:
        inner = el.mul_p.bind(el.sub_p.bind(part(2, size), part(0, size - 2)), scalar_type(x)(0.5))
        return el.div_p.bind(concatenate([first, inner, last], axis), h)
    if get_aval(h).shape != (size,):
        raise ValueError(
            "Spacing arrays must be 1D arrays or scalars, as long as their axis. Got shape "
            f"{get_aval(h).shape} for axis {axis} of size {size}"
        )
    gaps = reshape(diff(h), tuple(size - 1 if i == axis else 1 for i in range(x.ndim)))
    slopes = el.div_p.bind(diff(x, axis=axis), broadcast_to(gaps, _less_one(x.shape, axis)))
    before = slice_in_dim(gaps, 0, size - 2, axis=axis)
    after = slice_in_dim(gaps, 1, size - 1, axis=axis)
    left = slice_in_dim(slopes, 0, size - 2, axis=axis)
    right = slice_in_dim(slopes, 1, size - 1, axis=axis)
    # The slope of the parabola through three points weighs each side by the other's distance.
    total = el.add_p.bind(before, after)
    weighted = el.add_p.bind(el.mul_p.bind(left, after), el.mul_p.bind(right, before))
    inner = el.div_p.bind(weighted, total)
    first = slice_in_dim(slopes, 0, 1, axis=axis)
    last = slice_in_dim(slopes, size - 2, size - 1, axis=axis)
    return concatenate([first, inner, last], axis)


def _less_one(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], shape[axis] - 1, *shape[axis + 1 :])


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral along `axis` of the lines through samples `y` at places `x`, or `dx` apart.

    >>> import xpr.numpy as jnp
    >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    """
    check_arraylike("trapezoid", y, dx)
    if x is None:
        (values,) = promote_dtypes_inexact(y)
        values, gaps = promote_dtypes_inexact(values, dx)
        values = moveaxis(as_array(values), axis, -1)
    else:
        check_arraylike("trapezoid", x)
        values, places = promote_dtypes_inexact(y, x)
        values = moveaxis(as_array(values), axis, -1)
        places = as_array(places)
        gaps = diff(places if places.ndim == 1 else moveaxis(places, axis, -1))
    size, last = values.shape[-1], values.ndim - 1
    pairs = el.add_p.bind(
        slice_in_dim(values, 1, size, axis=last),
        slice_in_dim(values, 0, max(0, size - 1), axis=last),
    )
    if get_aval(gaps).shape:
        gaps = broadcast_to(gaps, pairs.shape)
    area = sum(el.mul_p.bind(pairs, gaps), axis=-1)
    return el.mul_p.bind(area, area.dtype.type(0.5))


# ---- interpolation


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The values at `x` of the lines through the points (xp, fp), `xp` increasing.

    Before the first point `left` (its value by default) and after the last one `right`;
    "extrapolate" prolongs the lines. With `period` the values repeat and the points need no order.
    Raises ValueError unless `xp` and `fp` are vectors of one size.

    >>> import xpr.numpy as jnp
    >>> jnp.interp(jnp.array([0.5, 9.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 20.0]))
    Array([15., 20.], dtype=float32)
    """
    check_arraylike("interp", x, xp, fp)
    shapes = (get_aval(xp).shape, get_aval(fp).shape)
    if shapes[0] != shapes[1] or len(shapes[0]) != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    if any(dtypes.is_complex(get_aval(v).dtype) for v in (x, xp)):
        raise ValueError("jnp.interp: complex x values not supported.")
    places, points = promote_dtypes_inexact(x, xp)
    weak = all(get_aval(v).weak_type for v in (xp, fp, places))
    places, points = as_array(places), as_array(points)
    (values,) = promote_dtypes_inexact(fp)
    values = as_array(values)
    if period is not None:
        places, points, values = _one_period(places, points, values, period)
    kinds = [(get_aval(v).dtype, get_aval(v).weak_type) for v in (places, values)]
    values = convert(values, *dtypes.promote_avals(*kinds))
    size = points.shape[0]
    if size == 0:
        raise ValueError("array of sample points is empty")
    if size == 1:
        inside = broadcast_to(values, (*places.shape, 1))
        inside = reshape(inside, places.shape)
    else:
        inside = _between_points(places, points, values)
    if period is not None:
        return convert(inside, values.dtype, weak)
    low, high = _item(points, 0), _item(points, size - 1)
    if not _prolongs(left, "left"):
        edge = _item(values, 0) if left is None else convert(left, values.dtype)
        inside = select_where(cmp.lt_p.bind(places, low), edge, inside)
    if not _prolongs(right, "right"):
        edge = _item(values, size - 1) if right is None else convert(right, values.dtype)
        inside = select_where(cmp.gt_p.bind(places, high), edge, inside)
    return convert(inside, values.dtype, weak)


def _item(v: Any, i: int) -> Any:
    return reshape(slice_in_dim(v, i, i + 1), ())


def _prolongs(end: Any, name: str) -> bool:
    if not isinstance(end, str):
        return False
    if end != "extrapolate":
        raise ValueError(
            f"the only valid string value of `{name}` is 'extrapolate', but got: {end!r}"
        )
    return True


def _between_points(x: Any, xp: Any, fp: Any) -> Any:
    above = searchsorted(xp, x, side="right")
    index = above.dtype
    above = el.min_p.bind(el.max_p.bind(above, index.type(1)), index.type(xp.shape[0] - 1))
    flat = reshape(above, (above.size,))
    below = el.sub_p.bind(flat, index.type(1))

    def at(v: Any, places: Any) -> Any:
        return reshape(index_take(v, (places,), (0,)), x.shape)

    x0, x1, f0, f1 = at(xp, below), at(xp, flat), at(fp, below), at(fp, flat)
    width = el.sub_p.bind(x1, x0)
    # Equal points make a step: the value after it counts from there on.
    no_width = cmp.eq_p.bind(width, width.dtype.type(0))
    part = el.div_p.bind(el.sub_p.bind(x, x0), select_where(no_width, width.dtype.type(1), width))
    line = el.add_p.bind(f0, el.mul_p.bind(convert(part, fp.dtype), el.sub_p.bind(f1, f0)))
    return select_where(no_width, f0, line)


def _one_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Places and points within one period, the points sorted and repeated at both ends."""
    if isinstance(period, (int, float)) and period == 0:
        raise ValueError(f"period must be a non-zero value; got {period}")
    if get_aval(period).shape:
        raise ValueError(f"period must be a scalar; got {period}")
    length = el.abs_p.bind(convert(period, x.dtype))
    x, xp = remainder(x, length), remainder(xp, length)
    order = argsort(xp)
    xp, fp = index_take(xp, (order,), (0,)), index_take(fp, (order,), (0,))
    size = xp.shape[0]
    before = el.sub_p.bind(slice_in_dim(xp, size - 1, size), length)
    after = el.add_p.bind(slice_in_dim(xp, 0, 1), length)
    points = concatenate([before, xp, after], 0)
    values = concatenate([slice_in_dim(fp, size - 1, size), fp, slice_in_dim(fp, 0, 1)], 0)
    return x, points, values


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi
) -> Array:
    """Angles along `axis` made continuous: jumps of more than `discont` lose whole periods.

    `discont` is half a period by default, and at least that. Raises ValueError for complex angles.

    >>> import xpr.numpy as jnp
    >>> jnp.unwrap(jnp.array([0, 3, 0, 3]), period=4)
    Array([ 0, -1,  0, -1], dtype=int32)
    """
    x = as_array(as_operand("unwrap", p))
    if dtypes.is_complex(x.dtype):
        raise ValueError("jnp.unwrap does not support complex inputs.")
    whole = dtypes.is_integer(x.dtype) and dtypes.is_integer(get_aval(period).dtype)
    if not whole:
        # A period of Python's makes integers floats of the default width.
        types = [(a.dtype, a.weak_type) for a in map(get_aval, (x, period))]
        x = convert(x, to_inexact(dtypes.promote_avals(*types)[0]))
    turn = convert(period, x.dtype)
    two = x.dtype.type(2)
    half = el.div_p.bind(turn, two)
    limit = half if discont is None else convert(discont, x.dtype)
    place = canonicalize_axis(axis, x.ndim)
    if not x.shape[place]:
        return x
    step = diff(x, axis=place)
    low = el.neg_p.bind(half)
    wrapped = el.add_p.bind(remainder(el.sub_p.bind(step, low), turn), low)
    # A jump of exactly half a period, which an odd integer has not, keeps its direction.
    zero = x.dtype.type(0)
    at_edge = bits.and_p.bind(cmp.eq_p.bind(wrapped, low), cmp.gt_p.bind(step, zero))
    if whole:
        even = cmp.eq_p.bind(el.rem_p.bind(turn, two), zero)
        at_edge = bits.and_p.bind(at_edge, broadcast_to(as_array(even), at_edge.shape))
    wrapped = select_where(at_edge, half, wrapped)
    correction = el.sub_p.bind(wrapped, step)
    small = cmp.lt_p.bind(el.abs_p.bind(step), limit)
    correction = select_where(small, zero, correction)
    size = x.shape[place]
    rest = el.add_p.bind(slice_in_dim(x, 1, size, axis=place), cumsum(correction, axis=place))
    return concatenate([slice_in_dim(x, 0, 1, axis=place), rest], place)
