"""Derivatives, transposes and batching rules of the scatter family.

They rest on what xpr promises of a scatter: of several updates of one element the last in row-major
order stays. So tangents may be scattered as the values are, and the transposed program finds out
which update stayed by scattering their numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr
from xpr.core.trace import get_aval
from xpr.interpreters.batching import at_front
from xpr.interpreters.jvp import jvp_flat
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Shape,
)
from xpr.primitives._scalar_jaxpr import apply_elementwise, is_elementwise, trace_scalars
from xpr.primitives._shape_rules import shifted
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    Zero,
    full_like,
    instantiate,
    is_linear,
    shape_of,
    zeros,
)

Params = dict[str, Any]
_INT32 = np.dtype(np.int32)

_COMBINERS = {
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}


@functools.lru_cache(maxsize=512)
def combiner(name: str, dtype: np.dtype[Any]) -> ClosedJaxpr | None:
    """The program over scalars that the primitive `name` combines elements and updates with."""
    if name not in _COMBINERS:
        return None
    scalar = ShapedArray((), dtype)
    return trace_scalars(name, lambda x, y: [ops.bind(_COMBINERS[name], x, y)], [scalar])


def _scatter(name: str, x: Any, indices: Any, updates: Any, params: Params) -> Any:
    """The scatter `name` with the dimension numbers, mode and promises in `params`."""
    given = {**params, "update_jaxpr": combiner(name, get_aval(x).dtype), "update_consts": ()}
    return ops.bind(name, x, indices, updates, **given)


# ---- windows


def window_axes(ndim: int, dims: ScatterDimensionNumbers) -> list[int]:
    """Axes of the operand that the update windows have."""
    left_out = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    return [a for a in range(ndim) if a not in left_out]


def window_sizes(shape: Shape, updates: Shape, dims: ScatterDimensionNumbers) -> Shape:
    """The extent of an update window along each axis of an operand of that shape."""
    sizes = [1] * len(shape)
    for axis, update_axis in zip(
        window_axes(len(shape), dims), dims.update_window_dims, strict=True
    ):
        sizes[axis] = updates[update_axis]
    # An axis that no window has is empty in the windows when it is in the operand.
    return tuple(map(min, sizes, shape))


def _windows(
    x: Any,
    indices: Any,
    updates: Any,
    params: Params,
    mode: GatherScatterMode | None = None,
    fill_value: float = 0,
) -> Any:
    """What a gather reads where the scatter writes: an array of the shape of the updates."""
    dims = params["dimension_numbers"]
    # What is promised of indices does not hold of those that another mode moves inside.
    same = mode is None or mode is params["mode"]
    mode = params["mode"] if mode is None else mode
    return ops.bind(
        "gather",
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*dims),
        slice_sizes=window_sizes(shape_of(x), shape_of(updates), dims),
        indices_are_sorted=params["indices_are_sorted"] and same,
        unique_indices=params["unique_indices"] and same,
        mode=mode,
        fill_value=fill_value if mode is GatherScatterMode.FILL_OR_DROP else None,
    )


def _update_numbers(updates: Any, dims: ScatterDimensionNumbers) -> Any:
    """For each element of the updates the number of its window, in row-major order."""
    shape = shape_of(updates)
    batch = [i for i in range(len(shape)) if i not in dims.update_window_dims]
    sizes = [shape[i] for i in batch]
    line = ops.bind("iota", dtype=_INT32, shape=(math.prod(sizes),), dimension=0, sharding=None)
    return ops.broadcast_in_dim(ops.reshape(line, sizes), shape, batch)


def _never_meet(indices: Any, params: Params) -> bool:
    """Whether no element is indexed twice: promised, or there is one window only."""
    count = math.prod(shape_of(indices)[:-1])
    for i in params["dimension_numbers"].scatter_indices_batching_dims:
        count //= max(shape_of(indices)[i], 1)
    return params["unique_indices"] or count <= 1


# ---- scatter


def scatter_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    out = ops.bind("scatter", x, indices, updates, **params)
    if params["update_jaxpr"] is not None:
        return out, _apply_tangent(x, indices, updates, tangents[0], params)
    x_tangent, _, update_tangent = tangents
    tangent = ops.bind(
        "scatter", instantiate(x_tangent), indices, instantiate(update_tangent), **params
    )
    return out, tangent


def _apply_tangent(x: Any, indices: Any, updates: Any, x_tangent: Any, params: Params) -> Any:
    """The tangent of a scatter that applies a function to the indexed elements."""
    if type(x_tangent) is Zero:
        return x_tangent
    closed: ClosedJaxpr = params["update_jaxpr"]
    if not _never_meet(indices, params):
        raise NotImplementedError(
            "scatter_apply is differentiable only with unique_indices=True: elements may be "
            "indexed more than once"
        )
    if not is_elementwise(closed.jaxpr):
        raise NotImplementedError(
            "scatter_apply is differentiable only with a function of elementwise operations"
        )
    # Windows that the scatter will drop have to hold something at which the function is defined.
    clip = GatherScatterMode.CLIP
    old = _windows(x, indices, updates, params, clip)
    old_tangent = _windows(x_tangent, indices, updates, params, clip)

    def function(elements: Any) -> Sequence[Any]:
        return apply_elementwise(closed.jaxpr, closed.consts, elements, elements)

    _, (new,) = jvp_flat(function, [old], [old_tangent])
    return _scatter("scatter", x_tangent, indices, instantiate(new), params)


def scatter_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    x_ct = update_ct = None
    if is_linear(x):
        cut = zeros(ShapedArray(shape_of(updates), get_aval(ct).dtype))
        x_ct = ops.bind("scatter", ct, indices, cut, **params)
    if is_linear(updates):
        update_ct = _windows(ct, indices, updates, params)
        if not _never_meet(indices, params):
            numbers = _update_numbers(updates, params["dimension_numbers"])
            nowhere = zeros(ShapedArray(shape_of(ct), _INT32))
            stayed = _scatter("scatter", nowhere, indices, numbers, params)
            found = _windows(stayed, indices, updates, params, fill_value=-1)
            update_ct = ops.select(ops.eq(found, numbers), update_ct, full_like(update_ct, 0))
    return [x_ct, None, update_ct]


# ---- scatter-add and scatter-sub


def linear_jvp(name: str) -> Callable[..., tuple[Any, Any]]:
    """The JVP rule of scatter-add or scatter-sub, which is linear in operand and updates."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        x, indices, updates = primals
        out = ops.bind(name, x, indices, updates, **params)
        x_tangent, _, update_tangent = tangents
        if type(update_tangent) is Zero:
            return out, x_tangent
        return out, ops.bind(name, instantiate(x_tangent), indices, update_tangent, **params)

    return jvp


def linear_transpose(name: str) -> Callable[..., list[Any]]:
    """The transpose of scatter-add or scatter-sub."""

    def transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        update_ct = None
        if is_linear(updates):
            update_ct = _windows(ct, indices, updates, params)
            if name == "scatter-sub":
                update_ct = ops.neg(update_ct)
        return [ct if is_linear(x) else None, None, update_ct]

    return transpose


# ---- scatter-mul


def _require_unique(indices: Any, params: Params) -> None:
    if not _never_meet(indices, params):
        raise NotImplementedError(
            "scatter_mul is differentiable with respect to its updates only with "
            "unique_indices=True"
        )


def mul_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    x, indices, updates = primals
    out = ops.bind("scatter-mul", x, indices, updates, **params)
    x_tangent, _, update_tangent = tangents
    total = x_tangent
    if type(x_tangent) is not Zero:
        total = ops.bind("scatter-mul", x_tangent, indices, updates, **params)
    if type(update_tangent) is not Zero:
        _require_unique(indices, params)
        part = ops.mul(_windows(x, indices, updates, params), update_tangent)
        total = _scatter("scatter-add", instantiate(total), indices, part, params)
    return out, total


def mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if is_linear(x):
        return [ops.bind("scatter-mul", ct, indices, updates, **params), None, None]
    _require_unique(indices, params)
    both = _windows(ops.mul(ct, x), indices, updates, params)
    return [None, None, both]


# ---- scatter-min and scatter-max


def extreme_jvp(name: str) -> Callable[..., tuple[Any, Any]]:
    """The JVP rule of scatter-min or scatter-max.

    The tangent is that of the element or update that became the result; those that are equal share
    it evenly.
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        x, indices, updates = primals
        out = ops.bind(name, x, indices, updates, **params)
        x_tangent, _, update_tangent = tangents
        clip = GatherScatterMode.CLIP
        won = _became(updates, _windows(out, indices, updates, params, clip))
        one, zero = full_like(updates, 1), full_like(updates, 0)
        kept = _became(x, out)
        candidates = ops.select(kept, full_like(x, 1), full_like(x, 0))
        count = _scatter("scatter-add", candidates, indices, ops.select(won, one, zero), params)
        total = x_tangent
        if type(x_tangent) is not Zero:
            total = ops.select(kept, ops.div(x_tangent, count), full_like(x, 0))
        if type(update_tangent) is not Zero:
            shared = _windows(count, indices, updates, params, clip)
            part = ops.select(won, ops.div(update_tangent, shared), zero)
            total = _scatter("scatter-add", instantiate(total), indices, part, params)
        return out, total

    return jvp


def _became(x: Any, out: Any) -> Any:
    """Where `x` is the result: it is equal to it, or NaN, which wins against all else."""
    return ops.bind("or", ops.eq(x, out), ops.bind("ne", x, x))


# ---- batching


def batch_rule(name: str) -> Callable[..., tuple[Any, int]]:
    """The batching rule of the scatter `name`."""

    def batch(
        axis: BatchAxis,
        args: Sequence[Any],
        dims: Sequence[Dim],
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> tuple[Any, int]:
        (x, indices, updates), (dim, index_dim, update_dim) = args, dims
        numbers = dimension_numbers
        # Each example writes to its own part of the operand, so that the promises still hold.
        window = shifted(numbers.update_window_dims, 0)
        batching = shifted(numbers.operand_batching_dims, 0)
        index_batching = numbers.scatter_indices_batching_dims
        if index_dim is None:
            window = (0, *window)
        else:
            indices = at_front(axis, indices, index_dim)
            batching, index_batching = (0, *batching), (0, *shifted(index_batching, 0))
        numbers = ScatterDimensionNumbers(
            update_window_dims=window,
            inserted_window_dims=shifted(numbers.inserted_window_dims, 0),
            scatter_dims_to_operand_dims=shifted(numbers.scatter_dims_to_operand_dims, 0),
            operand_batching_dims=batching,
            scatter_indices_batching_dims=index_batching,
        )
        x, updates = at_front(axis, x, dim), at_front(axis, updates, update_dim)
        return ops.bind(name, x, indices, updates, dimension_numbers=numbers, **params), 0

    return batch
