"""Gathers: batches of indices and axes taken entirely pass through.

Along a sharded axis that single elements are taken from (the rows of an embedding), each device
takes those that it has, and everybody hears of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import GatherDimensionNumbers, GatherScatterMode
from xpr.primitives.gather import gather_fill
from xpr.sharding.place import elements
from xpr.sharding.rule import Axes, FactorRule, LocalShapes, Place, register
from xpr.sharding.rules._forms import NONE, Avals, AxisFactors, Builder, Params, axes_over
from xpr.sharding.rules._local import clamped, filled, offset, only_mine, spread

_INT32_MAX = np.iinfo(np.int32).max


class LocalIndices:
    """The index vectors of a gather or scatter, as seen by one device.

    `vectors` are int32 and count from where the device's own part begins; `inside` tells for each
    vector whether its window lies in the whole array, `mine` whether it lies in the part, too.
    """

    def __init__(
        self,
        place: Place,
        indices: Any,
        axes: Sequence[int],
        limits: Sequence[int],
        over: dict[int, Axes],
        shape: Sequence[int],
    ) -> None:
        aval = get_aval(indices)
        batch, last = aval.shape[:-1], aval.ndim - 1
        true = filled(batch, True, np.dtype(np.bool_))
        self.inside, self.mine = true, true
        self.columns: list[Any] = []
        for k, (axis, limit) in enumerate(zip(axes, limits, strict=True)):
            column = ops.reshape(elements(indices, last, k, k + 1), batch)
            start = clamped(column, limit)
            same = ops.eq(_kept(column, limit), column)
            self.inside = get_primitive("and").bind(self.inside, same)
            if axis in over:
                size = shape[axis]
                start = ops.sub(start, spread(offset(place, over[axis], size), batch))
                own = ops.eq(clamped(start, size - 1), start)
                self.mine = get_primitive("and").bind(self.mine, own)
            self.columns.append(start)

    def vectors(self) -> Any:
        """The index vectors, int32 of the shape that the indices had."""
        return get_primitive("stack").bind(*self.columns, axis=get_aval(self.columns[0]).ndim)


def _kept(index: Any, greatest: int) -> Any:
    """Integers clamped in their own type."""
    dtype = get_aval(index).dtype
    high = min(greatest, int(np.iinfo(dtype).max))
    return get_primitive("clamp").bind(dtype.type(0), index, dtype.type(high))


def index_factors(
    build: Builder,
    indices: ShapedArray,
    of_operand: Sequence[int],
    of_indices: Sequence[int],
    others: bool = True,
) -> tuple[dict[int, AxisFactors], list[AxisFactors]]:
    """Factors of the operand's batching axes, and of the indices' axes but the last.

    Of the latter, those that are no batching axes have factors only if `others` are wanted.
    """
    rank = indices.ndim - 1
    batch = build.axes(
        indices.shape[:-1], but=() if others else [i for i in range(rank) if i not in of_indices]
    )
    return {a: batch[b] for a, b in zip(of_operand, of_indices, strict=True)}, batch


def _gather(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    x, indices = operands
    dims: GatherDimensionNumbers = params["dimension_numbers"]
    sizes = params["slice_sizes"]
    shared, batch = index_factors(
        build, indices, dims.operand_batching_dims, dims.start_indices_batching_dims
    )
    left_out = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    countable = all(x.shape[a] <= _INT32_MAX for a in dims.start_index_map)
    own: list[AxisFactors] = []
    picked: set[int] = set()
    offsets: list[AxisFactors] = []
    for a, n in enumerate(x.shape):
        if a in shared:
            own.append(shared[a])
        elif sizes[a] == n:
            own.append(build.through(n))
        elif sizes[a] == 1 and a in dims.start_index_map and countable:
            own.append(build.through(n))
            picked.add(a)
        else:
            own.append(NONE)
        if a not in left_out:
            offsets.append(NONE if a in picked else own[-1])
    windows, rest = iter(offsets), iter(batch)
    made = [next(windows) if i in dims.offset_dims else next(rest) for i in range(results[0].ndim)]

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        over = {a: axes_over(own[a], local) for a in picked if axes_over(own[a], local)}
        shape = local.operands[0]
        # A window as wide as its axis is as wide as the part, too.
        mine = tuple(
            s if a in picked or a in shared or not f else n
            for a, (s, n, f) in enumerate(zip(sizes, shape, own, strict=True))
        )
        gather = get_primitive("gather")
        if not over:
            return [gather.bind(*args, **{**params, "slice_sizes": mine})]
        limits = [x.shape[a] - sizes[a] for a in dims.start_index_map]
        found = LocalIndices(place, args[1], dims.start_index_map, limits, over, shape)
        taken = gather.bind(
            args[0],
            found.vectors(),
            dimension_numbers=dims,
            slice_sizes=mine,
            indices_are_sorted=False,
            unique_indices=False,
            mode=GatherScatterMode.CLIP,
            fill_value=None,
        )
        aval = get_aval(taken)
        lines = [i for i in range(aval.ndim) if i not in dims.offset_dims]

        def lined(which: Any) -> Any:
            return ops.broadcast_in_dim(which, aval.shape, lines)

        together = tuple(name for axes in over.values() for name in axes)
        whole = only_mine(place, together, lined(found.mine), taken)
        if params["mode"] is GatherScatterMode.FILL_OR_DROP:
            blank = filled(aval.shape, gather_fill(aval.dtype, params["fill_value"]), aval.dtype)
            whole = ops.select(lined(found.inside), whole, blank)
        return [whole]

    return build.rule([own, [*batch, NONE]], [made], apply=apply)


register("gather", _gather)
