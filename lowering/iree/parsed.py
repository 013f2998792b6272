"""Modules as objects of the compiler's Python interface, for whoever wants to walk over them."""

from __future__ import annotations

import importlib
from typing import Any


def parsed(text: str) -> Any:
    """The StableHLO module `text` as an `iree.compiler.ir.Module`, in a context of its own."""
    # The compiler is large and seldom needed; its interface has no annotations.
    ir: Any = importlib.import_module("iree.compiler.ir")
    return ir.Module.parse(text, ir.Context())
