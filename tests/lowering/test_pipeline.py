"""The stages of the compile path: their list, and a program at one of them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.test_plain import operations
from xpr import lax
from xpr.lowering import pipeline, targets
from xpr.lowering.passes import GUARDS
from xpr.lowering.registry import plain_rules

X = np.ones((3, 4), np.float32)
CPU = targets.get_target("cpu")


def text(function: Any, *args: Any, stage: str, after: bool, target: Any = CPU) -> str:
    closed = xpr.make_jaxpr(function)(*args)
    return pipeline.program_text(closed, target, "f", stage, after=after)


def test_stages_are_all_expansions_and_guards_in_their_order() -> None:
    found = list(pipeline.stages(CPU))
    kinds = [stage.kind for stage in found]
    assert kinds == sorted(kinds)
    assert [s.name for s in found if s.kind == "guard"] == list(GUARDS)
    expansions = {s.name for s in found if s.kind == "expansion"}
    assert expansions >= {"sort", "fft", "cholesky", "svd", "dot_general"}
    assert expansions <= set(plain_rules)
    given = ""
    for stage in found:
        assert stage.needs
        assert stage.gives
        if stage.kind == "guard":
            for needed in stage.needs.split(", "):
                assert needed == "-" or needed in given, stage
            given += stage.gives + ", "


def test_one_expansion_leaves_the_rest_plain() -> None:
    def function(x: Any) -> Any:
        return jnp.sort(x), jnp.fft.rfft(x), lax.erf(x)

    plain = text(function, X, stage="sort", after=False)
    assert operations(plain) >= {"stablehlo.sort", "stablehlo.fft", "chlo.erf"}
    expanded = text(function, X, stage="sort", after=True)
    assert "stablehlo.sort" not in operations(expanded)
    assert operations(expanded) >= {"stablehlo.fft", "chlo.erf"}
    everything = text(function, X, stage="expansions", after=True)
    assert not operations(everything) & {"stablehlo.sort", "stablehlo.fft", "chlo.erf"}
    assert text(function, X, stage="expansions", after=False) == plain


def test_a_program_before_and_after_a_guard() -> None:
    x = np.ones(3, ml_dtypes.int4)
    before = text(lambda x: x + x, x, stage="small_integers", after=False)
    after = text(lambda x: x + x, x, stage="small_integers", after=True)
    assert "stablehlo.and" not in operations(before)
    assert "stablehlo.and" in operations(after)


def test_the_last_guard_gives_what_is_compiled() -> None:
    last = list(GUARDS)[-1]
    lowered = xpr.jit(lambda x: jnp.sort(x @ x.T), inline=False).lower(X)
    assert operations(text(lambda x: jnp.sort(x @ x.T), X, stage=last, after=True)) == operations(
        lowered.as_text("iree")
    )


PROGRAMS = {
    "network": lambda x: jnp.tanh(x @ x.T).sum(0),
    "loop": lambda x: lax.fori_loop(0, 5, lambda i, y: y * 2 - 1, x),
    "reduction": lambda x: (x.max(1), jnp.exp(x).prod(0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_came_in_take_the_same_road(name: str) -> None:
    """What was traced, and the same as it is read from its plain text, become one program.

    Inside of a loop's dispatch numbers may be one or several to a register.
    """
    function = PROGRAMS[name]
    last = list(GUARDS)[-1]
    exported = xpr.export.export(xpr.jit(function), platforms=("cpu",))(X)
    read = xpr.export.from_stablehlo(exported.mlir_module()).program.at(())
    traced = operations(text(function, X, stage=last, after=True))
    found = operations(pipeline.program_text(read, CPU, "f", last, after=True))
    assert all(name.startswith("vector.") for name in found ^ traced), found ^ traced


def test_an_unknown_stage_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no stage 'nothing'"):
        text(jnp.sin, X, stage="nothing", after=True)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main = importlib.import_module("xpr.lowering.__main__").main
    assert main(["passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["stage", "kind", "needs", "gives"]
    assert len(lines) == 1 + len(list(pipeline.stages(CPU)))
    exported = xpr.export.export(xpr.jit(jnp.sort), platforms=("cpu",))(X)
    for file, content in (
        ("model.mlir", exported.mlir_module().encode()),
        ("model.jax", bytes(exported.serialize(format="jax"))),
    ):
        path = tmp_path / file
        path.write_bytes(content)
        assert main(["passes", str(path), "--before", "sort"]) == 0
        assert "stablehlo.sort" in capsys.readouterr().out
        assert main(["passes", str(path), "--target", "vulkan", "--after", "expansions"]) == 0
        assert "func.func public @main" in capsys.readouterr().out
    source = tmp_path / "model.py"
    source.write_text("import xpr.numpy as jnp\ndef f(x):\n    return jnp.sin(x)\n")
    assert main(["passes", f"{source}:f", "--args", "f32[3]", "--after", "sin"]) == 0
    assert "@main(%arg0: tensor<3xf32>)" in capsys.readouterr().out
    assert main(["passes", f"{source}:f", "--args", "f32[3]", "--after", "sine"]) == 2
    assert "there is no stage 'sine'" in capsys.readouterr().err
