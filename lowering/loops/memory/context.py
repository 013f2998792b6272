"""The operations of a loop's program: vectors of lanes in registers, loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import Shape, Value
from xpr.lowering.ir.graph import Block, PlainValue
from xpr.lowering.ir.stablehlo import I1
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.registers.context import Register, VectorContext, register_element
from xpr.lowering.loops.single_dispatch import memory_dtype

_BYTE = np.dtype(np.int8)


def memory_element(dtype: np.dtype[Any]) -> str:
    """The MLIR type of an element in memory."""
    return register_element(memory_dtype(dtype))


class LoopContext(VectorContext):
    """Emits the operations of one block of a loop's program.

    A value of shape () is one number in a register, one of shape (n,) a vector of n lanes.
    """

    def nested(self, block: Block) -> LoopContext:
        inner = LoopContext(self.module, block)
        inner.work, inner.source = self.work, self.source
        return inner

    # ---- indices

    def place(self, place: Place) -> Value:
        """A place as a value of type `index`."""
        total: Value | None = None
        for symbol, factor in place.terms.items():
            assert symbol.value is not None
            term = self.times_index(symbol.value, factor)
            total = term if total is None else self.plus_index(total, term)
        if total is None:
            return self.index(place.constant)
        return self.plus_index(total, self.index(place.constant)) if place.constant else total

    def number_at(self, place: Place, dtype: np.dtype[Any]) -> Value:
        """A place as an integer in a register."""
        if place.known is not None:
            return self.constant(place.known, dtype)
        element = register_element(dtype)
        cast = self.plain("arith.index_cast", (self.place(place),), element)
        return self._broadcast(cast, (), dtype)

    def _broadcast(self, element: Value, shape: Shape, dtype: np.dtype[Any]) -> Value:
        out = Register(shape, dtype)
        self.append("vector.broadcast", (element,), (out,))
        return out

    def index_from(self, x: Value) -> Value:
        """A rank-0 integer as an index; great unsigned ones stay great."""
        if dtypes.kind(x.dtype) == "u" and x.dtype.itemsize == 8:
            x = self.minimum(x, np.iinfo(np.int64).max)
        return self.as_index(x)

    def clamped(self, index: Value, low: int | None, high: int | None) -> Value:
        """An index moved between the bounds that are given."""
        if low is not None:
            index = self.plain("arith.maxsi", (index, self.index(low)), "index")
        if high is not None:
            index = self.plain("arith.minsi", (index, self.index(high)), "index")
        return index

    # ---- arithmetic

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """`x * y + total`."""
        return self.add(total, self.mul(x, y))

    # ---- memory

    def load(
        self, memory: Value, place: Place, step: int, lanes: int, dtype: np.dtype[Any]
    ) -> Value:
        """`lanes` elements from a place on, `step` apart; one number of shape () for 0 lanes."""
        stored = _BYTE if dtype == I1 else dtype
        if lanes == 0 or step == 0:
            out: Value = Register((), stored)
            self.append("vector.load", (memory, self.place(place)), (out,))
            if lanes:
                out = self.broadcast_in_dim(out, (lanes,), ())
        elif step in (1, -1):
            out = Register((lanes,), stored)
            first = place if step == 1 else place - (lanes - 1)
            self.append("vector.load", (memory, self.place(first)), (out,))
            if step == -1:
                out = self.rearranged([out], np.arange(lanes)[::-1])
        else:
            element, base = memory_element(dtype), self.place(place)
            items = [
                self.plain(
                    "memref.load",
                    (memory, self.plus_index(base, self.index(i * step)) if i else base),
                    element,
                )
                for i in range(lanes)
            ]
            out = self.from_elements(items, stored)
        return self.compare("NE", out, 0) if dtype == I1 else out

    def joined(self, items: Sequence[Value]) -> Value:
        """Numbers as the lanes of a vector."""
        element = register_element(items[0].dtype)
        parts = [self.plain("vector.extract", (x,), element) for x in items]
        return self.from_elements(parts, items[0].dtype)

    def from_elements(self, items: Sequence[Value], dtype: np.dtype[Any]) -> Value:
        out = Register((len(items),), dtype)
        self.append("vector.from_elements", tuple(items), (out,))
        return out

    def store(self, x: Value, memory: Value, place: Place, step: int) -> None:
        """Writes a number, or the lanes of a vector `step` apart, from a place on."""
        if x.dtype == I1:
            x = self.convert(x, _BYTE)
        if not x.shape or step == 1:
            self.append("vector.store", (x, memory, self.place(place)))
            return
        for i in range(x.shape[0]):
            item = self.rearranged([x], np.array([i]))
            self.append("vector.store", (item, memory, self.place(place + i * step)))

    # ---- blocks

    def for_each(
        self,
        count: int | Value,
        step: int,
        starts: Sequence[Value],
        body: Callable[[LoopContext, Symbol, list[Value]], Sequence[Value]],
        part: tuple[Value, Value] | None = None,
    ) -> list[Value]:
        """`scf.for` from 0 to `count`; `body` gets the counter and the carried values.

        With `part` it goes from the one to the other only.
        """
        counter = PlainValue("index")
        high = (count - 1) // step * step if isinstance(count, int) else (1 << 60)
        state: list[Value] = [Register(v.shape, v.dtype) for v in starts]
        inner = self.nested(Block([counter, *state]))
        out = body(inner, Symbol(counter, 0, high), state)
        inner.append("scf.yield", out)
        results = [Register(v.shape, v.dtype) for v in starts]
        end = self.index(count) if isinstance(count, int) else count
        first, end = part or (self.index(0), end)
        bounds = first, end, self.index(step)
        self.counted(bounds, starts, inner.block, results)
        return list(results)

    def choose(
        self,
        condition: Value,
        one: Callable[[LoopContext], Sequence[Value]],
        other: Callable[[LoopContext], Sequence[Value]],
        types: Sequence[tuple[Shape, np.dtype[Any]]] = (),
    ) -> list[Value]:
        """`scf.if` on a rank-0 boolean."""
        bit = self.plain("vector.extract", (condition,), "i1")
        blocks = []
        for function in (one, other):
            inner = self.nested(Block())
            inner.append("scf.yield", function(inner))
            blocks.append(inner.block)
        results = [Register(s, d) for s, d in types]
        self.append("scf.if", (bit,), results, regions=blocks)
        return list(results)
