"""Each row of the operation table inside a `shard_map`: along which axes its results vary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from tests.op_row import OpRow
from tests.op_runs import operands_of
from tests.op_table import all_rows
from tests.test_table_derivatives import smooth_operands
from xpr import lax
from xpr import numpy as jnp
from xpr.core.check import check_jaxpr
from xpr.core.config import override
from xpr.core.dtypes import is_inexact
from xpr.core.jaxpr import dce_jaxpr
from xpr.core.primitive import Absent, registry
from xpr.sharding import AbstractMesh
from xpr.sharding import PartitionSpec as P

MESH = AbstractMesh((2,), ("x",))
ROWS = [(row, row.dtypes[0]) for rows in all_rows().values() for row in rows]
SMOOTH = [
    (row, dtype)
    for rows in all_rows().values()
    for row in rows
    for dtype in row.dtypes
    if dtype == "float64"
    and not row.no_derivative_check
    and not isinstance(registry[row.primitive].jvp, Absent)
]


def _leaves(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _in_body(check: Any, args: Any, varying: Any) -> None:
    """Traces `check` on operands of which those that `varying` marks vary."""

    def body(*given: Any) -> Any:
        operands = [
            lax.pcast(x, "x", to="varying") if v else x for x, v in zip(given, varying, strict=True)
        ]
        check(*operands)
        return ()

    check_jaxpr(xpr.make_jaxpr(xpr.shard_map(body, mesh=MESH, in_specs=P(), out_specs=P()))(*args))


def _choices(count: int) -> list[list[bool]]:
    """All operands vary, or each alone."""
    alone = [[i == j for j in range(count)] for i in range(count)]
    return alone if count == 1 else [[True] * count, *alone]


@pytest.mark.parametrize(("row", "dtype"), ROWS, ids=lambda v: getattr(v, "id", v))
def test_results_vary_as_operands_do(row: OpRow, dtype: str) -> None:
    with override("enable_x64", True):
        args = operands_of(row, dtype)

        whole = xpr.make_jaxpr(lambda *xs: _leaves(row.function(*xs)))(*args).jaxpr
        count = len(whole.outvars)
        # Which operands each result is computed from.
        needed = [
            dce_jaxpr(whole, [i == k for i in range(count)], instantiate=False)[1]
            for k in range(count)
        ]
        for varying in [[False] * len(args), *_choices(len(args))]:
            wanted = [any(v and n for v, n in zip(varying, need, strict=True)) for need in needed]
            found: list[bool] = []

            def check(*operands: Any, found: list[bool] = found) -> None:
                found += [xpr.typeof(x).vma == {"x"} for x in _leaves(row.function(*operands))]

            _in_body(check, args, varying)
            assert found == wanted


@pytest.mark.parametrize(("row", "dtype"), SMOOTH, ids=lambda v: getattr(v, "id", v))
def test_cotangents_vary_as_their_operands_do(row: OpRow, dtype: str) -> None:
    """What is the same everywhere has one cotangent: that of one device would be too small."""
    with override("enable_x64", True):
        args = [np.asarray(x) for x in smooth_operands(row, dtype)]

        def check(*operands: Any) -> None:
            smooth = [i for i, x in enumerate(operands) if is_inexact(x.dtype)]

            def f(*xs: Any) -> list[Any]:
                whole = list(operands)
                for i, x in zip(smooth, xs, strict=True):
                    whole[i] = x
                return [y for y in _leaves(row.function(*whole)) if is_inexact(y.dtype)]

            out, pullback = xpr.vjp(f, *(operands[i] for i in smooth))
            cts = [
                lax.pcast(jnp.ones(y.shape, y.dtype), tuple(xpr.typeof(y).vma), to="varying")
                for y in out
            ]
            for i, ct in zip(smooth, pullback(cts), strict=True):
                assert xpr.typeof(ct).vma <= xpr.typeof(operands[i]).vma

        for varying in _choices(len(args)):
            if any(v for v, x in zip(varying, args, strict=True) if is_inexact(x.dtype)):
                _in_body(check, args, varying)
