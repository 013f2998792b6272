"""Fused producers that are read by two access maps.

IREE puts a reduction or a product into the dispatch of the elementwise operations that use it.
Where those read it by two access maps, as `s[:, None] - s[None, :]` does, the dispatch computes the
elements that one of the maps reads, and takes them for the other, too: the numbers are wrong,
without a word (the hazard "producers read by two access maps" in docs/hazards.md). Here such
producers get a barrier, and so do those that a target cannot broadcast along a leading axis in
their dispatch.

Equal operations become one in the compiler, so that producers of one type count as one here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.access_maps import AccessMap, arranged, composed, identity_map
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.traits import Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

Reads = Mapping[str, Mapping[AccessMap, frozenset["_Producer"]]]
"""By the producers' type, the access maps with which a value reads them."""

_NO_READS: Reads = {}


@dataclass(eq=False, slots=True)
class _Producer:
    """What gives a value that is perhaps computed where it is used: operations to be barred.

    Without them it is an argument of a function that may be inlined: its caller bars what it
    stands for. `home` is the block whose operations may be fused with it.
    """

    home: Block
    ops: tuple[Op, ...] = ()
    is_barred: bool = False


@dataclass
class _Summary:
    """What a caller must know of a function."""

    parameters: list[_Producer]
    results: list[Reads] = field(default_factory=list)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts the producers that are read by two access maps behind barriers."""
    del hints
    summaries: dict[str, _Summary] = {}
    barred: dict[Op, None] = {}
    # A function stands before those that call it.
    for function in module.functions:
        walk = _Walk(target, summaries, barred)
        summaries[function.name] = walk.function(function)
    rewrite.bar_results(barred)


class _Walk:
    """The operations of one function, in order, and what their results read."""

    def __init__(
        self, target: Target, summaries: Mapping[str, _Summary], barred: dict[Op, None]
    ) -> None:
        self._broadcasts_reductions = target.broadcasts_reductions
        self._summaries = summaries
        self._barred = barred
        self._reads: dict[Value, Reads] = {}

    def function(self, function: Function) -> _Summary:
        summary = _Summary([])
        if function.visibility == "private":
            for v in function.body.arguments:
                producer = _Producer(function.body)
                summary.parameters.append(producer)
                self._set(v, _read_in_place(producer, v))
        self._block(function.body)
        summary.results = [self._of(v) for v in function.body.ops[-1].operands]
        return summary

    def _of(self, x: Value) -> Reads:
        return self._reads.get(x, _NO_READS)

    def _set(self, x: Value, reads: Reads) -> None:
        if reads:
            self._reads[x] = reads

    def _block(self, block: Block) -> None:
        for op in block.ops:
            traits = op.traits
            if traits.forms_dispatches:
                for region in op.regions:
                    self._block(region)
            elif traits.kind in _RULES:
                _RULES[traits.kind](self, op, block)

    # ---- by kinds of operations

    def _elementwise(self, op: Op, home: Block) -> None:
        (out,) = op.results
        for v in op.operands:
            if v.shape and v.shape != out.shape:
                self._apart(op, home)
                return
        self._set(out, self._joined(home, op.operands))

    def _layout(self, op: Op, home: Block) -> None:
        reads = self._of(op.operands[0])
        if reads:
            self._reads[op.result] = {
                kind: {arranged(access, op): producers for access, producers in maps.items()}
                for kind, maps in reads.items()
            }

    def _movement(self, op: Op, home: Block) -> None:
        """Elements in other places: used there, perhaps, but not by the maps that are known."""
        elements = op.operands[:1] if op.name == "stablehlo.dynamic_slice" else op.operands
        if any(self._of(v) for v in elements):
            self._note(op, home)

    def _reduction(self, op: Op, home: Block) -> None:
        self._joined(home, op.operands)
        self._note(op, home)

    def _apart(self, op: Op, home: Block) -> None:
        if any(self._of(v) for v in op.operands):
            self._reduction(op, home)

    def _indexed(self, op: Op, home: Block) -> None:
        if op.traits.may_fuse:
            self._reduction(op, home)
        elif op.name != "stablehlo.dynamic_update_slice" or self._of(op.operands[1]):
            self._apart(op, home)

    def _contraction(self, op: Op, home: Block) -> None:
        """A product over no more than one element is an elementwise operation to IREE."""
        lhs, rhs = op.operands
        left, right = self._of(lhs), self._of(rhs)
        if op.name == "stablehlo.dot_general" and not left.keys().isdisjoint(right):
            summed = math.prod(lhs.shape[i] for i in op.attributes["contracting"][0])
            broadcast = any(
                -1 in access for r in (left, right) for maps in r.values() for access in maps
            )
            if summed <= 1 or broadcast:
                self._bar_all(home, left)
                self._bar_all(home, right)
        self._note(op, home)

    def _call(self, op: Op, home: Block) -> None:
        summary = self._summaries.get(op.attributes["callee"])
        if summary is None:
            return  # a call of the host
        uses = Counter(kind for v in op.operands for kind in self._of(v))
        for v, parameter in zip(op.operands, summary.parameters, strict=True):
            reads = self._of(v)
            if parameter.is_barred or any(uses[kind] > 1 for kind in reads):
                self._bar_all(home, reads)
        operands = dict(zip(summary.parameters, map(self._of, op.operands), strict=True))
        for out, reads in zip(op.results, summary.results, strict=True):
            self._set(out, _of_call(home, operands, reads))

    # ---- producers

    def _note(self, op: Op, home: Block) -> None:
        producer = _Producer(home, (op,))
        for v in op.results:
            self._set(v, _read_in_place(producer, v))

    def _bar(self, home: Block, producers: Iterable[_Producer]) -> None:
        """Bars those that may be fused; what lies around a region was computed before it."""
        for producer in producers:
            if producer.home is home:
                producer.is_barred = True
                self._barred.update(dict.fromkeys(producer.ops))

    def _bar_all(self, home: Block, reads: Reads) -> None:
        for maps in reads.values():
            for producers in maps.values():
                self._bar(home, producers)

    def _joined(self, home: Block, operands: Iterable[Value]) -> Reads:
        """What an elementwise operation reads; bars what it would read by two maps."""
        found = _NO_READS
        for v in operands:
            reads = self._of(v)
            if reads is found or not reads:
                continue
            if not found:
                found = reads
                continue
            merged = dict(found)
            for kind, maps in reads.items():
                before = merged.get(kind)
                merged[kind] = maps if before is None else _united(before, maps)
            found = merged
        if any(len(maps) > 1 for maps in found.values()):
            found = self._one_map_each(home, found)
        if found and not self._broadcasts_reductions:
            self._bar_broadcast(home, found)
        return found

    def _one_map_each(self, home: Block, reads: Reads) -> Reads:
        out = {}
        for kind, maps in reads.items():
            if sum(any(p.home is home for p in producers) for producers in maps.values()) > 1:
                for producers in maps.values():
                    self._bar(home, producers)
            else:
                out[kind] = maps
        return out

    def _bar_broadcast(self, home: Block, reads: Reads) -> None:
        """Bars what is broadcast along a leading axis, as `s[None, :]` is.

        IREE's code generator for SPIR-V does not get through with a reduction of rows and such an
        operation in one dispatch; for integers of 8 bits it ends the process.
        """
        for maps in reads.values():
            for access, producers in maps.items():
                if access and access[0] == -1:
                    self._bar(home, producers)


_RULES: dict[Kind, Callable[[_Walk, Op, Block], None]] = {
    Kind.ELEMENTWISE: _Walk._elementwise,
    Kind.LAYOUT: _Walk._layout,
    Kind.MOVEMENT: _Walk._movement,
    Kind.REDUCTION: _Walk._reduction,
    Kind.CONTRACTION: _Walk._contraction,
    Kind.INDEXED: _Walk._indexed,
    Kind.SORT: _Walk._apart,
    Kind.CALL: _Walk._call,
}


def _read_in_place(producer: _Producer, x: Value) -> Reads:
    access = identity_map(x.shape)
    if all(i == -1 for i in access):
        return _NO_READS
    return {x.type: {access: frozenset((producer,))}}


def _united(
    a: Mapping[AccessMap, frozenset[_Producer]], b: Mapping[AccessMap, frozenset[_Producer]]
) -> Mapping[AccessMap, frozenset[_Producer]]:
    if a is b:
        return a
    out = dict(a)
    for access, producers in b.items():
        out[access] = out.get(access, frozenset()) | producers
    return out


# ---- calls


def _of_call(home: Block, operands: Mapping[_Producer, Reads], result: Reads) -> Reads:
    """What a result of a called function reads, once it is inlined.

    `operands` tells what stands for its parameters, `result` tells it in the function's own terms.
    """
    out: dict[str, dict[AccessMap, frozenset[_Producer]]] = {}

    def add(kind: str, access: AccessMap, producers: frozenset[_Producer]) -> None:
        maps = out.setdefault(kind, {})
        maps[access] = maps.get(access, frozenset()) | producers

    for kind, maps in result.items():
        for access, producers in maps.items():
            for producer in producers:
                if producer not in operands:
                    add(kind, access, frozenset((_Producer(home, producer.ops),)))
                    continue
                for own_kind, own_maps in operands[producer].items():
                    for own_map, own in own_maps.items():
                        add(own_kind, composed(own_map, access), own)
    return out


GUARD = Guard(
    run=run,
    gives="producers of one access map",
    needs=needs("products apart from complex numbers"),
    hazards=(
        Hazard(
            hazard=(
                "producers read by two access maps: a reduction or product in the dispatch of "
                "what uses it is computed only where one of the maps reads it, so that `s[:, "
                "None] - s[None, :]` of a sum `s` is wrong, without a word, on CPUs; on Vulkan "
                "some such programs do not compile"
            ),
            guard=(
                "the second access map puts a barrier behind the producer "
                "(`lowering/passes/fused_producers.py`)"
            ),
            tests=(
                "`tests/lowering/test_fused_producers.py`; comparisons of sums with each other: "
                "`test_larger_matrices` in `tests/lowering/test_linalg_jacobi.py`"
            ),
        ),
        Hazard(
            hazard=(
                "SPIR-V: a reduction of rows that is broadcast along a leading axis, as in "
                "`x.min(1)[None] + y`, does not compile, or ends the compiler's process"
            ),
            guard=("a barrier behind the reduction (`lowering/passes/fused_producers.py`)"),
            tests=("`test_reductions_of_rows_*` in `tests/lowering/test_fused_producers.py`"),
        ),
    ),
)
