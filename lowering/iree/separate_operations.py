"""Programs whose operations are all computed one by one.

Most of what IREE cannot compile, or crashes on, comes of fusing operations into one dispatch. A
program that fails with every set of flags is compiled once more with a barrier behind each of its
operations: slower by far, but IREE never sees more than one operation at a time. Nobody reads what
goes into such a barrier but the barrier itself, so that nothing can be overwritten under a reader.
"""

from __future__ import annotations

from xpr.lowering.iree.mlir import Mlir

PHASE = "start"
"""The phase of IREE's compiler at which the program is still as it was written."""

_BARRIER = "stablehlo.optimization_barrier"
# What is known to the compiler, or ends a block.
_KEPT = frozenset({"stablehlo.constant", "stablehlo.return", _BARRIER})
_WITH_BLOCKS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})


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
        if name.startswith(("stablehlo.", "chlo.")) and name not in _KEPT:
            _hold(mlir, inner)


def _hold(mlir: Mlir, operation: int) -> None:
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
