"""The arrays of a loop's program: parts of buffers, and what is computed where it is needed.

An array that is no part of a buffer is computed element by element in the loops that store it or
reduce it: `at` gives the element, or the lanes of elements, at an index. What moves elements about
is a function from indices to indices and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.source_info import UNKNOWN, SourceInfo
from xpr.lowering.context import Shape, Value
from xpr.lowering.loops.memory.affine import ZERO, Place, Symbol

if TYPE_CHECKING:
    from xpr.lowering.loops.memory.nest import Nest

Index = tuple[Place, ...]
Mapping = Callable[[Index], Index]


class Region:
    """A block of the program, once in each round of which its operations run."""

    __slots__ = ()


class Buffer:
    """Elements in memory, in one row; the operations of region `writer` may overwrite them."""

    __slots__ = ("dtype", "memory", "size", "writer")

    def __init__(
        self, memory: Value, size: int, dtype: np.dtype[Any], writer: Region | None
    ) -> None:
        self.memory = memory
        self.size = size
        self.dtype = dtype
        self.writer = writer


class Array:
    """An array: its elements are read from `buffers`, and `cost` operations are done for each.

    `forward` is the array in memory that has taken its place, `source` the user's line that asked
    for it: its elements are computed later, where they are needed.
    """

    __slots__ = ("buffers", "cost", "dtype", "forward", "shape", "source")

    def __init__(
        self, shape: Shape, dtype: np.dtype[Any], buffers: frozenset[Buffer], cost: int
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.buffers = buffers
        self.cost = cost
        self.forward: Array | None = None
        self.source: SourceInfo = UNKNOWN

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def operands(self) -> Sequence[Array]:
        """What its elements are computed from."""
        return ()

    @property
    def anywhere(self) -> Sequence[Buffer]:
        """What is read at places that only the running program knows."""
        return ()

    def at(self, nest: Nest, index: Index) -> Value:
        """The elements at an index."""
        raise NotImplementedError(f"{type(self).__name__} must say how an element is read")

    def visit(self, index: Index) -> Iterator[tuple[Array, Index]]:
        """The arrays that the element at `index` is computed from, and where in them."""
        return iter(())


def actual(x: Array) -> Array:
    """The array that has taken the place of `x`."""
    while x.forward is not None:
        x = x.forward
    return x


def computed_from(xs: Iterable[Array]) -> Iterator[Array]:
    """Arrays and all that they are computed from, each once."""
    seen: set[Array] = set()
    left = list(xs)
    while left:
        x = actual(left.pop())
        if x not in seen:
            seen.add(x)
            yield x
            left += x.operands


def cost_of(xs: Iterable[Array]) -> int:
    """The operations for one element of each array, what several of them read counted once.

    `Array.cost` counts it as often as it is read, and is an upper bound.
    """
    return sum(max(0, x.cost - sum(v.cost for v in x.operands)) for x in computed_from(xs))


NO_BUFFERS: frozenset[Buffer] = frozenset()


class Scalar(Array):
    """One number, whatever its shape: in a register, or known as a place or a literal."""

    __slots__ = ("_register", "literal", "place")

    def __init__(
        self,
        shape: Shape,
        dtype: np.dtype[Any],
        register: Value | None = None,
        *,
        place: Place | None = None,
        literal: Any = None,
    ) -> None:
        super().__init__(shape, dtype, NO_BUFFERS, 0)
        self._register = register
        self.place = place
        self.literal = literal

    def at(self, nest: Nest, index: Index) -> Value:
        return nest.number(self)

    @property
    def register(self) -> Value | None:
        return self._register

    def shaped(self, shape: Shape) -> Scalar:
        return Scalar(shape, self.dtype, self._register, place=self.place, literal=self.literal)


class View(Array):
    """Elements of a buffer: the one at an index lies at `offset` and the strides times it."""

    __slots__ = ("buffer", "offset", "strides")

    def __init__(
        self,
        buffer: Buffer,
        offset: Place,
        strides: Sequence[int],
        shape: Shape,
        dtype: np.dtype[Any],
    ) -> None:
        super().__init__(shape, dtype, frozenset((buffer,)), 0)
        self.buffer = buffer
        self.offset = offset
        self.strides = tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))

    def place(self, index: Index) -> Place:
        place = self.offset
        for i, stride in zip(index, self.strides, strict=True):
            place = place + i * stride
        return place

    def at(self, nest: Nest, index: Index) -> Value:
        return nest.load(self.buffer, self.place(index), self.dtype)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its buffer, in order."""
        if self.offset != ZERO or self.size != self.buffer.size:
            return False
        return self.strides == _unit(contiguous(self.shape), self.shape)


def _unit(strides: Sequence[int], shape: Shape) -> tuple[int, ...]:
    return tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))


def contiguous(shape: Shape) -> tuple[int, ...]:
    """The strides of an array in row-major order."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def whole(buffer: Buffer, shape: Shape, dtype: np.dtype[Any]) -> View:
    return View(buffer, ZERO, contiguous(shape), shape, dtype)


class Map(Array):
    """An elementwise operation: `rule(context, *registers)`; operands of rank 0 go with any."""

    __slots__ = ("_operands", "rule")

    def __init__(
        self,
        rule: Callable[..., Value],
        operands: Sequence[Array],
        shape: Shape,
        dtype: np.dtype[Any],
        cost: int,
    ) -> None:
        buffers = frozenset[Buffer]().union(*(x.buffers for x in operands))
        total = cost + sum(x.cost for x in operands)
        super().__init__(shape, dtype, buffers, total)
        self.rule = rule
        self._operands = tuple(operands)

    @property
    def operands(self) -> Sequence[Array]:
        return self._operands

    def at(self, nest: Nest, index: Index) -> Value:
        return nest.mapped(self, [nest.value(x, i) for x, i in self.visit(index)], index)

    def visit(self, index: Index) -> Iterator[tuple[Array, Index]]:
        for x in self._operands:
            yield x, index if x.shape else ()


class Iota(Array):
    """The index along one axis."""

    __slots__ = ("dimension",)

    def __init__(self, shape: Shape, dtype: np.dtype[Any], dimension: int) -> None:
        super().__init__(shape, dtype, NO_BUFFERS, 0)
        self.dimension = dimension

    def at(self, nest: Nest, index: Index) -> Value:
        return nest.number_at(index[self.dimension], self.dtype)


class Moved(Array):
    """The elements of another array at other indices."""

    __slots__ = ("mapping", "operand")

    def __init__(self, operand: Array, mapping: Mapping, shape: Shape) -> None:
        super().__init__(shape, operand.dtype, operand.buffers, operand.cost)
        self.operand = operand
        self.mapping = mapping

    @property
    def operands(self) -> Sequence[Array]:
        return (self.operand,)

    def at(self, nest: Nest, index: Index) -> Value:
        return nest.value(self.operand, self.mapping(index))

    def visit(self, index: Index) -> Iterator[tuple[Array, Index]]:
        yield self.operand, self.mapping(index)


class Within(Array):
    """`part` where an index, moved by `low`, lies inside of it, elsewhere `around`.

    Pads have one number around, and updates of a part of an array the array itself. The loops that
    compute it are cut in two where it changes from one to the other.
    """

    __slots__ = ("around", "low", "part")

    def __init__(self, part: Array, around: Array, low: Sequence[int], shape: Shape) -> None:
        buffers = part.buffers | around.buffers
        super().__init__(shape, part.dtype, buffers, max(part.cost, around.cost))
        self.part = part
        self.around = around
        self.low = tuple(low)

    @property
    def operands(self) -> Sequence[Array]:
        return self.part, self.around

    def moved(self, index: Index) -> Index:
        return tuple(i - low for i, low in zip(index, self.low, strict=True))

    def at(self, nest: Nest, index: Index) -> Value:
        inside = self.moved(index)
        if all(
            0 <= i.bounds[0] and i.bounds[1] < n
            for i, n in zip(inside, self.part.shape, strict=True)
        ):
            return nest.value(self.part, inside)
        return nest.value(self.around, index if self.around.shape else ())

    def visit(self, index: Index) -> Iterator[tuple[Array, Index]]:
        inside = self.moved(index)
        bounds = [i.bounds for i in inside]
        if all(b[1] >= 0 and b[0] < n for b, n in zip(bounds, self.part.shape, strict=True)):
            yield self.part, inside
        yield self.around, index if self.around.shape else ()


def found_at(x: Array, index: Index) -> tuple[Array, Index]:
    """What the element of `x` at an index is an element of, and at which index of it."""
    while True:
        x = actual(x)
        if isinstance(x, Moved):
            x, index = x.operand, x.mapping(index)
            continue
        if not isinstance(x, Within):
            return x, () if isinstance(x, Scalar) else index
        inside = x.moved(index)
        ends = [(i.bounds, n) for i, n in zip(inside, x.part.shape, strict=True)]
        if all(low >= 0 and high < n for (low, high), n in ends):
            x, index = x.part, inside
        elif any(high < 0 or low >= n for (low, high), n in ends):
            x, index = x.around, index if x.around.shape else ()
        else:
            return x, index


# ---- arrays made of others


def moved(x: Array, shape: Shape, mapping: Mapping) -> Array:
    """The array with the elements of `x` at the indices that `mapping` gives."""
    x = actual(x)
    if isinstance(x, Scalar):
        return x.shaped(shape) if math.prod(shape) == 1 else Moved(x, lambda _: (), shape)
    if isinstance(x, View):
        symbols = [Symbol(None, 0, n - 1) for n in shape]
        place = x.place(mapping(tuple(map(Place.of, symbols))))
        strides = [place.factor(s) for s in symbols]
        for s in symbols:
            place = place.without(s)
        return View(x.buffer, place, strides, shape, x.dtype)
    if isinstance(x, Moved):
        first = x.mapping
        return Moved(x.operand, lambda index: first(mapping(index)), shape)
    return Moved(x, mapping, shape)


def part_of(x: View, shape: Shape, mapping: Mapping) -> View:
    """`moved` of what is in memory, which is in memory too."""
    found = moved(x, shape, mapping)
    assert isinstance(found, View)
    return found


def reshaped(
    x: Array, shape: Shape, known: dict[Array, Array | None] | None = None
) -> Array | None:
    """The elements of `x` in another shape; None if only a copy in memory does.

    `known` holds what was found before for this shape: what is read twice stays one array.
    """
    known = {} if known is None else known
    x = actual(x)
    if x not in known:
        made = known[x] = _reshaped(x, shape, known)
        if made is not None and made.source is UNKNOWN:
            made.source = x.source
    return known[x]


def _reshaped(x: Array, shape: Shape, known: dict[Array, Array | None]) -> Array | None:
    if x.shape == shape:
        return x
    if isinstance(x, Scalar):
        return x.shaped(shape)
    if isinstance(x, Moved) and isinstance(x.operand, Scalar):
        return moved(x.operand, shape, lambda _: ())
    if isinstance(x, Map):
        parts = [reshaped(v, shape, known) if v.shape else v for v in x.operands]
        if any(p is None for p in parts):
            return None
        found = [p for p in parts if p is not None]
        own = x.cost - sum(v.cost for v in x.operands)
        return Map(x.rule, found, shape, x.dtype, own)
    if isinstance(x, View):
        x = _merged(x, shape)
    groups = _groups(x.shape, shape)
    if groups is None or any(len(old) > 1 for old, _ in groups):
        return None
    old_rank = len(x.shape)

    def mapping(index: Index) -> Index:
        out = [ZERO] * old_rank
        for old, new in groups:
            if old:
                place = ZERO
                for axis in new:
                    place = place * shape[axis] + index[axis]
                out[old[0]] = place
        return tuple(out)

    return moved(x, shape, mapping)


def _groups(old: Shape, new: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Which axes of one shape have the elements of which axes of another, without unit axes."""
    olds = [i for i, n in enumerate(old) if n != 1]
    news = [i for i, n in enumerate(new) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while olds or news:
        a, b = [olds.pop(0)], [news.pop(0)]
        m, n = old[a[0]], new[b[0]]
        while m != n:
            if m < n:
                a.append(olds.pop(0))
                m *= old[a[-1]]
            else:
                b.append(news.pop(0))
                n *= new[b[-1]]
        groups.append((a, b))
    return groups


def _merged(x: View, shape: Shape) -> View:
    """`x` with axes made one where that takes it nearer to `shape` and they lie in one row."""
    groups = _groups(x.shape, shape) or []
    strides, sizes = [], []
    for old, _ in groups:
        parts = [(x.shape[i], x.strides[i]) for i in old]
        merged = [parts[0]]
        for n, s in parts[1:]:
            size, stride = merged[-1]
            if stride == n * s:
                merged[-1] = size * n, s
            else:
                merged.append((n, s))
        sizes += [n for n, _ in merged]
        strides += [s for _, s in merged]
    return View(x.buffer, x.offset, strides, tuple(sizes), x.dtype)
