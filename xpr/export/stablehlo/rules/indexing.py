"""Operations that read and write at computed places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo import patterns
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of
from xpr.primitives._index_dims import ScatterDimensionNumbers


def _dynamic_slice(site: Site) -> Any:
    return lax.dynamic_slice(
        site.operand(0),
        site.operands[1:],
        site.ints("slice_sizes"),
        allow_negative_indices=False,
    )


def _dynamic_update_slice(site: Site) -> Any:
    return lax.dynamic_update_slice(
        site.operand(0), site.operand(1), site.operands[2:], allow_negative_indices=False
    )


def vectors_last(site: Site, indices: Any) -> Any:
    """Indices with their vectors along the last axis."""
    axis, rank = site.int("index_vector_dim"), len(shape_of(indices))
    if not 0 <= axis <= rank:
        raise site.error(f"index_vector_dim is {axis}, the indices have rank {rank}")
    if axis == rank:
        return lax.expand_dims(indices, (rank,))
    order = (*(a for a in range(rank) if a != axis), axis)
    return indices if axis == rank - 1 else lax.transpose(indices, order)


def gather(site: Site, sizes: tuple[int, ...]) -> Any:
    """A gather of windows of these sizes; starts are moved inside."""
    indices = vectors_last(site, site.operand(1))
    numbers = lax.GatherDimensionNumbers(
        site.ints("offset_dims"),
        site.ints("collapsed_slice_dims"),
        site.ints("start_index_map"),
        site.ints("operand_batching_dims", ()),
        site.ints("start_indices_batching_dims", ()),
    )
    return lax.gather(
        site.operand(0),
        indices,
        numbers,
        sizes,
        indices_are_sorted=site.flag("indices_are_sorted"),
        mode="clip",
    )


_SCATTERS: dict[str, Callable[..., Any]] = {
    "add": lax.scatter_add,
    "subtract": lax.scatter_sub,
    "multiply": lax.scatter_mul,
    "maximum": lax.scatter_max,
    "minimum": lax.scatter_min,
    "second": lax.scatter,
}
_BOOLEAN = {
    "add": "maximum",
    "or": "maximum",
    "maximum": "maximum",
    "multiply": "minimum",
    "and": "minimum",
    "minimum": "minimum",
    "second": "second",
}


def _scatter(site: Site) -> Any:
    count = len(site.operands) // 2
    operands, updates = site.operands[:count], site.operands[count + 1 :]
    indices = vectors_last(site, site.operand(count))
    block = site.block(0)
    numbers = ScatterDimensionNumbers(
        site.ints("update_window_dims"),
        site.ints("inserted_window_dims"),
        site.ints("scatter_dims_to_operand_dims"),
        site.ints("input_batching_dims", ()),
        site.ints("scatter_indices_batching_dims", ()),
    )
    if count == 1:
        name = patterns.named_body(block)
        if name == "first":
            return operands[0]
        options = {
            "indices_are_sorted": site.flag("indices_are_sorted"),
            "unique_indices": site.flag("unique_indices"),
            "mode": "drop",
        }
        x, new = operands[0], updates[0]
        if dtype_of(x) == np.bool_ and name in _BOOLEAN:
            found = _SCATTERS[_BOOLEAN[name]](_bytes(x), indices, _bytes(new), numbers, **options)
            return lax.convert_element_type(found, np.bool_)
        if name in _SCATTERS and not (dtype_of(x).kind == "c" and name[:2] in ("ma", "mi")):
            return _SCATTERS[name](x, indices, new, numbers, **options)
        if patterns.ignores(block, 1) and not patterns.captured(block):
            region = site.region(0)
            return lax.scatter_apply(
                x,
                indices,
                lambda e: region(e, e)[0],
                numbers,
                update_shape=shape_of(new),
                **options,
            )
    return scatter_windows(operands, indices, updates, numbers, site.region(0))


def _bytes(x: Any) -> Any:
    return lax.convert_element_type(x, np.uint8)


def scatter_windows(
    operands: Sequence[Any],
    indices: Any,
    updates: Sequence[Any],
    numbers: ScatterDimensionNumbers,
    body: Callable[..., list[Any]],
) -> list[Any]:
    """A scatter with any computation: all elements of all windows, one after the other."""
    shape, update_shape = shape_of(operands[0]), shape_of(updates[0])
    window_axes = numbers.update_window_dims
    outer = [a for a in range(len(update_shape)) if a not in window_axes]
    batch = numbers.operand_batching_dims
    inside = [a for a in range(len(shape)) if a not in (*numbers.inserted_window_dims, *batch)]
    positions: list[Any] = []
    in_bounds: Any = lax.full(update_shape, True)
    index_type = np.dtype(np.int32)
    starts = _narrow(indices)
    index_rank = len(shape_of(indices)) - 1
    for axis, size in enumerate(shape):
        place: Any = lax.full(update_shape, 0, index_type)
        span = 1
        if axis in inside:
            update_axis = window_axes[inside.index(axis)]
            span = update_shape[update_axis]
            place = lax.broadcasted_iota(index_type, update_shape, update_axis)
        if axis in numbers.scatter_dims_to_operand_dims:
            entry = numbers.scatter_dims_to_operand_dims.index(axis)
            start = lax.index_in_dim(starts, entry, index_rank, keepdims=False)
            start = lax.broadcast_in_dim(start, update_shape, outer)
            place = lax.add(place, start)
            fits = lax.bitwise_and(
                lax.ge(start, lax.full_like(start, 0)),
                lax.le(start, lax.full_like(start, size - span)),
            )
            in_bounds = lax.bitwise_and(in_bounds, fits)
        elif axis in batch:
            index_axis = numbers.scatter_indices_batching_dims[batch.index(axis)]
            place = lax.broadcasted_iota(index_type, update_shape, outer[index_axis])
        positions.append(place)
    flat: Any = lax.full(update_shape, 0, index_type)
    for place, size in zip(positions, shape, strict=True):
        flat = lax.add(lax.mul(flat, lax.full_like(flat, size)), place)
    # Windows follow each other in the order of the scatter's indices.
    order = (*outer, *window_axes)
    count = math.prod(update_shape)

    def in_a_row(x: Any) -> Any:
        return lax.reshape(lax.transpose(x, order), (count,))

    found = scatter_flat(
        [lax.reshape(x, (math.prod(shape),)) for x in operands],
        in_a_row(flat),
        in_a_row(in_bounds),
        [in_a_row(x) for x in updates],
        body,
    )
    return [lax.reshape(x, shape) for x in found]


def _narrow(indices: Any) -> Any:
    """Indices as int32; what is beyond these numbers is outside of any array, and stays so."""
    dtype = dtype_of(indices)
    if dtype.itemsize == 8:
        low = lax.full_like(indices, -1 if dtype.kind == "i" else 0)
        indices = lax.clamp(low, indices, lax.full_like(indices, np.iinfo(np.int32).max))
    return lax.convert_element_type(indices, np.int32)


def scatter_flat(
    operands: Sequence[Any],
    places: Any,
    valid: Any,
    updates: Sequence[Any],
    body: Callable[..., list[Any]],
) -> list[Any]:
    """Vectors in which `body(old, update)` replaces elements, one after the other."""
    count, size = shape_of(places)[0], shape_of(operands[0])[0]
    if not count or not size:
        return list(operands)

    def step(carried: tuple[Any, ...], x: Any) -> tuple[tuple[Any, ...], None]:
        place, ok, *new = x
        old = [
            lax.dynamic_index_in_dim(v, place, 0, keepdims=False, allow_negative_indices=False)
            for v in carried
        ]
        found = body(*old, *new)
        kept = [lax.select(ok, a, b) for a, b in zip(found, old, strict=True)]
        return tuple(
            lax.dynamic_update_slice(
                v, lax.reshape(k, (1,)), (place,), allow_negative_indices=False
            )
            for v, k in zip(carried, kept, strict=True)
        ), None

    out, _ = lax.scan(step, tuple(operands), (places, valid, *updates))
    return list(out)


def _torch_index_select(site: Site) -> Any:
    operand, index = site.operand(0), site.operand(1)
    axis, batch = site.int("dim"), site.int("batch_dims")
    shape = shape_of(operand)
    rank = len(shape_of(index))
    sizes = tuple(1 if a == axis or a < batch else n for a, n in enumerate(shape))
    offsets = tuple(a if a < axis else a + rank - batch - 1 for a in range(len(shape)))
    numbers = lax.GatherDimensionNumbers(
        tuple(o for a, o in enumerate(offsets) if a >= batch and a != axis),
        (axis,),
        (axis,),
        tuple(range(batch)),
        tuple(range(batch)),
    )
    return lax.gather(operand, lax.expand_dims(index, (rank,)), numbers, sizes, mode="clip")


RULES: dict[str, Rule] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": lambda site: gather(site, site.ints("slice_sizes")),
    "stablehlo.scatter": _scatter,
    "stablehlo.torch_index_select": _torch_index_select,
}
