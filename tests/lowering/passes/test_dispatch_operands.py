"""Booleans that loops read which are written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import MENDED, compile_with
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module


def _loop(u: Any, k: Any, s: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        a, w = carry
        h = (a.astype(jnp.int32).sum() + 1) % k
        return (jnp.broadcast_to(h > 0, (3,)), jnp.broadcast_to(h > 1, (3, 4))), w

    return lax.scan(step, (u, s), None, length=3)[0]


def test_without_the_pass_loops_over_booleans_do_not_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(u: Any, k: Any, s: Any) -> Any:
        return lax.cond(u.any(), lambda u, k, s: (u, s), _loop, u, k, s)

    closed = xpr.make_jaxpr(chosen)(np.zeros(3, bool), np.int32(3), np.eye(3, 4) > 0)
    assert compile_with(print_module(graph_of(closed, "cpu"), "m"))[0] is not None
    monkeypatch.delitem(passes.PASSES, "dispatch_operands")
    module, said = compile_with(print_module(graph_of(closed, "cpu"), "m"))
    assert module is None, MENDED
    assert any("workgroup distributed contexts" in d.message for d in said)
