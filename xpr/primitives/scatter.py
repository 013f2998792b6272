"""Scatter: windows of an array replaced by, or combined with, updates at indexed places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.primitive import Absent, NotLinear, Primitive, Rule, check_operands, define
from xpr.core.trace import get_aval
from xpr.primitives._index_dims import (
    GatherScatterMode,
    ScatterDimensionNumbers,
    Shape,
    canonical_numbers,
    canonicalize_shape,
    check_axes,
    check_batching,
    require_index_dtype,
)
from xpr.primitives._scalar_jaxpr import evaluate, trace_scalars
from xpr.primitives._scatter_rules import (
    batch_rule,
    combiner,
    extreme_jvp,
    linear_jvp,
    linear_transpose,
    mul_jvp,
    mul_transpose,
    scatter_jvp,
    scatter_transpose,
    window_axes,
    window_sizes,
)
from xpr.primitives._windows import WindowPlan, in_bounds, picked_indices, window_plan
from xpr.primitives.convert import convert_type, wide_index
from xpr.primitives.creation import full
from xpr.primitives.families import require_same_dtypes

__all__ = [
    "ScatterDimensionNumbers",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
    "window_sizes",
]

_FAMILY = "scatter"
Host = np.ndarray[Any, Any]


# ---- abstract


def _scatter_abstract(
    x: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **_: Any,
) -> ShapedArray:
    require_index_dtype("scatter", indices)
    dtype = require_same_dtypes("scatter", x, updates)
    dims = dimension_numbers
    check_axes("scatter", "scatter_dims_to_operand_dims", dims.scatter_dims_to_operand_dims, x.ndim)
    check_axes("scatter", "inserted_window_dims", dims.inserted_window_dims, x.ndim, ordered=True)
    check_batching(
        "scatter",
        x,
        indices,
        dims.operand_batching_dims,
        dims.scatter_indices_batching_dims,
        {
            "scatter_dims_to_operand_dims": dims.scatter_dims_to_operand_dims,
            "inserted_window_dims": dims.inserted_window_dims,
        },
    )
    if len(dims.scatter_dims_to_operand_dims) != indices.shape[-1]:
        raise TypeError(
            f"Scatter op has {len(dims.scatter_dims_to_operand_dims)} elements in "
            f"scatter_dims_to_operand_dims and the bound of dimension "
            f"index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. "
            "These two numbers must be equal"
        )
    rank = indices.ndim - 1 + len(dims.update_window_dims)
    if updates.ndim != rank:
        raise TypeError(f"Updates tensor must be of rank {rank}; got {updates.ndim}.")
    check_axes("scatter", "update_window_dims", dims.update_window_dims, rank, ordered=True)
    kept = window_axes(x.ndim, dims)
    if len(kept) != len(dims.update_window_dims):
        rank_found = len(dims.update_window_dims) + x.ndim - len(kept)
        raise TypeError(
            f"Scatter op has window of size {rank_found}; doesn't match operand of rank {x.ndim}."
        )
    for axis, operand_axis in zip(dims.update_window_dims, kept, strict=True):
        if updates.shape[axis] > x.shape[operand_axis]:
            raise TypeError(
                "Bounds of the window dimensions of updates must not exceed the bounds of the "
                f"corresponding dimensions of operand. For dimension {axis}, updates bound is "
                f"{updates.shape[axis]}, operand bound is {x.shape[operand_axis]}."
            )
    batch = [i for i in range(rank) if i not in dims.update_window_dims]
    for axis, size in zip(batch, indices.shape[:-1], strict=True):
        if updates.shape[axis] != size:
            raise TypeError(
                "Bounds of the scatter dimensions of updates must be the same as the bounds of the "
                f"corresponding dimensions of scatter indices. For scatter dimension {axis}, "
                f"updates bound is {updates.shape[axis]}, indices bound is {size}."
            )
    return ShapedArray(x.shape, dtype, x.weak_type and updates.weak_type)


# ---- reference

Combine = Callable[[Host, tuple[Any, ...], Host, bool], None]


def _scatter_into(
    combine: Combine,
    x: Host,
    indices: Host,
    updates: Host,
    dims: ScatterDimensionNumbers,
    mode: GatherScatterMode,
    unique: bool,
) -> Host:
    """A copy of `x` into which `combine` has put the updates whose windows lie inside."""
    out = x.copy()
    if not updates.size or not x.size:
        return out
    sizes = window_sizes(x.shape, updates.shape, dims)
    plan = window_plan(
        x.shape,
        indices.shape,
        sizes,
        dims.scatter_dims_to_operand_dims,
        dims.inserted_window_dims,
        dims.operand_batching_dims,
        dims.update_window_dims,
    )
    where = picked_indices(
        plan, indices, sizes, dims.operand_batching_dims, dims.scatter_indices_batching_dims
    )
    values = _in_plan_order(updates, plan, sizes)
    target = out.transpose(plan.order)
    if not where:
        # Every window starts at 0: a new axis of size 1 gives the updates something to index.
        target, where = target[np.newaxis], [np.zeros(plan.batch, np.intp)]
    count = math.prod(plan.batch)
    if mode is GatherScatterMode.FILL_OR_DROP:
        ok = in_bounds(plan, indices)
        if not ok.all():
            count = int(ok.sum())
            values = values[ok]
            where = [np.broadcast_to(w, (*ok.shape, *w.shape[ok.ndim :]))[ok] for w in where]
            if not count:
                return out
    combine(target, (*where, *plan.tail), values, unique or count == 1)
    return out


def _in_plan_order(updates: Host, plan: WindowPlan, sizes: Shape) -> Host:
    """The updates with their axes in the order that the plan's fancy index gives."""
    inverse = sorted(range(updates.ndim), key=plan.permutation.__getitem__)
    wide = [sizes[a] for a in plan.picked if sizes[a] != 1]
    rest = [sizes[a] for a in plan.rest]
    return updates.transpose(inverse).reshape((*plan.batch, *wide, *rest))


def _set(target: Host, where: tuple[Any, ...], values: Host, unique: bool) -> None:
    # NumPy assigns in order, so that the last of several updates of one element stays.
    target[where] = values


def _with_ufunc(ufunc: np.ufunc) -> Combine:
    def combine(target: Host, where: tuple[Any, ...], values: Host, unique: bool) -> None:
        if unique:
            target[where] = ufunc(target[where], values)
        else:
            ufunc.at(target, where, values)

    return combine


def _with_function(function: Callable[[Host, Host], Host]) -> Combine:
    """Combines by any function: of updates of one element it applies one in each round."""

    def combine(target: Host, where: tuple[Any, ...], values: Host, unique: bool) -> None:
        if unique:
            target[where] = function(target[where], values)
            return
        places = np.arange(target.size).reshape(target.shape)[where].ravel()
        flat, values = target.flatten(), values.ravel()
        left = np.arange(places.size)
        while left.size:
            _, first = np.unique(places[left], return_index=True)
            now = left[first]
            flat[places[now]] = function(flat[places[now]], values[now])
            left = np.delete(left, first)
        target[...] = flat.reshape(target.shape)

    return combine


def _reference(ufunc: np.ufunc | None) -> Callable[..., Host]:
    def reference(
        x: Host,
        indices: Host,
        updates: Host,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: GatherScatterMode,
        update_jaxpr: ClosedJaxpr | None,
        update_consts: tuple[Any, ...],
    ) -> Host:
        if ufunc is not None and x.dtype in dtypes.SMALL_INT_TYPES:
            # NumPy's loops on these types do not wrap around as integers do.
            wide = np.dtype(f"{dtypes.kind(x.dtype)}1")
            bytes_, new = x.astype(wide), updates.astype(wide)
            rest = dimension_numbers, mode, unique_indices
            return _scatter_into(_with_ufunc(ufunc), bytes_, indices, new, *rest).astype(x.dtype)
        if update_jaxpr is None:
            combine = _set
        elif ufunc is not None and x.dtype.kind != "c":
            combine = _with_ufunc(ufunc)
        else:
            closed = update_jaxpr
            combine = _with_function(lambda old, new: evaluate(closed, old, new)[0])
        return _scatter_into(combine, x, indices, updates, dimension_numbers, mode, unique_indices)

    return reference


_NOT_LINEAR = NotLinear("it is not linear")


def _scatter_primitive(
    name: str,
    doc: str,
    ufunc: np.ufunc | None = None,
    *,
    jvp: Rule,
    transpose: Rule | Absent = _NOT_LINEAR,
) -> Primitive:
    return define(
        name,
        family=_FAMILY,
        doc=doc,
        abstract=_scatter_abstract,
        reference=_reference(ufunc),
        jvp=jvp,
        transpose=transpose,
        batch=batch_rule(name),
    )


scatter_p = _scatter_primitive(
    "scatter",
    "Windows replaced by updates (or changed by a function) at indexed places.",
    jvp=scatter_jvp,
    transpose=scatter_transpose,
)
scatter_add_p = _scatter_primitive(
    "scatter-add",
    "Updates added at indexed places.",
    np.add,
    jvp=linear_jvp("scatter-add"),
    transpose=linear_transpose("scatter-add"),
)
scatter_sub_p = _scatter_primitive(
    "scatter-sub",
    "Updates subtracted at indexed places.",
    np.subtract,
    jvp=linear_jvp("scatter-sub"),
    transpose=linear_transpose("scatter-sub"),
)
scatter_mul_p = _scatter_primitive(
    "scatter-mul",
    "Updates multiplied in.",
    np.multiply,
    jvp=mul_jvp,
    transpose=mul_transpose,
)
scatter_min_p = _scatter_primitive(
    "scatter-min",
    "The lesser of elements and updates at indexed places.",
    np.minimum,
    jvp=extreme_jvp("scatter-min"),
)
scatter_max_p = _scatter_primitive(
    "scatter-max",
    "The greater of elements and updates at indexed places.",
    np.maximum,
    jvp=extreme_jvp("scatter-max"),
)


# ---- public


def _bind(
    primitive: Primitive,
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
    update_jaxpr: ClosedJaxpr | None = None,
) -> Any:
    check_operands(primitive.name, operand, scatter_indices, updates)
    scatter_indices = wide_index(scatter_indices)
    if update_jaxpr is None:
        update_jaxpr = combiner(primitive.name, get_aval(operand).dtype)
    chosen = GatherScatterMode.from_any(mode)
    if chosen is GatherScatterMode.ONE_HOT:
        chosen = GatherScatterMode.FILL_OR_DROP
    return primitive.bind(
        operand,
        scatter_indices,
        updates,
        dimension_numbers=canonical_numbers(
            primitive.name, dimension_numbers, ScatterDimensionNumbers
        ),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=chosen,
        update_jaxpr=update_jaxpr,
        update_consts=(),
    )


def scatter(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`operand` with the windows at indexed places replaced by `updates`.

    The last axis of `scatter_indices` (any integer dtype) holds index vectors; entry k is where
    the window starts along axis `scatter_dims_to_operand_dims[k]`. `updates` has the other axes of
    the indices and, at `update_window_dims`, those of the window.

    `mode` says what a window that is not wholly inside means: "clip" moves it inside, "drop" (the
    default) or "fill" skips it, "promise_in_bounds" says there is none; xpr then moves it inside as
    well, and never writes elsewhere. Where several updates meet, the last one in row-major order
    stays, unless `unique_indices` promises that there is no such place.

    Raises TypeError for shapes, dtypes or dimension numbers that do not fit. StableHLO
    specification, operation `scatter`.

    >>> import xpr.numpy as jnp
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter(jnp.zeros(3), jnp.array([[1], [5]]), jnp.array([7.0, 8.0]), numbers)
    Array([0., 7., 0.], dtype=float32)
    """
    return _bind(
        scatter_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_add(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, the updates added to what is there; several at one place all count.

    >>> import xpr.numpy as jnp
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_add(jnp.zeros(3), jnp.array([[1], [1]]), jnp.array([7.0, 8.0]), numbers)
    Array([ 0., 15.,  0.], dtype=float32)
    """
    return _bind(
        scatter_add_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_sub(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, the updates subtracted from what is there.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_sub(jnp.ones(3), jnp.array([[1], [1]]), jnp.array([2.0, 3.0]), numbers)
    Array([ 1., -4.,  1.], dtype=float32)
    """
    return _bind(
        scatter_sub_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_mul(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, what is there multiplied by the updates.

    Derivatives with respect to the updates need `unique_indices=True`, unless there is one window.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_mul(jnp.ones(3), jnp.array([[1], [1]]), jnp.array([2.0, 3.0]), numbers)
    Array([1., 6., 1.], dtype=float32)
    """
    return _bind(
        scatter_mul_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_min(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, the lesser of update and element staying; NaN where either is NaN.

    Elements and updates that are equal share the derivative evenly.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_min(jnp.ones(3), jnp.array([[1], [2]]), jnp.array([0.0, 3.0]), numbers)
    Array([1., 0., 1.], dtype=float32)
    """
    return _bind(
        scatter_min_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_max(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """As `scatter`, the greater of update and element staying; NaN where either is NaN.

    Elements and updates that are equal share the derivative evenly.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_max(jnp.ones(3), jnp.array([[1], [2]]), jnp.array([0.0, 3.0]), numbers)
    Array([1., 1., 3.], dtype=float32)
    """
    return _bind(
        scatter_max_p,
        operand,
        scatter_indices,
        updates,
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`operand` with each indexed element e replaced by `func(e)`.

    `update_shape` is the shape that the updates of a `scatter` would have. An element that several
    windows contain is changed once for each of them. `func` must work on scalars and may not close
    over traced values. Derivatives need `unique_indices=True`, unless there is one window.

    >>> import xpr.numpy as jnp
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> scatter_apply(jnp.ones(3), jnp.array([[1]]), lambda e: e + 1, numbers, update_shape=(1,))
    Array([1., 2., 1.], dtype=float32)
    """
    aval = get_aval(operand)
    scalar = ShapedArray((), aval.dtype)
    closed = trace_scalars("scatter_apply", lambda x, _: [func(x)], [scalar])
    out = _bind(
        scatter_p,
        operand,
        scatter_indices,
        full(canonicalize_shape("scatter_apply", update_shape), 0, aval.dtype),
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
        closed,
    )
    return convert_type(out, aval.dtype, aval.weak_type)
