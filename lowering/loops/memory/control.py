"""Rules of loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Literal, Var
from xpr.core.primitive import Primitive
from xpr.lowering.context import Shape, Value
from xpr.lowering.ir.graph import Block
from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import Array, Scalar, View, actual, moved, whole
from xpr.lowering.loops.memory.context import LoopContext
from xpr.lowering.loops.memory.elementwise import full
from xpr.lowering.loops.memory.program import Program, again, empty
from xpr.lowering.loops.refusal import NotInMemory
from xpr.lowering.loops.registers.context import Register

Avals = Sequence[ShapedArray]


def call(parameter: str) -> Callable[..., Sequence[Array]]:
    """The rule of a call of the jaxpr in a parameter."""

    def rule(
        p: Program, _: Primitive, avals: Avals, *operands: Array, **params: Any
    ) -> Sequence[Array]:
        return p.run(params[parameter], operands)

    return rule


def same(p: Program, _: Primitive, avals: Avals, *xs: Array, **__: Any) -> Sequence[Array]:
    return xs


# ---- what loops carry


def _counts(jaxpr: ClosedJaxpr, position: int, result: int) -> int | None:
    """By how much a carried integer grows in each round, if that is a number."""
    inner = jaxpr.jaxpr
    out, var = inner.outvars[result], inner.invars[position]
    if out is var:
        return 0
    if dtypes.kind(var.aval.dtype) not in "iu" or var.aval.shape:
        return None
    for eqn in inner.eqns:
        if out in eqn.outvars:
            if eqn.primitive.name != "add":
                return None
            a, b = eqn.invars
            if isinstance(a, Literal):
                a, b = b, a
            return int(b.val) if a is var and isinstance(b, Literal) else None
    return None


class Slots:
    """What a loop carries: numbers in registers, and arrays in buffers of their own."""

    def __init__(self, p: Program, carry: Sequence[Array], others: Sequence[Array]) -> None:
        self.numbers: list[tuple[Shape, Any]] = []
        # None for a number; what is no view has no elements, and is the same in each round.
        self.kinds: list[Array | None] = []
        self.starts: list[Value] = []
        for i, x in enumerate(carry):
            if x.size == 0:
                self.kinds.append(empty(x.shape, x.dtype))
            elif x.size == 1:
                self.kinds.append(None)
                self.numbers.append((x.shape, x.dtype))
                self.starts.append(p.number(x))
            else:
                rest = [*others, *carry[:i], *carry[i + 1 :]]
                self.kinds.append(p.taken(x, rest))

    @property
    def views(self) -> list[View]:
        return [v for v in self.kinds if isinstance(v, View)]

    def arrays(self, registers: Sequence[Value]) -> list[Array]:
        """The carried arrays, with these numbers."""
        numbers, shapes = iter(registers), iter(self.numbers)
        out: list[Array] = []
        for v in self.kinds:
            if v is None:
                shape, dtype = next(shapes)
                out.append(Scalar(shape, dtype, next(numbers)))
            else:
                out.append(again(v))
        return out

    def keep(
        self, p: Program, results: Sequence[Array], more: Sequence[tuple[View, Array]] = ()
    ) -> list[Value]:
        """Stores what the next round begins with, and gives its numbers."""
        registers = [p.number(x) for x, v in zip(results, self.kinds, strict=True) if v is None]
        kinds = zip(results, self.kinds, strict=True)
        pairs = [(v, x) for x, v in kinds if isinstance(v, View)]
        p.store_all([*more, *pairs])
        return registers


# ---- loops


def scan(
    p: Program,
    _: Primitive,
    avals: Avals,
    *operands: Array,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    num_carry: int,
    num_consts: int,
    **__: Any,
) -> list[Array]:
    carry_end = num_consts + num_carry
    carry = operands[num_consts:carry_end]
    if length == 0:
        raise NotInMemory("a loop without rounds")
    fixed = [p.loop_invariant(x) for x in (*operands[:num_consts], *operands[carry_end:])]
    consts, xs = fixed[:num_consts], fixed[num_consts:]
    steps = [_counts(jaxpr, num_consts + i, i) for i in range(num_carry)]
    counted = [_progression(x, s, length) for x, s in zip(carry, steps, strict=True)]
    kept = [i for i, c in enumerate(counted) if c is None]
    ys = [
        p.allocate((length, *a.shape), a.dtype) if a.size else empty((length, *a.shape), a.dtype)
        for a in jaxpr.out_avals[num_carry:]
    ]
    unchanged = {i: p.loop_invariant(carry[i]) for i, c in enumerate(counted) if c == 0}
    slots = Slots(p, [carry[i] for i in kept], [*fixed, *unchanged.values()])

    def body(inner: LoopContext, counter: Symbol, registers: list[Value]) -> Sequence[Value]:
        stacked = [y for y in ys if isinstance(y, View)]
        with p.inside(inner, [v.buffer for v in (*slots.views, *stacked)]):
            count = Place.of(counter)
            row = count * -1 + (length - 1) if reverse else count
            state = dict(zip(kept, slots.arrays(registers), strict=True))
            values: list[Array] = []
            for i, (x, c) in enumerate(zip(carry, counted, strict=True)):
                if c is None:
                    values.append(state[i])
                elif c == 0:
                    values.append(again(unchanged[i]))
                else:
                    values.append(_counted_at(x, c, count))
            slices = [p.in_register(_row(x, row)) for x in xs]
            results = p.run(jaxpr, [*map(again, consts), *values, *slices])
            rows: list[tuple[View, Array]] = []
            for y, target in zip(results[num_carry:], ys, strict=True):
                place = _row(target, row)
                if isinstance(place, View):
                    rows.append((place, y))
            return slots.keep(p, [results[i] for i in kept], rows)

    found = p.ctx.for_each(length, 1, slots.starts, body)
    after = dict(zip(kept, slots.arrays(found), strict=True))
    out: list[Array] = []
    for i, (x, c) in enumerate(zip(carry, counted, strict=True)):
        if c is None:
            out.append(after[i])
        elif c == 0:
            out.append(unchanged[i])
        else:
            out.append(_counted_at(x, c, Place(length)))
    return [*out, *ys]


def _progression(x: Array, step: int | None, length: int) -> int | None:
    """The step of a carried value that is known in each round; None if it has to be carried."""
    if step is None or step == 0:
        return step
    x = actual(x)
    if not isinstance(x, Scalar) or x.place is None:
        return None
    info = dtypes.iinfo(x.dtype)
    low, high = x.place.bounds
    last = step * length
    if low + min(0, last) < int(info.min) or high + max(0, last) > int(info.max):
        return None
    return step


def _counted_at(x: Array, step: int, count: Place) -> Scalar:
    assert isinstance(x, Scalar)
    assert x.place is not None
    place = x.place + count * step
    return Scalar(x.shape, x.dtype, place=place, literal=place.known)


def _row(x: Array, row: Place) -> Array:
    """`x[row]`."""
    return moved(x, x.shape[1:], lambda index: (row, *index))


def while_(
    p: Program,
    _: Primitive,
    avals: Avals,
    *operands: Array,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[Array]:
    num_consts = cond_nconsts + body_nconsts
    carry = operands[num_consts:]
    fixed = [p.loop_invariant(x) for x in operands[:num_consts]]
    unchanged = {
        i: p.loop_invariant(x)
        for i, x in enumerate(carry)
        if _counts(body_jaxpr, body_nconsts + i, i) == 0
    }
    kept = [i for i in range(len(carry)) if i not in unchanged]
    slots = Slots(p, [carry[i] for i in kept], [*fixed, *unchanged.values()])
    ctx = p.ctx

    def values(registers: Sequence[Value]) -> list[Array]:
        state = dict(zip(kept, slots.arrays(registers), strict=True))
        return [state[i] if i in state else again(unchanged[i]) for i in range(len(carry))]

    def block() -> tuple[LoopContext, list[Value]]:
        state: list[Value] = [Register(v.shape, v.dtype) for v in slots.starts]
        return ctx.nested(Block(state)), state

    before, state = block()
    with p.inside(before, []):
        consts = map(again, fixed[:cond_nconsts])
        (holds,) = p.run(cond_jaxpr, [*consts, *values(state)])
        bit = before.plain("vector.extract", (p.number(holds),), "i1")
    before.append("scf.condition", [bit, *state])
    after, state = block()
    with p.inside(after, [v.buffer for v in slots.views]):
        consts = map(again, fixed[cond_nconsts:])
        results = p.run(body_jaxpr, [*consts, *values(state)])
        out = slots.keep(p, [results[i] for i in kept])
    after.append("scf.yield", out)
    found: list[Value] = [Register(v.shape, v.dtype) for v in slots.starts]
    ctx.append("scf.while", slots.starts, found, regions=[before.block, after.block])
    final = dict(zip(kept, slots.arrays(found), strict=True))
    return [final[i] if i in final else unchanged[i] for i in range(len(carry))]


# ---- branches


def cond(
    p: Program,
    _: Primitive,
    avals: Avals,
    index: Array,
    *operands: Array,
    branches: Sequence[ClosedJaxpr],
) -> list[Array]:
    which = p.in_register(index)
    assert isinstance(which, Scalar)
    last = len(branches) - 1
    known = which.place.known if which.place is not None else None
    if known is not None:
        return p.run(branches[min(max(known, 0), last)], operands)
    if last == 0:
        return p.run(branches[0], operands)
    given = _given(p, operands)
    passed = [x if x in given else p.loop_invariant(x) for x in map(actual, operands)]
    # Where each array that the branches give is stored: in an operand that they update, if all do.
    targets: list[View | None] = []
    kept = [k for k, a in enumerate(avals) if a.size]
    free = list(given)
    for k in kept:
        aval = avals[k]
        if aval.size == 1:
            targets.append(None)
            continue
        position = _passed_on(branches, k)
        x = passed[position] if position is not None else None
        if isinstance(x, View) and any(x is g for g in free):
            free = [g for g in free if g is not x]
            targets.append(x)
        else:
            targets.append(p.allocate(aval.shape, aval.dtype))
    written = [t.buffer for t in targets if t is not None]
    types = [((), avals[k].dtype) for k, t in zip(kept, targets, strict=True) if t is None]

    def branch(closed: ClosedJaxpr) -> Callable[[LoopContext], Sequence[Value]]:
        def write(inner: LoopContext) -> Sequence[Value]:
            with p.inside(inner, written):
                found = p.run(closed, [again(x) for x in passed])
                results = [found[k] for k in kept]
                registers = [
                    p.number(x) for x, t in zip(results, targets, strict=True) if t is None
                ]
                p.store_all(
                    [(t, x) for x, t in zip(results, targets, strict=True) if t is not None]
                )
            return registers

        return write

    register = p.number(which)

    def choose(ctx: LoopContext, first: int) -> Sequence[Value]:
        if first == last:
            return branch(branches[last])(ctx)
        test = ctx.compare("EQ" if first else "LE", register, first)
        return ctx.choose(
            test, branch(branches[first]), lambda inner: choose(inner, first + 1), types
        )

    found = iter(choose(p.ctx, 0))
    out = [empty(a.shape, a.dtype) for a in avals]
    for k, t in zip(kept, targets, strict=True):
        if t is None:
            out[k] = full(Scalar((), avals[k].dtype, next(found)), avals[k].shape)
        else:
            out[k] = whole(t.buffer, t.shape, t.dtype)
    return out


def _given(p: Program, operands: Sequence[Array]) -> list[View]:
    """The operands that branches may overwrite."""
    out: list[View] = []
    for i, x in enumerate(operands):
        x = actual(x)
        others = [o for k, o in enumerate(operands) if k != i]
        if isinstance(x, View) and x.size > 1 and p.may_take(x, others):
            out.append(x)
    return out


def _passed_on(branches: Sequence[ClosedJaxpr], result: int) -> int | None:
    """The operand that the first branch with an update in place, or without any change, gives."""
    for closed in branches:
        jaxpr = closed.jaxpr
        var = jaxpr.outvars[result]
        for eqn in reversed(jaxpr.eqns):
            updates = eqn.primitive.family == "scatter" or (
                eqn.primitive.name == "dynamic_update_slice"
            )
            if updates and var in eqn.outvars:
                var = eqn.invars[0]
        if isinstance(var, Var) and var in jaxpr.invars:
            return jaxpr.invars.index(var)
    return None
