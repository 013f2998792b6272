"""What is to be known of a program before it is compiled, read off its graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from xpr.lowering.ir.graph import Module, Op, dispatched, walk
from xpr.lowering.ir.traits import Kind
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
