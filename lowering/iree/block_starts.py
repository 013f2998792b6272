"""Blocks of a module's code whose arguments do not overwrite what their first operation reads.

IREE lets the argument of a block have the register of a value whose last use is the block's first
operation, as the result of that operation may. But arguments are written before it, on the way to
the block: a branch that passes something else overwrites the value, and one that passes the value
itself moves it away ("ref is null"). So it is where a program returns what one of its branches
returns too. Here such blocks begin with an operation that reads nothing, discards nothing and
leaves no code.
"""

from __future__ import annotations

from xpr.lowering.iree.mlir import Mlir

_NOTHING = "vm.discard.refs"


def begin_with_nothing(mlir: Mlir, module: int) -> None:
    """Changes the functions of `module`, whose operations are those of IREE's virtual machine."""
    for function in mlir.vm_functions(module):
        _change(mlir, function)


def _change(mlir: Mlir, function: int) -> None:
    for block in list(mlir.blocks(function))[1:]:
        own = mlir.arguments(block)
        first = mlir.BlockGetFirstOperation(block)
        if own and any(v not in own for v in mlir.operands(first)):
            mlir.BlockInsertOwnedOperation(block, 0, mlir.created(_NOTHING, [], [], near=first))
