"""Results of programs in auto mode are sharded as JAX's are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import xpr
from tests.sharding import auto_programs as table
from xpr.sharding.partition import partition
from xpr.sharding.refine import as_partition_spec
from xpr.sharding.rules import load_all

GOLDEN: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "auto_golden.json").read_text(encoding="utf-8")
)


def found_for(function: Any, operands: tuple[str, ...]) -> list[str]:
    shapes = [table.parsed(o) for o in operands]
    closed = xpr.make_jaxpr(function)(*[np.ones(s, np.float32) for s, _ in shapes])
    specs = [tuple((a,) if a else () for a in spec) for _, spec in shapes]
    free = [None] * len(closed.out_avals)
    constants = [((),) * np.ndim(c) for c in closed.consts]
    out = partition(closed, dict(table.MESH), constants, specs, free).out_specs
    return [
        table.shown(as_partition_spec(s), a.ndim)
        for s, a in zip(out, closed.out_avals, strict=True)
    ]


def test_results_are_sharded_as_in_jax() -> None:
    load_all()
    cases = list(table.cases(xpr))
    assert {name for name, _, _ in cases} == set(GOLDEN)
    found = {name: found_for(f, operands) for name, f, operands in cases}
    assert found == GOLDEN
