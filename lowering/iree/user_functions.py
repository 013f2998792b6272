"""Functions that users write in MLIR: read, checked and put into a program's text."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from typing import Any

from xpr.lowering.iree.parsed import parsed


@functools.lru_cache(maxsize=64)
def _operations(text: str) -> dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Each function of a text by its name: its text, the types it takes and those it gives.

    ValueError for a text that MLIR does not read, or that holds anything else than functions.
    """
    try:
        module = parsed(text)
    except Exception as error:
        # The class of MLIR's errors is known to its package alone.
        if type(error).__name__ != "MLIRError":
            raise
        raise ValueError(f"MLIR does not read the text of a kernel: {error}") from error
    ir: Any = importlib.import_module("iree.compiler.ir")
    found: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
    for operation in module.body.operations:
        if operation.operation.name != "func.func":
            raise ValueError(
                f"the text of a kernel holds functions (func.func), got {operation.operation.name}"
            )
        name = ir.StringAttr(operation.attributes["sym_name"]).value
        type_ = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
        operation.attributes["sym_visibility"] = ir.StringAttr.get("private", module.context)
        shown = operation.operation.get_asm(use_local_scope=True)
        found[name] = shown, tuple(map(str, type_.inputs)), tuple(map(str, type_.results))
    return found


def functions_of(text: str) -> dict[str, str]:
    """The functions of a text, each as the text of a private function, by their names."""
    return {name: found[0] for name, found in _operations(text).items()}


def types_of(text: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The types that a function takes and gives, as MLIR writes them.

    ValueError if the text has no function of that name.
    """
    operations = _operations(text)
    if name not in operations:
        raise ValueError(f"there is no function {name} in the text of a kernel: {[*operations]}")
    return operations[name][1:]


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A function with other names for it and for those that it calls."""
    return re.sub(r"@([A-Za-z_][\w$.]*)", lambda found: "@" + names.get(found[1], found[1]), text)
