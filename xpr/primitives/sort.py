"""Sorting along an axis, and the greatest elements of an axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotLinear, check_operands, define
from xpr.core.trace import get_aval
from xpr.primitives._index_dims import require_places
from xpr.primitives._sort_rules import (
    approx_top_k_batch,
    selection_jvp,
    sort_batch,
    sort_jvp,
    top_k_batch,
)
from xpr.primitives._sorting import sort_values, stable_order, top_order
from xpr.primitives.families import ANY, require_kind

__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]

NDArray = np.ndarray[Any, Any]

_FAMILY = "sort"
_NOT_LINEAR = NotLinear("which element goes where depends on the elements")


def _normalized_axis(axis: int, rank: int) -> int:
    index = operator.index(axis)
    if not -rank <= index < rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    return index % rank


# ---- sort


def _sort_abstract(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> list[ShapedArray]:
    if any(a.shape != avals[0].shape for a in avals):
        shapes = " ".join(str(a.shape) for a in avals)
        raise TypeError(f"Arguments to sort must have equal shapes, got: {shapes}")
    for a in avals[:num_keys]:
        require_kind("sort", a, ANY)
        if a.dtype in dtypes.SMALL_FLOAT_TYPES:
            raise TypeError(f"sort does not order {a.dtype}; convert to a wider float first")
    return list(avals)


def _sort_reference(
    *operands: NDArray, dimension: int, is_stable: bool, num_keys: int
) -> list[NDArray]:
    if len(operands) == 1:
        return [sort_values(operands[0], dimension)]
    order = stable_order(operands[:num_keys], dimension)
    return [np.take_along_axis(x, order, dimension) for x in operands]


sort_p = define(
    "sort",
    family=_FAMILY,
    doc="Sorts operands together along an axis, by the first of them as keys.",
    abstract=_sort_abstract,
    reference=_sort_reference,
    jvp=sort_jvp,
    transpose=_NOT_LINEAR,
    batch=sort_batch,
    multiple_results=True,
)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sorts along `dimension`, ascending; several operands are permuted together.

    `operand` is an array, or a sequence of arrays of one shape, of which the first `num_keys` are
    the keys, the first one foremost; then the result is a tuple. Numbers compare by value, so -0
    equals 0; NaN comes last; complex numbers compare by real part, then imaginary part. Equal
    elements keep their order (always, whatever `is_stable` says).

    Raises TypeError for operands of different shapes, ValueError for an axis or a number of keys
    out of range.

    >>> sort(np.array([3, 1, 2], np.int32))
    Array([1, 2, 3], dtype=int32)
    """
    if isinstance(operand, (tuple, list)):
        if not operand:
            raise TypeError("Sort requires at least one operand")
        if not 1 <= num_keys <= len(operand):
            raise ValueError(
                f"num_keys={num_keys} must be between 1 and len(operand)={len(operand)}"
            )
        axis = _normalized_axis(dimension, get_aval(operand[0]).ndim)
        return tuple(
            sort_p.bind(*operand, dimension=axis, is_stable=bool(is_stable), num_keys=num_keys)
        )
    axis = _normalized_axis(dimension, get_aval(operand).ndim)
    return sort_p.bind(operand, dimension=axis, is_stable=bool(is_stable), num_keys=1)[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sorts `keys` along `dimension` and permutes `values`, of the same shape, with them.

    Order and errors as for `sort`.

    >>> sort_key_val(np.array([2, 1], np.int32), np.array([5.0, 6.0], np.float32))[1]
    Array([6., 5.], dtype=float32)
    """
    found, permuted = sort((keys, values), dimension=dimension, is_stable=is_stable, num_keys=1)
    return found, permuted


# ---- top_k


def _top_k_abstract(x: ShapedArray, *, k: int, axis: int) -> list[ShapedArray]:
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    if dtypes.is_complex(x.dtype):
        raise ValueError("top_k is not compatible with complex inputs.")
    if x.dtype in dtypes.SMALL_FLOAT_TYPES:
        raise TypeError(f"top_k does not order {x.dtype}; convert to a wider float first")
    if x.shape[axis] < k:
        raise ValueError(
            "k argument to top_k must be no larger than size along axis; "
            f"got {k=} with shape={list(x.shape)} and {axis=}"
        )
    require_places("top_k", x.shape[axis], np.dtype(np.int32))
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [x.update(shape=shape), ShapedArray(shape, np.dtype(np.int32), x.weak_type)]


def _top_k_reference(x: NDArray, *, k: int, axis: int) -> list[NDArray]:
    order = top_order(x, k, axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


top_k_p = define(
    "top_k",
    family=_FAMILY,
    doc="The k greatest elements along an axis, in descending order, and their indices.",
    abstract=_top_k_abstract,
    reference=_top_k_reference,
    jvp=selection_jvp("top_k"),
    transpose=_NOT_LINEAR,
    batch=top_k_batch,
    multiple_results=True,
)


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Array]:
    """The `k` greatest elements along `axis`, in descending order, and their indices: a list.

    Any real dtype or bool; the indices are int32. NaN counts as greater than any number; of equal
    elements the first comes first. Raises ValueError for k above the axis's size, an axis out of
    range, and complex operands.

    >>> top_k(np.array([1.0, 3.0, 2.0], np.float32), 2)[1]
    Array([1, 2], dtype=int32)
    """
    index = _normalized_axis(axis, get_aval(operand).ndim)
    return list(top_k_p.bind(operand, k=operator.index(k), axis=index))


# ---- approx_top_k


def _approx_top_k_abstract(
    x: ShapedArray,
    *,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    is_max_k: bool,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
) -> list[ShapedArray]:
    if k <= 0:
        raise ValueError(f"k must be positive, got {k}")
    axis = _normalized_axis(reduction_dimension, x.ndim)
    if not dtypes.is_float(x.dtype):
        raise ValueError("operand must be a floating type")
    if not 0 < recall_target <= 1:
        raise ValueError(f"recall_target must be in (0, 1], got {recall_target}")
    if k > x.shape[axis]:
        raise ValueError(
            f"k must be smaller than the size of reduction_dim {x.shape[axis]}, got {k}"
        )
    size = k if aggregate_to_topk else x.shape[axis]
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return [x.update(shape=shape), ShapedArray(shape, np.dtype(np.int32), x.weak_type)]


def _approx_top_k_reference(x: NDArray, *, k: int, is_max_k: bool, **params: Any) -> list[NDArray]:
    axis = params["reduction_dimension"] % x.ndim
    size = k if params["aggregate_to_topk"] else x.shape[axis]
    order = top_order(x if is_max_k else -x, size, axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


approx_top_k_p = define(
    "approx_top_k",
    family=_FAMILY,
    doc="The k greatest or least elements along an axis and their indices, computed exactly.",
    abstract=_approx_top_k_abstract,
    reference=_approx_top_k_reference,
    jvp=selection_jvp("approx_top_k"),
    transpose=_NOT_LINEAR,
    batch=approx_top_k_batch,
    multiple_results=True,
)


def _approx_top_k(
    operand: Any,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    size_override: int,
    aggregate_to_topk: bool,
    is_max_k: bool,
) -> list[Array]:
    check_operands("approx_top_k", operand)
    values, indices = approx_top_k_p.bind(
        operand,
        k=operator.index(k),
        reduction_dimension=operator.index(reduction_dimension),
        recall_target=float(recall_target),
        is_max_k=is_max_k,
        reduction_input_size_override=operator.index(size_override),
        aggregate_to_topk=bool(aggregate_to_topk),
    )
    return [values, indices]


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The `k` greatest elements along `reduction_dimension` and their int32 indices.

    The answer is exact: `recall_target` and `reduction_input_size_override` only state what
    would be enough. Without `aggregate_to_topk` the whole axis comes back, sorted. NaN counts as
    greater than any number. Raises ValueError unless the dtype is floating and k fits the axis.

    >>> approx_max_k(np.array([1.0, 3.0, 2.0], np.float32), 2)[0]
    Array([3., 2.], dtype=float32)
    """
    return _approx_top_k(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        True,
    )


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The `k` least elements along `reduction_dimension` and their int32 indices.

    As `approx_max_k`, in ascending order. NaN comes first here too.

    >>> approx_min_k(np.array([1.0, 3.0, 2.0], np.float32), 2)[0]
    Array([1., 2.], dtype=float32)
    """
    return _approx_top_k(
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        False,
    )
