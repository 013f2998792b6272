"""Loops whose counters are not overwritten by an offset.

A branch in the code of a module gives each argument of its block a register, one after the other.
IREE orders these moves so that none overwrites what a later one still reads; but it takes an
integer of 32 bits and the pair of registers that holds one of 64 bits for different places, where
the pair begins with the very same register. So a counter may be overwritten by an offset that is
carried too: the loop runs another number of rounds, and nothing is said. Here blocks that have
arguments of both widths get all of them in 64 bits, in the module as it is before its registers are
chosen.
"""

from __future__ import annotations

from xpr.lowering.iree.mlir import Mlir

_BRANCHES = frozenset({"vm.br", "vm.cond_br", "vm.br_table"})
_WIDEN, _NARROW = "vm.ext.i32.i64.s", "vm.trunc.i64.i32"


def widen_arguments(mlir: Mlir, module: int) -> None:
    """Changes the functions of `module`, whose operations are those of IREE's virtual machine."""
    for function in mlir.vm_functions(module):
        _widen(mlir, function)


def _widen(mlir: Mlir, function: int) -> None:
    context = mlir.OperationGetContext(function)
    narrow, wide = (mlir.IntegerTypeGet(context, bits) for bits in (32, 64))
    blocks = list(mlir.blocks(function))
    arguments: dict[int, list[int]] = {}
    for block in blocks[1:]:
        count = mlir.BlockGetNumArguments(block)
        types = [mlir.ValueGetType(mlir.BlockGetArgument(block, i)) for i in range(count)]
        found = [i for i, t in enumerate(types) if mlir.TypeEqual(t, narrow)]
        if found and any(mlir.TypeEqual(t, wide) for t in types):
            arguments[block] = found
    if not arguments:
        return
    branches = [mlir.BlockGetTerminator(block) for block in blocks]
    for branch in branches:
        if mlir.name(branch) not in _BRANCHES:
            # It passes results of a call, not operands.
            for i in range(mlir.OperationGetNumSuccessors(branch)):
                arguments.pop(mlir.OperationGetSuccessor(branch, i), None)
    for branch in branches:
        _widen_operands(mlir, branch, arguments, wide)
    for block, places in arguments.items():
        for place in places:
            _widen_argument(mlir, block, place, narrow, wide)


def _widen_operands(mlir: Mlir, branch: int, arguments: dict[int, list[int]], wide: int) -> None:
    """Widens what a branch passes for the arguments at those places of its blocks."""
    targets = [
        mlir.OperationGetSuccessor(branch, i) for i in range(mlir.OperationGetNumSuccessors(branch))
    ]
    counts = [mlir.BlockGetNumArguments(t) for t in targets]
    # Before what it passes to blocks stands what it chooses by.
    start = mlir.OperationGetNumOperands(branch) - sum(counts)
    for target, count in zip(targets, counts, strict=True):
        for place in arguments.get(target, ()):
            operand = mlir.OperationGetOperand(branch, start + place)
            made = mlir.unary(_WIDEN, operand, wide, branch)
            mlir.BlockInsertOwnedOperationBefore(mlir.OperationGetBlock(branch), branch, made)
            mlir.OperationSetOperand(branch, start + place, mlir.OperationGetResult(made, 0))
        start += count


def _widen_argument(mlir: Mlir, block: int, place: int, narrow: int, wide: int) -> None:
    first = mlir.BlockGetFirstOperation(block)
    location = mlir.OperationGetLocation(first)
    new = mlir.BlockInsertArgument(block, place, wide, location)
    made = mlir.unary(_NARROW, new, narrow, first)
    mlir.BlockInsertOwnedOperation(block, 0, made)
    old = mlir.BlockGetArgument(block, place + 1)
    mlir.ValueReplaceAllUsesOfWith(old, mlir.OperationGetResult(made, 0))
    mlir.BlockEraseArgument(block, place + 1)
