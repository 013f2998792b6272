"""Windows over a sharded axis: the elements that a device needs of its neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._window_dims import dilated
from xpr.sharding.place import elements
from xpr.sharding.rule import Axes, Place
from xpr.sharding.rules._forms import NONE, AxisFactors, Builder
from xpr.sharding.rules._local import spread


@dataclass(frozen=True)
class Halo:
    """What windows along one axis need beside a device's own part."""

    left: int
    right: int
    """Elements of the parts before and after."""

    low: int
    high: int
    """The padding of the part with these elements; negative padding removes some."""

    block: int
    spacing: int
    """Elements of the operand for one window, and windows for one element: one of them is 1."""


def halo_of(
    size: int,
    count: int,
    window: int,
    stride: int,
    low: int,
    base_dilation: int = 1,
    window_dilation: int = 1,
) -> Halo | None:
    """The halo along an axis of that size with `count` windows, if each part has as many of them.

    `low` is the padding before the axis. Without padding, say, there are fewer windows than
    elements, and equal parts of the one are no equal parts of the other: then None.
    """
    reach = dilated(window, window_dilation)
    if not count:
        return None
    if base_dilation == 1 and count * stride == size:
        # The last window of a part begins `stride` before its end, counted without the padding.
        right = reach - stride - low
        return Halo(max(low, 0), max(right, 0), min(low, 0), min(right, 0), stride, 1)
    if stride == 1 and count == size * base_dilation:
        left = max(low, 0) // base_dilation
        right = max((reach - 2 - low) // base_dilation + 1, 0)
        rest = low - left * base_dilation
        high = base_dilation + reach - 2 - rest - (left + right) * base_dilation
        return Halo(left, right, rest, high, 1, base_dilation)
    return None


def summed_halo(
    size: int, window: int, count: int, stride: int, low: int, window_dilation: int
) -> Halo | None:
    """The halo along an axis where one great window is cut into as many parts as the axis.

    Each part of the window then meets elements near the same part of the axis, in each of its
    `count` places: so the gradient of a convolution's kernel sums over whole images.
    """
    if not count or window * window_dilation != size:
        return None
    right = (count - 1) * stride - window_dilation - low + 1
    block = window_dilation
    return Halo(max(low, 0), max(right, 0), min(low, 0), min(right, 0), block, 1)


def window_factors(
    build: Builder, halo: Halo | None, size: int, count: int
) -> tuple[AxisFactors, AxisFactors]:
    """The factors of an axis and of the axis of its windows."""
    if halo is None:
        return NONE, NONE
    shared = build.through(min(size, count))
    return shared + build.whole(halo.block), shared + build.whole(halo.spacing)


def with_halos(place: Place, x: Any, halos: Mapping[int, tuple[Halo, Axes]], outside: Any) -> Any:
    """`x` with the halos along some axes; `outside` is what lies beyond the ends of the whole."""
    for axis, (halo, axes) in halos.items():
        x = with_neighbours(place, axes, x, axis, halo.left, halo.right, outside)
    return x


def with_neighbours(
    place: Place, axes: Axes, x: Any, axis: int, left: int, right: int, outside: Any
) -> Any:
    """The device's part `x` with elements of the parts before and after it along `axis`.

    Beyond the ends of the whole there is the scalar `outside`. The elements may be those of
    several parts.
    """
    size = get_aval(x).shape[axis]
    before: list[Any] = []
    after: list[Any] = []
    for hop in range(1, -(-left // size) + 1):
        few = min(size, left - (hop - 1) * size)
        before.append(_moved(place, axes, elements(x, axis, size - few, size), hop, outside))
    for hop in range(1, -(-right // size) + 1):
        few = min(size, right - (hop - 1) * size)
        after.append(_moved(place, axes, elements(x, axis, 0, few), -hop, outside))
    pieces = [*reversed(before), x, *after]
    return get_primitive("concatenate").bind(*pieces, dimension=axis) if pieces[1:] else x


def shifted(place: Place, axes: Axes, x: Any, axis: int, by: int, outside: Any) -> Any:
    """The device's part of the whole moved along `axis` by so many elements.

    From beyond the ends comes the scalar `outside`. Two parts at most are needed.
    """
    size = get_aval(x).shape[axis]
    hops, rest = divmod(by, size)
    pieces = [_moved(place, axes, elements(x, axis, 0, size - rest), hops, outside)]
    if rest:
        last = elements(x, axis, size - rest, size)
        pieces.insert(0, _moved(place, axes, last, hops + 1, outside))
    return get_primitive("concatenate").bind(*pieces, dimension=axis) if rest else pieces[0]


def _moved(place: Place, axes: Axes, x: Any, by: int, outside: Any) -> Any:
    """The `x` of the device `by` places before, or `outside` where there is none."""
    if not by:
        return x
    count, nothing = place.count(axes), spread(outside, get_aval(x).shape)
    if abs(by) >= count:
        return nothing
    found, index = place.shift(x, axes, by), place.index(axes)
    first = ops.lt(index, np.int32(by)) if by > 0 else ops.gt(index, np.int32(count - 1 + by))
    return ops.select(first, nothing, found)
