"""Programs in C compute the bits of the compiled modules."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp

from .harness import GCC, WARNINGS, Model, aligned, module_results, run_tool, save_model
from .programs import ALONE, PROGRAMS

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no gcc to build the programs with")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    save_model(folder, PROGRAMS)
    return Model(folder)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_the_bits_of_their_modules(model: Model, name: str, tmp_path: Path) -> None:
    function, args = PROGRAMS[name]
    leaves = [np.asarray(x) for x in xpr.tree.leaves(tuple(args))]
    assert model.call(name, leaves) == module_results(function, args, tmp_path)


@pytest.mark.parametrize("name", ALONE)
def test_programs_with_constants(name: str, tmp_path: Path) -> None:
    function, args = ALONE[name]
    save_model(tmp_path, {name: (function, args)})
    found = Model(tmp_path).call(name, [np.asarray(x) for x in args])
    assert found == module_results(function, args, tmp_path)


_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4"),
)


def test_every_dtype(tmp_path: Path) -> None:
    def double(x: Any) -> Any:
        if x.dtype == bool:
            return jnp.logical_not(x)
        narrow = x.dtype.itemsize == 1 and "float" in x.dtype.name
        return (x.astype(jnp.float32) * 2).astype(x.dtype) if narrow else x + x

    def program(*arrays: Any) -> Any:
        return [double(x) for x in arrays]

    values = np.array([0, 1, 2, 3, 1, 0, 2])
    with xpr.enable_x64(True):
        args = [np.asarray(values).astype(jnp.dtype(name)) for name in _DTYPES]
        save_model(tmp_path, {"program": (program, args)})
        model = Model(tmp_path)
        found = model.call("program", args)
        assert found == module_results(program, args, tmp_path)
        for name, x, result in zip(_DTYPES, args, found, strict=True):
            expected = ~x if name == "bool" else (x + x).astype(x.dtype)
            np.testing.assert_array_equal(np.frombuffer(result, x.dtype), expected, name)
    types = [f["c_type"] for f in model.functions["program"]["inputs"]]
    assert types[:6] == ["uint8_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t"]
    assert types[9:15] == ["uint16_t", "uint16_t", "float", "double", "float", "double"]


def test_the_example_runs_under_the_sanitizers(tmp_path: Path) -> None:
    names = ("train", "swapping", "branch0", "nested", "empty", "identity", "random")
    save_model(tmp_path, {name: PROGRAMS[name] for name in names})
    sources = [tmp_path / "main.c", tmp_path / "model.c", *sorted(tmp_path.glob("*.o"))]
    flags = (*WARNINGS, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    run_tool(GCC or "", *flags, *sources, "-o", tmp_path / "checked")
    out = run_tool(tmp_path / "checked")
    assert out.count("the expected results") == len(names)
    assert "passed: a workspace of" in out


def test_the_source_is_cpp_too(tmp_path: Path) -> None:
    names = ("train", "swapping", "branch0")
    save_model(tmp_path, {name: PROGRAMS[name] for name in names})
    for file in ("model.c", "main.c"):
        for compiler in filter(None, (shutil.which("g++"), shutil.which("clang++"))):
            flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++")
            if "clang" in compiler:
                flags = (*flags, "-Wno-deprecated")
            run_tool(compiler, *flags, tmp_path / file)
        if shutil.which("clang"):
            run_tool("clang", *WARNINGS, "-fsyntax-only", tmp_path / file)


def test_what_a_function_returns_for_bad_pointers(tmp_path: Path) -> None:
    save_model(tmp_path, {"tanh": PROGRAMS["tanh"]})
    model = Model(tmp_path)
    x, y, work = aligned(256), aligned(256 + 64), aligned(64)
    places = [a.ctypes.data for a in (x, y, work)]

    def call(*arguments: int) -> int:
        pointers = [ctypes.c_void_p(a) for a in arguments[:3]]
        return model.library.model_tanh(*pointers, ctypes.c_size_t(arguments[3]))

    assert call(*places, 64) == 0
    assert call(0, *places[1:], 64) == 1
    assert call(places[0], 0, places[2], 64) == 1
    assert call(*places[:2], 0, 64) == 1
    assert call(places[0], places[1] + 4, places[2], 64) == 2
    assert call(*places, 63) == 3
    assert model.library.model_workspace_bytes() == 64


def test_an_object_of_another_version_does_not_link(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    save_model(old, {"f": (lambda x: x * 2, [np.ones(4, np.float32)])})
    save_model(new, {"f": (lambda x: x * 3, [np.ones(4, np.float32)])})
    shutil.copy(old / "model.o", new / "model.o")
    with pytest.raises(AssertionError, match=r"undefined reference to .model_f_kernels"):
        Model(new)
