"""What an index expression means: NumPy's rules, worked out before anything is computed.

An index is a tuple of integers, slices, `...`, `None` and integer or boolean arrays, or lists that
stand for such. `parse` resolves it against a shape into one entry for each axis of the operand or
of the result:

- `Window(axis, start, size, step)`: a static slice of an axis, or the whole of it;
- `Picked(axis, index)`: an integer, static or traced, or an array of them;
- `NewAxis`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.errors import NonConcreteBooleanIndexError, shown
from xpr.core.trace import Tracer, check_python_int, get_aval, is_valid_value
from xpr.primitives.convert import wide_index

Shape = tuple[int, ...]


class Window(NamedTuple):
    """Elements start, start + step, ... of an axis; `step` may be negative, `size` is the count."""

    axis: int
    start: int
    size: int
    step: int

    def is_whole(self, extent: int) -> bool:
        return self.start == 0 and self.step == 1 and self.size == extent


class Picked:
    """Elements of an axis by index: a Python int (wrapped, maybe out of bounds) or an array.

    Arrays are not wrapped yet.
    """

    __slots__ = ("axis", "index")

    def __init__(self, axis: int, index: Any) -> None:
        self.axis = axis
        self.index = index

    @property
    def is_static(self) -> bool:
        return isinstance(self.index, int)

    @property
    def shape(self) -> Shape:
        return () if isinstance(self.index, int) else get_aval(self.index).shape


class NewAxis:
    """An axis of size 1 in the result."""


Entry = Window | Picked | NewAxis


class IndexPlan(NamedTuple):
    """The entries of an index in order, for an operand of `shape`."""

    shape: Shape
    entries: tuple[Entry, ...]
    dots: int | None = None
    """Where an Ellipsis stood; to NumPy it parts two index arrays even if it covers no axis."""
    wrap: bool = True
    """Whether negative integers count from the end; otherwise they are out of bounds."""

    @property
    def picked(self) -> list[Picked]:
        return [e for e in self.entries if isinstance(e, Picked)]

    @property
    def windows(self) -> list[Window]:
        return [e for e in self.entries if isinstance(e, Window)]

    @property
    def is_advanced(self) -> bool:
        """Whether an array with axes takes part, which brings NumPy's rules for such indices."""
        return any(p.shape for p in self.picked)

    @property
    def batch_shape(self) -> Shape:
        """The common shape of the index arrays."""
        try:
            return np.broadcast_shapes(*(p.shape for p in self.picked))
        except ValueError:
            shapes = ", ".join(str(p.shape) for p in self.picked)
            raise IndexError(
                "shape mismatch: indexing arrays could not be broadcast together with shapes "
                f"{shapes}"
            ) from None

    @property
    def batch_position(self) -> int:
        """Where in the result the axes of the index arrays stand.

        In place of the indices if these are adjacent, else in front.
        """
        places = [i for i, e in enumerate(self.entries) if isinstance(e, Picked)]
        parted = self.dots is not None and bool(places) and places[0] < self.dots <= places[-1]
        if places and places[-1] - places[0] + 1 == len(places) and not parted:
            return sum(not isinstance(e, Picked) for e in self.entries[: places[0]])
        return 0

    def result_shape(self) -> Shape:
        """The shape of what the index selects."""
        rest = [
            e.size if isinstance(e, Window) else 1
            for e in self.entries
            if not isinstance(e, Picked)
        ]
        at = self.batch_position
        return (*rest[:at], *self.batch_shape, *rest[at:])


def parse(index: Any, shape: Shape, wrap: bool = True) -> IndexPlan:
    """Resolves `index` for an operand of `shape`; `wrap` as in `IndexPlan`.

    Raises IndexError for too many or ill-shaped indices, TypeError for indices that are neither
    integers nor booleans, and NonConcreteBooleanIndexError for traced masks.
    """
    items = _items(index)
    expanded: list[Any] = []
    for item in items:
        expanded += _expand_mask(item, len(expanded))
    used = sum(1 for item in expanded if item is not None and item is not Ellipsis)
    if used > len(shape):
        raise IndexError(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"
        )
    dots = [i for i, item in enumerate(expanded) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    fill = [slice(None)] * (len(shape) - used)
    at = dots[0] if dots else len(expanded)
    expanded = [*expanded[:at], *fill, *expanded[at + 1 :]]
    entries: list[Entry] = []
    axis = 0
    for position, item in enumerate(expanded):
        if item is None:
            entries.append(NewAxis())
            continue
        if isinstance(item, _Mask):
            if item.extent != shape[axis]:
                raise IndexError(
                    f"boolean index did not match shape of indexed array in index {item.position}: "
                    f"got {item.shape}, expected {list(shape[axis : axis + 1])}"
                )
            entries.append(Picked(axis, item.index))
        elif isinstance(item, slice):
            entries.append(_window(item, position, axis, shape[axis]))
        else:
            entries.append(Picked(axis, _integer(item, position, shape[axis] if wrap else 0)))
        axis += 1
    plan = IndexPlan(shape, tuple(entries), at if dots else None, wrap)
    _ = plan.batch_shape
    return plan


class _Mask:
    """One axis of a boolean array that became indices of its true elements."""

    def __init__(self, index: Any, extent: int, shape: Shape, position: int) -> None:
        self.index = index
        self.extent = extent
        self.shape = shape
        self.position = position


def lift_scalar_masks(index: Any, ndim: int) -> tuple[Any, Shape]:
    """Takes rank-0 booleans out of an index of an operand with `ndim` axes.

    NumPy treats each as an index array for an axis of size 1 that it inserts: [0] when true, an
    empty one when false. Returns the index with those arrays, and where to insert the axes.
    """
    items = _items(index)
    if not any(_is_scalar_mask(item) for item in items):
        return tuple(items), ()
    used = sum(axes_used(item) for item in items)
    inserted = []
    axis = 0
    for i, item in enumerate(items):
        if _is_scalar_mask(item):
            if isinstance(item, Tracer):
                raise NonConcreteBooleanIndexError(
                    f"Array boolean indices must be concrete; got {get_aval(item)}"
                )
            inserted.append(axis)
            items[i] = np.zeros(int(bool(item)), dtypes.default_dtype("i"))
            axis += 1
        elif item is Ellipsis:
            axis += max(ndim - used, 0)
        else:
            axis += axes_used(item)
    return tuple(items), tuple(inserted)


def axes_used(item: Any) -> int:
    """How many axes of the operand an entry of an index speaks of."""
    if item is None or item is Ellipsis or _is_scalar_mask(item):
        return 0
    if isinstance(item, (Array, np.ndarray)) and item.dtype == np.bool_:
        return item.ndim
    return 1


def _is_scalar_mask(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    return isinstance(item, (Array, np.ndarray)) and item.dtype == np.bool_ and item.ndim == 0


def _items(index: Any) -> list[Any]:
    items = list(index) if isinstance(index, tuple) else [index]
    if isinstance(index, list):
        nested = any(
            i is None or i is ... or isinstance(i, (Sequence, slice)) or getattr(i, "shape", ())
            for i in index
        )
        raise TypeError(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            f"`arr[{'tuple' if nested else 'array'}(seq)]` instead of `arr[seq]`."
        )
    for i, item in enumerate(items):
        if isinstance(item, str):
            raise TypeError(f"JAX does not support string indexing; got idx={index!r}")
        if isinstance(item, (list, tuple)):
            items[i] = _array_from(item)
    return items


def _array_from(values: list[Any] | tuple[Any, ...]) -> Any:
    """A list or tuple inside an index stands for an array of its values.

    It stays a NumPy array where it can: in a traced function a mask must be known.
    """
    leaves = list(_leaves(values))
    own = dtypes.default_dtype("i")
    if not leaves:
        return np.asarray(values).astype(own)
    if not all(isinstance(e, (bool, int, np.bool_, np.integer)) for e in leaves):
        from xpr.numpy.creation import asarray  # noqa: PLC0415  creation comes after indexing

        found = asarray(values)
        return found if isinstance(found, Tracer) else np.asarray(found)
    for e in leaves:
        check_python_int(e, own)
    return np.asarray(values)


def _leaves(values: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        else:
            yield value


def _expand_mask(item: Any, position: int) -> list[Any]:
    """A boolean array as one index array for each of its axes; other entries as they are."""
    if not isinstance(item, (Array, np.ndarray)) or item.dtype != np.bool_:
        return [item]
    if isinstance(item, Tracer):
        raise NonConcreteBooleanIndexError(
            f"Array boolean indices must be concrete; got {get_aval(item).strip_weak_type()}\n"
            "Use xpr.numpy.where(mask, x, fill), or xpr.numpy.nonzero(mask, size=n)."
            f"{item._origin()}"
        )
    mask = np.asarray(item)
    dtype = dtypes.default_dtype("i")
    return [
        _Mask(hits.astype(dtype), mask.shape[i], mask.shape, position)
        for i, hits in enumerate(np.nonzero(mask))
    ]


def _integer(item: Any, position: int, extent: int) -> Any:
    """An integer index with `extent` added to a negative value; arrays stay arrays."""
    if isinstance(item, (int, np.integer)):
        value = int(item)
        return value + extent if value < 0 else value
    if not is_valid_value(item):
        raise TypeError(
            "Indexer must have integer or boolean type, got indexer with type "
            f"{type(item).__name__} at position {position}: {shown(item)}"
        )
    aval = get_aval(item)
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(
            f"Indexer must have integer or boolean type, got indexer with type {aval.dtype} at "
            f"position {position}: {shown(item)}"
        )
    item = wide_index(item)
    if isinstance(item, Tracer):
        return item
    host = np.asarray(item)
    if not host.shape:
        value = int(host)
        return value + extent if value < 0 else value
    return item


def _window(item: slice, position: int, axis: int, extent: int) -> Window:
    parts = []
    for name in ("start", "stop", "step"):
        value = getattr(item, name)
        if isinstance(value, Tracer):
            raise IndexError(
                f"Slice entries must be static integers. Got {item} at position {position}. To "
                "take a stretch of fixed size at a traced position, use xpr.lax.dynamic_slice; "
                f"for one of traced size, mask with xpr.numpy.where.{value._origin()}"
            )
        try:
            parts.append(None if value is None else operator.index(value))
        except TypeError:
            raise TypeError(
                f"slice indices must be integers or None, got {name}={shown(value)}"
            ) from None
    if parts[2] == 0:
        raise ValueError("slice step cannot be zero")
    start, stop, step = slice(*parts).indices(extent)
    size = len(range(start, stop, step))
    return Window(axis, start if size else 0, size, step)
