"""Loops whose test takes as many values as their step.

An `scf.while` has two regions, and the values that go around may differ in number: a value that
the test alone computes goes to the step and not back, an argument that only the test reads comes
from the step and not through the test. MLIR's simplifications make such loops of others: of one
whose step hands a value on unchanged or twice, returns what a round before computed, or carries
what only the test reads. IREE's conversion of loops to its streams takes the number of values that
come into the loop for that of both regions. Where they differ it fails ("region branch point has 2
operands"), reads beyond a list, or asks for all of the memory, which ends the process. Here the
shorter side gets further values, which are never used.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.iree.mlir import Mlir

PHASE = "flow"
"""The phase of IREE's compiler behind which loops are simplified and not yet converted."""

_BARRIER = "util.optimization_barrier"
# What is computed inside of dispatches is not the host's.
_DEVICE_CODE = frozenset({"flow.executable", "stream.executable", "hal.executable"})
_SPARE_TENSOR = "%spare = flow.tensor.empty : tensor<i8>"
_SPARE_NUMBER = "%spare = arith.constant 0 : index"


def balance_loops(mlir: Mlir, operation: int) -> None:
    """Changes the loops in all functions of `operation`, a module behind `PHASE`."""
    for inner in mlir.operations(operation):
        name = mlir.name(inner)
        if name not in _DEVICE_CODE and mlir.OperationGetNumRegions(inner):
            balance_loops(mlir, inner)
            if name == "scf.while":
                _balance(mlir, inner)


def _balance(mlir: Mlir, loop: int) -> None:
    test, step = mlir.blocks(loop)
    spare_starts: list[int] = []
    spare_results: list[int] = []
    # An array becomes two values, of which one is its size; so each kind is counted by itself.
    for is_tensor, text in ((True, _SPARE_TENSOR), (False, _SPARE_NUMBER)):
        taken, passed = (_count(mlir, block, is_tensor) for block in (test, step))
        if taken == passed:
            continue
        made = mlir.parsed(loop, text)
        mlir.BlockInsertOwnedOperationBefore(mlir.OperationGetBlock(loop), loop, made)
        spare = mlir.OperationGetResult(made, 0)
        (spare_starts if taken < passed else spare_results).extend([spare] * abs(taken - passed))
    if not spare_starts and not spare_results:
        return
    _pass_on(mlir, step, test, spare_starts)
    _pass_on(mlir, test, step, spare_results)
    _replace(mlir, loop, spare_starts, [mlir.ValueGetType(v) for v in spare_results])


def _count(mlir: Mlir, block: int, is_tensor: bool) -> int:
    types = map(mlir.ValueGetType, mlir.arguments(block))
    return sum(mlir.TypeIsATensor(t) == is_tensor for t in types)


def _pass_on(mlir: Mlir, block: int, to: int, spares: Sequence[int]) -> None:
    """Has one block of a loop pass spare values to the other one.

    Barriers keep the simplifications that come behind from taking out what is useless: they hide
    that always the same value is passed, and use the arguments.
    """
    end = mlir.BlockGetTerminator(block)
    hidden = []
    for spare in spares:
        type_ = mlir.ValueGetType(spare)
        made = mlir.unary(_BARRIER, spare, type_, end)
        mlir.BlockInsertOwnedOperationBefore(block, end, made)
        hidden.append(mlir.OperationGetResult(made, 0))
        argument = mlir.BlockAddArgument(to, type_, mlir.OperationGetLocation(end))
        mlir.BlockInsertOwnedOperation(to, 0, mlir.unary(_BARRIER, argument, type_, end))
    if hidden:
        mlir.set_operands(end, [*mlir.operands(end), *hidden])


def _replace(mlir: Mlir, loop: int, starts: Sequence[int], types: Sequence[int]) -> None:
    """Puts a loop with further values to start with, and further results, in place of `loop`."""
    results = [mlir.OperationGetResult(loop, i) for i in range(mlir.OperationGetNumResults(loop))]
    new = mlir.with_regions_of(
        loop,
        "scf.while",
        [*mlir.operands(loop), *starts],
        [*(mlir.ValueGetType(v) for v in results), *types],
    )
    mlir.BlockInsertOwnedOperationBefore(mlir.OperationGetBlock(loop), loop, new)
    for i, old in enumerate(results):
        mlir.ValueReplaceAllUsesOfWith(old, mlir.OperationGetResult(new, i))
    mlir.OperationDestroy(loop)
