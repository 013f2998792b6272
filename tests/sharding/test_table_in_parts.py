"""The partitioner, on every row of the operation table: each device has its part of the whole."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.harness import assert_same
from tests.op_row import OpRow
from tests.op_runs import operands_of
from tests.op_table import WITHOUT_ROWS, rows_of
from tests.sharding.whole_and_parts import own_part, partitioned, random_spec, run
from xpr.core.config import override
from xpr.primitives import FAMILIES
from xpr.sharding.rule import Spec
from xpr.tree_util import tree_leaves

_MESHES: Sequence[dict[str, int]] = (
    {"x": 2, "y": 2},
    {"x": 4},
    {"x": 3, "y": 2},
    {"x": 5},
    {"x": 7},
)


def _dtype(row: OpRow) -> str:
    return next((d for d in ("float32", "int32") if d in row.dtypes), row.dtypes[0])


def _sharded(
    rng: np.random.Generator, args: Sequence[Any]
) -> tuple[dict[str, int], list[Spec]] | None:
    """A mesh and specs that shard some operand, if there are any for these sizes."""
    for attempt in range(12):
        sizes = _MESHES[attempt % len(_MESHES)]
        specs = [random_spec(rng, np.shape(a), sizes) for a in args]
        if any(any(s) for s in specs):
            return sizes, specs
    return None


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in WITHOUT_ROWS])
def test_rows_with_sharded_operands(family: str) -> None:
    count = 0
    with override("enable_x64", True):
        for row in rows_of(family):
            args = operands_of(row, _dtype(row))
            found = _sharded(np.random.default_rng(zlib.crc32(row.id.encode())), args)
            if found is None:
                continue
            count += 1
            with np.errstate(all="ignore"):
                _check(row, *found, args)
    assert count, "no row has operands that can be sharded"


def _check(row: OpRow, sizes: dict[str, int], specs: list[Spec], args: Sequence[Any]) -> None:
    what = f"{row.id} with {specs} on {sizes}"
    try:
        program, values = partitioned(row.function, sizes, specs, args)
        parts = run(program, sizes, values)
    except Exception as error:
        error.add_note(f"in {what}")
        raise
    whole = [np.asarray(x) for x in tree_leaves(row.function(*args))]
    for rank, results in enumerate(parts):
        for found, expected, spec in zip(results, whole, program.out_specs, strict=True):
            wide = np.abs(expected.astype(np.complex128))
            # Sums in another order round relative to their largest terms.
            scale = float(np.max(wide[np.isfinite(wide)], initial=0.0))
            part = own_part(expected, spec, sizes, rank)
            assert_same(found, part, 1e-5, 1e-6 + 1e-5 * scale, what=what)
