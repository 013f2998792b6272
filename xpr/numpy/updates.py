"""Indexed updates that return a new array: `x.at[index].set(y)` and its relatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.placing import resharded
from xpr.core.source_info import user_stacklevel
from xpr.core.trace import get_aval
from xpr.core.tracebacks import export_methods
from xpr.numpy._host_index import host_update
from xpr.numpy._index_plan import IndexPlan, NewAxis, Picked, Window, lift_scalar_masks, parse
from xpr.numpy._promote import (
    as_operand,
    convert,
    not_broadcastable,
    scalar_type,
    with_weak_type_of,
)
from xpr.numpy._stretches import Stretch, first_stretch
from xpr.numpy.indexing import index_vectors, read
from xpr.primitives import elementwise as el
from xpr.primitives import scatter as sc
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import GatherScatterMode, ScatterDimensionNumbers
from xpr.primitives.convert import convert_type

Combine = Callable[[Any, Any], Any]


@export_methods
class IndexUpdateHelper:
    """`x.at`: index it to get an object with the update methods.

    >>> import xpr.numpy as jnp
    >>> jnp.arange(4).at[1:3].add(10)
    Array([ 0, 11, 12,  3], dtype=int32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            f"x.at[{index!r}] = ... changes nothing, since arrays are immutable: write "
            f"x = x.at[{index!r}].set(...)"
        )

    def __repr__(self) -> str:
        return f"IndexUpdateHelper({self.array!r})"


@export_methods
class IndexUpdateRef:
    """`x.at[index]`: its methods return copies of `x` with the indexed elements changed.

    All take `mode` (what indices out of bounds mean: "drop"/"fill" skips the update, the default;
    "clip" moves the index inside; "promise_in_bounds" says there are none), the promises
    `indices_are_sorted` and `unique_indices`, and `wrap_negative_indices`: when false, negative
    integers do not count from the end but are out of bounds.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"x.at[{self.index!r}](...) is not an update: write x.at[{self.index!r}].set(...), or "
            "another method of x.at[...], such as add or get"
        )

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: Any = None,
        out_sharding: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """`x[index]`, with "fill" as a mode that gives `fill_value` for indices out of bounds."""
        if out_sharding is not None:
            return resharded(
                "at[...].get",
                out_sharding,
                lambda: self.get(
                    indices_are_sorted=indices_are_sorted,
                    unique_indices=unique_indices,
                    mode=mode,
                    fill_value=fill_value,
                    wrap_negative_indices=wrap_negative_indices,
                ),
            )
        return read(
            self.array,
            self.index,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap=wrap_negative_indices,
        )

    def set(self, values: Any, **options: Any) -> Array:
        """`x[index] = values` on a copy; of several values for one element the last one stays."""
        return _update_at(self, values, "set", options)

    def add(self, values: Any, **options: Any) -> Array:
        """`x[index] += values` on a copy; several values for one element all count."""
        return _update_at(self, values, "add", options)

    def subtract(self, values: Any, **options: Any) -> Array:
        """`x[index] -= values` on a copy; several values for one element all count."""
        return _update_at(self, values, "subtract", options)

    def multiply(self, values: Any, **options: Any) -> Array:
        """`x[index] *= values` on a copy; several values for one element all count."""
        return _update_at(self, values, "multiply", options)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Array:
        """`x[index] /= values` on a copy; several values for one element all count."""
        from xpr.numpy.ufuncs import divide  # noqa: PLC0415  ufuncs come after indexing

        ones = sh.broadcast_in_dim(_one(self.array), get_aval(self.array).shape, ())
        place = options.pop("out_sharding", None)

        def changed() -> Any:
            return divide(self.array, _update(ones, self.index, values, "multiply", **options))

        return changed() if place is None else resharded("at[...].divide", place, changed)

    def power(self, values: Any, **options: Any) -> Array:
        """`x[index] **= values` on a copy; several values for one element all count."""
        from xpr.numpy.ufuncs import power  # noqa: PLC0415  ufuncs come after indexing

        ones = sh.broadcast_in_dim(_one(self.array), get_aval(self.array).shape, ())
        place = options.pop("out_sharding", None)

        def changed() -> Any:
            return power(self.array, _update(ones, self.index, values, "multiply", **options))

        return changed() if place is None else resharded("at[...].power", place, changed)

    def min(self, values: Any, **options: Any) -> Array:
        """`x[index] = minimum(x[index], values)` on a copy."""
        return _update_at(self, values, "min", options)

    def max(self, values: Any, **options: Any) -> Array:
        """`x[index] = maximum(x[index], values)` on a copy."""
        return _update_at(self, values, "max", options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Array:
        """`func.at(x, index)` on a copy: an element that occurs twice is changed twice."""
        return _apply(self.array, self.index, func, **options)


def _one(x: Any) -> Any:
    return scalar_type(x)(1)


def _update_at(ref: IndexUpdateRef, values: Any, kind: str, options: dict[str, Any]) -> Any:
    if not options:
        found = host_update(ref.array, ref.index, values, kind)
        if found is not None:
            return found
    return _update(ref.array, ref.index, values, kind, **options)


def at(x: Any) -> IndexUpdateHelper:
    """The object behind `x.at`."""
    return IndexUpdateHelper(x)


_SCATTER: dict[str, Callable[..., Any]] = {
    "set": sc.scatter,
    "add": sc.scatter_add,
    "subtract": sc.scatter_sub,
    "multiply": sc.scatter_mul,
    "min": sc.scatter_min,
    "max": sc.scatter_max,
}
_ELEMENTWISE: dict[str, Combine] = {
    "set": lambda old, new: new,
    "add": el.add,
    "subtract": el.sub,
    "multiply": el.mul,
    "min": el.min,
    "max": el.max,
}


def _values(values: Any) -> Any:
    """Arrays and numbers as they are; lists and tuples become arrays."""
    if isinstance(values, (list, tuple)):
        from xpr.numpy.creation import asarray  # noqa: PLC0415  creation comes after indexing

        return asarray(values)
    return as_operand("at", values, 1)


def _in_own_dtype(x: Any, values: Any) -> Any:
    """A Python integer that the integer dtype of `x` can hold and the default one cannot, in it."""
    dtype = get_aval(x).dtype
    if type(values) is not int or not dtypes.is_integer(dtype):
        return values
    own, default = dtypes.iinfo(dtype), dtypes.iinfo(dtypes.default_dtype("i"))
    if default.min <= values <= default.max or not own.min <= values <= own.max:
        return values
    return np.asarray(values, dtype)[()]


def _common_types(x: Any, values: Any, kind: str) -> tuple[Any, Any]:
    """`x` and `values` in one dtype; a warning where the result cannot hold the common one.

    What is set is converted to the dtype of `x` at once; other updates are computed in the common
    dtype, and the result is converted back.
    """
    values = _in_own_dtype(x, values)
    own, given = get_aval(x), get_aval(values)
    if own.dtype == given.dtype:
        return x, convert(values, own.dtype) if given.weak_type else values
    joint, _ = dtypes.promote_avals((own.dtype, own.weak_type), (given.dtype, given.weak_type))
    if joint != own.dtype:
        warnings.warn(
            "scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={given.dtype} to dtype={own.dtype}. Convert it with astype first.",
            FutureWarning,
            stacklevel=user_stacklevel(),
        )
        if kind != "set":
            return convert(x, joint), convert(values, joint)
    return x, convert(values, own.dtype)


def _update(
    x: Any,
    index: Any,
    values: Any,
    kind: str,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    if out_sharding is not None:
        options: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
            "wrap_negative_indices": wrap_negative_indices,
        }
        name = f"at[...].{kind}"
        return resharded(name, out_sharding, lambda: _update(x, index, values, kind, **options))
    x = as_operand("at", x)
    own = get_aval(x)

    def update(part: Any, rest: Any) -> Any:
        return _update(
            part,
            rest,
            values,
            kind,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=wrap_negative_indices,
        )

    stretched = _in_stretch(x, index, mode, update)
    if stretched is not None:
        return stretched
    x, values = _common_types(x, _values(values), kind)
    index, inserted = lift_scalar_masks(index, len(own.shape))
    if inserted:
        x = sh.expand_dims(x, inserted)
    plan = parse(index, get_aval(x).shape, wrap_negative_indices)
    out = _write(x, plan, values, kind, indices_are_sorted, unique_indices, mode)
    if inserted:
        out = sh.squeeze(out, inserted)
    found = get_aval(out)
    if found.dtype == own.dtype and found.weak_type == own.weak_type:
        return out
    return convert_type(out, own.dtype, own.weak_type)


def _in_stretch(x: Any, index: Any, mode: Any, update: Callable[[Any, Any], Any]) -> Any:
    """`x` where `update(part, index)` has changed the part that the first `ds` cuts out.

    None for an index without `ds`.
    """
    found = first_stretch(index, len(get_aval(x).shape))
    if found is None:
        return None
    axis, item, rest = found
    stretch = Stretch(x, axis, item)
    if stretch.is_window:
        part = stretch.cut(x)
        return stretch.put(x, part, update(part, rest), mode)
    if stretch.stride == 0 and stretch.size > 1:
        raise ValueError(f"at[...] takes no ds of stride 0 and size {stretch.size}: one element")
    places = (*[slice(None)] * axis, stretch.places())
    part = read(x, places, mode="clip", wrap=False)
    new = update(part, rest)
    return _update(x, places, new, "set", mode=mode, wrap_negative_indices=False)


def _write(
    x: Any,
    plan: IndexPlan,
    values: Any,
    kind: str,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | GatherScatterMode | None,
) -> Any:
    target = plan.result_shape()
    _check_broadcast(get_aval(values), target)
    if 0 in target:
        return x
    box = _static_box(plan, GatherScatterMode.from_any(mode))
    if box is not None:
        return _update_box(x, plan, box, values, kind)
    dims, vectors, updates_shape, arrange = _scatter_form(plan)
    updates = arrange(values)
    if get_aval(updates).shape != updates_shape:
        raise AssertionError(f"updates have shape {get_aval(updates).shape}, not {updates_shape}")
    single = not any(updates_shape[i] > 1 for i in _batch_axes(dims, len(updates_shape)))
    return _SCATTER[kind](
        x,
        vectors,
        updates,
        dims,
        indices_are_sorted=indices_are_sorted or single,
        unique_indices=unique_indices or single,
        mode=mode,
    )


def _batch_axes(dims: ScatterDimensionNumbers, rank: int) -> list[int]:
    return [i for i in range(rank) if i not in dims.update_window_dims]


def _check_broadcast(aval: ShapedArray, target: tuple[int, ...]) -> None:
    shape = aval.shape
    extra = len(shape) - len(target)
    tail = shape[max(extra, 0) :]
    fits = all(a in (1, b) for a, b in zip(tail[::-1], target[::-1], strict=False))
    if not fits or any(s != 1 for s in shape[: max(extra, 0)]):
        raise ValueError(
            f"{not_broadcastable(aval, target)}: values of shape {shape} cannot be written to the "
            f"indexed elements of shape {target}"
        )


def _static_box(plan: IndexPlan, mode: GatherScatterMode) -> list[tuple[int, int]] | None:
    """Start and size along each axis when the update is one static, contiguous block inside `x`."""
    box = [(0, s) for s in plan.shape]
    for w in plan.windows:
        if abs(w.step) != 1 and w.size > 1:
            return None
        low = w.start + (w.size - 1) * w.step if w.step < 0 else w.start
        box[w.axis] = (low, w.size)
    for p in plan.picked:
        if not p.is_static:
            return None
        extent = plan.shape[p.axis]
        start = p.index
        if not 0 <= start < extent:
            if mode is GatherScatterMode.FILL_OR_DROP or extent == 0:
                return None
            start = min(max(start, 0), extent - 1)
        box[p.axis] = (start, 1)
    return box


def _drop_new_axes(values: Any, plan: IndexPlan) -> Any:
    """`values`, of the result's shape, without the index's new axes."""
    rest = [isinstance(e, NewAxis) for e in plan.entries if not isinstance(e, Picked)]
    at_ = plan.batch_position
    flags = [*rest[:at_], *([False] * len(plan.batch_shape)), *rest[at_:]]
    gone = tuple(i for i, new in enumerate(flags) if new)
    return sh.squeeze(values, gone) if gone else values


def _spread(values: Any, shape: tuple[int, ...]) -> Any:
    found = get_aval(values).shape
    if len(found) > len(shape):
        values = sh.squeeze(values, tuple(range(len(found) - len(shape))))
        found = get_aval(values).shape
    if found == shape:
        return values
    lead = len(shape) - len(found)
    kept = [i for i, s in enumerate(found) if s == shape[lead + i]]
    if len(kept) != len(found):
        values = sh.squeeze(values, tuple(i for i in range(len(found)) if i not in kept))
    return sh.broadcast_in_dim(values, shape, tuple(lead + i for i in kept))


def _update_box(x: Any, plan: IndexPlan, box: list[tuple[int, int]], values: Any, kind: str) -> Any:
    """A static block: slice, combine and `dynamic_update_slice`, without a scatter."""
    block = tuple(size for _, size in box)
    new = _drop_new_axes(_spread(values, plan.result_shape()), plan)
    new = sh.reshape(new, block)
    flipped = tuple(w.axis for w in plan.windows if w.step < 0 and w.size > 1)
    if flipped:
        new = sh.rev(new, flipped)
    if block == plan.shape:
        return _ELEMENTWISE[kind](x, new)
    starts = [start for start, _ in box]
    if kind != "set":
        limits = [start + size for start, size in box]
        new = _ELEMENTWISE[kind](sl.slice(x, starts, limits), new)
    index = dtypes.default_dtype("i").type
    return sl.dynamic_update_slice_p.bind(x, new, *(index(s) for s in starts))


def _scatter_form(
    plan: IndexPlan,
) -> tuple[ScatterDimensionNumbers, Any, tuple[int, ...], Callable[[Any], Any]]:
    """The scatter that writes to what `plan` selects.

    Index arrays and windows with steps are index vectors; contiguous windows that are not the
    whole axis add their start to each vector. Returns the dimension numbers, the vectors, the
    shape of the updates (batch axes first, then window axes in the operand's order) and the
    function that brings values to that shape.
    """
    batch = plan.batch_shape
    stepped = [w for w in plan.windows if abs(w.step) != 1 and w.size > 1]
    windows = [w for w in plan.windows if w not in stepped]
    full_batch = (*batch, *(w.size for w in stepped))
    rank = len(full_batch)
    picked: list[Any] = []
    axes: list[int] = []
    inserted: list[int] = []
    for p in plan.picked:
        shape = p.shape
        index = p.index
        if shape or stepped:
            index = _reshaped(index, (*shape, *(1,) * len(stepped)))
        picked.append(index)
        axes.append(p.axis)
        inserted.append(p.axis)
    for i, w in enumerate(stepped):
        line = np.arange(w.size, dtype=dtypes.default_dtype("i")) * w.step + w.start
        shape = [1] * rank
        shape[len(batch) + i] = w.size
        picked.append(line.astype(dtypes.default_dtype("i")).reshape(shape))
        axes.append(w.axis)
        inserted.append(w.axis)
    for w in windows:
        extent = plan.shape[w.axis]
        if w.size != extent:
            low = w.start + (w.size - 1) * w.step if w.step < 0 else w.start
            picked.append(low)
            axes.append(w.axis)
    vectors = _vectors(plan, picked, axes, full_batch)
    ordered = sorted(windows, key=lambda w: w.axis)
    updates_shape = (*full_batch, *(w.size for w in ordered))
    dims = ScatterDimensionNumbers(
        tuple(range(rank, rank + len(ordered))), tuple(sorted(inserted)), tuple(axes)
    )
    # Where each axis of the result (new axes dropped) goes among the axes of the updates.
    at_ = sum(isinstance(e, Window) for e in _entries_before(plan))
    in_result: list[Any] = [e for e in plan.entries if isinstance(e, Window)]
    order_of = [*in_result[:at_], *range(len(batch)), *in_result[at_:]]
    wanted = [*range(len(batch)), *stepped, *ordered]
    permutation = tuple(_position(order_of, w) for w in wanted)
    flipped = tuple(rank + i for i, w in enumerate(ordered) if w.step < 0 and w.size > 1)

    def arrange(values: Any) -> Any:
        spread = _drop_new_axes(_spread(values, plan.result_shape()), plan)
        if permutation != tuple(range(len(permutation))):
            spread = sh.transpose(spread, permutation)
        return sh.rev(spread, flipped) if flipped else spread

    return dims, vectors, updates_shape, arrange


def _entries_before(plan: IndexPlan) -> list[Any]:
    """The entries of the result that stand before the axes of the index arrays."""
    rest = [e for e in plan.entries if not isinstance(e, Picked)]
    return rest[: plan.batch_position]


def _position(items: list[Any], wanted: Any) -> int:
    return next(i for i, item in enumerate(items) if item is wanted or item == wanted)


def _reshaped(index: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(index, int):
        return index
    return index.reshape(shape) if isinstance(index, np.ndarray) else sh.reshape(index, shape)


def _vectors(plan: IndexPlan, picked: list[Any], axes: list[int], batch: tuple[int, ...]) -> Any:
    if not picked:
        return np.zeros((0,), dtypes.default_dtype("i"))
    vectors = index_vectors(plan, picked, axes)
    found = get_aval(vectors).shape
    wanted = (*batch, len(picked))
    if found == wanted:
        return vectors
    return sh.broadcast_in_dim(vectors, wanted, tuple(range(len(wanted) - len(found), len(wanted))))


def _apply(
    x: Any,
    index: Any,
    func: Callable[[Any], Any],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    out_sharding: Any = None,
    wrap_negative_indices: bool = True,
) -> Any:
    if out_sharding is not None:
        options: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices,
            "mode": mode,
            "wrap_negative_indices": wrap_negative_indices,
        }
        return resharded("at[...].apply", out_sharding, lambda: _apply(x, index, func, **options))
    x = as_operand("at", x)

    def update(part: Any, rest: Any) -> Any:
        return _apply(
            part,
            rest,
            func,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            wrap_negative_indices=wrap_negative_indices,
        )

    stretched = _in_stretch(x, index, mode, update)
    if stretched is not None:
        return stretched
    index, inserted = lift_scalar_masks(index, len(get_aval(x).shape))
    if inserted:
        x = sh.expand_dims(x, inserted)
    plan = parse(index, get_aval(x).shape, wrap_negative_indices)
    if 0 in plan.result_shape():
        return sh.squeeze(x, inserted) if inserted else x
    dims, vectors, updates_shape, _ = _scatter_form(plan)
    out = sc.scatter_apply(
        x,
        vectors,
        func,
        dims,
        update_shape=updates_shape,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )
    out = with_weak_type_of(x, out)
    return sh.squeeze(out, inserted) if inserted else out


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: Any = None
) -> Array:
    """A copy of `arr` with `values` written along `axis` at `indices`; pass `inplace=False`.

    >>> import xpr.numpy as jnp
    >>> x = jnp.zeros((2, 3))
    >>> jnp.put_along_axis(x, jnp.array([[0], [2]]), 9.0, axis=1, inplace=False)
    Array([[9., 0., 0.],
           [0., 0., 9.]], dtype=float32)
    """
    if inplace:
        raise ValueError(
            "jax.numpy.put_along_axis cannot modify arrays in-place, because JAX arrays are "
            "immutable. Pass inplace=False to instead return an updated array."
        )
    x, idx = as_operand("put_along_axis", arr, 0), as_operand("put_along_axis", indices, 1)
    shape = get_aval(x).shape
    if axis is None:
        flat = sh.reshape(x, (get_aval(x).size,))
        return sh.reshape(_update(flat, idx, values, "set", mode=mode), shape)
    ishape = get_aval(idx).shape
    if len(shape) != len(ishape):
        raise ValueError(f"put_along_axis: arr has {len(shape)} axes and indices has {len(ishape)}")
    axis = axis + len(shape) if axis < 0 else axis
    entries = []
    for i in range(len(shape)):
        line = np.arange(shape[i], dtype=dtypes.default_dtype("i"))
        entries.append(
            idx if i == axis else line.reshape([-1 if k == i else 1 for k in range(len(shape))])
        )
    return _update(x, tuple(entries), values, "set", mode=mode)
