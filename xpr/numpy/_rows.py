"""Parts of an array at computed places that are known to lie inside it."""

from __future__ import annotations

from typing import Any

from xpr.core.trace import get_aval
from xpr.numpy._typing import Array
from xpr.primitives.gather import GatherDimensionNumbers, GatherScatterMode, gather
from xpr.primitives.scatter import ScatterDimensionNumbers, scatter
from xpr.primitives.shape import expand_dims


def rows_at(x: Any, indices: Any, axis: int = 0, *, is_sorted: bool = False) -> Array:
    """The slices of `x` along `axis` at `indices`, an integer array of places in its range.

    The axes of `indices` take the place of `axis`. A place outside is moved to the nearest one.
    """
    shape, rank = get_aval(x).shape, get_aval(indices).ndim
    after = range(axis + rank, rank + len(shape) - 1)
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(axis), *after),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return gather(
        x,
        expand_dims(indices, (rank,)),
        numbers,
        (*shape[:axis], 1, *shape[axis + 1 :]),
        indices_are_sorted=is_sorted,
        mode=GatherScatterMode.CLIP,
    )


def put_at(x: Any, indices: Any, values: Any, *, unique: bool = False) -> Array:
    """The vector `x` with `values` at `indices`; those outside it are left out."""
    return scatter(
        x,
        expand_dims(indices, (get_aval(indices).ndim,)),
        values,
        ScatterDimensionNumbers((), (0,), (0,)),
        unique_indices=unique,
        mode=GatherScatterMode.FILL_OR_DROP,
    )
