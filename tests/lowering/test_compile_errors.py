"""A compiler failure is reported as the user's operation at the user's line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.dispatch import compiling
from xpr.errors import CompileError
from xpr.lowering.ir import printer
from xpr.lowering.ir.traits import TRAITS
from xpr.lowering.registry import rules
from xpr.lowering.rules import load_all


def test_failure_names_the_users_line_and_keeps_the_program(monkeypatch) -> None:
    def broken(ctx, x, **_):
        # A call that no target knows: it parses, and cannot be compiled.
        name = {"call_target_name": '"no_such_call"'}
        return ctx.assign("stablehlo.custom_call", [x], x.shape, x.dtype, name)

    load_all()
    monkeypatch.setitem(rules, "tanh", broken)
    monkeypatch.setitem(TRAITS, "stablehlo.custom_call", TRAITS["stablehlo.tanh"])
    monkeypatch.setitem(printer._FORMS, "stablehlo.custom_call", printer._generic)
    # Else it would be computed by NumPy, with a warning.
    monkeypatch.setattr(compiling.host_fallback, "compile_around", lambda *_: None)
    with pytest.raises(CompileError, match="custom_call") as e:
        xpr.jit(lambda x: jnp.tanh(x) + 1)(np.ones(3, "f4"))
    assert e.value.source_location is not None
    file, line, _ = e.value.source_location
    assert file == __file__
    assert "jnp.tanh" in Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    assert "custom_call" in e.value.diagnostics
    assert e.value.stablehlo_path is not None
    saved = Path(e.value.stablehlo_path)
    assert "no_such_call" in saved.read_text(encoding="utf-8")
    assert str(saved) in str(e.value)
    saved.unlink()
