"""Convolutions of groups of features, of which IREE's SPIR-V loses results.

A convolution is done for each group, or, where there are many groups, a product for each tap.
"""

from __future__ import annotations

import itertools
import math

from xpr.lowering.ir.graph import Module, Op, Value, dispatch_blocks
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Takes convolutions of groups apart, for targets that get them wrong."""
    del target, hints
    for function in module.functions:
        for block in dispatch_blocks(function.body):
            if any(map(_has_groups, block.ops)):
                writer = Writer(block)
                rewrite_block(
                    block, writer, lambda op, w=writer: _apart(w, op) if _has_groups(op) else None
                )


def _has_groups(op: Op) -> bool:
    return op.name == "stablehlo.convolution" and op.attributes["feature_group_count"] > 1


def _apart(w: Writer, op: Op) -> Value:
    x, kernel = op.operands
    groups = op.attributes["feature_group_count"]
    if groups > math.prod(kernel.shape[:-2]):
        return _products_by_taps(w, op)
    *rows, outputs = op.result.shape
    shape = (*rows, outputs // groups)
    how = {**op.attributes, "feature_group_count": 1}
    pairs = zip(_parts(w, x, groups), _parts(w, kernel, groups), strict=True)
    pieces = [w.assign(op.name, pair, shape, x.dtype, how) for pair in pairs]
    return w.concatenate(pieces, len(rows))


def _parts(w: Writer, x: Value, count: int) -> list[Value]:
    """`x` cut into equal parts along its last axis."""
    *others, length = x.shape
    size, zeros = length // count, (0,) * len(others)
    return [w.slice(x, (*zeros, i * size), (*others, (i + 1) * size)) for i in range(count)]


def _products_by_taps(w: Writer, op: Op) -> Value:
    """The sum, over all taps, of products of features in groups."""
    x, kernel = op.operands
    groups, strides = op.attributes["feature_group_count"], op.attributes["stride"]
    batch, *results, outputs = op.result.shape
    *taps, inputs, _ = kernel.shape
    rows = batch * math.prod(results)
    how = {"batching": ((1,), (1,)), "contracting": ((2,), (0,))}
    terms = []
    for tap in itertools.product(*map(range, taps)):
        start = [t * d for t, d in zip(tap, op.attributes["rhs_dilate"], strict=True)]
        limit = [a + (n - 1) * s + 1 for a, n, s in zip(start, results, strides, strict=True)]
        part = w.slice(x, (0, *start, 0), (batch, *limit, x.shape[-1]), (1, *strides, 1))
        weights = w.slice(kernel, (*tap, 0, 0), (*(t + 1 for t in tap), inputs, outputs))
        pair = (
            w.reshape(part, (rows, groups, inputs)),
            w.reshape(weights, (inputs, groups, outputs // groups)),
        )
        shape = (groups, rows, outputs // groups)
        terms.append(w.assign("stablehlo.dot_general", pair, shape, x.dtype, how))
    total = terms[0]
    for term in terms[1:]:
        total = w.add(total, term)
    return w.reshape(w.transpose(total, (1, 0, 2)), op.result.shape)


GUARD = Guard(
    run=run,
    gives="plain convolutions",
    needs=needs("folded numbers", "operands in one order"),
    targets=lambda target, hints: not target.grouped_convolutions,
    hazards=(
        Hazard(
            hazard="Vulkan: convolutions of groups lose results",
            guard="group by group (`lowering/passes/grouped_convolutions.py`)",
            tests=("`test_a_convolution_of_groups_*` in `tests/lowering/test_vulkan_hazards.py`"),
        ),
    ),
)
