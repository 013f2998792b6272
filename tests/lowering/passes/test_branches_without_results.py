"""Branches that only call functions of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED, compile_with
from tests.lowering.test_ir import graph_of
from xpr import debug, lax
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module


def _text(function: Any, *args: Any) -> str:
    return print_module(graph_of(xpr.make_jaxpr(function)(*args), "cpu"), "m")


def _note(*_: Any) -> None: ...


def _chooses(x: Any) -> Any:
    lax.switch(
        x, [lambda: debug.callback(_note, 1), lambda: debug.callback(_note, 2), lambda: None]
    )
    return x + 1


def test_without_the_pass_branches_without_results_do_not_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.int32(1)
    assert compile_with(_text(_chooses, x))[0] is not None
    monkeypatch.delitem(passes.PASSES, "branches_without_results")
    assert compile_with(_text(_chooses, x))[0] is None, MENDED


def test_effects_of_branches_in_loops() -> None:
    told: list[tuple[str, float]] = []

    def step(i: Any, x: Any) -> Any:
        def odd() -> None:
            debug.callback(lambda v: told.append(("odd", float(v))), x)

        def even() -> None:
            lax.cond(x > 20, lambda: None, lambda: debug.callback(lambda: told.append(("even", 0))))

        lax.cond(i % 2 == 1, odd, even)
        return x * 3

    found = xpr.jit(lambda x: lax.fori_loop(0, 5, step, x))(jnp.float32(1))
    xpr.effects_barrier()
    assert found == 243
    assert sorted(told) == [("even", 0.0), ("even", 0.0), ("odd", 3.0), ("odd", 27.0)]
