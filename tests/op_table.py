"""The operation table: every row of every family, listed explicitly."""

from __future__ import annotations

import importlib

from tests.op_row import OpRow
from xpr.primitives import FAMILIES

# Families whose primitives take other programs have tests of their own.
WITHOUT_ROWS = (
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


def rows_of(family: str) -> list[OpRow]:
    """The rows of one family."""
    return list(importlib.import_module(f"tests.op_rows.{family}").ROWS)


def all_rows() -> dict[str, list[OpRow]]:
    """Rows by family."""
    return {f: rows_of(f) for f in FAMILIES if f not in WITHOUT_ROWS}
