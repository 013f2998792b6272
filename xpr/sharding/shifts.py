"""Slices, pads, joins and updates along sharded axes: a few elements come from the neighbours.

A stencil reads `u[2:]`, `u[1:-1]` and `u[:-2]` and writes into `u.at[1:-1]`. Cut into blocks of the
same number of elements, these lie almost where `u` lies: each device needs a few elements of the
devices beside it. The blocks need not be filled: see `local_shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.dtypes import is_float
from xpr.core.jaxpr import Atom, JaxprEqn, Literal
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.sharding.layout import count, fitting_roughly
from xpr.sharding.place import MeshPlace, elements, padded
from xpr.sharding.rule import Axes

if TYPE_CHECKING:
    from xpr.sharding.partition import Held, Walk

ShiftRule = Callable[["Walk", JaxprEqn], "Held | None"]
"""The result of an equation, or None where the general way is as good."""


# ---- places along an axis


def block_of(size: int, axes: Axes, place: MeshPlace) -> int:
    """The number of elements in each device's block of an axis."""
    return -(-size // count(axes, place.sizes))


def places_along(place: MeshPlace, axes: Axes, block: int, shape: Sequence[int], dim: int) -> Any:
    """For each element of a block of that `shape` its place along the whole axis `dim`."""
    own = ops.bind(
        "iota", dtype=np.dtype(np.int32), shape=tuple(shape), dimension=dim, sharding=None
    )
    if not axes:
        return own
    start = ops.mul(place.index(axes), np.int32(block))
    return ops.add(own, ops.broadcast_in_dim(start, shape, ()))


def within(places: Any, start: int, stop: int) -> Any:
    """Whether places lie from `start` up to `stop`."""
    shape = get_aval(places).shape

    def full(n: int) -> Any:
        return ops.broadcast_in_dim(np.int32(n), shape, ())

    return ops.bind("and", ops.bind("ge", places, full(start)), ops.lt(places, full(stop)))


def filled(x: Any, value: Any, where: Any) -> Any:
    """`x` where `where` holds, elsewhere `value` (of rank 0)."""
    shape = get_aval(x).shape
    return ops.select(where, x, ops.broadcast_in_dim(value, shape, ()))


def without_rest(place: MeshPlace, x: Any, axes: Axes, dim: int, size: int, op: str) -> Any:
    """`x` with what lies behind the `size` elements of the axis `dim` neutral to a reduction."""
    aval = get_aval(x)
    block = block_of(size, axes, place)
    inside = within(places_along(place, axes, block, aval.shape, dim), 0, size)
    return filled(x, _neutral(aval.dtype, op), inside)


def _neutral(dtype: np.dtype[Any], op: str) -> Any:
    if op in ("max", "min"):
        if dtype == np.bool_:
            return np.bool_(op == "min")
        if is_float(dtype):
            return np.array(-np.inf if op == "max" else np.inf).astype(dtype)[()]
        info = np.iinfo(dtype)
        return np.array(info.min if op == "max" else info.max, dtype)[()]
    if op == "and":
        return np.array(True if dtype == np.bool_ else -1).astype(dtype)[()]
    return np.array(1 if op == "prod" else 0).astype(dtype)[()]


def moved_block(
    place: MeshPlace, x: Any, axes: Axes, dim: int, size: int, new_size: int, first: int
) -> Any:
    """A device's block of an axis of `new_size`, whose element i is the element `first + i` of `x`.

    `x` is the device's block of an axis of `size`. Elements that `x` does not have mean nothing.
    None where elements of devices farther than the next would be needed.
    """
    devices = place.count(axes)
    old, new = block_of(size, axes, place), block_of(new_size, axes, place)
    starts = [first + i * (new - old) for i in range(devices)]  # within the device's own block
    left, right = max(0, -min(starts)), max(0, max(starts) + new - old)
    if left > old or right > old:
        return None
    parts = [x]
    if left:
        parts.insert(0, place.border(x, axes, dim, old - left, old, 1))
    if right:
        parts.append(place.border(x, axes, dim, 0, right, -1))
    wide = ops.bind("concatenate", *parts, dimension=dim) if len(parts) > 1 else x
    if new == old:
        return elements(wide, dim, left + first, left + first + new)
    shape = get_aval(wide).shape
    start = ops.add(ops.mul(place.index(axes), np.int32(new - old)), np.int32(left + first))
    begin: list[Any] = [np.int32(0)] * len(shape)
    begin[dim] = start
    return ops.bind(
        "dynamic_slice", wide, *begin, slice_sizes=(*shape[:dim], new, *shape[dim + 1 :])
    )


def block_of_whole(
    place: MeshPlace, x: Any, axes: Axes, dim: int, new_size: int, start: int
) -> Any:
    """A device's block of an axis of `new_size`, in which the whole `x` begins at `start`."""
    shape = get_aval(x).shape
    block, size = block_of(new_size, axes, place), shape[dim]
    wide = padded(x, dim, block, block)
    # Blocks that `x` does not reach into are cut from the padding.
    at = ops.sub(ops.mul(place.index(axes), np.int32(block)), np.int32(start - block))
    at = ops.bind("clamp", np.int32(0), at, np.int32(size + block))
    begin: list[Any] = [np.int32(0)] * len(shape)
    begin[dim] = at
    return ops.bind(
        "dynamic_slice", wide, *begin, slice_sizes=(*shape[:dim], block, *shape[dim + 1 :])
    )


# ---- the equations


def _fits(walk: Walk, axes: Axes, size: int) -> bool:
    return fitting_roughly(axes, size, walk.sizes) == axes


def _slice(walk: Walk, eqn: JaxprEqn) -> Held | None:
    params = eqn.params
    (source,) = eqn.invars
    if any(s != 1 for s in params["strides"] or ()):
        return None
    _, spec = walk.read(source)
    shape, made = source.aval.shape, eqn.outvars[0].aval.shape
    starts, limits = list(params["start_indices"]), list(params["limit_indices"])
    moving = [d for d, (n, m) in enumerate(zip(shape, made, strict=True)) if n != m and spec[d]]
    if not moving or not all(_fits(walk, spec[d], made[d]) for d in moving):
        return None
    value: Any = walk.read_as(source, spec)
    for d in moving:
        value = moved_block(walk.place, value, spec[d], d, shape[d], made[d], starts[d])
        if value is None:
            return None
    for d, n in enumerate(get_aval(value).shape):
        if d in moving or spec[d]:
            starts[d], limits[d] = 0, n
    value = ops.bind(
        "slice",
        value,
        start_indices=tuple(starts),
        limit_indices=tuple(limits),
        strides=None,
    )
    return value, spec


def _pad(walk: Walk, eqn: JaxprEqn) -> Held | None:
    source, blank = eqn.invars
    config = [tuple(c) for c in eqn.params["padding_config"]]
    _, spec = walk.read(source)
    shape, made = source.aval.shape, eqn.outvars[0].aval.shape
    moving = [d for d, c in enumerate(config) if c != (0, 0, 0) and spec[d]]
    if not moving or any(config[d][2] or not _fits(walk, spec[d], made[d]) for d in moving):
        return None
    value: Any = walk.read_as(source, spec)
    fill = walk.read_as(blank, ())
    for d in moving:
        low = config[d][0]
        axes = spec[d]
        value = moved_block(walk.place, value, axes, d, shape[d], made[d], -low)
        if value is None:
            return None
        block = block_of(made[d], axes, walk.place)
        at = places_along(walk.place, axes, block, get_aval(value).shape, d)
        value = filled(value, fill, within(at, low, low + shape[d]))
        config[d] = (0, 0, 0)
    return ops.bind("pad", value, fill, padding_config=tuple(config)), spec


def _concatenate(walk: Walk, eqn: JaxprEqn) -> Held | None:
    """One long sharded array with short ones beside it: it moves by their lengths."""
    dim = eqn.params["dimension"]
    total = eqn.outvars[0].aval.shape[dim]
    sizes = [v.aval.shape[dim] for v in eqn.invars]
    main = max(range(len(sizes)), key=sizes.__getitem__)
    _, spec = walk.read(eqn.invars[main])
    axes = spec[dim]
    if not axes or len(sizes) == 1 or not _fits(walk, axes, total):
        return None
    if total - sizes[main] > block_of(total, axes, walk.place):
        return None
    before = sum(sizes[:main])
    place = walk.place
    found = moved_block(
        place, walk.read_as(eqn.invars[main], spec), axes, dim, sizes[main], total, -before
    )
    if found is None:
        return None
    whole = (*spec[:dim], (), *spec[dim + 1 :])
    at = places_along(place, axes, block_of(total, axes, place), get_aval(found).shape, dim)
    start = 0
    for i, (v, size) in enumerate(zip(eqn.invars, sizes, strict=True)):
        if i != main and size:
            part = block_of_whole(place, walk.read_as(v, whole), axes, dim, total, start)
            found = ops.select(within(at, start, start + size), part, found)
        start += size
    return found, spec


def _dynamic_update_slice(walk: Walk, eqn: JaxprEqn) -> Held | None:
    """An update at a known place: each device selects between it and what it has."""
    target, update, *starts = eqn.invars
    _, spec = walk.read(target)
    shape, size = target.aval.shape, update.aval.shape
    narrow = [d for d, (n, m) in enumerate(zip(shape, size, strict=True)) if n != m]
    moving = [d for d in narrow if spec[d]]
    if not moving or not all(_fits(walk, spec[d], size[d]) for d in moving):
        return None
    first = [_known(starts[d]) for d in narrow]
    if any(s is None for s in first):
        return None
    begin = {d: min(max(s or 0, 0), shape[d] - size[d]) for d, s in zip(narrow, first, strict=True)}
    place = walk.place
    value = walk.read_as(target, spec)
    part: Any = walk.read_as(
        update, tuple(() if d in narrow and d not in moving else s for d, s in enumerate(spec))
    )
    for d in narrow:
        if d in moving:
            part = moved_block(place, part, spec[d], d, size[d], shape[d], -begin[d])
            if part is None:
                return None
        else:
            part = padded(part, d, begin[d], shape[d] - size[d] - begin[d])
    local = get_aval(value).shape
    inside: Any = None
    for d in narrow:
        block = block_of(shape[d], spec[d], place) if spec[d] else shape[d]
        here = within(places_along(place, spec[d], block, local, d), begin[d], begin[d] + size[d])
        inside = here if inside is None else ops.bind("and", inside, here)
    return ops.select(inside, part, value), spec


def _known(start: Atom) -> int | None:
    return int(start.val) if isinstance(start, Literal) else None


SHIFTS: dict[str, ShiftRule] = {
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "dynamic_update_slice": _dynamic_update_slice,
}
