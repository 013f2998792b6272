"""Programs compiled for GPUs that are not here, and the PTX that the driver would get."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xpr
from xpr.dispatch.compiling import compile_module, lower
from xpr.lowering.targets.base import Target


def operand(*shape: int, dtype: str = "float32") -> Any:
    """An operand of which only the type is known."""
    return xpr.ShapeDtypeStruct(shape, dtype)


def ptx_of(function: Callable[..., Any], *operands: Any, target: Target | None = None) -> str:
    """The PTX of a program's module, which holds it as text."""
    if target is not None:
        closed = xpr.make_jaxpr(function)(*operands)
        module = compile_module(lower(closed, target, "program"), target)
    else:
        program = xpr.jit(function).lower(*operands, platform="cuda").compile()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.vmfb"
            program.save(path)
            module = path.read_bytes()
    return module.decode("latin-1")


def kernels(ptx: str) -> int:
    """How many kernels there are."""
    return len(re.findall(r"\.visible \.entry", ptx))


def products(ptx: str) -> set[str]:
    """The types of the instructions of tensor cores: of the result, both operands and the sum."""
    return set(re.findall(r"mma\.sync\.aligned\.m\d+n\d+k\d+\.row\.col\.([\w.]+)", ptx))


def has_wide_accesses(ptx: str) -> bool:
    """Whether elements are read from global memory 16 bytes at a time."""
    return (
        re.search(r"ld\.global(\.nc)?(\.\w+)*\.v4\.\w?32|ld\.global\S*\.v2\.\w?64", ptx) is not None
    )
