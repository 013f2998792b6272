"""Reading by index: `x[...]`, `take` and their relatives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.config import state
from xpr.core.trace import get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._host_index import host_take
from xpr.numpy._index_plan import IndexPlan, Picked, Window, lift_scalar_masks, parse
from xpr.numpy._promote import as_operand, refuse_out
from xpr.numpy._stretches import Stretch, first_stretch
from xpr.primitives import creation as cr
from xpr.primitives import elementwise as el
from xpr.primitives import gather as ga
from xpr.primitives import joining as jo
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives._index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    canonicalize_axis,
)
from xpr.primitives.compare import eq
from xpr.primitives.convert import convert_element_type, convert_type
from xpr.primitives.slicing import wrap_negative


def read(
    x: Any,
    index: Any,
    *,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap: bool = True,
) -> Any:
    """`x[index]` with a choice of what out-of-bounds indices mean (see `lax.gather`).

    Negative integers count from the end unless `wrap` is false: then they are out of bounds.
    """
    found = first_stretch(index, len(get_aval(x).shape))
    if found is not None:
        axis, item, rest = found
        stretch = Stretch(x, axis, item)
        if stretch.is_window:
            x = stretch.cut(x)
        else:
            x = read(x, (*[slice(None)] * axis, stretch.places()), mode="clip", wrap=False)
        return read(
            x,
            rest,
            mode=mode,
            fill_value=fill_value,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap=wrap,
        )
    index, inserted = lift_scalar_masks(index, len(get_aval(x).shape))
    if inserted:
        x = sh.expand_dims(x, inserted)
    plan = parse(index, get_aval(x).shape, wrap)
    chosen = (
        GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    )
    if state.check_static_indices and chosen is GatherScatterMode.PROMISE_IN_BOUNDS:
        _check_static(plan)
    if plan.is_advanced or (chosen is GatherScatterMode.FILL_OR_DROP and plan.picked):
        return _advanced(x, plan, chosen, fill_value, indices_are_sorted, unique_indices)
    return _basic(x, plan)


def _check_static(plan: IndexPlan) -> None:
    """Raises IndexError for a Python int that is out of bounds."""
    for picked in plan.picked:
        extent = plan.shape[picked.axis]
        if picked.is_static and not 0 <= picked.index < extent:
            counted_from_end = plan.wrap and picked.index < 0
            index = picked.index - extent if counted_from_end else picked.index
            raise IndexError(
                f"index {index} out of bounds for axis {picked.axis} with size {extent}; "
                "check_static_indices is on"
            )


def _slice_windows(x: Any, plan: IndexPlan, static: dict[int, int]) -> Any:
    """`x` with every window cut out and every static integer's axis reduced to size 1."""
    shape = plan.shape
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    flipped = []
    for w in plan.windows:
        if w.step < 0:
            flipped.append(w.axis)
            starts[w.axis] = w.start + (w.size - 1) * w.step if w.size else 0
            limits[w.axis] = w.start + 1 if w.size else 0
            strides[w.axis] = -w.step
        else:
            starts[w.axis] = w.start
            limits[w.axis] = w.start + (w.size - 1) * w.step + 1 if w.size else w.start
            strides[w.axis] = w.step
    for axis, value in static.items():
        starts[axis], limits[axis] = value, value + 1
    if any(starts) or tuple(limits) != shape or any(s != 1 for s in strides):
        every = all(s == 1 for s in strides)
        x = sl.slice(x, starts, limits, None if every else strides)
    return sh.rev(x, tuple(flipped)) if flipped else x


def _static_start(value: int, axis: int, extent: int) -> int:
    """An index that is known, as the start of a dynamic slice: any int32."""
    if extent == 0:
        raise IndexError(f"index is out of bounds for axis {axis} with size 0")
    info = np.iinfo(np.int32)
    return value if 0 <= value < extent else min(max(value, info.min), info.max)


def _with_new_axes(x: Any, plan: IndexPlan) -> Any:
    """Inserts the new axes; `x` has the other axes of the result already."""
    shape = plan.result_shape()
    found = get_aval(x).shape
    if found == shape:
        return x
    kinds: list[bool] = []
    at = plan.batch_position
    rest = [not isinstance(e, Window) for e in plan.entries if not isinstance(e, Picked)]
    kinds = [*rest[:at], *([False] * len(plan.batch_shape)), *rest[at:]]
    return sh.broadcast_in_dim(x, shape, tuple(i for i, new in enumerate(kinds) if not new))


def _basic(x: Any, plan: IndexPlan) -> Any:
    """Slices and single integers: no gather."""
    static = {
        p.axis: _static_start(p.index, p.axis, plan.shape[p.axis])
        for p in plan.picked
        if p.is_static
    }
    traced = {p.axis: p.index for p in plan.picked if not p.is_static}
    # One out of bounds is moved into them by a dynamic slice, where `checkify` sees it.
    if traced or any(not 0 <= i < plan.shape[a] for a, i in static.items()):
        out = _dynamic_window(x, plan, static, traced)
    else:
        out = _slice_windows(x, plan, static)
    gone = tuple(sorted((*static, *traced)))
    if gone:
        out = sh.squeeze(out, gone)
    return _with_new_axes(out, plan)


def _dynamic_window(x: Any, plan: IndexPlan, static: dict[int, int], traced: dict[int, Any]) -> Any:
    """The window that some traced integers move, in one dynamic slice; steps are taken after it."""
    shape = plan.shape
    if any(shape[a] == 0 for a in traced):
        raise IndexError("cannot index an axis of size 0 by a traced integer")
    boxes = {w.axis: _box(w) for w in plan.windows}
    dtype = _start_dtype(traced.values())
    starts: list[Any] = []
    sizes = []
    for axis in range(len(shape)):
        if axis in traced:
            starts.append(_as_start(traced[axis], shape[axis] if plan.wrap else 0, dtype))
            sizes.append(1)
        else:
            low, size = boxes[axis] if axis in boxes else (static[axis], 1)
            starts.append(dtype.type(low))
            sizes.append(size)
    out = sl.dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes))
    return _take_steps(out, plan)


def _box(w: Window) -> tuple[int, int]:
    """Where the stretch of an axis begins that a window touches, and its length."""
    low = w.start if w.step > 0 or not w.size else w.start + (w.size - 1) * w.step
    return low, (w.size - 1) * abs(w.step) + 1 if w.size else 0


def _take_steps(x: Any, plan: IndexPlan) -> Any:
    """The elements of each window from the stretch of the axis that it touches."""
    steps = {w.axis: w.step for w in plan.windows if w.size > 1}
    # The reversal comes first: IREE does not compile that of a strided part of a dynamic slice.
    flipped = tuple(a for a, s in steps.items() if s < 0)
    if flipped:
        x = sh.rev(x, flipped)
    if any(abs(s) != 1 for s in steps.values()):
        shape = get_aval(x).shape
        x = sl.slice(x, [0] * len(shape), shape, [abs(steps.get(a, 1)) for a in range(len(shape))])
    return x


def _as_start(index: Any, extent: int, dtype: np.dtype[Any]) -> Any:
    """A traced integer in the common type of starts, negative ones counted from the end."""
    own = get_aval(index).dtype
    if own.kind == "i" and dtype.kind == "u":
        # What is still negative lies far outside, on the low side.
        return convert_type(el.max(wrap_negative(index, extent), own.type(0)), dtype)
    return wrap_negative(convert_type(index, dtype), extent)


def _start_dtype(starts: Iterable[Any]) -> np.dtype[Any]:
    """The type that holds every start: int32 (int64 with 64 bits), or a wider one of theirs."""
    widest = dtypes.default_dtype("i")
    for s in starts:
        own = get_aval(s).dtype
        if own.itemsize > widest.itemsize or (own.itemsize == widest.itemsize and own.kind == "u"):
            widest = own
    return widest


def index_vectors(plan: IndexPlan, picked: list[Any], axes: list[int]) -> Any:
    """The index arrays broadcast together and stacked along a last axis, negative ones wrapped.

    `picked` holds integers and arrays, `axes` the operand's axis that each one indexes.
    """
    shape = np.broadcast_shapes(
        *(get_aval(p).shape if not isinstance(p, int) else () for p in picked)
    )
    arrays = [p for p in picked if not isinstance(p, int)]
    wide = max(
        [dtypes.default_dtype("i"), *(get_aval(p).dtype for p in arrays)], key=lambda d: d.itemsize
    )
    if any(
        get_aval(p).dtype.kind == "u" and get_aval(p).dtype.itemsize == wide.itemsize
        for p in arrays
    ):
        # A signed type as wide would turn large unsigned indices negative.
        wide = np.dtype(f"u{wide.itemsize}")
    columns = []
    for p, axis in zip(picked, axes, strict=True):
        if isinstance(p, int):
            info = np.iinfo(wide)
            # A negative number that is left after wrapping is out of bounds, also when unsigned.
            value = info.max if p < 0 and wide.kind == "u" else min(max(p, info.min), info.max)
            column: Any = np.full(shape, value, wide)
        elif isinstance(p, np.ndarray) or type(p) is ArrayImpl:
            host = np.asarray(p)
            if host.dtype.kind == "i":
                host = host.astype(np.int64)
                if plan.wrap:
                    host = np.where(host < 0, host + plan.shape[axis], host)
                if wide.kind == "u":
                    # Still negative means far out of bounds, and so does the greatest number.
                    host = np.where(host < 0, np.iinfo(wide).max, host.astype(np.uint64))
                else:
                    info = np.iinfo(wide)
                    host = np.clip(host, info.min, info.max)
            column = np.broadcast_to(host.astype(wide), shape)
        else:
            wrapped = convert_type(wrap_negative(p, plan.shape[axis]) if plan.wrap else p, wide)
            own = get_aval(wrapped).shape
            dims = tuple(range(len(shape) - len(own), len(shape)))
            column = wrapped if own == shape else sh.broadcast_in_dim(wrapped, shape, dims)
        columns.append(column)
    if all(isinstance(c, np.ndarray) for c in columns):
        return np.stack(columns, axis=-1)
    parts = [sh.expand_dims(c, (len(shape),)) for c in columns]
    return parts[0] if len(parts) == 1 else jo.concatenate(parts, len(shape))


def _advanced(
    x: Any,
    plan: IndexPlan,
    mode: GatherScatterMode,
    fill_value: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
) -> Any:
    """At least one index array (or a fill value for single integers): one gather."""
    shape, batch = plan.shape, plan.batch_shape
    picked: list[Any] = [p.index for p in plan.picked]
    axes = [p.axis for p in plan.picked]
    empty = [a for a in axes if shape[a] == 0]
    if empty and mode is not GatherScatterMode.FILL_OR_DROP and 0 not in batch:
        raise IndexError(f"index is out of bounds for axis {empty[0]} with size 0")
    if empty:
        # Nothing to read: every element is the fill value, or there is none.
        fill = ga.gather_fill(get_aval(x).dtype, fill_value)
        return cr.full(plan.result_shape(), fill, get_aval(x).dtype)
    if any(abs(w.step) != 1 and w.size > 1 for w in plan.windows):
        x = _slice_windows(x, plan, {})
        shape = get_aval(x).shape
        windows = [Window(w.axis, 0, w.size, 1) for w in plan.windows]
    else:
        windows = plan.windows
    sizes = [1] * len(shape)
    mapped = list(axes)
    for w in windows:
        low, sizes[w.axis] = _box(w)
        if low:
            picked.append(low)
            mapped.append(w.axis)
    vectors = index_vectors(plan, picked, mapped)
    before = sum(isinstance(e, Window) for e in _entries_before(plan))
    offset = [i if i < before else i + len(batch) for i in range(len(windows))]
    out = ga.gather(
        x,
        vectors,
        GatherDimensionNumbers(tuple(offset), tuple(sorted(axes)), tuple(mapped)),
        tuple(sizes),
        mode=mode,
        fill_value=fill_value,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )
    ordered = sorted(windows, key=lambda w: w.axis)
    flipped = [offset[i] for i, w in enumerate(ordered) if w.step < 0 and w.size > 1]
    if flipped:
        out = sh.rev(out, tuple(flipped))
    return _with_new_axes(out, plan)


def _entries_before(plan: IndexPlan) -> list[Any]:
    """The entries of the result that stand before the axes of the index arrays."""
    rest = [e for e in plan.entries if not isinstance(e, Picked)]
    return rest[: plan.batch_position]


_TAKE_MODES = ("clip", "fill", "drop", "promise_in_bounds", "wrap")


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """Elements of `a` along `axis` (of its ravelled form when None) at integer `indices`.

    `mode` is "fill" (the default: `fill_value`, by default NaN or the extreme integer, for indices
    out of bounds), "clip" (in which negative ones become 0) or "wrap" (modulo the size). The result
    has the axes of `indices` in place of `axis`.

    >>> import xpr.numpy as jnp
    >>> jnp.take(jnp.array([10, 20, 30]), jnp.array([2, 0]))
    Array([30, 10], dtype=int32)
    """
    refuse_out("take", out)
    rows = getattr(type(a), "__xpr_take__", None)
    if rows is not None:
        # An array in low precision, of which only the rows are made that are taken.
        found = rows(a, indices, axis, mode, fill_value)
        if found is not None:
            return found
    if mode is None or mode == "clip" or mode == "wrap":
        found = host_take(a, indices, axis, mode)
        if found is not None:
            return found
    x, idx = as_operand("take", a, 0), as_operand("take", indices, 1)
    ishape = get_aval(idx).shape
    if get_aval(idx).dtype == dtypes.BOOL:
        idx = convert_type(idx, dtypes.default_dtype("i"))
    if not dtypes.is_integer(get_aval(idx).dtype):
        raise ValueError(f"indices must have an integer type: take got {get_aval(idx).dtype}")
    if axis is None:
        x = sh.reshape(x, (get_aval(x).size,))
        axis = 0
    shape = get_aval(x).shape
    axis = canonicalize_axis(axis, len(shape))
    if shape[axis] == 0 and 0 not in ishape:
        raise IndexError("Cannot do a non-empty jnp.take() from an empty axis.")
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    if mode == GatherScatterMode.ONE_HOT or (isinstance(mode, str) and mode not in _TAKE_MODES):
        raise ValueError(f"Invalid mode {mode!r} for np.take")
    if mode == "wrap":
        idx, mode = _modulo(idx, shape[axis]), "promise_in_bounds"
    elif mode is None or mode == "fill":
        idx, mode = _from_end(idx, shape[axis]), "fill"
    if 0 in ishape:
        return cr.full((*shape[:axis], *ishape, *shape[axis + 1 :]), 0, get_aval(x).dtype)
    before = tuple(range(axis))
    after = tuple(range(axis + len(ishape), len(shape) + len(ishape) - 1))
    return ga.gather(
        x,
        sh.expand_dims(idx, (len(ishape),)),
        GatherDimensionNumbers((*before, *after), (axis,), (axis,)),
        (*shape[:axis], 1, *shape[axis + 1 :]),
        mode=mode,
        fill_value=fill_value,
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
    )


def _one_hot_product(x: Any, index: Any, axis: int) -> Any:
    from xpr.numpy.contractions import einsum  # noqa: PLC0415  products come after indexing

    extent = get_aval(x).shape[axis]
    if get_aval(index).dtype.itemsize < 4:
        index = convert_element_type(index, np.int32)
    rank = get_aval(x).ndim
    wanted = sh.expand_dims(index, (rank,))
    hot = eq(wanted, cr.broadcasted_iota(get_aval(index).dtype, (1,) * rank + (extent,), rank))
    taken, summed = rank, rank + 1  # numbers of axes that the others leave free
    rows = [taken if i == axis else i for i in range(rank)]
    columns = [summed if i == axis else i for i in range(rank)]
    return einsum(
        hot,
        [*rows, summed],
        x,
        columns,
        rows,
        precision="highest",
        preferred_element_type=get_aval(x).dtype,
    )


def _from_end(index: Any, extent: int) -> Any:
    """Negative indices counted from the end; concrete ones on the host."""
    if not isinstance(index, (np.ndarray, ArrayImpl)):
        return wrap_negative(index, extent)
    host = np.asarray(index)
    if host.dtype.kind == "u":
        return index
    wide = host if host.dtype.itemsize >= 4 else host.astype(np.int32)
    return np.where(wide < 0, wide + wide.dtype.type(extent), wide)


def _modulo(index: Any, extent: int) -> Any:
    from xpr.numpy.ufuncs import remainder  # noqa: PLC0415  ufuncs come after indexing

    return remainder(index, extent) if extent else index


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Elements of `arr` along `axis`, matching the other axes of `indices` position by position.

    Negative indices count from the end, unless `wrap_negative_indices` is False: then they are out
    of bounds. The default depends on `mode`: they count from the end in "fill", "clip" and
    "one_hot", which is a product with ones at the indices and gives 0 for those out of bounds.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([[3, 1, 2]])
    >>> jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1)
    Array([[1, 2, 3]], dtype=int32)
    """
    x, idx = as_operand("take_along_axis", arr, 0), as_operand("take_along_axis", indices, 1)
    if not dtypes.is_integer(get_aval(idx).dtype):
        raise TypeError(
            f"take_along_axis indices must be of integer type, got {get_aval(idx).dtype}"
        )
    if axis is None:
        if len(get_aval(idx).shape) != 1:
            raise ValueError(
                "take_along_axis with axis=None requires 1-D indices, got shape "
                f"{get_aval(idx).shape}"
            )
        flat = sh.reshape(x, (get_aval(x).size,))
        return take_along_axis(
            flat, idx, 0, mode, fill_value, wrap_negative_indices=wrap_negative_indices
        )
    shape, ishape = get_aval(x).shape, get_aval(idx).shape
    if len(shape) != len(ishape):
        raise ValueError(
            "indices and arr must have the same number of dimensions; "
            f"{len(ishape)} vs. {len(shape)}"
        )
    axis = canonicalize_axis(axis, len(shape))
    for i, (a, b) in enumerate(zip(shape, ishape, strict=True)):
        if i != axis and a != b and 1 not in (a, b):
            others = [
                tuple(1 if k == axis else n for k, n in enumerate(s)) for s in (ishape, shape)
            ]
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={others}")
    if wrap_negative_indices is None:
        wrap_negative_indices = mode is None or mode in ("fill", "clip", "one_hot")
    if wrap_negative_indices:
        idx = _from_end(idx, shape[axis])
    # Axes of equal size run in step. An axis that only the indices have is one of the batch, an
    # axis that only the array has is taken whole.
    step = [i for i in range(len(shape)) if i != axis and ishape[i] == shape[i]]
    whole = [i for i in range(len(shape)) if i != axis and ishape[i] == 1 and shape[i] != 1]
    collapsed = [i for i in range(len(shape)) if i not in step and i not in whole]
    kept = [i for i in range(len(shape)) if i not in whole]
    out_shape = tuple(shape[i] if i in whole else ishape[i] for i in range(len(shape)))
    if 0 in out_shape:
        return cr.full(out_shape, 0, get_aval(x).dtype)
    if shape[axis] == 0:
        raise IndexError(f"index is out of bounds for axis {axis} with size 0")
    if mode == "one_hot":
        return _one_hot_product(x, idx, axis)
    return ga.gather(
        x,
        sh.reshape(idx, (*(ishape[i] for i in kept), 1)),
        GatherDimensionNumbers(
            offset_dims=tuple(whole),
            collapsed_slice_dims=tuple(collapsed),
            start_index_map=(axis,),
            operand_batching_dims=tuple(step),
            start_indices_batching_dims=tuple(kept.index(i) for i in step),
        ),
        tuple(shape[i] if i in whole else 1 for i in range(len(shape))),
        mode=mode or "fill",
        fill_value=fill_value,
    )
