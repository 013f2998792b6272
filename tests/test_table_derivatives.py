"""Each row of the table: forward and reverse mode, to order 2, against finite differences."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.op_row import OpRow, np_dtype
from tests.op_table import all_rows
from xpr.core.config import override
from xpr.core.dtypes import is_complex, is_inexact
from xpr.core.primitive import Absent, registry
from xpr.primitives import load_all
from xpr.test_util import check_grads
from xpr.transforms.derivatives import jvp

_WIDE = ("float64", "complex128")


def _rows() -> list[Any]:
    return [
        pytest.param(row, dtype, id=f"{row.id}-{dtype}")
        for rows in all_rows().values()
        for row in rows
        for dtype in row.dtypes
        if dtype in _WIDE and not row.no_derivative_check
    ]


def _random(rng: np.random.Generator, x: Any, domain: tuple[float, float]) -> Any:
    """Values in `domain` in place of those of an inexact operand."""
    x = np.asarray(x)
    if not is_inexact(x.dtype):
        return x
    values = rng.uniform(*domain, x.shape)
    if is_complex(x.dtype):
        values = values + 1j * rng.uniform(*domain, x.shape)
    return np.asarray(values).astype(x.dtype)


def smooth_operands(row: OpRow, dtype: str) -> Sequence[Any]:
    """Operands at which the row's function is smooth."""
    rng = np.random.default_rng(zlib.crc32(f"{row.id}/{dtype}/smooth".encode()))
    if row.smooth is not None:
        return row.smooth(rng, np_dtype(dtype))
    return [_random(rng, x, row.domain) for x in row.args(rng, np_dtype(dtype))]


def _inexact_results(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    def only(*args: Any) -> list[Any]:
        out = function(*args)
        results = out if isinstance(out, (tuple, list)) else [out]
        return [x for x in results if is_inexact(x.dtype)]

    return only


@pytest.mark.parametrize(("row", "dtype"), _rows())
def test_derivatives(row: OpRow, dtype: str) -> None:
    with override("enable_x64", True):
        args = smooth_operands(row, dtype)
        if not any(is_inexact(np.asarray(x).dtype) for x in args):
            return
        rule = registry[row.primitive].jvp
        if isinstance(rule, Absent):
            tangents = [
                np.ones_like(x) if is_inexact(x.dtype) else np.zeros(x.shape, [("float0", "V")])
                for x in map(np.asarray, args)
            ]
            with pytest.raises(NotImplementedError, match="not implemented"):
                jvp(row.function, tuple(args), tuple(tangents))
            return
        check_grads(_inexact_results(row.function), args, order=2)


def test_every_primitive_with_a_derivative_has_a_checked_row() -> None:
    load_all()
    checked = {p.values[0].primitive for p in _rows()}
    without = {
        name
        for name, primitive in registry.items()
        if not isinstance(primitive.jvp, Absent) and primitive.family in all_rows()
    }
    # Integers have no derivatives to check.
    integral = {
        row.primitive
        for rows in all_rows().values()
        for row in rows
        if not set(row.dtypes) & set(_WIDE)
    }
    # Nor have random keys: their rules give zero tangents (tests/random/test_key_arrays.py).
    keys = {f"random_{kind}" for kind in ("clone", "seed", "unwrap", "wrap")}
    assert without - checked - integral - keys == set()
