"""Programs that free nothing while they run, but what nobody refers to any more.

IREE has a program for a GPU free each array behind its last use, in the order of the device's
queue. It takes what a barrier gives for another array than what went in; the two are one, which
then is freed twice, or while the other is still read. Vulkan refuses both ("already been queued for
deallocation", "has no staged backing", "was not returned by queue_alloca"); a driver that does not
look would compute with memory that has another owner. Here such operations are taken out of the
program half way through the compile: memory goes when the last reference goes.
"""

from __future__ import annotations

from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.versions.base import IreeVersion

PHASE = "stream"
"""The phase of IREE's compiler behind which it is known what is freed where."""

_FREE = "stream.resource.dealloca"
# What is freed, its size, and the point in time to wait for, if any.
_WITH_TIME = 3


def tidy(version: IreeVersion) -> str:
    """Passes that take out what `free_nothing` has made useless."""
    return version.no_deallocations


def free_nothing(mlir: Mlir, operation: int) -> None:
    """Takes what frees arrays out of all functions in `operation`, a module behind `PHASE`.

    Whoever waited for that waits for what it waited for itself.
    """
    for inner in mlir.operations(operation):
        name = mlir.name(inner)
        if name == _FREE:
            _remove(mlir, inner)
        elif name != "stream.executable" and mlir.OperationGetNumRegions(inner):
            free_nothing(mlir, inner)


def _remove(mlir: Mlir, free: int) -> None:
    if mlir.OperationGetNumOperands(free) == _WITH_TIME:
        time = mlir.OperationGetOperand(free, _WITH_TIME - 1)
    else:
        made = mlir.parsed(free, "%t = stream.timepoint.immediate => !stream.timepoint")
        mlir.BlockInsertOwnedOperationBefore(mlir.OperationGetBlock(free), free, made)
        time = mlir.OperationGetResult(made, 0)
    mlir.ValueReplaceAllUsesOfWith(mlir.OperationGetResult(free, 0), time)
    mlir.OperationDestroy(free)
