"""What primitives become on registers: shuffles, sums of shuffles, and elementwise operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, sub_jaxprs
from xpr.core.primitive import get_primitive
from xpr.lowering.context import Value
from xpr.lowering.loops.calls import CALLS
from xpr.lowering.loops.registers.context import Memory, Register, VectorContext
from xpr.lowering.loops.registers.control import nested_scan, nested_while
from xpr.lowering.loops.registers.table import RULES, NotInRegisters, Rule

_MAX_PRODUCTS = 1 << 15


def _numbered(x: Value, start: int = 0) -> np.ndarray[Any, Any]:
    return np.arange(start, start + math.prod(x.shape)).reshape(x.shape)


def _rearranging(name: str) -> Rule:
    """The rule of a primitive that only moves elements: its reference rule moves their numbers."""

    def rule(ctx: VectorContext, *xs: Value, **params: Any) -> Any:
        starts = np.cumsum([0, *(math.prod(x.shape) for x in xs)])
        numbers = [_numbered(x, int(s)) for x, s in zip(xs, starts[:-1], strict=True)]
        moved = get_primitive(name).reference(*numbers, **params)
        if get_primitive(name).multiple_results:
            return [ctx.rearranged(xs, np.asarray(m)) for m in moved]
        return ctx.rearranged(xs, np.asarray(moved))

    return rule


def _reduced(ctx: VectorContext, op: str, x: Value, places: np.ndarray[Any, Any]) -> Value:
    """`op` over the last axis of `places`, which number elements of `x`, by halving."""
    out = places.shape[:-1]
    if places.shape[-1] == 0:
        raise NotInRegisters("a reduction of nothing")
    total: Value | None = None
    while places.shape[-1] > 1:
        half = places.shape[-1] // 2
        if places.shape[-1] % 2:
            last = ctx.rearranged([x], places[..., -1])
            total = last if total is None else ctx.binary(op, total, last)
        a, b = places[..., :half], places[..., half : 2 * half]
        x = ctx.binary(op, ctx.rearranged([x], a), ctx.rearranged([x], b))
        places = np.arange(a.size).reshape(a.shape)
    x = ctx.rearranged([x], places[..., 0].reshape(out))
    return x if total is None else ctx.binary(op, x, total)


def _reducing(op: str) -> Rule:
    def rule(ctx: VectorContext, x: Value, *, axes: Sequence[int], **_: Any) -> Value:
        places = np.moveaxis(_numbered(x), tuple(axes), range(-len(axes), 0))
        kept = places.shape[: len(x.shape) - len(axes)]
        return _reduced(ctx, op, x, places.reshape(*kept, math.prod(places.shape[len(kept) :])))

    return rule


def _dot_general(
    ctx: VectorContext,
    a: Value,
    b: Value,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
    **_: Any,
) -> Value:
    if a.dtype == np.bool_ or a.dtype != b.dtype or preferred_element_type not in (None, a.dtype):
        raise NotInRegisters("a product of several dtypes")
    (left, right), (left_batch, right_batch) = dimension_numbers

    def arranged(x: Value, batch: Sequence[int], contract: Sequence[int]) -> np.ndarray[Any, Any]:
        free = [i for i in range(len(x.shape)) if i not in (*batch, *contract)]
        numbers = _numbered(x).transpose(*batch, *free, *contract)
        sizes = [math.prod(x.shape[i] for i in axes) for axes in (batch, free, contract)]
        return numbers.reshape(sizes)

    m, n = arranged(a, left_batch, left), arranged(b, right_batch, right)
    shape = (m.shape[0], m.shape[1], n.shape[1])
    if math.prod(shape) * m.shape[2] > _MAX_PRODUCTS:
        raise NotInRegisters("a large product")
    total: Value | None = None
    for k in range(m.shape[2]):
        x = ctx.rearranged([a], np.broadcast_to(m[:, :, None, k], shape))
        y = ctx.rearranged([b], np.broadcast_to(n[:, None, :, k], shape))
        product = ctx.mul(x, y)
        total = product if total is None else ctx.add(total, product)
    if total is None:
        raise NotInRegisters("a product over nothing")
    return ctx.reshape(total, ctx.out_avals[0].shape)


def _bitcast(ctx: VectorContext, x: Value, *, new_dtype: np.dtype[Any]) -> Value:
    return ctx.bitcast(x, new_dtype)


def _iota(ctx: VectorContext, **params: Any) -> Value:
    return ctx.dense(np.asarray(get_primitive("iota").reference(**params)))


def _same(ctx: VectorContext, x: Value, **_: Any) -> Value:
    del ctx
    return x


def _all_same(ctx: VectorContext, *xs: Value, **_: Any) -> list[Value]:
    del ctx
    return list(xs)


def program(ctx: VectorContext, closed: ClosedJaxpr, operands: Sequence[Value]) -> list[Value]:
    """The results of `closed` on registers."""
    consts = [ctx.dense(np.asarray(c)) for c in closed.consts]
    return ctx.module.lower_jaxpr(ctx, closed.jaxpr, consts, operands)


def _call(parameter: str) -> Rule:
    def rule(ctx: VectorContext, *operands: Value, **params: Any) -> list[Value]:
        return program(ctx, params[parameter], operands)

    return rule


def _has_while(jaxpr: Jaxpr) -> bool:
    return any(
        e.primitive.name == "while" or any(map(_has_while, sub_jaxprs(e.params)))
        for e in jaxpr.eqns
    )


def _cond(ctx: VectorContext, index: Value, *operands: Value, branches: Any) -> list[Value]:
    """All branches, and each element by its branch: they are small."""
    if any(_has_while(closed.jaxpr) for closed in branches):
        raise NotInRegisters("a branch that ends perhaps only where it is taken")
    columns = [program(ctx, closed, operands) for closed in branches]
    out = columns[-1]
    for k in range(len(branches) - 2, -1, -1):
        here = ctx.compare("EQ" if k else "LE", index, ctx.constant(k, index.dtype))
        out = [ctx.select(here, x, y) for x, y in zip(columns[k], out, strict=True)]
    return out


def _dynamic_slice(
    ctx: VectorContext, x: Value, *starts: Value, slice_sizes: Sequence[int]
) -> Value:
    """A stretch of an array in memory, at indices that are known in the loop only."""
    memory = ctx.memory.get(x.root) if isinstance(x, Register) else None
    if memory is None:
        return _picked(ctx, x, starts, tuple(slice_sizes))
    # What is reshaped, or of another dtype with the same bits, is still in memory.
    source = Memory(memory.flat, x.shape, x.dtype)
    sizes = tuple(slice_sizes)
    first = next((i for i, s in enumerate(sizes) if s != 1), len(sizes))
    if sizes[first + 1 :] != source.shape[first + 1 :]:
        raise NotInRegisters("a slice that is not one stretch")
    offset: Value | None = None
    for i, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        stride = math.prod(source.shape[i + 1 :])
        low = ctx.constant(0, start.dtype)
        high = ctx.constant(source.shape[i] - size, start.dtype)
        inside = ctx.minimum(ctx.maximum(start, low), high)
        term = ctx.times_index(ctx.as_index(inside), stride)
        offset = term if offset is None else ctx.plus_index(offset, term)
    assert offset is not None
    return ctx.read(source, offset, sizes)


def _clamped_numbers(x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> list[int] | None:
    """Starts that are known now, clamped; None if one is not."""
    numbers = [i.number for i in starts]
    if any(n is None for n in numbers):
        return None
    return [
        min(max(n or 0, 0), total - size)
        for n, total, size in zip(numbers, x.shape, sizes, strict=True)
    ]


def _chosen(
    ctx: VectorContext, shape: Sequence[int], starts: Sequence[Value], sizes: Sequence[int]
) -> Value | None:
    """Which elements of an array lie at the starts, where each size is 1 or the whole axis."""
    chosen: Value | None = None
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size == shape[axis]:
            continue
        if size != 1:
            raise NotInRegisters("a stretch of registers at an index known in the loop only")
        low = ctx.constant(0, start.dtype)
        high = ctx.constant(shape[axis] - 1, start.dtype)
        inside = ctx.minimum(ctx.maximum(start, low), high)
        places = np.broadcast_to(
            np.arange(shape[axis], dtype=start.dtype).reshape(
                [-1 if i == axis else 1 for i in range(len(shape))]
            ),
            shape,
        )
        here = ctx.compare("EQ", ctx.dense(places), inside)
        chosen = here if chosen is None else ctx.and_(chosen, here)
    return chosen


def _picked(ctx: VectorContext, x: Value, starts: Sequence[Value], sizes: tuple[int, ...]) -> Value:
    """A slice of registers: all others are made zero, and the bits are joined."""
    known = _clamped_numbers(x, starts, sizes)
    if known is not None:
        window = tuple(slice(k, k + s) for k, s in zip(known, sizes, strict=True))
        return ctx.rearranged([x], _numbered(x)[window])
    chosen = _chosen(ctx, x.shape, starts, sizes)
    if chosen is None:
        return x
    bits = x if x.dtype.kind in "iub" else ctx.bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
    alone = ctx.select(chosen, bits, ctx.constant(0, bits.dtype, bits.shape))
    axes = [i for i, s in enumerate(sizes) if s != x.shape[i]]
    joined = ctx.reshape(_reducing("or")(ctx, alone, axes=axes), sizes)
    return joined if bits is x else ctx.bitcast(joined, x.dtype)


def _dynamic_update_slice(ctx: VectorContext, x: Value, update: Value, *starts: Value) -> Value:
    """An array in registers with a part of it replaced."""
    known = _clamped_numbers(x, starts, update.shape)
    if known is not None:
        places = _numbered(x).copy()
        window = tuple(slice(k, k + s) for k, s in zip(known, update.shape, strict=True))
        places[window] = _numbered(update, math.prod(x.shape))
        return ctx.rearranged([x, update], places)
    chosen = _chosen(ctx, x.shape, starts, update.shape)
    if chosen is None:
        return update
    broadcast = ctx.rearranged([update], np.broadcast_to(_numbered(update), x.shape))
    return ctx.select(chosen, broadcast, x)


_MOVING = (
    "broadcast_in_dim",
    "reshape",
    "transpose",
    "squeeze",
    "rev",
    "slice",
    "pad",
    "concatenate",
    "stack",
    "unstack",
    "split",
    "tile",
)
RULES |= {
    **{name: _rearranging(name) for name in _MOVING},
    "reduce_sum": _reducing("add"),
    "reduce_prod": _reducing("multiply"),
    "reduce_max": _reducing("maximum"),
    "reduce_min": _reducing("minimum"),
    "reduce_and": _reducing("and"),
    "reduce_or": _reducing("or"),
    "reduce_xor": _reducing("xor"),
    "dot_general": _dot_general,
    "iota": _iota,
    "bitcast_convert_type": _bitcast,
    **{name: _call(parameter) for name, parameter in CALLS.items()},
    "cond": _cond,
    "stop_gradient": _same,
    "name": _same,
    "copy": _same,
    "optimization_barrier": _all_same,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "scan": lambda ctx, *xs, **params: nested_scan(program, ctx, xs, **params),
    "while": lambda ctx, *xs, **params: nested_while(program, ctx, xs, **params),
}
