"""`xpr run`, `compile`, `inspect` and `bench` take StableHLO and exported functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xpr
from tests.export.stablehlo.programs import jax_program
from xpr.cli import main

_TEXT = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.add %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}"""
_OPEN = """
func.func @main(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %y = stablehlo.add %x, %x : tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(_TEXT, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    return path


def test_run_and_bench(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--input", str(model.with_name("x.npy"))]
    for runtime in ([], ["--runtime", "reference"]):
        assert main(["run", str(model), *runtime, *given]) == 0
        assert capsys.readouterr().out == "result 0 f32[2]\n[2. 4.]\n"
    assert main(["bench", str(model), "--seconds", "0.01"]) == 0
    assert "runtime     cpu" in capsys.readouterr().out


def test_compile_and_run_the_module(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(model)]) == 0
    module = model.with_suffix(".vmfb")
    assert f"{module}: main for x86_64-v3" in capsys.readouterr().out
    assert main(["run", str(module), "--input", str(model.with_name("x.npy"))]) == 0
    assert capsys.readouterr().out.endswith("[2. 4.]\n")


def test_open_sizes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, bundle = tmp_path / "open.mlir", tmp_path / "open.xpr"
    path.write_text(_OPEN, encoding="utf-8")
    assert main(["compile", str(path)]) == 2
    assert "leaves sizes open (float32[d0,2]): give the types by --args" in capsys.readouterr().err
    assert main(["compile", str(path), "--args", "f32[n,2]", "-o", str(bundle)]) == 0
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(xpr.export.load(bundle).call(x), 2 * x)


def test_inspect_tells_where_a_program_comes_from(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jax, own = tmp_path / "model.bin", tmp_path / "own.bin"
    jax.write_bytes(jax_program("scan_rnn")[0])
    own.write_bytes(xpr.export.from_stablehlo(model).serialize())
    said = {}
    for path in (model, jax, own):
        assert main(["inspect", str(path)]) == 0
        said[path] = capsys.readouterr().out.splitlines()
    assert said[model][0] == "program    main, StableHLO text"
    assert said[jax][0] == "program    scan_rnn, exported by JAX, StableHLO_v1.15.0"
    assert said[jax][1:4] == [
        "  input    args[0]: f32[5]",
        "  input    args[1]: f32[7,5]",
        "  input    args[2]: f32[5,5]",
    ]
    assert said[own][0] == "program    main, exported by xpr"
    assert "operation  add 1" in said[own]


def test_damaged_files_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.mlir"
    path.write_text("func.func @main( {", encoding="utf-8")
    assert main(["compile", str(path)]) == 1
    found = capsys.readouterr().err
    assert found.startswith("xpr compile: ")
    assert found.count("\n") == 1
    assert "is not StableHLO: line 1" in found
    assert not path.with_suffix(".vmfb").exists()
