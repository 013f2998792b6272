"""Access maps: where the elements of one value lie in another that layouts make of it."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.ir.graph import Op, Shape

AccessMap = tuple[object, ...]
"""For each axis of a value the axis of its source that it runs along, -1 for none. What is no such
arrangement is a tuple of what was done instead."""


def identity_map(shape: Shape) -> AccessMap:
    """The map of a value of this shape to itself."""
    return tuple(-1 if size == 1 else i for i, size in enumerate(shape))


def arranged(access: AccessMap, op: Op) -> AccessMap:
    """What a layout makes of an access map."""
    (x,), (out,) = op.operands, op.results
    if op.name == "stablehlo.transpose":
        return _transposed(access, op.attributes["dims"])
    if op.name == "stablehlo.broadcast_in_dim":
        return _broadcast(access, x.shape, out.shape, op.attributes["dims"])
    return _reshaped(access, x.shape, out.shape)


def composed(inner: AccessMap, outer: AccessMap) -> AccessMap:
    """The map of what reads by `outer` a value that reads by `inner`."""
    if is_plain(inner) and is_plain(outer):
        return tuple(inner[i] if isinstance(i, int) and i >= 0 else -1 for i in outer)
    return ("then", inner, outer)


def is_plain(access: AccessMap) -> bool:
    """Whether it tells the axes."""
    return not access or isinstance(access[0], int)


def _broadcast(access: AccessMap, old: Shape, new: Shape, dims: Sequence[int]) -> AccessMap:
    if not is_plain(access):
        return ("broadcast", tuple(dims), new, access)
    source = {d: i for i, d in enumerate(dims) if old[i] == new[d]}
    return tuple(access[source[d]] if d in source else -1 for d in range(len(new)))


def _transposed(access: AccessMap, permutation: Sequence[int]) -> AccessMap:
    if not is_plain(access):
        return ("transpose", tuple(permutation), access)
    return tuple(access[i] for i in permutation)


def _reshaped(access: AccessMap, old: Shape, new: Shape) -> AccessMap:
    axes = [i for i, size in enumerate(old) if size != 1]
    unit_axes_only = [old[i] for i in axes] == [size for size in new if size != 1]
    if not unit_axes_only or not is_plain(access):
        return ("reshape", new, access)
    kept = iter(axes)
    return tuple(-1 if size == 1 else access[next(kept)] for size in new)
