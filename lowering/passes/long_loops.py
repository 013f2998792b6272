"""Loops inside of a dispatch that go round more often than the device lets them.

Mesa's software device leaves a loop after 65535 rounds, and says nothing. Each invocation of a
shader goes round for all elements that make one result: reductions, products of matrices and
convolutions over more of them are made of pieces. One invocation makes a whole scatter, element by
element: so many are written at a time, and a row that is longer becomes several rows. A reduction
and the array that its result is broadcast to are one loop, too: a barrier comes between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value, dispatch_blocks
from xpr.lowering.ir.memo import resolve
from xpr.lowering.ir.traits import ON_ELEMENTS, Kind
from xpr.lowering.ir.writer import Writer
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

# Of rows that are reduced a workgroup makes one result, of columns an invocation makes up to so
# many results: the rounds of all its loops count as those of one.
_RESULTS = 32


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Cuts what would be a longer loop than the target's longest one."""
    del hints
    longest = target.longest_loop
    assert longest is not None
    reductions = _Reductions()
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            if any(_is_long(op, longest) for op in block.ops):
                _cut(block, longest, reductions)


def _is_long(op: Op, longest: int) -> bool:
    return op.name in _FORMS and _rounds(op) > _limit(op, longest)


def _limit(op: Op, longest: int) -> int:
    """How many elements may make one result."""
    x = op.operands[0]
    if op.name == "stablehlo.reduce" and len(x.shape) - 1 not in op.attributes["dimensions"]:
        return longest // _RESULTS
    return longest


def _rounds(op: Op) -> int:
    """How many elements make one result; of a broadcast how many are made of one."""
    x = op.operands[0]
    if op.name == "stablehlo.reduce":
        return math.prod(x.shape[i] for i in op.attributes["dimensions"])
    if op.name == "stablehlo.dot_general":
        return math.prod(x.shape[i] for i in op.attributes["contracting"][0])
    if op.name == "stablehlo.convolution":
        return math.prod(op.operands[1].shape[:-1])
    if op.name == "stablehlo.scatter":
        rows, *row = op.operands[2].shape
        return rows * _rounds_of_row(row)
    return math.prod(op.result.shape) // max(1, math.prod(x.shape))


def _cut(block: Block, longest: int, reductions: _Reductions) -> None:
    old, block.ops = block.ops, []
    writer = Writer(block)
    for op in old:
        if not _is_long(op, longest):
            block.ops.append(op)
            continue
        writer.source = op.source
        if op.name == "stablehlo.broadcast_in_dim":
            (x,) = op.operands
            if reductions.are_in(x):
                op.replace_operands((writer.barrier(x),))
            block.ops.append(op)
            continue
        found = _FORMS[op.name](writer, op, longest)
        op.replace_operands(())
        for v, new in zip(op.results, found, strict=True):
            rewrite.replace_uses(v, new)


# ---- what is cut


def _reduction(w: Writer, op: Op, longest: int) -> Sequence[Value]:
    """In stages, each over some of the axes, the last ones first, or over a part of one.

    Each stage begins with the initial values.
    """
    half = len(op.operands) // 2
    xs, inits = op.operands[:half], op.operands[half:]
    limit = _limit(op, longest)
    axes = sorted(op.attributes["dimensions"])
    while axes:
        taken: list[int] = []
        rounds = 1
        while axes and rounds * xs[0].shape[axes[-1]] <= limit:
            taken.insert(0, axes.pop())
            rounds *= xs[0].shape[taken[0]]
        if not taken:
            taken = [axes[-1] + 1]
            xs = [_in_rows(w, x, i, axes[-1], limit) for x, i in zip(xs, inits, strict=True)]
        kept = tuple(n for i, n in enumerate(xs[0].shape) if i not in taken)
        found = [Value(kept, x.dtype) for x in xs]
        body = rewrite.cloned(op.regions[0])
        w.append(op.name, (*xs, *inits), found, {"dimensions": tuple(taken)}, [body])
        # Without a barrier IREE would make one reduction of two again.
        xs = [w.barrier(x) for x in found] if axes else found
    return xs


def _in_rows(w: Writer, x: Value, fill: Value, axis: int, longest: int) -> Value:
    """`x` with an axis of rows in place of one axis, the last row filled up."""
    size = x.shape[axis]
    least = -(-size // longest)
    rows = next((n for n in range(least, 2 * least) if size % n == 0), least)
    length = -(-size // rows)
    if rows * length > size:
        none = (0,) * len(x.shape)
        edge = tuple(rows * length - size if i == axis else 0 for i in range(len(x.shape)))
        x = w.pad(x, fill, none, edge)
    return w.reshape(x, (*x.shape[:axis], rows, length, *x.shape[axis + 1 :]))


def _contraction(w: Writer, op: Op, longest: int) -> Sequence[Value]:
    """As a sum of products of matrices, along the longest axis that is contracted."""
    lhs, rhs = op.operands
    contracting = op.attributes["contracting"]

    def pieces(lhs: Value, rhs: Value) -> Value:
        sizes = [lhs.shape[i] for i in contracting[0]]
        rounds = math.prod(sizes)
        if rounds <= longest:
            return w.assign(op.name, (lhs, rhs), op.result.shape, op.result.dtype, op.attributes)
        which = max(range(len(sizes)), key=lambda i: sizes[i])
        left, right = (axes[which] for axes in contracting)
        step = max(1, longest // (rounds // sizes[which]))
        return _sum(
            w,
            (
                pieces(_part(w, lhs, left, start, stop), _part(w, rhs, right, start, stop))
                for start, stop in _ranges(sizes[which], step)
            ),
        )

    return [pieces(lhs, rhs)]


def _convolution(w: Writer, op: Op, longest: int) -> Sequence[Value]:
    """As a sum of convolutions with parts of the kernel: of its features, or of its taps."""
    strides, dilation = op.attributes["stride"], op.attributes["rhs_dilate"]
    counts = op.result.shape[1:-1]

    def pieces(x: Value, kernel: Value) -> Value:
        *sizes, _ = kernel.shape
        rounds = math.prod(sizes)
        # The features of groups are not those of the operand.
        axes = len(sizes) - (op.attributes["feature_group_count"] > 1)
        which = max(range(axes), key=lambda i: sizes[i])
        if rounds <= longest or sizes[which] == 1:
            return w.assign(op.name, (x, kernel), op.result.shape, x.dtype, op.attributes)
        step = max(1, longest // (rounds // sizes[which]))
        terms = []
        for start, stop in _ranges(sizes[which], step):
            if which == len(sizes) - 1:
                part = _part(w, x, which + 1, start, stop)
            else:
                first = start * dilation[which]
                last = (stop - 1) * dilation[which] + (counts[which] - 1) * strides[which]
                part = _part(w, x, which + 1, first, last + 1)
            terms.append(pieces(part, _part(w, kernel, which, start, stop)))
        return _sum(w, terms)

    return [pieces(*op.operands)]


def _scatter(w: Writer, op: Op, longest: int) -> Sequence[Value]:
    """As one scatter after the other, of rows of a matrix as the rule of scatters makes them."""
    x, places, updates = op.operands
    shape, row = x.shape, x.shape[1:]
    if _rounds_of_row(row) > longest:
        x, places, updates = _in_shorter_rows(w, x, places, updates, longest - 1)
    step = longest // _rounds_of_row(x.shape[1:])
    for start, stop in _ranges(places.shape[0], step):
        found = Value(x.shape, x.dtype)
        operands = (x, _part(w, places, 0, start, stop), _part(w, updates, 0, start, stop))
        w.append(op.name, operands, (found,), op.attributes, [rewrite.cloned(op.regions[0])])
        x = found
    if x.shape == shape:
        return [x]
    whole = w.reshape(x, (shape[0], math.prod(x.shape) // shape[0]))
    return [_part(w, whole, 1, 0, row[0])]


def _rounds_of_row(row: Sequence[int]) -> int:
    """How often the loops go round that write one row: over its elements, and once for itself."""
    return 1 + math.prod(row) if row else 1


def _in_shorter_rows(
    w: Writer, x: Value, places: Value, updates: Value, longest: int
) -> tuple[Value, Value, Value]:
    """The operands of a scatter with several rows, each a part of one, in place of each row."""
    rows, count = x.shape[0], places.shape[0]
    zero = w.constant(0, x.dtype)
    x, updates = (_in_rows(w, v, zero, 1, longest) for v in (x, updates))
    _, parts, length = x.shape
    dtype = places.dtype
    first = w.broadcast_in_dim(w.mul(w.reshape(places, (count,)), parts), (count, parts), (0,))
    numbers = w.add(first, w.iota(dtype, (count, parts), 1))
    return (
        w.reshape(x, (rows * parts, length)),
        w.reshape(numbers, (count * parts, 1)),
        w.reshape(updates, (count * parts, length)),
    )


_FORMS: dict[str, Callable[[Writer, Op, int], Sequence[Value]]] = {
    "stablehlo.reduce": _reduction,
    "stablehlo.dot_general": _contraction,
    "stablehlo.convolution": _convolution,
    "stablehlo.scatter": _scatter,
    "stablehlo.broadcast_in_dim": lambda w, op, longest: [],
}


def _ranges(size: int, step: int) -> list[tuple[int, int]]:
    return [(start, min(size, start + step)) for start in range(0, size, step)]


def _part(w: Writer, x: Value, axis: int, start: int, stop: int) -> Value:
    if (start, stop) == (0, x.shape[axis]):
        return x
    low, high = [0] * len(x.shape), list(x.shape)
    low[axis], high[axis] = start, stop
    return w.slice(x, tuple(low), tuple(high))


def _sum(w: Writer, terms: Iterable[Value]) -> Value:
    total: Value | None = None
    for term in terms:
        total = term if total is None else w.add(total, term)
    assert total is not None
    return total


# ---- what is broadcast

_COMPUTED = ON_ELEMENTS | {Kind.INDEXED}
_LOOPS = frozenset({Kind.REDUCTION, Kind.CONTRACTION, Kind.CALL})


class _Reductions:
    """Which values may be computed by a reduction in the dispatch that reads them."""

    def __init__(self) -> None:
        self._found: dict[Value, bool] = {}

    def are_in(self, x: Value) -> bool:
        found = self._found
        return resolve(
            found, x, _elements, lambda v, of: _is_reduced(v) or any(found[u] for u in of)
        )


def _is_reduced(x: Value) -> bool:
    """Whether a reduction gives it, or a function that may be inlined gives or takes it."""
    if x.op is not None:
        return x.op.kind in _LOOPS
    parent = x.owner.parent if isinstance(x.owner, Block) else None
    return isinstance(parent, Function) and parent.visibility == "private"


def _elements(x: Value) -> Sequence[Value]:
    op = x.op
    if op is None or op.kind not in _COMPUTED or splat_of(x) is not None:
        return ()
    return op.operands


GUARD = Guard(
    run=run,
    gives="short loops",
    needs=needs("slices without idle strides"),
    targets=lambda target, hints: target.longest_loop is not None,
    hazards=(
        Hazard(
            hazard=(
                "Vulkan: Mesa's software device ends a loop after 65535 rounds, all loops of an "
                "invocation together: sums, products and convolutions of more elements, and "
                "scatters of more elements, lose some; IREE makes one loop of a reduction and the "
                "array that its result is broadcast to"
            ),
            guard=(
                "pieces, and a barrier before the broadcast (`lowering/passes/long_loops.py`; "
                "`longest_loop` of a target)"
            ),
            tests=(
                "`test_the_software_device_*`, `test_long_reductions_*` in "
                "`tests/lowering/test_vulkan_hazards.py`, "
                "`tests/lowering/passes/test_long_loops.py`"
            ),
        ),
    ),
)
