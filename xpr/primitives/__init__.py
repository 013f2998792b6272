"""What each primitive means: one file per family, each rule of a primitive side by side.

`load_all` imports every family, so that a primitive cannot be missing because of a forgotten
import. `xpr.lowering.rules` and `xpr.sharding.rules` have a file of each family, too.
"""

from __future__ import annotations

import importlib

from xpr.core.primitive import install_loader

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
    "ffi",
    "shard_map",
)
"""The families, each a file here, in `lowering/rules` and in `xpr/sharding/rules`."""

ELEMENTWISE_FAMILIES = frozenset(
    ("elementwise", "power", "elementary", "special", "integer", "compare", "convert")
)
"""Those whose reference rules work on any shape, element by element."""


def load_all() -> None:
    """Imports the file of each family, which registers its primitives."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")


install_loader(load_all)
