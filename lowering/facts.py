"""What is to be known of a program before it is compiled, read off its graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from xpr.lowering.ir.graph import Block, Module, Op, Value, dispatched, walk
from xpr.lowering.ir.traits import PURE, Kind
from xpr.lowering.targets.flags import ProgramHints


def has_control_flow(module: Module) -> bool:
    """Whether a branch or a loop decides what is computed, and in which memory results lie.

    Those inside of a dispatch do not count; any other lies in one that stands in a function.
    """
    return any(op.traits.forms_dispatches for f in module.functions for op in f.body.ops)


def count_operations(module: Module) -> tuple[int, int]:
    """How many operations there are, and how many of them are barriers."""
    kinds = [op.kind for f in module.functions for op in walk(f.body)]
    return len(kinds), kinds.count(Kind.BARRIER)


_MAKES_VALUES = PURE | {Kind.REDUCTION, Kind.CONTRACTION, Kind.INDEXED}


def read_operations(block: Block) -> set[Op]:
    """The operations of a block that cannot be left out, and all inside of them.

    Those are what does more than make values, and what makes values for others of them.
    """
    read: set[Op] = set()
    for op in reversed(block.ops):
        is_needed = op.kind not in _MAKES_VALUES or not op.results
        if is_needed or any(user in read for x in op.results for user in x.uses):
            read.add(op)
            read.update(inner for region in op.regions for inner in walk(region))
    return read


def constant_values(block: Block) -> set[Value]:
    """What is made of constants alone in a block."""
    found: set[Value] = set()
    for op in block.ops:
        if op.kind in PURE and not op.regions and found.issuperset(op.operands):
            found.update(op.results)
    return found


_IOTA = "stablehlo.iota"
_REPEATS = frozenset({Kind.LAYOUT, Kind.TERMINATOR})
_TAKES_LITTLE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("add", "subtract", "multiply", "negate", "abs", "maximum", "minimum", "clamp", "sign"),
        *("and", "or", "xor", "not", "compare", "select", "convert", "bitcast_convert"),
        *("shift_left", "shift_right_arithmetic", "shift_right_logical"),
        *("broadcast_in_dim", "reshape"),
    )
)
# The sum of a matrix by a mask of indices took three times as long with the mask in its loop.
_COMBINES = frozenset({Kind.REDUCTION, Kind.CONTRACTION})
# What computes the elements of each operand where it puts them.
_TAKES_IN = frozenset({"stablehlo.concatenate", "stablehlo.pad"})


def has_lasting_values(module: Module) -> bool:
    """Whether what is made of constants alone is to be computed once, when the module is loaded.

    It is not worth that where it takes little and is used by operations on elements, as a mask of
    indices may be: each dispatch that uses it computes it anew, and reads less for that. Then the
    program needs no globals.
    """
    written: set[Value] = set()  # numbers and tables, and these repeated
    made: set[Value] = set()  # of them, or of indices
    reads: set[Value] = set()  # of what is made and of other values, element by element
    for function in module.functions:
        read = read_operations(function.body)
        for op in dispatched(function.body):
            if op not in read:
                continue
            if op.name == _IOTA:
                made.update(op.results)
            elif op.kind is Kind.CONSTANT:
                written.update(op.results)
            elif op.operands and all(x in made or x in written for x in op.operands):
                if made.isdisjoint(op.operands) and op.kind in _REPEATS:
                    written.update(op.results)
                elif op.name in _TAKES_LITTLE:
                    made.update(op.results)
                else:
                    return True
            elif not made.isdisjoint(op.operands):
                if op.kind is not Kind.ELEMENTWISE and op.name not in _TAKES_IN:
                    return True
                reads.update(op.results)
            elif not reads.isdisjoint(op.operands):
                if op.kind in _COMBINES:
                    return True
                reads.update(op.results)
    return False


def with_contractions(hints: ProgramHints, module: Module) -> ProgramHints:
    """The hints with what they say of products: the largest ones, and whether any has a batch."""
    matmul, matvec, batched = hints.matmul_size, hints.matvec_size, hints.has_batched_contraction
    for op in _products(module):
        batch, m, n, k = _sizes(op)
        batched = batched or batch > 1
        if m > 1 and n > 1:
            if matmul is None or m * n * k > math.prod(matmul):
                matmul = m, n, k
        elif matvec is None or m * n * k > math.prod(matvec):
            matvec = max(m, n), k
    return replace(hints, matmul_size=matmul, matvec_size=matvec, has_batched_contraction=batched)


def _products(module: Module) -> Iterator[Op]:
    for function in module.functions:
        for op in dispatched(function.body):
            if op.name == "stablehlo.dot_general":
                yield op


def _sizes(op: Op) -> tuple[int, int, int, int]:
    """Of a contraction the products of its batch, its free and its contracted sizes."""
    contracting, batching = op.attributes["contracting"], op.attributes["batching"]
    free = [
        math.prod(size for i, size in enumerate(v.shape) if i not in (*contracted, *batch))
        for v, contracted, batch in zip(op.operands, contracting, batching, strict=True)
    ]
    shape = op.operands[0].shape
    batch, k = (math.prod(shape[i] for i in axes) for axes in (batching[0], contracting[0]))
    return batch, free[0], free[1], k
