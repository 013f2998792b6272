"""Gather and scatter as plain loops over scalars, after the StableHLO specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.primitives._index_dims import GatherDimensionNumbers, ScatterDimensionNumbers

Host = np.ndarray[Any, Any]


def _starts(
    vector: list[int],
    batch_index: tuple[int, ...],
    ndim: int,
    start_map: tuple[int, ...],
    batching: tuple[int, ...],
    index_batching: tuple[int, ...],
) -> list[int]:
    start = [0] * ndim
    for k, axis in enumerate(start_map):
        start[axis] = vector[k]
    for axis, index_axis in zip(batching, index_batching, strict=True):
        start[axis] = batch_index[index_axis]
    return start


def _clipped(start: list[int], sizes: list[int], shape: tuple[int, ...]) -> list[int]:
    return [
        min(max(s, 0), total - size) for s, size, total in zip(start, sizes, shape, strict=True)
    ]


def _inside(start: list[int], sizes: list[int], shape: tuple[int, ...]) -> bool:
    return all(
        0 <= s and s + size <= total for s, size, total in zip(start, sizes, shape, strict=True)
    )


def gather_oracle(
    x: Host,
    indices: Host,
    dims: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    mode: str,
    fill: Any = None,
) -> Host:
    """What gather means, one element at a time."""
    left_out = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    kept = [a for a in range(x.ndim) if a not in left_out]
    rank = indices.ndim - 1 + len(dims.offset_dims)
    batch_axes = [a for a in range(rank) if a not in dims.offset_dims]
    shape = [0] * rank
    for axis, a in zip(dims.offset_dims, kept, strict=True):
        shape[axis] = slice_sizes[a]
    for axis, size in zip(batch_axes, indices.shape[:-1], strict=True):
        shape[axis] = size
    out = np.zeros(shape, x.dtype)
    for place in np.ndindex(*shape):
        batch = tuple(place[a] for a in batch_axes)
        vector = [int(v) for v in indices[batch]]
        start = _starts(
            vector, batch, x.ndim, dims.start_index_map,
            dims.operand_batching_dims, dims.start_indices_batching_dims,
        )  # fmt: skip
        if mode == "fill" and not _inside(start, list(slice_sizes), x.shape):
            out[place] = fill
            continue
        source = _clipped(start, list(slice_sizes), x.shape)
        for axis, a in zip(dims.offset_dims, kept, strict=True):
            source[a] += place[axis]
        out[place] = x[tuple(source)]
    return out


def scatter_oracle(
    x: Host,
    indices: Host,
    updates: Host,
    dims: ScatterDimensionNumbers,
    mode: str,
    combine: Callable[[Any, Any], Any],
) -> Host:
    """What scatter means, one update at a time in row-major order."""
    left_out = (*dims.inserted_window_dims, *dims.operand_batching_dims)
    kept = [a for a in range(x.ndim) if a not in left_out]
    batch_axes = [a for a in range(updates.ndim) if a not in dims.update_window_dims]
    sizes = [1] * x.ndim
    for axis, a in zip(dims.update_window_dims, kept, strict=True):
        sizes[a] = updates.shape[axis]
    out = x.copy()
    for batch in np.ndindex(*indices.shape[:-1]):
        vector = [int(v) for v in indices[batch]]
        start = _starts(
            vector, batch, x.ndim, dims.scatter_dims_to_operand_dims,
            dims.operand_batching_dims, dims.scatter_indices_batching_dims,
        )  # fmt: skip
        if mode in ("clip", "promise_in_bounds"):
            start = _clipped(start, sizes, x.shape)
        elif not _inside(start, sizes, x.shape):
            continue
        for window in np.ndindex(*(updates.shape[a] for a in dims.update_window_dims)):
            place = [0] * updates.ndim
            for axis, i in zip(batch_axes, batch, strict=True):
                place[axis] = i
            target = list(start)
            for axis, a, i in zip(dims.update_window_dims, kept, window, strict=True):
                place[axis] = i
                target[a] += i
            out[tuple(target)] = combine(out[tuple(target)], updates[tuple(place)])
    return out


def random_gather(rng: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...], Any, Any]:
    """Random shapes of operand and indices, dimension numbers and slice sizes."""
    ndim = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, 5, ndim))
    axes = [int(a) for a in rng.permutation(ndim)]
    batching_count = int(rng.integers(0, 2)) if ndim > 1 else 0
    batching = tuple(sorted(axes[:batching_count]))
    rest = axes[batching_count:]
    mapped = tuple(rest[: int(rng.integers(0, len(rest) + 1))])
    collapsed = tuple(sorted(a for a in rest if rng.random() < 0.5))
    sizes = tuple(
        1
        if a in collapsed or a in batching
        else int(rng.integers(0 if rng.random() < 0.1 else 1, shape[a] + 1))
        for a in range(ndim)
    )
    batch = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    if rng.random() < 0.05 and batch:
        batch[0] = 0
    index_axes: list[int] = []
    for a in batching:
        at = int(rng.integers(0, len(batch) + 1))
        batch.insert(at, shape[a])
        index_axes = [i + (i >= at) for i in index_axes]
        index_axes.append(at)
    window = [a for a in range(ndim) if a not in collapsed and a not in batching]
    rank = len(batch) + len(window)
    offset = tuple(sorted(int(i) for i in rng.permutation(rank)[: len(window)]))
    dims = GatherDimensionNumbers(offset, collapsed, mapped, batching, tuple(index_axes))
    return shape, (*batch, len(mapped)), dims, sizes


def as_scatter(dims: GatherDimensionNumbers) -> ScatterDimensionNumbers:
    """The scatter that writes where a gather with these numbers reads."""
    return ScatterDimensionNumbers(*dims)
