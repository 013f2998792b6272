"""`pad`: an array with more elements at the edges of its axes, in each of NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array as CoreArray
from xpr.core.trace import Tracer, get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    convert,
    to_inexact,
    with_weak_type_of,
)
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.numpy.manipulation import moveaxis, reshape
from xpr.primitives import elementwise as el
from xpr.primitives import reduce as rd
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives import sort as so
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import iota
from xpr.primitives.joining import concatenate, stack, tile

Widths = tuple[tuple[int, int], ...]

_KEYWORDS: dict[str, frozenset[str]] = {
    "constant": frozenset(["constant_values"]),
    "edge": frozenset(),
    "empty": frozenset(),
    "linear_ramp": frozenset(["end_values"]),
    "maximum": frozenset(["stat_length"]),
    "mean": frozenset(["stat_length"]),
    "median": frozenset(["stat_length"]),
    "minimum": frozenset(["stat_length"]),
    "reflect": frozenset(["reflect_type"]),
    "symmetric": frozenset(["reflect_type"]),
    "wrap": frozenset(),
}


def pad(
    array: ArrayLike, pad_width: Any, mode: str | Callable[..., Any] = "constant", **kwargs: Any
) -> Array:
    """`array` with `pad_width` elements more before and after each axis.

    `pad_width` is one number, a pair (before, after), or such a pair for each axis. `mode` says
    what the new elements are:

    - "constant": `constant_values` (0), a number, a pair or a pair for each axis;
    - "edge": the edge element; "empty": nothing in particular (zeros);
    - "linear_ramp": a ramp from the edge element to `end_values` (0);
    - "maximum", "mean", "median", "minimum": that of the `stat_length` elements (all) next to the
      edge, rounded for integers;
    - "reflect", "symmetric": the array mirrored at its edge element, or at the edge itself; with
      `reflect_type="odd"` the mirror image is subtracted from twice the edge element;
    - "wrap": the array again and again;
    - a function of (vector, (before, after), axis, kwargs) that returns the vector with its edges
      filled in; it is called for each vector along each axis in turn.

    Raises TypeError for widths that are no integers, ValueError for negative ones, shapes that do
    not fit the array and keywords that do not go with the mode, NotImplementedError for other
    modes, and ConcretizationTypeError for traced widths.

    >>> import xpr.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="reflect")
    Array([2, 1, 2, 3, 2, 1], dtype=int32)
    """
    x = as_operand("pad", array)
    ndim = get_aval(x).ndim
    widths = _widths(pad_width, ndim)
    if callable(mode):
        return _with_function(x, widths, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(f"Unimplemented padding mode {mode!r} for np.pad.")
    if extra := set(kwargs) - _KEYWORDS[mode]:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {extra}")
    match mode:
        case "constant":
            found = _constant(x, widths, kwargs.get("constant_values", 0))
        case "empty":
            found = _constant(x, widths, 0)
        case "linear_ramp":
            found = _linear_ramp(x, widths, kwargs.get("end_values", 0))
        case "maximum" | "mean" | "median" | "minimum":
            found = _statistic(x, widths, mode, kwargs.get("stat_length"))
        case _:
            reflect_type = kwargs.get("reflect_type", "even")
            if reflect_type not in ("even", "odd"):
                raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
            found = _repeated(x, widths, mode, reflect_type == "odd")
    return with_weak_type_of(x, as_array(found))


# ---- arguments


def _widths(pad_width: Any, ndim: int) -> Widths:
    what = "pad_width argument of jnp.pad"
    if isinstance(pad_width, Tracer):
        concrete(pad_width, what)
    if isinstance(pad_width, (list, tuple)):
        _require_concrete(pad_width, what)
    given = np.asarray(pad_width)
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"`pad_width` must be of integral type, got {pad_width!r}.")
    if given.size and given.min() < 0:
        raise ValueError(f"index can't contain negative values, got pad_width {pad_width}")
    valid = [(ndim, 2), (1, 2), (2,), (1,), ()]
    if given.shape not in valid:
        raise ValueError(
            f"jnp.pad: pad_width with nd={ndim} has unsupported shape {given.shape}. "
            f"Valid shapes are {', '.join(map(str, valid))}."
        )
    return tuple((low, high) for low, high in np.broadcast_to(given, (ndim, 2)).tolist())


def _require_concrete(items: Any, what: str) -> None:
    for item in items:
        if isinstance(item, (list, tuple)):
            _require_concrete(item, what)
        elif isinstance(item, Tracer):
            concrete(item, what)


def _pairs(values: Any, name: str, ndim: int, dtype: DType) -> list[tuple[Any, Any]]:
    """For each axis the values before and after it, rank-0 operands of `dtype`."""
    if isinstance(values, (list, tuple)):
        rows = [_pair(v, name, dtype) for v in values]
        if any(isinstance(v, (list, tuple)) for v in values):
            if len(rows) not in (1, ndim):
                raise ValueError(f"jnp.pad: {name} has {len(rows)} pairs for {ndim} axes")
            return rows * ndim if len(rows) == 1 else rows
        return [_pair(values, name, dtype)] * ndim
    shape: tuple[int, ...] = get_aval(values).shape
    if len(shape) == 0:
        return [_pair(values, name, dtype)] * ndim
    if len(shape) > 2 or shape[-1] not in (1, 2):
        raise ValueError(
            f"jnp.pad: {name} has unsupported shape {shape}. "
            "If the shape is 1D or 2D, the last dimension must be of size 1 or 2."
        )
    if isinstance(values, np.ndarray):
        values = np.array(values)
    spread = broadcast_to(convert(values, dtype), (ndim, 2))
    items = [
        [sl.index_in_dim(sl.index_in_dim(spread, i, 0, False), k, 0, False) for k in range(2)]
        for i in range(ndim)
    ]
    return [(low, high) for low, high in items]


def _pair(value: Any, name: str, dtype: DType) -> tuple[Any, Any]:
    entries = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(entries) not in (1, 2) or any(get_aval(e).shape for e in entries):
        raise ValueError(
            f"jnp.pad: {name} has unsupported shape ({len(entries)},). "
            "If the shape is 1D or 2D, the last dimension must be of size 1 or 2."
        )
    converted = [convert(e, dtype) for e in entries]
    return converted[0], converted[-1]


# ---- pieces


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    return sl.slice_in_dim(x, start, stop, axis=axis)


def _copies(row: Any, axis: int, count: int) -> Any:
    """`row`, of size 1 along `axis`, `count` times."""
    shape = list(get_aval(row).shape)
    shape[axis] = count
    return sh.broadcast_in_dim(row, tuple(shape), range(len(shape)))


def _along(x: Any, axis: int, before: Any, after: Any) -> Any:
    """`x` between two pieces, of which either may be None."""
    parts = [p for p in (before, x, after) if p is not None]
    return concatenate(parts, axis) if len(parts) > 1 else x


# ---- modes


def _constant(x: Any, widths: Widths, values: Any) -> Any:
    aval = get_aval(x)
    if not isinstance(values, (list, tuple)) and not get_aval(values).shape:
        weak = aval.weak_type
        value = convert_type(values, aval.dtype, True) if weak else convert(values, aval.dtype)
        return sh.pad(x, value, [(low, high, 0) for low, high in widths])
    for axis, pair in enumerate(_pairs(values, "constant_values", aval.ndim, aval.dtype)):
        for side, value in enumerate(pair):
            config = [(0, 0, 0)] * aval.ndim
            width = widths[axis][side]
            config[axis] = (0, width, 0) if side else (width, 0, 0)
            x = sh.pad(x, value, config)
    return x


def _linear_ramp(x: Any, widths: Widths, end_values: Any) -> Any:
    aval = get_aval(x)
    for axis, ends in enumerate(_pairs(end_values, "end_values", aval.ndim, aval.dtype)):
        low, high = widths[axis]
        size = get_aval(x).shape[axis]
        if (low or high) and not size:
            raise ValueError("Cannot apply 'linear_ramp' padding to empty axis")
        before = after = None
        if low:
            before = _ramp(ends[0], _part(x, axis, 0, 1), low, axis)
        if high:
            after = sh.rev(_ramp(ends[1], _part(x, axis, size - 1, size), high, axis), (axis,))
        x = _along(x, axis, before, after)
    return x


def _ramp(end: Any, edge: Any, width: int, axis: int) -> Any:
    """`width` values along `axis` from `end` to the one before `edge`, in equal steps."""
    aval = get_aval(edge)
    dtype = aval.dtype
    shape = (*aval.shape[:axis], width, *aval.shape[axis + 1 :])
    work = dtype
    if not dtypes.is_inexact(dtype) and (dtype.itemsize < 4 or dtype == dtypes.BOOL):
        work = np.dtype(np.int32)
    elif dtypes.is_float(dtype) and dtype.itemsize < 4:
        work = np.dtype(np.float32)
    end, edge = convert(end, work), convert(edge, work)
    step_shape = tuple(width if i == axis else 1 for i in range(aval.ndim))
    count = sh.reshape(iota(work, width), step_shape)
    span = el.sub(edge, end)
    if dtypes.is_inexact(work):
        step = el.div(span, work.type(width))
        ramp = el.add(el.mul(count, step), end)
    else:
        # Both distances are counted upwards, so that unsigned integers work too.
        up = el.sub(el.max(edge, end), end)
        down = el.sub(end, el.min(edge, end))
        ramp = el.sub(el.add(_share(up, count, width, 0), end), _share(down, count, width, 1))
    return convert_type(broadcast_to(ramp, shape), dtype)


def _share(distance: Any, count: Any, width: int, up: int) -> Any:
    """`count / width` of a distance >= 0, rounded down, or up.

    Whole steps are multiplied first, so that no product overflows.
    """
    by = get_aval(count).dtype.type(width)
    part = el.mul(count, el.rem(distance, by))
    if up:
        part = el.add(part, get_aval(count).dtype.type(width - 1))
    return el.add(el.mul(count, el.div(distance, by)), el.div(part, by))


def _statistic(x: Any, widths: Widths, mode: str, stat_length: Any) -> Any:
    lengths = _stat_lengths(stat_length, get_aval(x).ndim)
    for axis, (low, high) in enumerate(widths):
        size = get_aval(x).shape[axis]
        near, far = (size if n is None else min(n, size) for n in lengths[axis])
        if not size and (low or high) and mode in ("maximum", "minimum"):
            raise ValueError(f"Cannot apply {mode!r} padding to empty axis")
        first = _value_of(mode, _part(x, axis, 0, near), axis)
        last = first
        if not near == far == size:
            last = _value_of(mode, _part(x, axis, size - far, size), axis)
        before = _copies(first, axis, low) if low else None
        after = _copies(last, axis, high) if high else None
        x = _along(x, axis, before, after)
    return x


def _stat_lengths(stat_length: Any, ndim: int) -> list[tuple[int | None, int | None]]:
    if stat_length is None:
        return [(None, None)] * ndim
    given = concrete(stat_length, "stat_length argument of jnp.pad")
    if given.dtype.kind not in "iu":
        raise TypeError(f"stat_length must be of integral type, got {stat_length!r}")
    if given.min() < 0:
        raise ValueError(f"index can't contain negative values, got stat_length {stat_length}")
    if given.min() == 0:
        raise ValueError("stat_length of 0 yields no value for padding")
    if given.shape not in [(ndim, 2), (1, 2), (2,), (1,), ()]:
        raise ValueError(f"jnp.pad: stat_length with nd={ndim} has shape {given.shape}")
    return [(low, high) for low, high in np.broadcast_to(given, (ndim, 2)).tolist()]


def _value_of(mode: str, part: Any, axis: int) -> Any:
    """The statistic of `part` along `axis`, which stays with size 1."""
    dtype = get_aval(part).dtype
    if mode == "maximum":
        return sh.expand_dims(rd.reduce_max(part, (axis,)), (axis,))
    if mode == "minimum":
        return sh.expand_dims(rd.reduce_min(part, (axis,)), (axis,))
    size = get_aval(part).shape[axis]
    work = convert(part, to_inexact(dtype))
    if mode == "median" and size:
        ordered = so.sort(work, dimension=axis)
        work = _part(ordered, axis, (size - 1) // 2, size // 2 + 1)
        size = get_aval(work).shape[axis]
    total = sh.expand_dims(rd.reduce_sum(work, (axis,)), (axis,))
    mean = el.div(total, get_aval(total).dtype.type(size))
    if dtypes.is_integer(dtype):
        mean = el.round(mean, el.RoundingMethod.TO_NEAREST_EVEN)
    return convert_type(mean, dtype)


def _repeated(x: Any, widths: Widths, mode: str, odd: bool) -> Any:
    for axis, (low, high) in enumerate(widths):
        if not (low or high):
            continue
        if not get_aval(x).shape[axis]:
            raise ValueError(f"Cannot apply {mode!r} padding to empty axis")
        if mode == "edge":
            x = _edge(x, axis, low, high)
        elif mode == "wrap":
            x = _cut(x, axis, low, high)
        elif odd:
            x = _odd(x, axis, low, high, int(mode == "reflect"))
        else:
            x = _even(x, axis, low, high, int(mode == "reflect"))
    return x


def _edge(x: Any, axis: int, low: int, high: int) -> Any:
    size = get_aval(x).shape[axis]
    before = _copies(_part(x, axis, 0, 1), axis, low) if low else None
    after = _copies(_part(x, axis, size - 1, size), axis, high) if high else None
    return _along(x, axis, before, after)


def _cut(period: Any, axis: int, low: int, high: int, size: int | None = None) -> Any:
    """The part from -low to size + high of `period` repeated without end."""
    length = get_aval(period).shape[axis]
    size = length if size is None else size
    if low <= length and high <= length and size == length:
        before = _part(period, axis, length - low, length) if low else None
        after = _part(period, axis, 0, high) if high else None
        return _along(period, axis, before, after)
    start = -low % length
    total = low + size + high
    counts = [1] * get_aval(period).ndim
    counts[axis] = -(-(start + total) // length)
    return _part(tile(period, counts), axis, start, start + total)


def _even(x: Any, axis: int, low: int, high: int, skip: int) -> Any:
    """Mirrored at the edges; `skip` elements at an edge are left out of the mirror image."""
    size = get_aval(x).shape[axis]
    room = size - skip
    if low <= room and high <= room:
        before = sh.rev(_part(x, axis, skip, skip + low), (axis,)) if low else None
        after = sh.rev(_part(x, axis, room - high, room), (axis,)) if high else None
        return _along(x, axis, before, after)
    if size == 1:
        return _edge(x, axis, low, high)
    inner = sh.rev(_part(x, axis, skip, room), (axis,)) if room > skip else None
    return _cut(_along(x, axis, None, inner), axis, low, high, size)


def _odd(x: Any, axis: int, low: int, high: int, skip: int) -> Any:
    """As `_even`, each mirror image subtracted from twice the edge element."""
    if get_aval(x).shape[axis] == 1:
        return _edge(x, axis, low, high)
    two = get_aval(x).dtype.type(2)
    while low or high:
        size = get_aval(x).shape[axis]
        room = size - skip
        near, far = min(low, room), min(high, room)
        before = after = None
        if near:
            mirror = sh.rev(_part(x, axis, skip, skip + near), (axis,))
            before = el.sub(el.mul(two, _part(x, axis, 0, 1)), mirror)
        if far:
            mirror = sh.rev(_part(x, axis, room - far, room), (axis,))
            after = el.sub(el.mul(two, _part(x, axis, size - 1, size)), mirror)
        x = _along(x, axis, before, after)
        low, high = low - near, high - far
    return x


# ---- a function


def _with_function(
    x: Any, widths: Widths, function: Callable[..., Any], kwargs: dict[str, Any]
) -> Array:
    padded = as_array(_constant(x, widths, 0))
    for axis, pair in enumerate(widths):
        last = moveaxis(padded, axis, -1)
        rows = reshape(last, (-1, last.shape[-1])) if last.size else last
        if not last.size:
            continue
        vectors = []
        for i in range(rows.shape[0]):
            found = function(sl.index_in_dim(rows, i, keepdims=False), pair, axis, kwargs)
            if not isinstance(found, (CoreArray, np.ndarray)) or found.shape != rows.shape[1:]:
                raise TypeError(
                    f"pad: the function given as mode must return a vector of shape "
                    f"{rows.shape[1:]}, got {found!r}; arrays never change in place"
                )
            vectors.append(convert(found, padded.dtype))
        padded = moveaxis(reshape(stack(vectors), last.shape), -1, axis)
    return padded
