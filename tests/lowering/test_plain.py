"""The operation table as plain StableHLO: what is written, and what a reader computes from it."""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.harness import assert_same, run_reference
from tests.op_row import OpRow
from tests.op_runs import operands_of
from tests.op_table import all_rows
from xpr import lax
from xpr.core.config import override
from xpr.dispatch import compiling
from xpr.export.stablehlo.artifact import portable_artifact
from xpr.lowering.targets.stablehlo import stablehlo, stablehlo_anywhere
from xpr.runtimes import registry

TOGETHER = 30
_TABLE = all_rows()
_OPERATION = re.compile(r'^\s*(?:%[\w:#, %]+ = )?"?([a-z_]+\.[a-z_0-9.]+)', re.M)
_BY_NAME = "stablehlo.custom_call"
_CALLBACK = "xpr_python_callback"
_LOOSER = 1e-4
"""Textbook formulas in place of xpr's own lose digits: how many, is for the tool that runs them."""


def _chosen(rows: Sequence[OpRow]) -> list[tuple[OpRow, str]]:
    """Each row in one of its dtypes, and in complex numbers."""
    found = []
    for row in rows:
        if "promise_in_bounds" in row.id:
            continue  # and is broken: what happens then is left open
        dtypes = sorted(row.dtypes)
        one = dtypes[zlib.crc32(row.id.encode()) % len(dtypes)]
        found += [(row, d) for d in dict.fromkeys([one, *(d for d in dtypes if d == "complex64")])]
    return found


def _groups() -> list[Any]:
    return [
        pytest.param(pairs[i : i + TOGETHER], id=f"{family}-{i}")
        for family, rows in _TABLE.items()
        for pairs in [_chosen(rows)]
        for i in range(0, len(pairs), TOGETHER)
    ]


def plain(function: Any, *operands: Any) -> str:
    return compiling.lower(xpr.make_jaxpr(function)(*operands), stablehlo, "f").text


def operations(text: str) -> set[str]:
    return {name for name in _OPERATION.findall(text) if not name.startswith("func.")}


@pytest.mark.parametrize("pairs", _groups())
def test_rows_are_standard_and_read_back_right(pairs: list[tuple[OpRow, str]]) -> None:
    ir = importlib.import_module("iree.compiler.ir")
    rows = [(row, dtype, operands_of(row, dtype)) for row, dtype in pairs]

    def together(operands: list[Any]) -> list[Any]:
        return [row.function(*x) for (row, _, _), x in zip(rows, operands, strict=True)]

    operands = [x for _, _, x in rows]
    with override("enable_x64", True):
        closed = xpr.make_jaxpr(together)(operands)
        text = compiling.lower(closed, stablehlo, "rows", embed_consts=True).text
    found = operations(text)
    assert found
    assert all(name.startswith(("stablehlo.", "chlo.")) for name in found), found
    with ir.Context():
        ir.Module.parse(text).operation.verify()
    if _CALLBACK in text:
        return  # which nothing that reads it here knows
    flat = [x for one in operands for x in one]
    with override("enable_x64", True):
        reference = registry.devices("reference")[0]
        read = xpr.export.from_stablehlo(portable_artifact(text))
        given = xpr.tree_util.tree_leaves(read.call(*xpr.device_put(flat, reference)))
        results = iter(map(np.asarray, given))
        for row, dtype, values in rows:
            for i, expected in enumerate(run_reference([(row.function, values)])[0]):
                one = next(results)
                rtol, atol = row.tolerance_for(expected.dtype)
                if one.dtype.kind in "fcV":
                    rtol, atol = max(rtol, _LOOSER), max(atol, _LOOSER)
                assert_same(one, expected, rtol, atol, what=f"{row.id} {dtype} result {i}")


X = np.arange(24, dtype=np.float32).reshape(4, 6)

TEXTBOOK = {
    "sort": (lambda x: jnp.sort(x), {"stablehlo.sort"}),
    "fft": (jnp.fft.rfft2, {"stablehlo.fft"}),
    "cholesky": (lambda x: lax.linalg.cholesky(x[:, :4]), {"stablehlo.cholesky"}),
    "top_k": (lambda x: lax.top_k(x, 2), {"chlo.top_k"}),
    "erf": (lambda x: lax.erf(x), {"chlo.erf"}),
    "pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME"),
        {"stablehlo.reduce_window"},
    ),
    "convolution": (
        lambda x: lax.conv_general_dilated(x[None, None], x[None, None], (1, 1), "SAME"),
        {"stablehlo.convolution"},
    ),
    "loop": (lambda x: lax.fori_loop(0, 9, lambda i, y: y * 2, x), {"stablehlo.while"}),
    "scatter": (lambda x: x.at[jnp.array([1, 9])].add(1.0), {"stablehlo.scatter"}),
    "branch": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), {"stablehlo.case"}),
}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_operations_are_those_of_a_textbook(name: str) -> None:
    function, wanted = TEXTBOOK[name]
    assert wanted <= operations(plain(function, X))


def test_a_product_is_one_operation() -> None:
    text = plain(lambda x: x @ x.T, X)
    assert operations(text) == {"stablehlo.transpose", "stablehlo.dot_general"}
    text = plain(lambda x: jnp.matmul(x, x.T, precision="highest"), X)
    assert "#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>" in text


def test_calls_of_python_and_factorizations_are_custom_calls() -> None:
    text = plain(lambda x: (xpr.debug.print("{}", x), jnp.linalg.eigvals(x[:, :4]))[1], X)
    assert 'call_target_name = "xpr_python_callback", has_side_effect = true' in text
    assert 'call_target_name = "lapack_sgeev_ffi"' in text
    assert "backend_config = {compute_left = 78 : ui8, compute_right = 78 : ui8}" in text
    assert 'call_target_name = "lapack_sgesdd_ffi"' in plain(jnp.linalg.svd, X)
    anywhere = compiling.lower(xpr.make_jaxpr(jnp.linalg.svd)(X), stablehlo_anywhere, "f").text
    assert "stablehlo.while" in anywhere
    assert _BY_NAME not in anywhere


def test_integers_of_less_than_a_byte_wrap_and_have_their_own_types() -> None:
    x = np.array([7, -8, 3], ml_dtypes.int4)
    y = np.array([7, 8, 3], ml_dtypes.uint4)
    text = plain(lambda x, y: (x + x, x.astype(np.int32), y * y), x, y)
    assert "(%arg0: tensor<3xi4>, %arg1: tensor<3xui4>)" in text
    assert "-> (tensor<3xi4>, tensor<3xi32>, tensor<3xui4>)" in text
    found = xpr.export.from_stablehlo(text).call(x, y)
    assert [np.asarray(v).astype(int).tolist() for v in found] == [
        [-2, 0, 6],
        [7, -8, 3],
        [1, 0, 9],
    ]


def test_the_dialects_of_a_lowered_program() -> None:
    lowered = xpr.jit(lambda x: jnp.sort(x @ x.T, axis=0)).lower(X)
    assert lowered.as_text() == lowered.as_text("stablehlo")
    assert "stablehlo.sort" in lowered.as_text()
    assert "stablehlo.sort" not in lowered.as_text("iree")
    assert "test_plain.py" in lowered.as_text(debug_info=True)
    assert "stablehlo.sort" in str(lowered.compiler_ir())
    assert "stablehlo.sort" in xpr.export.export(xpr.jit(jnp.sort))(X).mlir_module()
    closing = xpr.jit(lambda x: x @ jnp.asarray(X)).lower(X.T)
    assert "(%arg0: tensor<6x4xf32>)" in closing.as_text()
    assert "(%arg0: tensor<4x6xf32>, %arg1: tensor<6x4xf32>)" in closing.as_text("iree")
    with pytest.raises(ValueError, match="unknown dialect: 'hlo'; as_text writes 'stablehlo' and"):
        lowered.as_text("hlo")
