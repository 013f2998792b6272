"""Programs written to files as they are compiled: the settings `dump_ir_to`, `dump_ir_modes`."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING

from xpr.core.config import state

if TYPE_CHECKING:
    from xpr.core.jaxpr import ClosedJaxpr

_modules, _jaxprs = itertools.count(), itertools.count()


def dump_module(text: str, name: str) -> None:
    """Writes the StableHLO of a program that is about to be compiled, if that is asked for."""
    if _wanted("stablehlo"):
        _write(f"jax_ir{next(_modules):04d}_jit_{_safe(name)}_compile.mlir", text)


def dump_jaxpr(closed: ClosedJaxpr, name: str) -> None:
    """Writes a jaxpr that is about to be lowered, if that is asked for."""
    if _wanted("jaxpr"):
        _write(f"jax_{next(_jaxprs):06d}_{_safe(name)}.jaxpr.txt", str(closed))


def _wanted(mode: str) -> bool:
    return bool(state.dump_ir_to) and mode in state.dump_ir_modes.split(",")


def _safe(name: str) -> str:
    return re.sub(r"[^\w.)(-]", "", name)


def _write(file: str, text: str) -> None:
    os.makedirs(state.dump_ir_to, exist_ok=True)
    with open(os.path.join(state.dump_ir_to, file), "w", encoding="utf-8") as f:
        f.write(text)
