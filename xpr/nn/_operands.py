"""What the functions of xpr.nn do with their operands first."""

from __future__ import annotations

from typing import Any

from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array


def array_of(name: str, x: Any, position: int = 0) -> Array:
    """An array or number as an array, Python numbers weakly typed; TypeError for anything else."""
    return as_array(as_operand(name, x, position))
