"""The forms that operations take with symbolic dimensions: IREE's and StableHLO's dynamic ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.export.generalize import ADVICE, SizeDependenceError
from xpr.export.symbolic_values import (
    INDEX,
    Dim,
    Dims,
    SymbolicBuilder,
    SymbolicOp,
    SymbolicValue,
    needs_constant,
    place_of,
    product,
    signless,
)
from xpr.lowering.ir.attributes import GatherNumbers
from xpr.lowering.ir.builder import Builder
from xpr.lowering.ir.graph import Block, Value
from xpr.lowering.ir.types import element_type

Form = Callable[[SymbolicBuilder, SymbolicOp], Sequence[Value]]
Groups = Sequence[Sequence[int]]
"""Axes of the two operands of a product."""

_I1, _I32 = np.dtype(np.bool_), np.dtype(np.int32)


# ---- constants


def _constant(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out, about = op.result, op.attributes
    if "row" in about:
        return [_row(b, about["row"], out)]
    if "symbolic" in about:
        scalar = b.sizes.scalar(about["symbolic"], out.dtype)
    else:
        scalar = b.sizes.define("stablehlo.constant", (), SymbolicValue((), out.dtype), about)
    assert isinstance(scalar, SymbolicValue)
    return [_broadcast(b, scalar, (), out.dims) if out.dims else scalar]


def _row(b: SymbolicBuilder, numbers: Dims, out: SymbolicValue) -> SymbolicValue:
    """A tensor of rank 1 of these integers."""
    plain = signless(out.dtype)
    element = element_type(plain)
    values = [b.plain("arith.index_cast", (b.sizes.value(n),), element) for n in numbers]
    return b.bitcast(b.make("tensor.from_elements", values, out.dims, plain), out.dtype)


def _zero(b: SymbolicBuilder, dtype: np.dtype[Any]) -> Value:
    text = {"b": "false", "c": "(0.0, 0.0)", "i": "0", "u": "0"}.get(dtype.kind, "0.0")
    return b.make("stablehlo.constant", (), (), dtype, {"value": f"dense<{text}>"})


def _iota(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    out = op.result
    along = {"iota_dimension": op.attributes["dim"]}
    shape = b.sizes.vector(out.dims)
    return [b.make("stablehlo.dynamic_iota", (shape,), out.dims, out.dtype, along)]


# ---- shapes


def _from_first(
    b: SymbolicBuilder, x: SymbolicValue, places: Sequence[int]
) -> tuple[SymbolicValue, list[int]]:
    """A broadcast of what is a broadcast itself, as one of the first operand.

    StableHLO joins two in a row, too, but forgets which dimensions are known to expand, and IREE
    cannot compile it without.
    """
    if x not in b.broadcasts:
        return x, list(places)
    first, inner = b.broadcasts[x]
    return first, [places[p] for p in inner]


def _broadcast(
    b: SymbolicBuilder, x: SymbolicValue, places: Sequence[int], dims: Sequence[Dim]
) -> SymbolicValue:
    x, places = _from_first(b, x, places)
    about: dict[str, Any] = {"broadcast_dimensions": tuple(places)}
    expanding = tuple(i for i, p in enumerate(places) if x.dims[i] == 1 != dims[p])
    kept = tuple(i for i, p in enumerate(places) if x.dims[i] == dims[p])
    if expanding:
        about["known_expanding_dimensions"] = expanding
    if kept:
        about["known_nonexpanding_dimensions"] = kept
    shape = b.sizes.vector(dims)
    return b.make("stablehlo.dynamic_broadcast_in_dim", (x, shape), dims, x.dtype, about)


def _broadcast_in_dim(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    (x,), out, places = op.tensors, op.result, op.attributes["dims"]
    kept = all(x.dims[i] == out.dims[p] for i, p in enumerate(places))
    if kept and all(d == 1 for p, d in enumerate(out.dims) if p not in places):
        return [_reshaped(b, x, out.dims)]
    found = _broadcast(b, x, places, out.dims)
    b.broadcasts[found] = _from_first(b, x, places)
    return [found]


def _reshape(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    return [_reshaped(b, op.tensors[0], op.result.dims)]


def _reshaped(b: SymbolicBuilder, x: SymbolicValue, dims: Sequence[Dim]) -> SymbolicValue:
    plain = b.signless(x)
    out = SymbolicValue(dims, plain.dtype)
    sizes = [*b.sizes.symbolic_dims(plain), *b.sizes.symbolic_dims(out)]
    b.append("flow.tensor.reshape", (plain, *sizes), (out,))
    return b.bitcast(out, x.dtype)


def _transposed(b: SymbolicBuilder, x: SymbolicValue, order: Sequence[int]) -> SymbolicValue:
    if list(order) == sorted(order):
        return x
    dims = [x.dims[i] for i in order]
    return b.make("stablehlo.transpose", (x,), dims, x.dtype, {"dims": tuple(order)})


def _tied(b: SymbolicBuilder, x: SymbolicValue) -> SymbolicValue:
    """A value whose sizes IREE is told, which it cannot see."""
    return b.make("flow.tensor.tie_shape", (x, *b.sizes.symbolic_dims(x)), x.dims, x.dtype)


def _optimization_barrier(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    found = []
    for x in op.tensors:
        plain = b.signless(x)
        barrier = b.make("util.optimization_barrier", (plain,), plain.dims, plain.dtype)
        found.append(b.bitcast(_tied(b, barrier), x.dtype))
    return found


def _concatenate(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    xs, out, axis = op.tensors, op.result, op.attributes["dim"]
    sizes = [x.dims[axis] for x in xs if isinstance(x.dims[axis], int)]
    if b.joins or len(sizes) < len(xs):
        return b.as_it_is(op)
    start, total = 0, out.dims[axis]
    found: SymbolicValue | None = None
    for x, size in zip(xs, sizes, strict=True):
        assert isinstance(size, int)
        assert isinstance(total, int)
        padded = _padded(b, x, out.dims, axis, start, total - start - size)
        if found is None:
            found = padded
        else:
            chosen = _from(b, start, out.dims, axis)
            operands = (chosen, padded, found)
            found = b.make("stablehlo.select", operands, out.dims, out.dtype)
        start += size
    assert found is not None
    return [_tied(b, found)]


def _padded(
    b: SymbolicBuilder, x: SymbolicValue, dims: Sequence[Dim], axis: int, low: int, high: int
) -> SymbolicValue:
    """The array with zeros before and behind it along one axis."""
    none = [0] * len(dims)
    before, behind = ((*none[:axis], n, *none[axis + 1 :]) for n in (low, high))
    edges = {"low": before, "high": behind, "interior": tuple(none)}
    return b.make("stablehlo.pad", (x, _zero(b, x.dtype)), dims, x.dtype, edges)


def _from(b: SymbolicBuilder, start: int, dims: Sequence[Dim], axis: int) -> SymbolicValue:
    """Whether an element stands at `start` or behind it along an axis of fixed size."""
    row = (dims[axis],)
    here = b.make("stablehlo.iota", (), row, _I32, {"dim": 0})
    first = b.make("stablehlo.constant", (), row, _I32, {"value": f"dense<{start}>"})
    how = {"direction": "GE", "kind": "SIGNED"}
    mask = b.make("stablehlo.compare", (here, first), row, _I1, how)
    return _broadcast(b, mask, [axis], dims)


# ---- parts


def _slice(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    (x,), out = op.tensors, op.result
    bounds = [b.sizes.vector(op.attributes[k]) for k in ("start", "limit", "strides")]
    return [b.make("stablehlo.real_dynamic_slice", (x, *bounds), out.dims, out.dtype)]


def _dynamic_slice(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    (x, *starts), out = op.tensors, op.result
    sizes: Dims = op.attributes["sizes"]
    plain = b.signless(x)
    operands = (plain, *_window(b, starts, x, sizes), *_symbolic_dims(b, sizes))
    about = {"sizes": _fixed(sizes)}
    part = b.make("tensor.extract_slice", operands, out.dims, plain.dtype, about)
    return [b.bitcast(part, x.dtype)]


def _dynamic_update_slice(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    x, update, *starts = op.tensors
    new, old = b.signless(update), b.signless(x)
    operands = (new, old, *_window(b, starts, x, update.dims), *_symbolic_dims(b, update.dims))
    about = {"sizes": _fixed(update.dims)}
    return [b.bitcast(b.make("tensor.insert_slice", operands, x.dims, old.dtype, about), x.dtype)]


def _symbolic_dims(b: SymbolicBuilder, dims: Dims) -> list[Value]:
    return [b.sizes.value(d) for d in dims if not isinstance(d, int)]


def _fixed(dims: Dims) -> tuple[int | None, ...]:
    return tuple(d if isinstance(d, int) else None for d in dims)


def _window(
    b: SymbolicBuilder, starts: Sequence[SymbolicValue], x: SymbolicValue, sizes: Sequence[Dim]
) -> list[Value]:
    """Where a part starts, moved to the edge where it would reach outside."""
    found = []
    for start, size, extent in zip(starts, sizes, x.dims, strict=True):
        index = b.signless(start)
        number = b.plain("tensor.extract", (index,), element_type(index.dtype))
        number = b.plain("arith.index_cast", (number,), INDEX)
        number = b.plain("arith.minsi", (number, b.sizes.difference(extent, size)), INDEX)
        found.append(b.plain("arith.maxsi", (number, b.sizes.index(0)), INDEX))
    return found


# ---- products


def _dot_general(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    """As a product of matrices: IREE makes one of it by a reshape that it cannot compile."""
    (x, y), out = op.tensors, op.result
    batch, contract = op.attributes["batching"], op.attributes["contracting"]
    free = [
        [i for i in range(len(v.dims)) if i not in shared and i not in summed]
        for v, shared, summed in zip((x, y), batch, contract, strict=True)
    ]
    if not all(free) or product([x.dims[i] for i in contract[0]]) == 1:
        return [_by_broadcasts(b, (x, y), out, batch, free, contract)]
    single = all(len(axes) == 1 for axes in (*contract, *free))
    if single and max(map(len, batch)) <= 1:
        return b.as_it_is(op)
    left = _matrix(b, x, [batch[0], free[0], contract[0]])
    right = _matrix(b, y, [batch[1], contract[1], free[1]])
    first = 1 if batch[0] else 0
    dims = (*left.dims[: first + 1], right.dims[-1])
    numbers = {
        "batching": ((0,), (0,)) if first else ((), ()),
        "contracting": ((first + 1,), (first,)),
    }
    made = b.make("stablehlo.dot_general", (left, right), dims, out.dtype, numbers)
    return [_reshaped(b, made, out.dims)]


def _by_broadcasts(
    b: SymbolicBuilder,
    operands: tuple[SymbolicValue, SymbolicValue],
    out: SymbolicValue,
    batch: Groups,
    free: Groups,
    contract: Groups,
) -> SymbolicValue:
    """A product with a vector, or one that sums over nothing, as a sum of products.

    StableHLO would make reshapes of it that IREE cannot compile.
    """
    shared, own = len(batch[0]), (len(free[0]), len(free[1]))
    summed = [operands[0].dims[i] for i in contract[0]]
    dims = (*out.dims, *summed)
    last = range(len(out.dims), len(dims))
    firsts = (shared, shared + own[0])
    terms = []
    for i, x in enumerate(operands):
        x = _transposed(b, x, [*batch[i], *free[i], *contract[i]])
        if x.dtype != out.dtype:
            x = b.make("stablehlo.convert", (x,), x.dims, out.dtype)
        places = [*range(shared), *range(firsts[i], firsts[i] + own[i]), *last]
        terms.append(_broadcast(b, x, places, dims))
    products = b.make("stablehlo.multiply", terms, dims, out.dtype)
    if not summed:
        return products
    scalars = [SymbolicValue((), out.dtype) for _ in range(2)]
    body = Builder(Block(scalars))
    total = SymbolicValue((), out.dtype)
    body.append("stablehlo.add", scalars, (total,))
    body.append("stablehlo.return", (total,))
    start = _zero(b, out.dtype)
    axes = {"dimensions": tuple(last)}
    return b.make("stablehlo.reduce", (products, start), out.dims, out.dtype, axes, [body.block])


def _matrix(b: SymbolicBuilder, x: SymbolicValue, groups: Groups) -> SymbolicValue:
    """An operand with each group of its axes made one; an empty first group is left out."""
    x = _transposed(b, x, [i for group in groups for i in group])
    dims, at = [], 0
    for group in groups if groups[0] else groups[1:]:
        dims.append(product(x.dims[at : at + len(group)]))
        at += len(group)
    return x if tuple(dims) == x.dims else _reshaped(b, x, dims)


# ---- gathers and windows


def _gather(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    numbers, sizes = op.attributes["dimension_numbers"], op.attributes["slice_sizes"]
    assert isinstance(numbers, GatherNumbers)
    if numbers.operand_batching_dims:
        return b.as_it_is(op)
    if not all(isinstance(n, int) for n in sizes):
        return [_selected(b, op, numbers, sizes)]
    (x, starts), out = op.tensors, op.result
    offsets = numbers.offset_dims
    batch = len(out.dims) - len(offsets)
    if not numbers.collapsed_slice_dims or offsets != tuple(range(batch, len(out.dims))):
        return b.as_it_is(op)
    # IREE drops axes of results with symbolic dimensions by a reshape that it cannot compile.
    kept = tuple(range(batch, batch + len(sizes)))
    about = {
        "dimension_numbers": GatherNumbers(
            kept, (), numbers.start_index_map, numbers.index_vector_dim
        ),
        "slice_sizes": sizes,
    }
    whole = (*out.dims[:batch], *sizes)
    return [_reshaped(b, b.make(op.first.name, (x, starts), whole, out.dtype, about), out.dims)]


def _selected(
    b: SymbolicBuilder, op: SymbolicOp, numbers: GatherNumbers, sizes: Dims
) -> SymbolicValue:
    """A gather of whole slices of symbolic dimension, at positions along one axis."""
    (x, starts), out = op.tensors, op.result
    (axis, *more), offsets = numbers.start_index_map, numbers.offset_dims
    last = numbers.index_vector_dim == len(starts.dims) - 1
    others = [i for i in range(len(x.dims)) if i != axis]
    dropped = numbers.collapsed_slice_dims == numbers.start_index_map
    if more or not dropped or not last or any(sizes[i] != x.dims[i] for i in others):
        raise needs_constant(op.first)
    index = _reshaped(b, starts, starts.dims[:-1])
    batch = [i for i in range(len(out.dims)) if i not in offsets]
    order = [*offsets[:axis], *batch, *offsets[axis:]]
    about = {"dim": axis, "batch_dims": 0}
    dims = [out.dims[i] for i in order]
    found = b.make("stablehlo.torch_index_select", (x, index), dims, out.dtype, about)
    return _transposed(b, found, sorted(range(len(order)), key=order.__getitem__))


def _reduce_window(b: SymbolicBuilder, op: SymbolicOp) -> Sequence[Value]:
    """As it is, but for the windows of a running sum: with symbolic dimensions they end IREE's
    process."""
    sizes, padding = op.attributes["window_dimensions"], op.attributes["padding"]
    edges = zip(sizes, padding.edges, strict=True)
    if any(n > 1 and low == n - 1 for n, (low, _) in edges):
        raise SizeDependenceError(
            f"{place_of(op.first)}, as running sums have it, cannot be compiled for symbolic "
            f"dimensions. "
            f"{ADVICE}"
        )
    return b.as_it_is(op)


FORMS: dict[str, Form] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.constant": _constant,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.iota": _iota,
    "stablehlo.optimization_barrier": _optimization_barrier,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": _reshape,
    "stablehlo.slice": _slice,
    "util.optimization_barrier": _optimization_barrier,
}
"""The operations that a type with a symbolic dimension is not enough for."""
