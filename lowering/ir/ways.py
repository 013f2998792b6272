"""How the elements of one value are arranged in another that layouts make of it."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.ir.graph import Op, Shape

Way = tuple[object, ...]
"""For each axis of a value the axis of its source that it runs along, -1 for none. What is no such
arrangement is a tuple of what was done instead."""


def as_is(shape: Shape) -> Way:
    """The way in which a value of this shape holds its own elements."""
    return tuple(-1 if size == 1 else i for i, size in enumerate(shape))


def arranged(way: Way, op: Op) -> Way:
    """What a layout makes of a way."""
    (x,), (out,) = op.operands, op.results
    if op.name == "stablehlo.transpose":
        return _transposed(way, op.attributes["dims"])
    if op.name == "stablehlo.broadcast_in_dim":
        return _broadcast(way, x.shape, out.shape, op.attributes["dims"])
    return _reshaped(way, x.shape, out.shape)


def composed(inner: Way, outer: Way) -> Way:
    """The way `outer` of a value that holds elements in the way `inner`."""
    if is_plain(inner) and is_plain(outer):
        return tuple(inner[i] if isinstance(i, int) and i >= 0 else -1 for i in outer)
    return ("then", inner, outer)


def is_plain(way: Way) -> bool:
    """Whether it tells the axes."""
    return not way or isinstance(way[0], int)


def _broadcast(way: Way, old: Shape, new: Shape, dims: Sequence[int]) -> Way:
    if not is_plain(way):
        return ("broadcast", tuple(dims), new, way)
    source = {d: i for i, d in enumerate(dims) if old[i] == new[d]}
    return tuple(way[source[d]] if d in source else -1 for d in range(len(new)))


def _transposed(way: Way, permutation: Sequence[int]) -> Way:
    if not is_plain(way):
        return ("transpose", tuple(permutation), way)
    return tuple(way[i] for i in permutation)


def _reshaped(way: Way, old: Shape, new: Shape) -> Way:
    axes = [i for i, size in enumerate(old) if size != 1]
    unit_axes_only = [old[i] for i in axes] == [size for size in new if size != 1]
    if not unit_axes_only or not is_plain(way):
        return ("reshape", new, way)
    kept = iter(axes)
    return tuple(-1 if size == 1 else way[next(kept)] for size in new)
