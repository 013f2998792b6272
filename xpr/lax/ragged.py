"""Products of matrices of which one falls into groups of rows of different numbers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.primitive import check_operands
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.creation import iota
from xpr.primitives.cumulative import cumsum
from xpr.primitives.dot_general import DotDims, dot_general

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]

_Axes = tuple[int, ...]
_NAME = "ragged_dot_general"


def _axes(axes: Sequence[int]) -> _Axes:
    return tuple(operator.index(a) for a in axes)


class RaggedDotDimensionNumbers:
    """Which axes of the operands of `ragged_dot_general` are what.

    `dot_dimension_numbers` is as in `dot_general`, `lhs_ragged_dimensions` holds the axis of lhs
    that falls into groups, and `rhs_group_dimensions` the axis of rhs that numbers the groups.

    >>> rows = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    >>> rows.lhs_ragged_dimensions
    (0,)
    """

    __slots__ = ("dot_dimension_numbers", "lhs_ragged_dimensions", "rhs_group_dimensions")

    def __init__(
        self,
        dot_dimension_numbers: Any,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ) -> None:
        (left, right), (left_batch, right_batch) = dot_dimension_numbers
        contracting, batch = (_axes(left), _axes(right)), (_axes(left_batch), _axes(right_batch))
        self.dot_dimension_numbers = contracting, batch
        self.lhs_ragged_dimensions = _axes(lhs_ragged_dimensions)
        self.rhs_group_dimensions = _axes(rhs_group_dimensions)

    def _key(self) -> tuple[Any, ...]:
        return self.dot_dimension_numbers, self.lhs_ragged_dimensions, self.rhs_group_dimensions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedDotDimensionNumbers) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        shown = (f"{name}={value}" for name, value in zip(self.__slots__, self._key(), strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Rows of `lhs` times the matrix of their group: (m, k), (g, k, n), (g,) give (m, n).

    The first `group_sizes[0]` rows are multiplied by `rhs[0]`, those that follow by `rhs[1]`, and
    so on. Rows behind all groups give zeros. Dtypes, derivatives and errors are those of
    `ragged_dot_general`.

    >>> rows, matrices = np.ones((3, 1), np.float32), np.array([[[1.0]], [[5.0]]], np.float32)
    >>> ragged_dot(rows, matrices, np.array([1, 2])).ravel()
    Array([1., 5., 5.], dtype=float32)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset, out_sharding
    )


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`dot_general` in which an axis of `lhs` falls into groups of the sizes `group_sizes`.

    What is computed follows from the kind of the ragged axis:

    * a free axis of `lhs`: `rhs` has an axis more, which numbers the groups, and each row is
      multiplied by the part of its group; rows behind all groups give zeros. The result has the
      shape that `dot_general` gives without that axis.
    * a contracting axis: each group is summed alone. The result has the groups as a new first axis.
    * a batch axis: the groups make no difference.

    `group_sizes` are integers: one list [g] for all, or one list for each index of the batch axes
    and of the axes of the same kind before the ragged one, an array [b..., x..., g]. For a batch
    axis these are the batch axes before it alone. Dtypes are those of `dot_general`. The first kind
    takes g times the work of one product.

    Raises TypeError for axes, dtypes and sizes that do not go together, NotImplementedError for a
    `group_offset`.

    >>> halves = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    >>> x = np.arange(4, dtype=np.float32)
    >>> ragged_dot_general(x, np.ones(4, np.float32), np.array([1, 3]), halves)
    Array([0., 6.], dtype=float32)
    """
    check_operands(_NAME, lhs, rhs, group_sizes)
    if group_offset is not None:
        raise NotImplementedError(
            f"{_NAME}: group_offset is for groups that are spread over devices, which is not "
            "offered; pass the part of group_sizes and of lhs that belongs to rhs"
        )
    numbers = ragged_dot_dimension_numbers
    if not isinstance(numbers, RaggedDotDimensionNumbers):
        raise TypeError(
            "ragged_dot_general requires ragged_dot_dimension_numbers: RaggedDotDimensionNumbers, "
            f"got a {type(numbers).__name__}"
        )
    dims = DotDims.of(numbers.dot_dimension_numbers)
    left, right = get_aval(lhs).shape, get_aval(rhs).shape
    dims.check_shapes(left, right)
    ragged = _only(numbers.lhs_ragged_dimensions, "lhs", "ragged", len(left))
    free = dims.free_axes(0, len(left))
    sizes = get_aval(group_sizes)
    if dtypes.kind(sizes.dtype) not in "iu":
        raise TypeError(f"{_NAME} requires that group_sizes are integers, got {sizes.dtype}")
    if not sizes.ndim:
        raise TypeError(f"{_NAME} requires group_sizes of rank 1 or more, got a scalar")
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    options["out_sharding"] = out_sharding
    if ragged in free:
        before = (*dims.lhs_batch, *free[: free.index(ragged)])
        _check_prefix(sizes.shape, left, before)
        group = _group_axis(numbers, dims, right, sizes.shape[-1])
        return _by_rows(lhs, rhs, group_sizes, dims, ragged, before, group, options)
    if numbers.rhs_group_dimensions:
        raise TypeError(
            f"{_NAME} requires zero group dimensions in the rhs when lhs ragged dimension is "
            f"contracting or batch, got {numbers.rhs_group_dimensions}"
        )
    if ragged in dims.lhs_batch:
        _check_prefix(sizes.shape, left, dims.lhs_batch[: dims.lhs_batch.index(ragged)])
        return dot_general(lhs, rhs, dims.numbers, **options)
    before = (*dims.lhs_batch, *dims.lhs_contract[: dims.lhs_contract.index(ragged)])
    _check_prefix(sizes.shape, left, before)
    return _by_sums(lhs, rhs, group_sizes, dims, ragged, before, options)


# ---- checks


def _only(axes: _Axes, operand: str, kind: str, rank: int) -> int:
    """The one axis in `axes`."""
    if len(axes) != 1:
        raise TypeError(f"{_NAME} expects exactly one {operand} {kind} dimension, got {axes}")
    if not 0 <= axes[0] < rank:
        raise TypeError(
            f"{_NAME} requires {operand} {kind} dimension numbers to be nonnegative and less than "
            f"the number of axes of the {operand} value, got {axes[0]} for {operand} of rank {rank}"
        )
    return axes[0]


def _group_axis(
    numbers: RaggedDotDimensionNumbers, dims: DotDims, shape: _Axes, groups: int
) -> int:
    """The axis of rhs that numbers the groups."""
    axes = numbers.rhs_group_dimensions
    if len(axes) != 1:
        raise TypeError(
            f"{_NAME} requires exactly one rhs group dimension when lhs ragged dimension is "
            f"noncontracting, got {axes}"
        )
    axis = _only(axes, "rhs", "group", len(shape))
    if axis in (*dims.rhs_contract, *dims.rhs_batch):
        raise TypeError(
            f"{_NAME} requires rhs group dimension numbers to be distinct from contracting and "
            f"batch dimensions, got {axis}"
        )
    if shape[axis] != groups:
        raise TypeError(
            f"{_NAME} expected rhs group dimension size to be {groups}, got {shape[axis]}"
        )
    return axis


def _check_prefix(sizes: _Axes, shape: _Axes, before: _Axes) -> None:
    wanted = (*(shape[i] for i in before), sizes[-1])
    if len(sizes) > 1 and sizes != wanted:
        raise TypeError(f"{_NAME} expected group_sizes to have shape {wanted}, got {sizes}")


# ---- the products


def _membership(group_sizes: Any, count: int) -> Any:
    """Whether place r lies in group g: bool[..., count, g] for sizes of shape [..., g]."""
    shape = get_aval(group_sizes).shape
    ends = cumsum(ops.convert(group_sizes, np.int32), axis=len(shape) - 1)
    starts = ops.sub(ends, ops.convert(group_sizes, np.int32))
    full = (*shape[:-1], count, shape[-1])
    kept = (*range(len(shape) - 1), len(full) - 1)
    place = ops.broadcast_in_dim(iota(np.int32, count), full, (len(full) - 2,))
    first, behind = (ops.broadcast_in_dim(x, full, kept) for x in (starts, ends))
    return ops.bind("and", ops.bind("le", first, place), ops.lt(place, behind))


def _selected(member: Any, axes: Sequence[int], x: Any) -> Any:
    """`x` with zeros where `member` does not hold, whose axes lie along `axes` of `x`.

    A `member` of fewer axes has the last ones.
    """
    axes = axes[len(axes) - get_aval(member).ndim :]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    aval = get_aval(x)
    turned = ops.transpose(member, order) if order != list(range(len(order))) else member
    mask = ops.broadcast_in_dim(turned, aval.shape, sorted(axes))
    zero = ops.broadcast_in_dim(np.zeros((), aval.dtype), aval.shape, ())
    return ops.select(mask, x, zero)


def _by_rows(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    dims: DotDims,
    ragged: int,
    before: _Axes,
    group: int,
    options: dict[str, Any],
) -> Array:
    """The product of all rows with the matrices of all groups, of which each row keeps its own."""
    left, right = get_aval(lhs).shape, get_aval(rhs).shape
    products = dot_general(lhs, rhs, dims.numbers, **options)
    free = dims.free_axes(0, len(left))
    batch = len(dims.lhs_batch)
    rows = [*range(batch), *(batch + free.index(i) for i in (*before[batch:], ragged))]
    place = batch + len(free) + dims.free_axes(1, len(right)).index(group)
    member = _membership(group_sizes, left[ragged])
    return ops.reduce_sum(_selected(member, (*rows, place), products), [place])


def _by_sums(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    dims: DotDims,
    ragged: int,
    before: _Axes,
    options: dict[str, Any],
) -> Array:
    """The products of a copy of lhs for each group, which is zero outside it."""
    left = get_aval(lhs).shape
    groups = get_aval(group_sizes).shape[-1]
    copies = ops.broadcast_in_dim(lhs, (*left, groups), range(len(left)))
    member = _membership(group_sizes, left[ragged])
    copies = _selected(member, (*before, ragged, len(left)), copies)
    found = dot_general(copies, rhs, dims.numbers, **options)
    # The groups are the last free axis of lhs: they come after the others.
    place = len(dims.lhs_batch) + len(dims.free_axes(0, len(left)))
    rest = [i for i in range(get_aval(found).ndim) if i != place]
    return ops.transpose(found, (place, *rest))
