"""What one device computes of operations that need more than its own parts: shared pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import GatherDimensionNumbers, GatherScatterMode
from xpr.sharding.rule import Axes, Place

INT32 = np.dtype(np.int32)


def offset(place: Place, axes: Axes, size: int) -> Any:
    """Where the device's part, of that size, begins along an axis sharded over `axes`: an int32."""
    return ops.mul(place.index(axes), np.int32(size))


def counted(shape: Sequence[int], axis: int) -> Any:
    """Each element's own place along `axis`, int32 of that shape."""
    return get_primitive("iota").bind(
        dtype=INT32, shape=tuple(shape), dimension=axis, sharding=None
    )


def spread(x: Any, shape: Sequence[int]) -> Any:
    """A scalar `x` everywhere."""
    return ops.broadcast_in_dim(x, shape, ())


def filled(shape: Sequence[int], value: Any, dtype: np.dtype[Any]) -> Any:
    """An array of that shape with `value` everywhere."""
    return spread(np.asarray(value).astype(dtype)[()], shape)


def neutral(dtype: np.dtype[Any]) -> tuple[str, Any]:
    """A reduction, and the value that changes nothing in it: not even the sign of a zero."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return "or", False
    if kind == "c":
        return "sum", complex(-0.0, -0.0)
    return "sum", -0.0 if kind == "f" else 0


def only_mine(place: Place, axes: Axes, mine: Any, x: Any) -> Any:
    """`x` of the one device for which `mine` holds, element by element, for everybody."""
    aval = get_aval(x)
    op, nothing = neutral(aval.dtype)
    return place.reduce(ops.select(mine, x, filled(aval.shape, nothing, aval.dtype)), axes, op)


def taken(x: Any, chosen: Any, axis: int) -> Any:
    """The elements of `x` at the places `chosen` along `axis`; the other axes agree."""
    shape = get_aval(chosen).shape
    others = tuple(i for i in range(len(shape)) if i != axis)
    return get_primitive("gather").bind(
        x,
        ops.reshape(chosen, (*shape, 1)),
        dimension_numbers=GatherDimensionNumbers((), (axis,), (axis,), others, others),
        slice_sizes=tuple(min(1, n) for n in get_aval(x).shape),
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


def clamped(index: Any, greatest: int) -> Any:
    """Integers of any type, none below 0 and none above `greatest` (an int32): int32."""
    dtype = get_aval(index).dtype
    high = min(greatest, int(np.iinfo(dtype).max))
    inside = get_primitive("clamp").bind(dtype.type(0), index, dtype.type(high))
    return inside if dtype == INT32 else ops.convert(inside, INT32)


def window_at(x: Any, starts: Mapping[int, Any], sizes: Mapping[int, int]) -> Any:
    """The window of `x` that begins at the int32 `starts` along some axes and has these sizes."""
    shape = get_aval(x).shape
    return get_primitive("dynamic_slice").bind(
        x,
        *(starts.get(i, np.int32(0)) for i in range(len(shape))),
        slice_sizes=tuple(sizes.get(i, n) for i, n in enumerate(shape)),
    )
