"""What each primitive means: one file per family, each rule of a primitive side by side.

`load_all` imports every family, so that a primitive cannot be missing because of a forgotten
import; the same names stand in `xpr.lowering.rules`.
"""

from __future__ import annotations

import importlib

FAMILIES: tuple[str, ...] = (
    "elementwise",
    "power",
    "elementary",
    "special",
    "integer",
    "compare",
    "convert",
    "shape",
    "joining",
    "creation",
    "slicing",
    "gather",
    "scatter",
    "reduce",
    "cumulative",
    "window",
    "dot_general",
    "conv",
    "sort",
    "linalg",
    "linalg_householder",
    "linalg_general",
    "linalg_tridiagonal",
    "fft",
    "random",
    "call",
    "custom",
    "checkpoint",
    "collectives",
    "group_collective",
    "sharding",
    "cond",
    "scan",
    "while_loop",
    "linear_solve",
    "callback",
    "check",
    "ref",
    "kernel",
    "shard_map",
)


def load_all() -> None:
    """Imports the file of each family, which registers its primitives."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
