"""The limit of bindings: no dispatch reads more arrays than it can.

A dispatch has at most 32 bindings; a longer sum that IREE fuses into one compiles, and cannot be
loaded (the hazard "a dispatch with more than 32 buffers" in docs/hazards.md). Here each value knows
which arrays it may be computed from in one dispatch. Where an operation would read too many, what
reads most of them gets a barrier.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

# Some room is left for the results.
_MAX_SOURCES = 20

Sources = frozenset[object]
"""The arrays that a value may be computed from in one dispatch: values, or what stands for one that
a called function computes."""

_NONE: Sources = frozenset()

# What is computed apart from its operands and from what reads it.
_APART = frozenset({Kind.BARRIER, Kind.CONTROL, Kind.EXECUTABLE, Kind.TERMINATOR})


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers where too many arrays would be read by one dispatch."""
    del target, hints
    summaries: dict[str, _Summary] = {}
    barred: dict[Op, None] = {}
    # A function stands before those that call it.
    for function in module.functions:
        summaries[function.name] = _summary(function, summaries, barred)
    rewrite.bar_results(barred)


class _Summary:
    """For each result of a function the places of the arguments, and the values, it is made of."""

    def __init__(self, results: Sequence[tuple[Collection[int], Collection[object]]]) -> None:
        self.results = results


def _summary(
    function: Function, summaries: Mapping[str, _Summary], barred: dict[Op, None]
) -> _Summary:
    walk = _Walk(summaries, barred)
    walk.block(function.body)
    places = {v: i for i, v in enumerate(function.body.arguments)}
    results = []
    for v in function.body.ops[-1].operands:
        found = walk.of(v)
        inner = [s for s in found if s not in places]
        results.append(([places[s] for s in found if isinstance(s, Value) and s in places], inner))
    return _Summary(results)


class _Walk:
    """The operations of one block, in order; what was computed around it lies in memory."""

    def __init__(self, summaries: Mapping[str, _Summary], barred: dict[Op, None]) -> None:
        self._summaries = summaries
        self._barred = barred
        self._sources: dict[Value, Sources] = {}

    def of(self, x: Value) -> Sources:
        """What a value may be computed from in one dispatch."""
        found = self._sources.get(x)
        return frozenset((x,)) if found is None else found

    def block(self, block: Block) -> None:
        for op in block.ops:
            traits = op.traits
            if traits.forms_dispatches:
                for region in op.regions:
                    _Walk(self._summaries, self._barred).block(region)
            elif traits.kind is Kind.DISPATCH:
                self._limited(_read_inside(op))
            elif traits.kind is Kind.CALL:
                self._call(op)
            elif traits.kind not in _APART and not (
                traits.kind is Kind.CONTRACTION and _reads_whole_operands(op)
            ):
                self._fused(op)

    def _fused(self, op: Op) -> None:
        """An operation that may be computed in one dispatch with what it reads."""
        found = self._of_all(op.operands)
        # Of many operands, as those of a concatenation, each is read by a dispatch of its own.
        if len(found) > _MAX_SOURCES and len(op.operands) <= _MAX_SOURCES:
            found = self._limited(op.operands)
        if len(found) > _MAX_SOURCES:
            self._bar(op)
        else:
            for v in op.results:
                self._sources[v] = found

    def _call(self, op: Op) -> None:
        """The operations of a function, which may be inlined."""
        summary = self._summaries.get(op.attributes["callee"])
        if summary is None:
            return  # a call of the host
        self._limited(op.operands)
        for out, (places, inner) in zip(op.results, summary.results, strict=True):
            # Of two calls of a function the values are others.
            own = frozenset((op, s) for s in inner)
            self._sources[out] = self._of_all([op.operands[i] for i in places]) | own
        if any(len(self.of(v)) > _MAX_SOURCES for v in op.results):
            self._bar(op)

    def _limited(self, operands: Sequence[Value]) -> Sources:
        """What these are computed from, after barriers behind those that read most."""
        found = self._of_all(operands)
        if len(found) <= _MAX_SOURCES:
            return found
        fused = [v for v in dict.fromkeys(operands) if len(self.of(v)) > 1]
        fused.sort(key=lambda v: len(self.of(v)))
        while fused and len(found) > _MAX_SOURCES:
            v = fused.pop()
            assert v.op is not None
            self._bar(v.op)
            found = self._of_all(operands)
        return found

    def _of_all(self, operands: Iterable[Value]) -> Sources:
        found = _NONE
        known = self._sources
        for v in operands:
            sources = known.get(v) or self.of(v)
            if sources is not found and not sources <= found:
                found = found | sources if found else sources
        return found

    def _bar(self, op: Op) -> None:
        self._barred[op] = None
        for v in op.results:
            self._sources[v] = frozenset((v,))


def _reads_whole_operands(op: Op) -> bool:
    """Whether no dispatch computes an operand and the product: so it is for those of matrices.

    Of several products that are added up no more than one is computed where it is added.
    """
    if op.name == "stablehlo.convolution":
        return True
    return all(
        math.prod(n for i, n in enumerate(v.shape) if i not in (*contracted, *batch)) > 1
        for v, contracted, batch in zip(
            op.operands, op.attributes["contracting"], op.attributes["batching"], strict=True
        )
    )


def _read_inside(op: Op) -> list[Value]:
    """The values that a dispatch reads; what computes them may become a part of it."""
    (block,) = op.regions
    inside: set[object] = set()
    found: dict[Value, None] = {}

    def visit(block: Block) -> None:
        inside.add(block)
        for inner in block.ops:
            inside.add(inner)
            found.update(dict.fromkeys(inner.operands))
            for region in inner.regions:
                visit(region)

    visit(block)
    return [v for v in found if v.owner not in inside]


GUARD = Guard(
    run=run,
    gives="few bindings",
    needs=needs("hidden numbers"),
    hazards=(
        Hazard(
            hazard="a dispatch with more than 32 buffers compiles, and cannot be loaded",
            guard=(
                "barriers behind what reads most of them, also in loops and branches "
                "(`lowering/passes/binding_limit.py`); loops of more arrays are not kept in "
                "registers (`lowering/loops/registers/dispatch.py`)"
            ),
            tests=(
                "`test_a_dispatch_has_*` in `tests/runtimes/test_iree_hazards.py`, "
                "`tests/lowering/test_fusion_limit.py`, `test_loops_with_more_arrays_*` in "
                "`tests/lax/test_loops.py`"
            ),
        ),
    ),
)
