"""Bookkeeping of axes, and the dimension numbers that gather and scatter share."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.trace import Tracer

Shape = tuple[int, ...]


def as_ints(name: str, what: str, values: Iterable[Any]) -> Shape:
    """`values` as a tuple of Python integers; TypeError names the operation and the entry."""
    result = []
    for v in values:
        if type(v) is int:
            result.append(v)
            continue
        if isinstance(v, Tracer):
            raise TypeError(f"{name}: {what} must hold concrete integers, got {v}.{_advice((v,))}")
        try:
            result.append(operator.index(v))
        except TypeError:
            raise TypeError(f"{name}: {what} must hold integers, got {v!r}") from None
    return tuple(result)


def _advice(entries: Iterable[Any]) -> str:
    """What to do about traced entries of a shape, and where the first of them comes from."""
    for v in entries:
        if isinstance(v, Tracer):
            return (
                "\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller "
                f"subfunctions.{v._origin()}"
            )
    return ""


def canonicalize_shape(name: str, shape: Any) -> Shape:
    """`shape` (an integer or a sequence of them) as a tuple of Python integers.

    Raises TypeError, saying where traced entries come from, when there are entries of other types.
    """
    if type(shape) is tuple and all(type(d) is int for d in shape):
        return shape
    if isinstance(shape, (str, bytes)):
        raise TypeError(no_shape(name, shape, ()))
    single = not isinstance(shape, Iterable)
    if isinstance(shape, Array):
        if isinstance(shape, Tracer) and shape.ndim:
            raise TypeError(no_shape(name, shape, (shape,)))
        single = shape.ndim == 0
    entries: list[Any] = [shape] if single else list(shape)
    try:
        return tuple([d if type(d) is int else operator.index(d) for d in entries])
    except TypeError:
        shown = tuple(entries) if isinstance(shape, tuple) else entries
        raise TypeError(no_shape(name, shown, entries)) from None


def no_shape(name: str, shape: Any, entries: Iterable[Any]) -> str:
    """What is said of a shape that is none; `entries` are what it was to be made of."""
    return (
        "Shapes must be 1D sequences of concrete values of integer type, "
        f"got {shape}.{_advice(entries)}\n(in {name})"
    )


def canonicalize_axis(axis: Any, ndim: int) -> int:
    """`axis` in 0 .. ndim-1, negative ones counted from the end.

    Out of range it raises NumPy's AxisError, which is a ValueError and an IndexError.
    """
    if type(axis) is int or isinstance(axis, Array):
        index = operator.index(axis)  # for a traced axis the error says so
    else:
        try:
            index = operator.index(axis)
        except TypeError:
            raise TypeError(
                f"an axis must be an integer, got {axis!r} of type {type(axis).__name__}"
            ) from None
    if -ndim <= index < ndim:
        return index + ndim if index < 0 else index
    raise np.exceptions.AxisError(index, ndim)


def canonicalize_axes(axes: Any, ndim: int) -> Shape:
    """Each of `axes` (one or a sequence) in 0 .. ndim-1."""
    if isinstance(axes, Sequence):
        return tuple(canonicalize_axis(a, ndim) for a in axes)
    try:
        return (canonicalize_axis(axes, ndim),)
    except TypeError:
        if isinstance(axes, Array) or not isinstance(axes, Iterable):
            raise  # a traced axis, or none at all: the error says so
        return tuple(canonicalize_axis(a, ndim) for a in axes)


def canonical_numbers(name: str, numbers: Any, kind: Any) -> Any:
    """The dimension numbers of gather or scatter as tuples; TypeError for what is none."""
    if not isinstance(numbers, kind):
        raise TypeError(
            f"{name} requires dimension_numbers: {kind.__name__}, got a {type(numbers).__name__}"
        )
    return numbers.canonical()


def is_array(x: Any) -> bool:
    """Whether `x` is an array of xpr (concrete or traced), so that it may be returned as it is."""
    return isinstance(x, Array)


def require_places(name: str, size: int, dtype: np.dtype[Any]) -> None:
    """Raises OverflowError if int32 or uint32 cannot count the places along an axis.

    JAX wraps these around.
    """
    if size > 1 << 31 and dtype.itemsize == 4 and size - 1 > np.iinfo(dtype).max:
        raise OverflowError(
            f"{name} over an axis of {size} elements has places beyond the range of {dtype}; "
            "enable_x64 (XPR_ENABLE_X64=1) and an index dtype of int64, or parts of the axis, "
            "hold them"
        )


def require_index_dtype(name: str, indices: ShapedArray) -> None:
    """Raises unless `indices` is an integer array."""
    if not dtypes.is_integer(indices.dtype):
        raise ValueError(f"{name} indices must have an integer type, got {indices.dtype}")


def check_axes(name: str, what: str, axes: Shape, ndim: int, ordered: bool = False) -> None:
    """Raises TypeError unless `axes` are distinct (and sorted) axes of an array of rank `ndim`."""
    for axis in axes:
        if not 0 <= axis < ndim:
            raise TypeError(
                f"Invalid {what} set in {name} op; valid range is [0, {ndim}); got: {axis}."
            )
    if ordered and list(axes) != sorted(axes):
        raise TypeError(f"{what} in {name} op must be sorted; got {axes}")
    if len(set(axes)) != len(axes):
        raise TypeError(f"{what} in {name} op must not repeat; got: {axes}.")


def check_batching(
    name: str,
    x: ShapedArray,
    indices: ShapedArray,
    operand_dims: Shape,
    indices_dims: Shape,
    others: Mapping[str, Shape],
) -> None:
    """Raises TypeError unless the batching axes of operand and indices go together.

    `others` are axes of the operand that cannot be batching axes as well, by their name.
    """
    title = name.capitalize()
    check_axes(name, "operand_batching_dims", operand_dims, x.ndim, ordered=True)
    check_axes(name, "indices_batching_dims", indices_dims, indices.ndim)
    if indices.ndim - 1 in indices_dims:
        raise TypeError(
            f"{title} op cannot have the index vector dimension as a batching dimension; "
            f"got {indices_dims}."
        )
    if len(operand_dims) != len(indices_dims):
        raise TypeError(
            f"{title} op requires equal numbers of operand_batching_dims and "
            f"indices_batching_dims, got {operand_dims} and {indices_dims}."
        )
    for what, axes in others.items():
        if set(operand_dims) & set(axes):
            raise TypeError(
                f"{what} and operand_batching_dims in {name} op must be disjoint; "
                f"got: {axes} and {operand_dims}."
            )
    ours = tuple(x.shape[i] for i in operand_dims)
    theirs = tuple(indices.shape[i] for i in indices_dims)
    if ours != theirs:
        raise TypeError(
            f"{title} op requires operand batching dimensions and indices batching dimensions to "
            f"have the same shape, got {ours} and {theirs}."
        )


class GatherScatterMode(enum.Enum):
    """What an out-of-bounds index means.

    CLIP moves it to the nearest valid place. FILL_OR_DROP makes a gather return a fill value and a
    scatter skip the update. PROMISE_IN_BOUNDS says that there is none; should there be one after
    all, xpr clips it, so that memory stays intact, and drops the cotangent of what a gather reads
    there, as JAX does. ONE_HOT is for `take_along_axis`, which makes a product of it, with 0 for
    such an index; a scatter takes it as FILL_OR_DROP, a gather refuses it.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> x, indices = jnp.array([10, 20]), jnp.array([[1], [5]])
    >>> lax.gather(x, indices, numbers, (1,), mode=lax.GatherScatterMode.CLIP)
    Array([20, 20], dtype=int32)
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        """The mode of that name: clip, fill or drop, promise_in_bounds, one_hot; None is fill."""
        if isinstance(s, GatherScatterMode):
            return s
        if s == "clip":
            return GatherScatterMode.CLIP
        if s is None or s in ("fill", "drop"):
            return GatherScatterMode.FILL_OR_DROP
        if s == "promise_in_bounds":
            return GatherScatterMode.PROMISE_IN_BOUNDS
        if s == "one_hot":
            return GatherScatterMode.ONE_HOT
        raise ValueError(
            f'Unknown gather mode "{s}": use "clip", "fill", "drop", "promise_in_bounds" or '
            '"one_hot"'
        )

    def __str__(self) -> str:
        return f"GatherScatterMode.{self.name}"


class GatherDimensionNumbers(NamedTuple):
    """How the axes of a gather's operand, indices and result go together.

    The index vector is always the last axis of `start_indices`.

    - `offset_dims`: axes of the result that run over a slice of the operand.
    - `collapsed_slice_dims`: axes of the operand with slice size 1 that the result leaves out.
    - `start_index_map`: for each entry of an index vector, the axis of the operand it moves along.
    - `operand_batching_dims`, `start_indices_batching_dims`: axes that run in step; they have
      slice size 1 and are left out of the result's offset axes.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    >>> lax.gather(jnp.array([10, 20, 30]), jnp.array([[2], [0]]), numbers, slice_sizes=(1,))
    Array([30, 10], dtype=int32)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()

    def canonical(self) -> GatherDimensionNumbers:
        """The same numbers as tuples of Python integers."""
        return GatherDimensionNumbers(*(as_ints("gather", k, v) for k, v in self._asdict().items()))

    def __repr__(self) -> str:
        return f"GatherDimensionNumbers({_fields(self)})"

    __str__ = __repr__


class ScatterDimensionNumbers(NamedTuple):
    """How the axes of a scatter's operand, indices and updates go together.

    The index vector is always the last axis of `scatter_indices`.

    - `update_window_dims`: axes of the updates that run over a window of the operand.
    - `inserted_window_dims`: axes of the operand that the windows lack (size 1 in them).
    - `scatter_dims_to_operand_dims`: for each entry of an index vector, its axis of the operand.
    - `operand_batching_dims`, `scatter_indices_batching_dims`: axes that run in step.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter(jnp.zeros(3), jnp.array([[2]]), jnp.array([5.0]), numbers)
    Array([0., 0., 5.], dtype=float32)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()

    def canonical(self) -> ScatterDimensionNumbers:
        """The same numbers as tuples of Python integers."""
        return ScatterDimensionNumbers(
            *(as_ints("scatter", k, v) for k, v in self._asdict().items())
        )

    def __repr__(self) -> str:
        return f"ScatterDimensionNumbers({_fields(self)})"

    __str__ = __repr__


def _fields(numbers: Any) -> str:
    return ", ".join(f"{name}={getattr(numbers, name)}" for name in numbers._fields)
