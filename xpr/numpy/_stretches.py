"""What `xpr.ds` means in an index of arrays: each stretch is cut out, or put back, by itself."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core.stretches import Slice
from xpr.core.trace import get_aval, is_valid_value
from xpr.numpy._index_plan import axes_used
from xpr.numpy._select import select_where
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import GatherScatterMode, canonicalize_shape
from xpr.primitives.convert import convert_type


def first_stretch(index: Any, ndim: int) -> tuple[int, Slice, tuple[Any, ...]] | None:
    """The axis and the first `ds` of an index, and the index of what that cuts out; None if none.

    The index is one of an operand with `ndim` axes.
    """
    items = index if isinstance(index, tuple) else (index,)
    place = next((i for i, item in enumerate(items) if type(item) is Slice), None)
    if place is None:
        return None
    used = sum(axes_used(i) for i in items)
    axis = sum(ndim - used if i is Ellipsis else axes_used(i) for i in items[:place])
    return axis, items[place], (*items[:place], slice(None), *items[place + 1 :])


class Stretch:
    """A `ds` on an axis of an array: where it starts, and how it is cut out and put back."""

    def __init__(self, x: Any, axis: int, item: Slice) -> None:
        self.axis = axis
        self.extent = get_aval(x).shape[axis] if axis < get_aval(x).ndim else 0
        if axis >= get_aval(x).ndim:
            raise IndexError(f"Too many indices: array is {get_aval(x).ndim}-dimensional")
        (self.size,) = canonicalize_shape("ds", [item.size])
        self.stride = item.stride
        self.given = item.start
        self.start = self._wrapped(item.start)

    def _wrapped(self, start: Any) -> Any:
        """The start, counted from the beginning; an array is of the default integer type."""
        if not is_valid_value(start) or get_aval(start).shape:
            raise TypeError(f"the start of ds must be an integer or a scalar array, got {start!r}")
        if isinstance(start, (int, np.integer)):
            start = operator.index(start)
            return start + self.extent if start < 0 else start
        index = convert_type(start, np.dtype(np.int32))
        below = cmp.lt(index, np.int32(0))
        return cmp.select(below, el.add(index, np.int32(self.extent)), index)

    @property
    def is_window(self) -> bool:
        """Whether its elements stand side by side."""
        return self.stride == 1

    def places(self) -> Any:
        """The indices of its elements along the axis."""
        steps = np.arange(self.size, dtype=np.int32) * np.int32(self.stride)
        return steps + self.start if isinstance(self.start, int) else self.start + steps

    def fits(self) -> Any:
        """Whether it is wholly inside: a bool if that is known."""
        last = self.extent - self.size
        if isinstance(self.start, int):
            return 0 <= self.start <= last
        return bits.and_p.bind(cmp.ge(self.start, np.int32(0)), cmp.le(self.start, np.int32(last)))

    def cut(self, x: Any) -> Any:
        """The window, moved inside if it does not fit."""
        if self.size > self.extent:
            raise TypeError(
                "slice slice_sizes must be less than or equal to operand shape, got size "
                f"{self.size} of ds for axis {self.axis} of size {self.extent}"
            )
        if isinstance(self.start, int):
            start = min(max(self.start, 0), self.extent - self.size)
            return sl.slice_in_dim(x, start, start + self.size, axis=self.axis)
        return sl.dynamic_slice_in_dim(x, self.given, self.size, self.axis)

    def put(self, x: Any, old: Any, new: Any, mode: Any) -> Any:
        """`x` with `new` for the window `old`; one outside stays unless `mode` moves it."""
        chosen = GatherScatterMode.from_any(mode)
        if chosen not in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
            fits = self.fits()
            if fits is False:
                return x
            if fits is not True:
                new = select_where(fits, new, old)
        start = self.given
        if isinstance(self.start, int):
            start = min(max(self.start, 0), self.extent - self.size)
        return sl.dynamic_update_slice_in_dim(x, new, start, self.axis)
