"""Products of matrices in tiles of vector registers.

A tile of the result stays in registers while the loop along the summed axis runs. Either its lanes
lie along a free axis of one operand, of whose rows whole vectors are read while the other's
elements go to all lanes; or they lie along the summed axis, and are added up at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xpr.lowering.context import Value
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import View
from xpr.lowering.loops.memory.context import LoopContext
from xpr.lowering.loops.memory.nest import Share, lanes_for, reduce_lanes

# The vectors that a tile of the result has: enough that no addition waits for the one before, and
# not more than there are registers beside those of the operands.
_TILE = 12
_MOST_ROWS = 4
_MOST_VECTORS = 8
# With lanes along the summed axis.
_FOLDED_ROWS = 4
_FOLDED_COLUMNS = 2
_FOLDED_VECTORS = 8


@dataclass(frozen=True)
class Axis:
    """An axis of a product: its size and how far apart its elements lie in operands and result."""

    size: int
    x: int
    y: int
    out: int = 0


@dataclass(frozen=True)
class Product:
    """``out[b, i, j] = sum over k of x[b, i, k] * y[b, j, k]``, each of the letters any axes."""

    x: View
    y: View
    out: View
    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    summed: tuple[Axis, ...]

    def swapped(self) -> Product:
        """The same, with the operands' parts changed."""

        def turned(axes: Sequence[Axis]) -> tuple[Axis, ...]:
            return tuple(Axis(a.size, a.y, a.x, a.out) for a in axes)

        batch, rows, columns = turned(self.batch), turned(self.columns), turned(self.rows)
        return Product(self.y, self.x, self.out, batch, rows, columns, turned(self.summed))


@dataclass(frozen=True)
class _Places:
    """Where a tile begins in the operands and in the result."""

    x: Place
    y: Place
    out: Place

    def moved(self, axis: Axis, by: Place | int) -> _Places:
        step = Place(by) if isinstance(by, int) else by
        return _Places(self.x + step * axis.x, self.y + step * axis.y, self.out + step * axis.out)


Leaf = Callable[[LoopContext, _Places], None]


def in_tiles(ctx: LoopContext, product: Product) -> bool:
    """Computes a product in tiles; False if no axis lies along lanes."""
    lanes = lanes_for([product.x.dtype])
    for p in (product, product.swapped()):
        wide = _unit_axis(p.columns, lambda a: a.y)
        if wide is not None and wide.size >= lanes:
            _along_columns(ctx, p, wide, lanes)
            return True
    deep = _unit_axis(product.summed, lambda a: a.x * a.y)
    if deep is not None and deep.size >= lanes:
        _along_sum(ctx, product, deep, lanes)
        return True
    return False


def product_in_shares(
    ctx: LoopContext,
    x: View,
    y: View,
    out: View,
    contracted: tuple[Sequence[int], Sequence[int]],
    share: Share,
) -> bool:
    """A workgroup's part of the product of a large matrix and another operand, in either order.

    All workgroups have as many rows or columns of the matrix: the last ones may compute elements
    that others compute, too. False if no axis lies along lanes.
    """
    (left,), (right,) = contracted
    free_x = [i for i in range(len(x.shape)) if i != left]
    free_y = [i for i in range(len(y.shape)) if i != right]
    is_left = x.size > y.size
    cut = 0 if is_left else len(free_x)
    size, lanes = out.shape[cut], lanes_for([x.dtype])
    each = min(size, -(-size // (share.count * lanes)) * lanes)
    first = ctx.clamped(ctx.times_index(share.own, each), None, size - each)
    begin = Place.of(Symbol(first, 0, size - each))

    def axes(v: View, free: Sequence[int], at: int) -> Iterator[tuple[int, int, int]]:
        for a, i in enumerate(free, at):
            yield each if a == cut else v.shape[i], v.strides[i], out.strides[a]

    def moved(v: View, stride: int) -> View:
        return View(v.buffer, v.offset + begin * stride, v.strides, v.shape, v.dtype)

    part = Product(
        moved(x, x.strides[free_x[0]]) if is_left else x,
        y if is_left else moved(y, y.strides[free_y[0]]),
        moved(out, out.strides[cut]),
        (),
        tuple(Axis(n, s, 0, to) for n, s, to in axes(x, free_x, 0)),
        tuple(Axis(n, 0, s, to) for n, s, to in axes(y, free_y, len(free_x))),
        (Axis(x.shape[left], x.strides[left], y.strides[right]),),
    )
    return in_tiles(ctx, part)


def _unit_axis(axes: Sequence[Axis], stride: Callable[[Axis], int]) -> Axis | None:
    """The longest axis along which elements lie side by side."""
    found = [a for a in axes if stride(a) == 1]
    return max(found, key=lambda a: a.size, default=None)


def _without(axes: Sequence[Axis], axis: Axis | None) -> list[Axis]:
    return [a for a in axes if a is not axis]


def _begin(p: Product) -> _Places:
    return _Places(p.x.offset, p.y.offset, p.out.offset)


def _each(ctx: LoopContext, axes: Sequence[Axis], places: _Places, leaf: Leaf) -> None:
    """`leaf` at each index of some axes."""
    if not axes:
        leaf(ctx, places)
        return
    axis, *rest = axes
    _steps(ctx, axis, 0, axis.size, 1, places, lambda c, p: _each(c, rest, p, leaf))


def _steps(
    ctx: LoopContext, axis: Axis, low: int, count: int, step: int, places: _Places, leaf: Leaf
) -> None:
    """`leaf` at `low`, `low + step`, ..., `count` times."""
    places = places.moved(axis, low)
    if count == 1:
        leaf(ctx, places)
        return

    def body(inner: LoopContext, symbol: Symbol, _: list[Value]) -> Sequence[Value]:
        leaf(inner, places.moved(axis, Place.of(symbol)))
        return ()

    ctx.for_each(count * step, step, (), body)


def _pieces(size: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(start, count, length) of as few pieces as cover 0 .. size-1, of at most two lengths."""
    length = min(most, size)
    for candidate in range(length, length // 2, -1):
        if size % candidate == 0:
            length = candidate
            break
    count, left = divmod(size, length)
    yield 0, count, length
    if left:
        yield count * length, 1, left


def _sums(
    ctx: LoopContext,
    axes: Sequence[Axis],
    places: _Places,
    totals: list[Value],
    term: Callable[[LoopContext, _Places, list[Value]], list[Value]],
) -> list[Value]:
    """The totals after the terms at all indices of the summed axes."""
    if not axes:
        return term(ctx, places, totals)
    axis, *rest = axes
    if axis.size == 1:
        return _sums(ctx, rest, places, totals, term)

    def body(inner: LoopContext, symbol: Symbol, state: list[Value]) -> Sequence[Value]:
        return _sums(inner, rest, places.moved(axis, Place.of(symbol)), state, term)

    return ctx.for_each(axis.size, 1, totals, body)


# ---- lanes along a free axis


def _along_columns(ctx: LoopContext, p: Product, wide: Axis, lanes: int) -> None:
    tall = max(p.rows, key=lambda a: a.size, default=Axis(1, 0, 0))
    outer = [*p.batch, *_without(p.rows, tall), *_without(p.columns, wide)]

    def leaf(inner: LoopContext, places: _Places) -> None:
        for row, row_count, height in _pieces(tall.size, _MOST_ROWS):
            vectors = min(_MOST_VECTORS, _TILE // height)
            for at, count, width in _vector_pieces(wide.size, lanes, vectors):

                def tile(c: LoopContext, where: _Places, h: int = height, w: int = width) -> None:
                    _column_tile(c, p, where, (tall, h), (wide, w), lanes)

                def along(
                    c: LoopContext,
                    where: _Places,
                    at: int = at,
                    count: int = count,
                    width: int = width,
                    tile: Leaf = tile,
                ) -> None:
                    _steps(c, wide, at, count, width * lanes, where, tile)

                _steps(inner, tall, row, row_count, height, places, along)

    _each(ctx, outer, _begin(p), leaf)


def _vector_pieces(size: int, lanes: int, most: int) -> Iterator[tuple[int, int, int]]:
    """(start, count, vectors) that cover an axis; the last one goes back to fill its lanes."""
    whole, left = divmod(size, lanes)
    for start, count, vectors in _pieces(whole, most):
        yield start * lanes, count, vectors
    if left:
        yield size - lanes, 1, 1


def _column_tile(
    ctx: LoopContext,
    p: Product,
    places: _Places,
    rows: tuple[Axis, int],
    columns: tuple[Axis, int],
    lanes: int,
) -> None:
    (tall, height), (wide, width) = rows, columns
    zero = ctx.constant(0, p.x.dtype, (lanes,))

    def term(inner: LoopContext, at: _Places, totals: list[Value]) -> list[Value]:
        right = [_read(inner, p.y, at.moved(wide, i * lanes).y, 1, lanes) for i in range(width)]
        out: list[Value] = []
        for i in range(height):
            one = _read(inner, p.x, at.moved(tall, i).x, 0, lanes)
            for j, y in enumerate(right):
                out.append(inner.multiply_add(one, y, totals[i * width + j]))
        return out

    totals = _sums(ctx, p.summed, places, [zero] * (height * width), term)
    for (i, j), total in zip(itertools.product(range(height), range(width)), totals, strict=True):
        at = places.moved(tall, i).moved(wide, j * lanes).out
        ctx.store(total, p.out.buffer.memory, at, wide.out)


def _read(ctx: LoopContext, x: View, place: Place, step: int, lanes: int) -> Value:
    return ctx.load(x.buffer.memory, place, step, lanes, x.dtype)


# ---- lanes along the summed axis


def _along_sum(ctx: LoopContext, p: Product, deep: Axis, lanes: int) -> None:
    tall = max(p.rows, key=lambda a: a.size, default=Axis(1, 0, 0))
    broad = max(p.columns, key=lambda a: a.size, default=Axis(1, 0, 0))
    outer = [*p.batch, *_without(p.rows, tall), *_without(p.columns, broad)]

    def leaf(inner: LoopContext, places: _Places) -> None:
        for row, row_count, height in _pieces(tall.size, _FOLDED_ROWS):
            for column, count, width in _pieces(broad.size, _FOLDED_COLUMNS):

                def tile(c: LoopContext, where: _Places, h: int = height, w: int = width) -> None:
                    _folded_tile(c, p, where, (tall, h), (broad, w), deep, lanes)

                def along(
                    c: LoopContext,
                    where: _Places,
                    column: int = column,
                    count: int = count,
                    width: int = width,
                    tile: Leaf = tile,
                ) -> None:
                    _steps(c, broad, column, count, width, where, tile)

                _steps(inner, tall, row, row_count, height, places, along)

    _each(ctx, outer, _begin(p), leaf)


def _folded_tile(
    ctx: LoopContext,
    p: Product,
    places: _Places,
    rows: tuple[Axis, int],
    columns: tuple[Axis, int],
    deep: Axis,
    lanes: int,
) -> None:
    (tall, height), (broad, width) = rows, columns
    cells = list(itertools.product(range(height), range(width)))
    others = _without(p.summed, deep)
    dtype: Any = p.x.dtype
    sums: list[Value] = []
    most = lanes * max(1, min(_FOLDED_VECTORS // len(cells), deep.size // lanes))
    at = 0
    for wide in dict.fromkeys((most, lanes, deep.size % lanes)):
        count = (deep.size - at) // wide if wide else 0
        if not count:
            continue

        def term(c: LoopContext, where: _Places, totals: list[Value], n: int = wide) -> list[Value]:
            xs = [_read(c, p.x, where.moved(tall, i).x, 1, n) for i in range(height)]
            ys = [_read(c, p.y, where.moved(broad, j).y, 1, n) for j in range(width)]
            return [
                c.multiply_add(xs[i], ys[j], total)
                for (i, j), total in zip(cells, totals, strict=True)
            ]

        zero = ctx.constant(0, dtype, (wide,))
        step = replace(deep, size=count, x=deep.x * wide, y=deep.y * wide)
        found = _sums(ctx, (*others, step), places.moved(deep, at), [zero] * len(cells), term)
        folded = [reduce_lanes(ctx, "add", v) for v in found]
        sums = [ctx.add(a, b) for a, b in zip(sums, folded, strict=True)] if sums else folded
        at += count * wide
    for (i, j), total in zip(cells, sums, strict=True):
        ctx.store(total, p.out.buffer.memory, places.moved(tall, i).moved(broad, j).out, 0)
