"""Programs whose operations are all computed one by one.

Most of what IREE cannot compile, or crashes on, comes of fusing operations into one dispatch. A
program that fails with every set of flags is compiled once more with a barrier behind each of its
operations: slower by far, but IREE never sees more than one operation at a time.

IREE takes what a barrier gives for an array of its own, and may overwrite what went into it. Nobody
else reads that, unless the operation before is one that changes no element, as a reshape, whose
result is the very array that it reads. So whatever is updated in place is copied before.
"""

from __future__ import annotations

import re

from xpr.lowering.iree.mlir import Mlir

PHASE = "start"
"""The phase of IREE's compiler at which the program is still as it was written."""

_BARRIER = "stablehlo.optimization_barrier"
# What is known to the compiler, or ends a block.
_KEPT = frozenset({"stablehlo.constant", "stablehlo.return", _BARRIER})
_WITH_BLOCKS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
# What may overwrite its operands, and how many of them; a loop does what its step does.
_UPDATES = {"stablehlo.dynamic_update_slice": 1, "stablehlo.scatter": 1}
# In the text of the operands that a dispatch overwrites, by result: -1 for none.
_TIED = re.compile(r"(?<!-)\b\d+(?= : index)")
_UPDATE_ALL = frozenset({"stablehlo.sort", "stablehlo.while"})
_TRUE = "%true = stablehlo.constant dense<true> : tensor<i1>"


def separate_operations(mlir: Mlir, module: int) -> None:
    """Puts a barrier behind each operation in the functions of a StableHLO module."""
    for function in mlir.operations(module):
        if mlir.name(function) == "func.func":
            _separate(mlir, function)


def _separate(mlir: Mlir, operation: int) -> None:
    for inner in mlir.operations(operation):
        name = mlir.name(inner)
        if name in _WITH_BLOCKS:
            _separate(mlir, inner)
        is_dispatch = name == "flow.dispatch" and bool(mlir.attribute(inner, "tied_operands"))
        every = name in _UPDATE_ALL
        updated = mlir.OperationGetNumOperands(inner) if every else _UPDATES.get(name, 0)
        tied = _TIED.findall(mlir.attribute_text(inner, "tied_operands")) if is_dispatch else ()
        for i in (*range(updated), *map(int, tied)):
            _copy(mlir, inner, i)
        if name.startswith(("stablehlo.", "chlo.")) and name not in _KEPT:
            _bar_results(mlir, inner)


def _copy(mlir: Mlir, operation: int, place: int) -> None:
    """Copies an operand: a choice between it and what nobody knows to be the same."""
    value = mlir.OperationGetOperand(operation, place)
    type_ = mlir.ValueGetType(value)
    if mlir.TypeIsAComplex(mlir.ShapedTypeGetElementType(type_)):
        return  # it was made of its parts, for which there was memory of its own
    block = mlir.OperationGetBlock(operation)
    true = mlir.parsed(operation, _TRUE)
    mlir.BlockInsertOwnedOperationBefore(block, operation, true)
    operands = []
    for known in (mlir.OperationGetResult(true, 0), value):
        hidden = mlir.unary(_BARRIER, known, mlir.ValueGetType(known), operation)
        mlir.BlockInsertOwnedOperationBefore(block, operation, hidden)
        operands.append(mlir.OperationGetResult(hidden, 0))
    made = mlir.created(
        "stablehlo.select", [operands[0], value, operands[1]], [type_], near=operation
    )
    mlir.BlockInsertOwnedOperationBefore(block, operation, made)
    mlir.OperationSetOperand(operation, place, mlir.OperationGetResult(made, 0))


def _bar_results(mlir: Mlir, operation: int) -> None:
    results = [
        mlir.OperationGetResult(operation, i) for i in range(mlir.OperationGetNumResults(operation))
    ]
    types = [mlir.ValueGetType(v) for v in results]
    # IREE has no barrier for complex numbers: it makes one of their parts.
    if not results or any(mlir.TypeIsAComplex(mlir.ShapedTypeGetElementType(t)) for t in types):
        return
    barrier = mlir.created(_BARRIER, results, types, near=operation)
    mlir.BlockInsertOwnedOperationAfter(mlir.OperationGetBlock(operation), operation, barrier)
    for i, value in enumerate(results):
        mlir.ValueReplaceAllUsesOfWith(value, mlir.OperationGetResult(barrier, i))
        mlir.OperationSetOperand(barrier, i, value)
