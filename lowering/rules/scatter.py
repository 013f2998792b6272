"""Scatter, with updates outside the operand made harmless: no index ever leaves it.

IREE takes few of StableHLO's scatters, so each becomes one of three plain forms: rows of a matrix
at a vector of row numbers; for one update, a slice that is read, combined and written back; and,
for combinations that IREE's scatter cannot hold, a loop over the updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Shape, Value
from xpr.lowering.ir.attributes import ScatterNumbers
from xpr.lowering.numerics.while_loop import counted_loop, while_loop
from xpr.lowering.registry import LoweringRule, register
from xpr.lowering.rules._in_memory import bits, in_memory, is_sparse
from xpr.lowering.rules._indexing import (
    clamped_index,
    columns_inside,
    dynamic_slice,
    dynamic_update_slice,
    index_columns,
    select_at,
)
from xpr.primitives import scatter as p

_INT8 = np.dtype(np.int8)
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
# Up to so many updates a loop over them beats rounds over the whole array.
_FEW = 16
# Smaller scatters take less time than a dispatch that is written by hand takes to compile.
_LEAST_IN_MEMORY = 4096
_MAX_INT32 = np.iinfo(_INT32).max

Combine = Callable[[LoweringContext, Value, Value], Value]


@dataclass(frozen=True)
class _Problem:
    """A scatter in a common form: n updates, each a window with all axes of the operand."""

    x: Value
    updates: Value
    """Shape (n, *window)."""

    starts: tuple[Value | None, ...]
    """For each axis of the operand where the n windows start, all inside; None means at 0."""

    ok: Value | None
    """For each update whether it counts; None when all do."""

    @property
    def n(self) -> int:
        return self.updates.shape[0]

    @property
    def window(self) -> Shape:
        return self.updates.shape[1:]


def _common_form(
    ctx: LoweringContext,
    x: Value,
    indices: Value,
    updates: Value,
    dims: p.ScatterDimensionNumbers,
    mode: p.GatherScatterMode,
) -> _Problem:
    sizes = p.window_sizes(x.shape, updates.shape, dims)
    mapped = dims.scatter_dims_to_operand_dims
    limits = [x.shape[a] - sizes[a] for a in mapped]
    batch = indices.shape[:-1]
    n = math.prod(batch)
    columns = [ctx.reshape(c, (n,)) for c in index_columns(ctx, indices)]
    ok = None
    if mode is p.GatherScatterMode.FILL_OR_DROP:
        ok = columns_inside(ctx, columns, limits)
    index = _INT32 if max(limits, default=0) <= _MAX_INT32 else _INT64
    starts: list[Value | None] = [None] * len(x.shape)
    for column, axis, limit in zip(columns, mapped, limits, strict=True):
        if limit:
            starts[axis] = ctx.convert(clamped_index(ctx, column, limit), index)
    for axis, index_axis in zip(
        dims.operand_batching_dims, dims.scatter_indices_batching_dims, strict=True
    ):
        starts[axis] = ctx.reshape(ctx.iota(index, batch, index_axis), (n,))
    rest = [i for i in range(len(updates.shape)) if i not in dims.update_window_dims]
    ordered = ctx.transpose(updates, (*rest, *dims.update_window_dims))
    return _Problem(x, ctx.reshape(ordered, (n, *sizes)), tuple(starts), ok)


# ---- combinations

_PLAIN = {
    "scatter-add": "add",
    "scatter-sub": "subtract",
    "scatter-mul": "multiply",
    "scatter-min": "minimum",
    "scatter-max": "maximum",
}


def _combination(name: str, dtype: np.dtype[Any], update_jaxpr: ClosedJaxpr | None) -> Combine:
    """What becomes of an old element and an update; works on tensors of any shape."""
    if update_jaxpr is None:
        return lambda ctx, old, new: new
    op = _PLAIN.get(name)
    if op is None or (op in ("minimum", "maximum") and dtypes.is_complex(dtype)):
        closed = update_jaxpr

        def general(old: Any, new: Any) -> Any:
            return eval_jaxpr(closed.jaxpr, closed.consts, old, new)[0]

        return lambda ctx, old, new: ctx.inline(general, old, new)
    if dtype == np.bool_:
        op = {"minimum": "and", "maximum": "or"}[op]
    chosen = op
    return lambda ctx, old, new: ctx.binary(chosen, old, new)


def _neutral(name: str, dtype: np.dtype[Any]) -> Any:
    """The update that changes no element, or None where there is none."""
    kind = dtypes.kind(dtype)
    if name == "scatter-add":
        # x + 0.0 would turn -0.0 into 0.0.
        return {"f": -0.0, "c": complex(-0.0, -0.0)}.get(kind, 0)
    if name == "scatter-sub":
        return 0
    if name == "scatter-mul" and kind != "c":
        return 1
    if name in ("scatter-min", "scatter-max") and kind != "c":
        least = name == "scatter-max"
        if kind == "f":
            return -np.inf if least else np.inf
        if kind == "b":
            return not least
        info = dtypes.iinfo(dtype)
        return int(info.min) if least else int(info.max)
    return None


# ---- the three forms


def _one_update(
    ctx: LoweringContext, problem: _Problem, combine: Combine, own_loop: bool = False
) -> Value:
    """A single window; `own_loop` says that it is a step of `_loop`, which updates in place."""
    x, window = problem.x, problem.window
    starts = [ctx.constant(0, _INT32) if s is None else ctx.reshape(s, ()) for s in problem.starts]
    old = dynamic_slice(ctx, x, starts, window)
    new = combine(ctx, old, ctx.reshape(problem.updates, window))
    if problem.ok is not None:
        new = ctx.select(ctx.reshape(problem.ok, ()), new, old)
    chosen = select_at(ctx, x, new, starts) if ctx.in_region and not own_loop else None
    return chosen or dynamic_update_slice(ctx, x, new, starts)


def _loop(ctx: LoweringContext, problem: _Problem, combine: Combine) -> Value:
    """One update after the other."""

    def step(inner: LoweringContext, i: Value, out: Value) -> Value:
        def pick(v: Value) -> Value:
            rest = v.shape[1:]
            zeros = [inner.constant(0, _INT32)] * len(rest)
            return inner.reshape(dynamic_slice(inner, v, [i, *zeros], (1, *rest)), (1, *rest))

        now = _Problem(
            out,
            pick(problem.updates),
            tuple(None if s is None else pick(s) for s in problem.starts),
            None if problem.ok is None else pick(problem.ok),
        )
        return _one_update(inner, now, combine, own_loop=True)

    return counted_loop(ctx, problem.n, problem.x, step)


def _counted(ctx: LoweringContext, problem: _Problem, change: Combine) -> Value:
    """A function of the old element alone, applied as often as the element is indexed.

    The counts come first; then whole-array rounds change every element whose count is not used up.
    """
    x = problem.x
    ones = ctx.constant(1, _INT32, problem.updates.shape)
    zeros = ctx.constant(0, _INT32, x.shape)
    counting = _masked(ctx, replace(problem, x=zeros, updates=ones), 0)
    counts = _rows(ctx, counting, lambda c, old, new: c.add(old, new))

    def more(inner: LoweringContext, left: Value, _: Value) -> Value:
        (most,) = inner.reduce(
            [left],
            [inner.constant(0, _INT32)],
            range(len(x.shape)),
            lambda c, a, b: [c.maximum(a, b)],
        )
        return inner.compare("GT", most, 0)

    def round_(inner: LoweringContext, left: Value, out: Value) -> list[Value]:
        due = inner.compare("GT", left, 0)
        return [inner.sub(left, 1), inner.select(due, change(inner, out, out), out)]

    return while_loop(ctx, [counts, x], more, round_)[1]


@dataclass(frozen=True)
class _OfRows:
    """A scatter of rows of a matrix, or of elements of a vector."""

    operand: Value
    numbers: Value
    """The number of the row of each update, of rank 1."""

    updates: Value
    ok: Value | None
    """For each update whether it counts; None when all do."""


def _of_rows(ctx: LoweringContext, problem: _Problem, *, by_elements: bool = False) -> _OfRows:
    """Axes up to the last indexed one make the row number, the rest the row; or all of them."""
    x, window = problem.x, problem.window
    partial = [
        a for a, size in enumerate(window) if size < x.shape[a] or problem.starts[a] is not None
    ]
    split = len(x.shape) if by_elements else partial[-1] + 1 if partial else 0
    rows, width = math.prod(x.shape[:split]), math.prod(x.shape[split:])
    places_shape = (problem.n, *window[:split])
    number: Value | None = None
    index = _INT32 if rows <= _MAX_INT32 else _INT64
    for axis in range(split):
        stride = math.prod(x.shape[axis + 1 : split])
        parts = []
        start = problem.starts[axis]
        if start is not None:
            parts.append(ctx.broadcast_in_dim(ctx.convert(start, index), places_shape, (0,)))
        if window[axis] > 1:
            parts.append(ctx.iota(index, places_shape, axis + 1))
        for part in parts:
            term = part if stride == 1 else ctx.mul(part, stride)
            number = term if number is None else ctx.add(number, term)
    if number is None:
        number = ctx.constant(0, index, places_shape)
    count = math.prod(places_shape)
    row = () if width == 1 else (width,)
    ok = problem.ok
    if ok is not None:
        ok = ctx.reshape(ctx.broadcast_in_dim(ok, places_shape, (0,)), (count,))
    return _OfRows(
        ctx.reshape(x, (rows, *row)),
        ctx.reshape(number, (count,)),
        ctx.reshape(problem.updates, (count, *row)),
        ok,
    )


def _in_memory(
    ctx: LoweringContext, problem: _Problem, primitive: Primitive, params: dict[str, Any]
) -> Value | None:
    """Rows one after the other, in a dispatch that is written by hand.

    IREE's own takes each element of a row by itself, and copies an array whose index it reads on
    the host. None where the dispatch does not do, or would cost more to compile than it spares.
    """
    x = problem.x
    is_worth_it = _has_long_rows(problem) or is_sparse(ctx, x, problem.updates)
    # In branches and loops IREE does not see that others read the array that is overwritten.
    if ctx.in_region or not ctx.target.single_dispatch_loops or not is_worth_it:
        return None
    if params["update_jaxpr"] is None:
        problem = replace(problem, x=bits(ctx, x), updates=bits(ctx, problem.updates))
    has_function = primitive is p.scatter_p and params["update_jaxpr"] is not None
    given = _of_rows(ctx, problem, by_elements=has_function)
    numbers, mode = given.numbers, p.GatherScatterMode.PROMISE_IN_BOUNDS
    if given.ok is not None:
        numbers, mode = ctx.select(given.ok, numbers, -1), p.GatherScatterMode.FILL_OR_DROP
    (count,) = numbers.shape
    row = given.updates.shape[1:]
    params = params | {
        "dimension_numbers": p.ScatterDimensionNumbers((1,) if row else (), (0,), (0,)),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": mode,
    }
    operands = [given.operand, ctx.reshape(numbers, (count, 1)), given.updates]
    found = in_memory(ctx, primitive, operands, **params)
    return None if found is None else ctx.bitcast(ctx.reshape(found, x.shape), x.dtype)


def _has_long_rows(problem: _Problem) -> bool:
    """Whether many elements lie side by side in what is updated."""
    width = problem.x.shape[-1]
    is_of_rows = problem.window[-1] == width > 1 and problem.starts[-1] is None
    return is_of_rows and problem.updates.aval.size >= _LEAST_IN_MEMORY


def _rows(ctx: LoweringContext, problem: _Problem, op: Combine) -> Value:
    """The same by IREE's scatter; all updates count."""
    x, given = problem.x, _of_rows(ctx, problem)
    operand, updates, row = given.operand, given.updates, given.updates.shape[1:]
    places = ctx.reshape(given.numbers, (*given.numbers.shape, 1))
    # The order of updates counts, so IREE is never told that the indices are unique.
    found = ctx.assign(
        "stablehlo.scatter",
        [operand, places, updates],
        operand.shape,
        x.dtype,
        {
            "scatter_dimension_numbers": ScatterNumbers((1,) if row else (), (0,), (0,), 1),
            "indices_are_sorted": False,
            "unique_indices": False,
        },
        [ctx.region([((), x.dtype)] * 2, lambda inner, old, new: [op(inner, old, new)])],
    )
    return ctx.reshape(found, x.shape)


def _masked(ctx: LoweringContext, problem: _Problem, neutral: Any) -> _Problem:
    """Updates that do not count made neutral ones."""
    if problem.ok is None:
        return problem
    ok = ctx.broadcast_in_dim(problem.ok, problem.updates.shape, (0,))
    return replace(problem, updates=ctx.select(ok, problem.updates, neutral), ok=None)


def _redirected(ctx: LoweringContext, problem: _Problem) -> _Problem:
    """Updates that do not count made copies of the last one that does.

    Writing that one more often, before or after its turn, changes nothing: whatever it covers is
    written again by itself, and nothing that counts comes after it. When none counts, all become
    copies of a window of the operand.
    """
    if problem.ok is None:
        return problem
    n, window = problem.n, problem.window
    ordinal = ctx.select(problem.ok, ctx.iota(_INT32, (n,), 0), -1)
    (last,) = ctx.reduce(
        [ordinal], [ctx.constant(-1, _INT32)], [0], lambda c, a, b: [c.maximum(a, b)]
    )
    some = ctx.compare("GE", last, 0)
    at = ctx.maximum(last, 0)
    starts: list[Value | None] = []
    chosen: list[Value] = []
    for start in problem.starts:
        if start is None:
            starts.append(None)
            chosen.append(ctx.constant(0, _INT32))
            continue
        one = ctx.reshape(dynamic_slice(ctx, start, [at], (1,)), ())
        chosen.append(one)
        starts.append(ctx.select(problem.ok, start, one))
    zeros = [ctx.constant(0, _INT32)] * len(window)
    update = ctx.reshape(dynamic_slice(ctx, problem.updates, [at, *zeros], (1, *window)), window)
    update = ctx.select(some, update, dynamic_slice(ctx, problem.x, chosen, window))
    repeated = ctx.broadcast_in_dim(update, (n, *window), range(1, len(window) + 1))
    ok = ctx.broadcast_in_dim(problem.ok, (n, *window), (0,))
    return _Problem(problem.x, ctx.select(ok, problem.updates, repeated), tuple(starts), None)


# ---- the rule


def _scatter_lower(
    ctx: LoweringContext,
    x: Value,
    indices: Value,
    updates: Value,
    *,
    primitive: Primitive,
    dimension_numbers: p.ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: p.GatherScatterMode,
    update_jaxpr: ClosedJaxpr | None,
    update_consts: tuple[Any, ...],
) -> Value:
    name = primitive.name
    if 0 in x.shape or 0 in updates.shape:
        return x
    problem = _common_form(ctx, x, indices, updates, dimension_numbers, mode)
    combine = _combination(name, x.dtype, update_jaxpr)
    kept = {"update_jaxpr": update_jaxpr, "update_consts": update_consts}
    found = _in_memory(ctx, problem, primitive, kept)
    if found is not None:
        return found
    if problem.n == 1:
        return _one_update(ctx, problem, combine)
    if update_jaxpr is None:
        return _rows(ctx, _redirected(ctx, problem), combine)
    neutral = _neutral(name, x.dtype)
    if neutral is None:
        if problem.n > _FEW and not _reads(update_jaxpr, 1):
            return _counted(ctx, problem, combine)
        return _loop(ctx, problem, combine)
    return _rows(ctx, _masked(ctx, problem, neutral), combine)


def _reads(closed: ClosedJaxpr, position: int) -> bool:
    """Whether anything in the program depends on that input."""
    var = closed.jaxpr.invars[position]
    return var in closed.jaxpr.outvars or any(var in eqn.invars for eqn in closed.jaxpr.eqns)


def _rule(primitive: Primitive) -> LoweringRule:
    def lower(ctx: LoweringContext, *operands: Value, **params: Any) -> Value:
        return _scatter_lower(ctx, *operands, primitive=primitive, **params)

    return lower


_PRIMITIVES: Sequence[Primitive] = (
    p.scatter_p,
    p.scatter_add_p,
    p.scatter_sub_p,
    p.scatter_mul_p,
    p.scatter_min_p,
    p.scatter_max_p,
)
for _primitive in _PRIMITIVES:
    register(_primitive, _rule(_primitive))
