"""Scatters whose updates are computed, also from what is updated, and of unsigned integers."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED, compile_with, status_of_compile
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module
from xpr.lowering.rules import gather, scatter
from xpr.lowering.targets.flags import ProgramHints, llvm_cpu_flag_sets

FAST = llvm_cpu_flag_sets(ProgramHints())[0]


def _text(function: Callable[..., Any], *args: Any, without: bool) -> str:
    """The program for processors, with IREE's own scatters, as it is or without the pass."""
    with pytest.MonkeyPatch.context() as patch:
        for rule in (gather, scatter):
            patch.setattr(rule, "_LEAST_IN_MEMORY", sys.maxsize)
        if without:
            patch.delitem(passes.PASSES, "scatters")
        return print_module(graph_of(xpr.make_jaxpr(function)(*args), "cpu"), "m")


def test_without_the_pass_updates_from_the_operand_end_the_compiler() -> None:
    def function(x: Any, i: Any) -> Any:
        return x.at[i].add(x[i[::-1]]) % jnp.int32(7)

    args = np.zeros((17, 64, 17), np.int32), np.zeros(20, np.int32)
    assert status_of_compile(_text(function, *args, without=True), FAST) < 0, MENDED
    assert status_of_compile(_text(function, *args, without=False), FAST) == 0


def test_without_the_pass_updates_lie_on_the_stack() -> None:
    def function(x: Any, i: Any, u: Any) -> Any:
        return x.at[i].add(jnp.sin(u))

    args = np.ones((17, 64), "f4"), np.zeros(2000, np.int32), np.ones((2000, 64), "f4")
    module, said = compile_with(_text(function, *args, without=True), FAST)
    assert module is None, MENDED
    assert "exceeded stack allocation limit" in said[0].message
    assert compile_with(_text(function, *args, without=False), FAST)[0] is not None


def test_without_the_pass_places_lie_on_the_stack() -> None:
    def function(x: Any, i: Any, u: Any) -> Any:
        return x.at[i].add(u)  # places before the first are counted from the end

    args = np.ones(20000, "f4"), np.zeros(20000, np.int32), np.ones(20000, "f4")
    module, said = compile_with(_text(function, *args, without=True), FAST)
    assert module is None, MENDED
    assert "exceeded stack allocation limit" in said[0].message
    assert compile_with(_text(function, *args, without=False), FAST)[0] is not None


def test_many_places_that_are_computed() -> None:
    rng = np.random.default_rng(8)
    for count in (4000, 4097, 20000):  # up to and past what may lie on the stack
        x = rng.standard_normal(300).astype("f4")
        i, u = rng.integers(-300, 300, count, np.int32), rng.integers(0, 9, count).astype("f4")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = xpr.jit(lambda x, i, u: (x * 0).at[i].add(u))(x, i, u)
        expected = np.zeros(300, "f4")
        np.add.at(expected, i, u)  # whole numbers, so that their order does not matter
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("plain_loops")
def test_without_the_pass_unsigned_integers_of_a_loop_do_not_compile() -> None:
    def function(x: Any, i: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            return v.at[i].max(v[0] + jnp.uint32(3))

        return lax.fori_loop(0, 3, step, x)

    args = np.ones(4, np.uint32), np.array([0, 1, 1], np.int32)
    module, said = compile_with(_text(function, *args, without=True), FAST)
    assert module is None, MENDED
    assert any("failed to legalize unresolved materialization" in d.message for d in said)
    assert compile_with(_text(function, *args, without=False), FAST)[0] is not None


def test_updates_gathered_from_the_operand() -> None:
    script = (
        "import numpy as np, xpr, xpr.numpy as jnp\n"
        "rng = np.random.default_rng(0)\n"
        "x = rng.integers(-3, 3, (17, 64, 17)).astype('i4')\n"
        "i = rng.integers(0, 17, 20)\n"
        "f = xpr.jit(lambda x: x.at[i].add(x[i[::-1]]) % jnp.int32(7))\n"
        "expected = x.copy()\n"
        "np.add.at(expected, i, x[i[::-1]])\n"
        "np.testing.assert_array_equal(f(x), expected % 7)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_large_updates_that_are_computed() -> None:
    rng = np.random.default_rng(1)
    x, u = rng.standard_normal((17, 64, 17)), rng.standard_normal((20, 64, 17))
    i, q = rng.integers(0, 17, 20), rng.random((20, 64, 17)) > 0.5
    f = xpr.jit(lambda x, u: x.at[i].add(jnp.where(q, u, x[i])))
    expected = x.astype("f4")
    np.add.at(expected, i, np.where(q, u.astype("f4"), expected[i]))
    np.testing.assert_allclose(f(x.astype("f4"), u.astype("f4")), expected, rtol=1e-5, atol=1e-5)
