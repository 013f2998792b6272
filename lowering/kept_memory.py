"""Programs that free nothing while they run, but what nobody refers to any more.

IREE has a program for a GPU free each array behind its last use, in the order of the device's
queue. It takes what a barrier gives for another array than what went in; the two are one, which
then is freed twice, or while the other is still read. Vulkan refuses both ("already been queued for
deallocation", "has no staged backing", "was not returned by queue_alloca"); a driver that does not
look would compute with memory that has another owner. Here such operations are taken out of the
program half way through the compile: memory goes when the last reference goes.

The functions are those of MLIR's C interface (`mlir-c/IR.h`). Its handles are structures of one
pointer, which are passed as pointers are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

PHASE = "stream"
"""The phase of IREE's compiler behind which it is known what is freed where."""

TIDY = "util.func(canonicalize),symbol-dce"
"""Passes that take out what `free_nothing` has made useless."""

_FREE = b"stream.resource.dealloca"
_AT_ONCE = b"%t = stream.timepoint.immediate => !stream.timepoint"
# What is freed, its size, and the point in time to wait for, if any.
_WITH_TIME = 3

_POINTER = ctypes.c_void_p


class _Text(ctypes.Structure):
    """`MlirStringRef`."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "OperationGetContext": (_POINTER, [_POINTER]),
    "OperationGetName": (_POINTER, [_POINTER]),
    "OperationGetNumRegions": (ctypes.c_ssize_t, [_POINTER]),
    "OperationGetFirstRegion": (_POINTER, [_POINTER]),
    "OperationGetNumOperands": (ctypes.c_ssize_t, [_POINTER]),
    "OperationGetOperand": (_POINTER, [_POINTER, ctypes.c_ssize_t]),
    "OperationGetResult": (_POINTER, [_POINTER, ctypes.c_ssize_t]),
    "OperationGetBlock": (_POINTER, [_POINTER]),
    "OperationGetNextInBlock": (_POINTER, [_POINTER]),
    "OperationCreateParse": (_POINTER, [_POINTER, _Text, _Text]),
    "OperationDestroy": (None, [_POINTER]),
    "RegionGetNextInOperation": (_POINTER, [_POINTER]),
    "RegionGetFirstBlock": (_POINTER, [_POINTER]),
    "BlockGetNextInRegion": (_POINTER, [_POINTER]),
    "BlockGetFirstOperation": (_POINTER, [_POINTER]),
    "BlockInsertOwnedOperationBefore": (None, [_POINTER, _POINTER, _POINTER]),
    "IdentifierStr": (_Text, [_POINTER]),
    "ValueReplaceAllUsesOfWith": (None, [_POINTER, _POINTER]),
}


class Mlir:
    """MLIR's functions in the compiler's library, without their common prefix."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = library[f"mlir{name}"]
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the function mlir{name} is not declared")

    def name(self, operation: int) -> bytes:
        """The name of an operation, such as `func.return`."""
        text = self.IdentifierStr(self.OperationGetName(operation))
        return ctypes.string_at(text.data, text.length)

    def operations(self, operation: int) -> Iterator[int]:
        """The operations in the regions of another one, from the outside inwards."""
        region = self.OperationGetFirstRegion(operation)
        while region:
            block = self.RegionGetFirstBlock(region)
            while block:
                inner = self.BlockGetFirstOperation(block)
                while inner:
                    following = self.OperationGetNextInBlock(inner)
                    yield inner
                    inner = following
                block = self.BlockGetNextInRegion(block)
            region = self.RegionGetNextInOperation(region)


def free_nothing(mlir: Mlir, operation: int) -> None:
    """Takes what frees arrays out of all functions in `operation`, a module behind `PHASE`.

    Whoever waited for that waits for what it waited for itself.
    """
    for inner in mlir.operations(operation):
        name = mlir.name(inner)
        if name == _FREE:
            _remove(mlir, inner)
        elif name != b"stream.executable" and mlir.OperationGetNumRegions(inner):
            free_nothing(mlir, inner)


def _remove(mlir: Mlir, free: int) -> None:
    if mlir.OperationGetNumOperands(free) == _WITH_TIME:
        time = mlir.OperationGetOperand(free, _WITH_TIME - 1)
    else:
        source = _Text(_AT_ONCE, len(_AT_ONCE))
        made = mlir.OperationCreateParse(mlir.OperationGetContext(free), source, _Text(b"", 0))
        if not made:
            raise RuntimeError(f"the compiler does not know {_AT_ONCE.decode()}")
        mlir.BlockInsertOwnedOperationBefore(mlir.OperationGetBlock(free), made, free)
        time = mlir.OperationGetResult(made, 0)
    mlir.ValueReplaceAllUsesOfWith(mlir.OperationGetResult(free, 0), time)
    mlir.OperationDestroy(free)
