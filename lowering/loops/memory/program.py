"""The program of a dispatch: jaxprs evaluated with arrays that are computed where they are needed.

Arrays are stored when something has to be in memory: what a loop carries, what is updated in place,
and what reads elements that are about to be overwritten.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, last_uses
from xpr.core.primitive import Primitive
from xpr.core.source_info import UNKNOWN
from xpr.lowering.context import Shape, Value
from xpr.lowering.ir.graph import Block, Op, PlainValue
from xpr.lowering.loops.calls import CALLS
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import (
    NO_BUFFERS,
    Array,
    Buffer,
    Iota,
    Map,
    Moved,
    Region,
    Scalar,
    View,
    Within,
    actual,
    computed_from,
    cost_of,
    found_at,
    reshaped,
    whole,
)
from xpr.lowering.loops.memory.conflicts import Verdict, reads_what_is_written, verdict
from xpr.lowering.loops.memory.context import LoopContext, memory_element
from xpr.lowering.loops.memory.nest import Nest, Reads, Share, number, store_all
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.loops.registers.table import NotInRegisters

# From so many operations on an element on, arrays are stored before they are read at more places,
_SHARED_COST = 3
# or if so many operations read them, which may be stored in loops of their own,
_MANY_USES, _MANY_COST = 5, 8
# and before anything else.
_MAX_COST = 300
# What costs more is stored, in vectors, before it is read element by element.
_STREAMED_COST = 16
# Parts of an update that are at most this fraction of it are stored before the rest is in place.
_SMALL_PART = 8

# Operations that make something of empty operands.
_TAKE_EMPTY = frozenset(
    (
        *("scan", "while", "cond", *CALLS),
        *("concatenate", "pad", "split", "dynamic_update_slice", "name", "stop_gradient"),
        *("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"),
        *("reduce_xor", "dot_general"),
        *("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
    )
)

Rule = Callable[..., Any]


class _Frame:
    """The live variables of a jaxpr that is being evaluated, in a region."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.env: dict[Var, Array] = {}


class Program:
    """Writes the operations of one dispatch.

    With `stores_early` arrays that would be computed more than once are stored before.
    """

    def __init__(
        self,
        ctx: LoopContext,
        rules: Callable[[Primitive], Rule | None],
        table: Callable[[Any], Array],
        *,
        stores_early: bool = True,
    ) -> None:
        self.ctx = ctx
        self._top = ctx.block
        self._stores_early = stores_early
        self._table = table
        self.region = Region()
        self.fresh: list[Buffer] = []
        self._rules = rules
        self._frames: list[_Frame] = []
        self._clamped: dict[Any, Place] = {}
        # For arrays that begin as copies of operands, made once: the operand and what copies it.
        self.copies: dict[Buffer, tuple[Buffer, list[Op]]] = {}

    # ---- evaluation

    def run(self, closed: ClosedJaxpr, operands: Sequence[Array]) -> list[Array]:
        """The results of a jaxpr, perhaps yet to be computed."""
        jaxpr = closed.jaxpr
        frame = _Frame(self.region)
        frame.env.update(zip(jaxpr.constvars, map(self._table, closed.consts), strict=True))
        frame.env.update(zip(jaxpr.invars, operands, strict=True))
        self._frames.append(frame)
        dead, uses = last_uses(jaxpr), _Uses(jaxpr)
        outer = self.ctx.source
        for i, eqn in enumerate(jaxpr.eqns):
            self.ctx.source = eqn.source_info
            arrays = [self._read(frame, a) for a in eqn.invars]
            for var in dead.get(i, ()):
                frame.env.pop(var, None)
            try:
                results = self._apply(eqn, arrays)
            except NotInRegisters as refused:
                raise NotInMemory(f"{eqn.primitive.name}: {refused}", eqn.source_info) from None
            except NotInMemory as refused:
                if refused.source is None:
                    refused.source = eqn.source_info
                raise
            for var, x in zip(eqn.outvars, results, strict=True):
                if x.source is UNKNOWN:
                    x.source = eqn.source_info
                x = self.in_register(x)
                if self._stores_early and uses.computed_first(var, x):
                    self.compute(x)
                if uses.count[var]:
                    frame.env[var] = x
        results = [self._read(frame, a) for a in jaxpr.outvars]
        self._frames.pop()
        self.ctx.source = outer
        return results

    def _read(self, frame: _Frame, atom: Atom) -> Array:
        if not isinstance(atom, Literal):
            return actual(frame.env[atom])
        return self.literal(atom.val, atom.aval.dtype)

    @staticmethod
    def literal(value: Any, dtype: np.dtype[Any]) -> Scalar:
        """A number that is written in the program."""
        if dtype.kind in "iu":
            return Scalar((), dtype, place=Place(int(value)), literal=value)
        return Scalar((), dtype, literal=value)

    def _apply(self, eqn: JaxprEqn, operands: Sequence[Array]) -> Sequence[Array]:
        name = eqn.primitive.name
        rule = self._rules(eqn.primitive)
        avals = [v.aval for v in eqn.outvars]
        if avals and all(a.size == 0 for a in avals):
            return [empty(a.shape, a.dtype) for a in avals]
        if any(x.size == 0 for x in operands) and name not in _TAKE_EMPTY:
            raise NotInMemory(f"{name} of an empty array")
        if rule is None:
            raise NotInMemory(name)
        found = rule(self, eqn.primitive, avals, *operands, **eqn.params)
        return [found] if isinstance(found, Array) else found

    def in_register(self, x: Array) -> Array:
        """One element is computed at once, and kept in a register."""
        x = actual(x)
        if x.size != 1 or isinstance(x, Scalar):
            return x
        found, index = found_at(x, (Place(),) * len(x.shape))
        if isinstance(found, Scalar):
            return found.shaped(x.shape)
        return Scalar(x.shape, x.dtype, Nest([self.ctx]).value(found, index))

    def number(self, x: Array) -> Value:
        """A number in a register."""
        x = self.in_register(x)
        assert isinstance(x, Scalar)
        return number(self.ctx, x)

    def start(self, x: Array, limit: int) -> Place:
        """An index moved into 0 .. limit."""
        x = self.in_register(x)
        assert isinstance(x, Scalar)
        if limit == 0:
            return Place()
        low, high = x.place.bounds if x.place is not None else (None, None)
        if low is not None and high is not None and low >= 0 and high <= limit:
            assert x.place is not None
            return x.place
        key = (x.place or x.register, limit, self.region)
        found = self._clamped.get(key)
        if found is None:
            index = self.index(x)
            lowest = None if low is not None and low >= 0 else 0
            highest = None if high is not None and high <= limit else limit
            value = self.ctx.clamped(index, lowest, highest)
            found = self._clamped[key] = Place.of(Symbol(value, 0, limit))
        return found

    def index(self, x: Scalar) -> Any:
        """A number as a value of type `index`."""
        return (
            self.ctx.place(x.place) if x.place is not None else self.ctx.index_from(self.number(x))
        )

    # ---- memory

    def allocate(self, shape: Shape, dtype: np.dtype[Any]) -> View:
        """A new array in memory that the operations of this region write."""
        size = math.prod(shape)
        memory = PlainValue(f"memref<{size}x{memory_element(dtype)}>")
        buffer = Buffer(memory, size, dtype, self.region)
        self.fresh.append(buffer)
        return whole(buffer, shape, dtype)

    def live(self) -> Iterator[tuple[Region, Array]]:
        """The arrays that are read later, and the region of what reads them."""
        for frame in self._frames:
            for x in frame.env.values():
                yield frame.region, actual(x)

    def dependents(self, buffer: Buffer, besides: Array, others: Sequence[Array]) -> list[Array]:
        """Arrays that are yet to be read and are computed from a buffer."""
        found: list[Array] = []
        for region, x in (*self.live(), *((self.region, actual(o)) for o in others)):
            if x is besides or buffer not in all_buffers(x):
                continue
            if region is not self.region:
                raise AssertionError("an array of an outer region is overwritten")
            if not any(x is y for y in found):
                found.append(x)
        return found

    def stored(self, x: Array, *, again: bool = False) -> View:
        """`x` in memory; with `again` a copy of what already lies there."""
        x = actual(x)
        if isinstance(x, View) and not again:
            return x
        target = self.allocate(x.shape, x.dtype)
        self.store_all([(target, x)])
        x.forward = target
        return target

    def streamed(self, x: Array, besides: Array) -> Array:
        """`x` to be read once, element by element, while the buffers of `besides` are written."""
        x = actual(x)
        reads = Reads(x.shape)
        reads.add(x)
        is_cheap = x.cost <= _STREAMED_COST and not reads.bounds
        if is_cheap and not all_buffers(x) & all_buffers(besides):
            return x
        return self.stored(x)

    def compute(self, x: Array, others: Sequence[Array] = ()) -> View:
        """`x` in memory, in the place of an array that is read no more if there is one."""
        x = actual(x)
        if isinstance(x, View):
            return x
        # In the order of reading: that of a set would be another one each time.
        for buffer in dict.fromkeys(v.buffer for v in computed_from([x]) if isinstance(v, View)):
            if (
                buffer.writer is self.region
                and buffer.size == x.size
                and buffer.dtype == x.dtype
                and self._give_way(buffer, x, others)
            ):
                target = whole(buffer, x.shape, x.dtype)
                if self._resolve_conflicts([target], x):
                    self._store([target], [x])
                    x.forward = target
                    return target
        return self.stored(x)

    def _give_way(self, buffer: Buffer, x: Array, others: Sequence[Array]) -> bool:
        """Stores what is read later and computed from a buffer elsewhere, if that is little."""
        found = self.dependents(buffer, x, others)
        if any(v.size * _SMALL_PART > buffer.size for v in found):
            return False
        for v in found:
            self.stored(v, again=True)
        return True

    def writable(self, x: Array, others: Sequence[Array]) -> View:
        """`x` in memory that may be overwritten; `others` are yet to be read."""
        x = actual(x)
        if not isinstance(x, View):
            x = self.compute(x, others)
        if x.is_whole and x.buffer.writer is self.region:
            found = self.dependents(x.buffer, x, others)
            copies = [v for v in found if isinstance(v, View) and v.is_whole]
            alive = any(v is x for _, v in self.live())
            if not alive and not copies:
                for v in found:
                    if not self._is_update(v, others):
                        self.stored(v, again=True)
                return x
        return self.copied(x)

    def copied(self, x: Array) -> View:
        """A copy of `x` in memory of its own."""
        target = self.allocate(x.shape, x.dtype)
        first = len(self.ctx.block.ops)
        self.store_all([(target, x)])
        x = actual(x)
        is_at_top = self.ctx.block is self._top
        if is_at_top and isinstance(x, View) and x.is_whole and x.buffer.writer is None:
            self.copies[target.buffer] = (x.buffer, self.ctx.block.ops[first:])
        return target

    def _is_update(self, x: Array, others: Sequence[Array]) -> bool:
        """Whether `x` is read in the update itself only, where conflicts are seen to."""
        return any(x is actual(o) for o in others) and not any(x is v for _, v in self.live())

    def store_all(self, pairs: Sequence[tuple[View, Array]]) -> None:
        """Stores all values as they are now, whatever targets they are computed from."""
        left = [(t, actual(v)) for t, v in pairs if not _same_place(t, actual(v))]
        while left:
            group = self._free_group(left)
            if group is None:
                # Everything waits for something else: what reads a target moves out of the way.
                written = {t.buffer for t, _ in left}
                waiting = [v for _, v in left if written & all_buffers(v)]
                fresh = [(self.allocate(v.shape, v.dtype), v) for v in waiting]
                self.store_all(fresh)
                for t, v in fresh:
                    v.forward = t
                left = [(t, actual(v)) for t, v in left]
                continue
            targets, values = [t for t, _ in group], [v for _, v in group]
            if not all(self._resolve_conflicts(targets, v) for v in values):
                for v in values:
                    self.stored(v, again=True)
            self._store(targets, values)
            left = [p for p in left if p not in group]

    def _free_group(self, left: Sequence[tuple[View, Array]]) -> list[tuple[View, Array]] | None:
        """Pairs of one shape that can be stored together before all others."""
        for first in left:
            group = [p for p in left if p[0].shape == first[0].shape]
            fused = [p for p in group if verdict([t for t, _ in group], [p[1]]) is not Verdict.NO]
            for candidate in (fused, [first]):
                if not candidate:
                    continue
                written = {t.buffer for t, _ in candidate}
                others = [p for p in left if p not in candidate]
                if any(written & all_buffers(v) for _, v in others):
                    continue
                targets = [t for t, _ in candidate]
                if len(candidate) == 1 or all(
                    verdict(targets, [v]) is not Verdict.NO for _, v in candidate
                ):
                    return list(candidate)
        return None

    def _resolve_conflicts(self, targets: Sequence[View], value: Array) -> bool:
        """Stores small parts of `value` that would be overwritten; whether it then may go."""
        self.cut_along_axes(value)
        if verdict(targets, [value]) is not Verdict.NO:
            return True
        reads = Reads(targets[0].shape)
        seen: set[tuple[Array, Any]] = set()

        def move(x: Array, index: Any) -> bool:
            x = actual(x)
            if (x, index) in seen:
                return True
            seen.add((x, index))
            if isinstance(x, Scalar) or not reads_what_is_written(x, index, reads, targets):
                return True
            if isinstance(x, View) and self._stored_once(x, targets[0].size // _SMALL_PART):
                return True
            if x.size * _SMALL_PART <= targets[0].size:
                self.stored(x, again=True)
                return True
            if isinstance(x, (Map, Moved)):
                return all(move(v, i) for v, i in x.visit(index))
            return False

        move(value, reads.index if value.shape else ())
        return verdict(targets, [value]) is not Verdict.NO

    def _stored_once(self, x: View, most: int) -> bool:
        """Copies what `x` repeats along some axes, if it is at most so many elements."""
        axes = [i for i, s in enumerate(x.strides) if s]
        shape = tuple(x.shape[i] for i in axes)
        if len(axes) == len(x.shape) or math.prod(shape) > most:
            return False
        part = View(x.buffer, x.offset, [x.strides[i] for i in axes], shape, x.dtype)
        copy = self.stored(part, again=True)
        strides = [0] * len(x.shape)
        for i, s in zip(axes, copy.strides, strict=True):
            strides[i] = s
        x.forward = View(copy.buffer, copy.offset, strides, x.shape, x.dtype)
        return True

    def cut_along_axes(self, value: Array) -> None:
        """Stores what would cut the loops otherwise than along an axis."""
        reads = Reads(value.shape)
        reads.add(value)
        if reads.cuts() is not None:
            return

        for x in reversed(list(computed_from([value]))):
            if isinstance(x, Within) and x.forward is None:
                self.stored(x)

    def _store(self, targets: Sequence[View], values: Sequence[Array]) -> None:
        values = [actual(v) for v in values]
        for v in values:
            self.cut_along_axes(v)
        fewer = _in_few_axes(targets, values)
        if _are_cut_along_axes(*fewer):
            targets, values = fewer
        order = verdict(targets, values)
        assert order is not Verdict.NO
        store_all(self.ctx, targets, values, in_order=order is Verdict.IN_ORDER)

    def store_shares(self, targets: Sequence[View], values: Sequence[Array], share: Share) -> None:
        """Stores arrays of one shape, each workgroup its part; nothing may be stored before."""
        values = [actual(v) for v in values]
        if len(self.fresh) > len(targets):
            raise NotInMemory("an array that is stored before others are computed")
        fewer = _in_few_axes(targets, values)
        if _are_cut_along_axes(*fewer):
            targets, values = fewer
        elif not _are_cut_along_axes(targets, values):
            raise NotInMemory("pieces that no loops along axes make")
        store_all(self.ctx, targets, values, in_order=False, share=share)

    # ---- regions

    @contextmanager
    def inside(self, ctx: LoopContext, taken: Sequence[Buffer]) -> Iterator[None]:
        """What is written in a block of its own, which may overwrite the buffers `taken`."""
        outer_ctx, outer = self.ctx, self.region
        self.ctx, self.region = ctx, Region()
        for b in taken:
            b.writer = self.region
        yield
        for b in taken:
            b.writer = outer
        self.ctx, self.region = outer_ctx, outer

    @contextmanager
    def branch(self, test: Value) -> Iterator[None]:
        """What is done only where a test holds: it stores, and computes nothing for later."""
        outer = self.ctx
        self.ctx = outer.nested(Block())
        yield
        other = outer.nested(Block())
        for inner in (self.ctx, other):
            inner.append("scf.yield", ())
        bit = outer.plain("vector.extract", (test,), "i1")
        outer.append("scf.if", (bit,), regions=[self.ctx.block, other.block])
        self.ctx = outer

    def may_take(self, x: View, others: Sequence[Array]) -> bool:
        """Whether nothing else reads an array, so that a loop or a branch may overwrite it."""
        return (
            x.is_whole
            and x.buffer.writer is self.region
            and not any(x.buffer in all_buffers(o) for o in others)
            and not any(x.buffer in all_buffers(v) for _, v in self.live())
        )

    def taken(self, x: Array, others: Sequence[Array]) -> View:
        """An array that a loop may overwrite, with the elements of `x`."""
        x = actual(x)
        if isinstance(x, View) and self.may_take(x, others):
            return x
        return self.copied(x)

    def loop_invariant(self, x: Array) -> Array:
        """An array that a loop reads in each round: computed before."""
        x = self.in_register(x)
        cheap = isinstance(x, (Scalar, View, Iota)) or (
            isinstance(x, Moved) and isinstance(x.operand, (Scalar, Iota))
        )
        return again(x if cheap else self.stored(x))


def again(x: Array) -> Array:
    """The same array for a region of its own: what takes its place there does so there only."""
    x = actual(x)
    if isinstance(x, View):
        return View(x.buffer, x.offset, x.strides, x.shape, x.dtype)
    if isinstance(x, Moved):
        return Moved(x.operand, x.mapping, x.shape)
    return Iota(x.shape, x.dtype, x.dimension) if isinstance(x, Iota) else x


def empty(shape: Shape, dtype: np.dtype[Any]) -> Array:
    """An array without elements."""
    return Moved(Program.literal(dtype.type(0), dtype), lambda _: (), shape)


def all_buffers(x: Array) -> frozenset[Buffer]:
    """The buffers that the elements of `x` are read from, now."""
    if not actual(x).buffers:
        return NO_BUFFERS
    return NO_BUFFERS.union(*(v.buffers for v in computed_from([x]) if isinstance(v, View)))


def _same_place(target: View, x: Array) -> bool:
    return (
        isinstance(x, View)
        and x.buffer is target.buffer
        and x.offset == target.offset
        and x.strides == target.strides
    )


def _in_few_axes(
    targets: Sequence[View], values: Sequence[Array]
) -> tuple[Sequence[View], Sequence[Array]]:
    """Targets and values with axes made one where all of them lie in one row."""
    shape = targets[0].shape
    flat = [n for n in shape if n != 1]
    tries: list[Shape] = [
        (*flat[:k], math.prod(flat[k:])) for k in range(len(flat)) if len(flat) - k > 1
    ]
    if len(flat) < len(shape):
        tries.append(tuple(flat))
    for smaller in tries:
        known: dict[Array, Array | None] = {}
        found = [reshaped(x, smaller, known) for x in (*targets, *values)]
        views = [x for x in found[: len(targets)] if isinstance(x, View)]
        rest = [x for x in found[len(targets) :] if x is not None]
        if len(views) == len(targets) and len(rest) == len(values):
            return views, rest
    return targets, values


def _are_cut_along_axes(targets: Sequence[View], values: Sequence[Array]) -> bool:
    reads = Reads(targets[0].shape)
    for v in values:
        reads.add(v)
    return reads.cuts() is not None


class _Uses:
    """How often, and how, the variables of a jaxpr are used."""

    _SAME_PLACE = frozenset(
        ("elementwise", "power", "elementary", "compare", "convert", "integer", "special")
    )

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.count: Counter[Var] = Counter()
        self._moved: set[Var] = set()
        for eqn in jaxpr.eqns:
            for a in {a for a in eqn.invars if isinstance(a, Var)}:
                self.count[a] += 1
                if eqn.primitive.family not in self._SAME_PLACE:
                    self._moved.add(a)
        for a in jaxpr.outvars:
            if isinstance(a, Var):
                self.count[a] += 1

    def computed_first(self, var: Var, x: Array) -> bool:
        """Whether an array is stored when it is made, since else it would be computed twice."""
        if isinstance(x, (Scalar, View)):
            return False
        if x.cost > _MAX_COST and cost_of([x]) > _MAX_COST:
            return True
        if self.count[var] >= _MANY_USES and x.cost >= _MANY_COST:
            return True
        return self.count[var] > 1 and var in self._moved and x.cost >= _SHARED_COST
