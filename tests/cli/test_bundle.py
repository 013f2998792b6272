"""Bundles on the command line: written, inspected, run and measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from xpr.cli.errors import CommandError
from xpr.cli.modules import describe
from xpr.cli.programs import check_gpu
from xpr.runtimes.bundle import command as loader
from xpr.runtimes.hal_device import HalDevice

from .conftest import Call

COMPILE = ("compile", "model.py:predict", "--args", "f32[4,8]", "f32[8]")


@pytest.fixture
def bundle(call: Call, folder: Path) -> Path:
    done = call(*COMPILE, "--target", "cpu", "--target", "vmvx", "-o", "predict.xpr")
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(r"predict\.xpr: predict for cpu, vmvx, \d+\.\d kB\n", done.out)
    return Path("predict.xpr")


def test_a_bundle_is_inspected_run_and_measured(call: Call, bundle: Path) -> None:
    status, out, err = call("inspect", str(bundle))
    assert (status, err) == (0, "")
    for line in (
        r"bundle     predict, \d+\.\d kB",
        r"made by    xpr \S+, IREE 3\.\S+",
        r"signed     no",
        r"target     cpu \(runtime cpu, .*\)",
        r"target     vmvx \(runtime vmvx\)",
        r"  input    args\[0\]: f32\[4,8\]",
        r"  input    args\[1\]: f32\[8\]",
        r"  result   result\['score'\]: f32\[4\]",
        r"  result   result\['sum'\]: i32\[8\]",
        r"  module   modules/vmvx\.vmfb for vmvx, \d+\.\d kB, [2-9] dispatches",
        r" +main_dispatch_0_\w+",
    ):
        assert re.search(f"^{line}$", out, flags=re.MULTILINE), line

    x, w = np.load("x.npy"), np.load("w.npy")
    inputs = ("--input", "x.npy", "--input", "w.npy")
    for runtime in ("cpu", "vmvx"):
        outputs = ("--output", "score.npy", "--output", "sum.npy")
        status, out, err = call("run", str(bundle), *inputs, *outputs, "--runtime", runtime)
        assert (status, out, err) == (0, "score.npy: f32[4]\nsum.npy: i32[8]\n", "")
        np.testing.assert_allclose(np.load("score.npy"), np.tanh(x @ w), rtol=1e-6)
        np.testing.assert_array_equal(np.load("sum.npy"), x.sum(0).astype(np.int32))
        Path("score.npy").unlink()
    assert call("run", str(bundle), *inputs).out.startswith("result['score'] f32[4]\n[")

    status, out, err = call("bench", str(bundle), "--seconds", "0.01")
    assert (status, err) == (0, "")
    assert re.match(r"runtime +cpu\nload +\S+ \w+\nfirst call +\S+ \w+\nlater calls ", out)


def test_sizes_may_be_symbolic(call: Call, folder: Path) -> None:
    arguments = ("compile", "model.py:affine", "--args", "f32[b,8]", "scale=f32[]")
    done = call(*arguments, "--constraint", "b <= 16", "-o", "open.xpr")
    assert (done.status, done.err) == (0, "")
    assert "  input    args[0]: f32[b,8]\n" in call("inspect", "open.xpr").out
    np.save("scale.npy", np.float32(2))
    inputs = ("--input", "some.npy", "scale.npy")
    for count in (1, 5):
        x = np.arange(8 * count, dtype=np.float32).reshape(count, 8)
        np.save("some.npy", x)
        done = call("run", "open.xpr", *inputs, "--output", "y.npy")
        assert done == (0, f"y.npy: f32[{count},8]\n", "")
        np.testing.assert_array_equal(np.load("y.npy"), x * 2 + 1)
    np.save("some.npy", np.ones((17, 8), np.float32))
    done = call("run", "open.xpr", *inputs)
    assert done.status == 1
    assert "the constraint b <= 16 does not hold for b = 17" in done.err
    assert call("bench", "open.xpr", "--seconds", "0.01").status == 0

    assert call(*arguments, "-o", "open.vmfb").status == 0
    assert "main(f32[?,8], f32[]) -> (f32[?,8])" in call("inspect", "open.vmfb").out
    done = call("run", "open.vmfb", *inputs)
    assert done == (1, "", "xpr run: open.vmfb has symbolic dimensions: run it from a bundle\n")


def test_arguments_are_named_by_their_place(call: Call, bundle: Path) -> None:
    done = call("run", str(bundle), "--input", "x.npy", "x.npy")
    assert done == (1, "", "xpr run: argument args[1] must be f32[8], got f32[4,8] in x.npy\n")
    done = call("run", str(bundle), "--input", "x.npy")
    assert done == (2, "", "xpr run: the program takes 2 inputs (f32[4,8], f32[8]), got 1\n")


def test_a_bundle_that_has_been_altered_is_refused(call: Call, bundle: Path) -> None:
    content = bytearray(bundle.read_bytes())
    content[content.index(b"module.fb") + 2000] ^= 1
    bundle.write_bytes(content)
    for command in ("inspect", "run", "bench"):
        done = call(command, str(bundle))
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith(f"xpr {command}: ")
        assert done.err.count("\n") == 1
    bundle.write_bytes(content[:1000])
    line = "xpr inspect: predict.xpr: not a bundle, or a damaged one: "
    assert call("inspect", str(bundle)).err.startswith(line)


def test_a_platform_that_the_bundle_lacks(call: Call, bundle: Path) -> None:
    done = call("run", str(bundle), "--runtime", "cuda")
    assert (done.status, done.out) == (1, "")
    assert "no module for the platform 'cuda', only for cpu, vmvx" in done.err


def test_files_are_known_by_their_content(call: Call, bundle: Path) -> None:
    inputs = ("--input", "x.npy", "w.npy")
    expected = call("run", str(bundle), *inputs).out
    for name in ("model", "model.vmfb"):
        bundle = bundle.rename(name)
        assert call("inspect", name).out.startswith("bundle     predict")
        assert call("run", name, *inputs).out == expected
    assert call(*COMPILE, "-o", "module.vmfb").status == 0
    for name in ("module", "module.xpr"):
        Path("module.vmfb").rename(name)
        assert call("inspect", name).out.startswith(f"module     {name}")
        assert call("run", name, *inputs).out.startswith("result 0 f32[4]\n[")
        Path(name).rename("module.vmfb")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty.xpr", "empty.xpr: not a bundle, or a damaged one: "),
        ("empty.vmfb", "empty.vmfb is not a compiled module"),
        ("empty", "empty is not a compiled module"),
        ("folder", "folder: Is a directory"),
        ("nowhere.xpr", "nowhere.xpr: No such file or directory"),
        ("x.npy", "x.npy is not a compiled module"),
    ],
)
def test_what_is_no_program(call: Call, folder: Path, name: str, message: str) -> None:
    (folder / "folder").mkdir()
    for empty in ("empty.xpr", "empty.vmfb", "empty"):
        (folder / empty).touch()
    for command in ("inspect", "run", "bench"):
        done = call(command, name)
        assert (done.status, done.out) == (1, "")
        assert done.err.startswith(f"xpr {command}: {message}")
        assert done.err.count("\n") == 1


def test_inputs_of_all_kinds(call: Call, folder: Path) -> None:
    arguments = ("compile", "model.py:kinds", "--args", "i32[3]", "bool[2]", "f32[]", "bf16[2]")
    arrays = [np.arange(3, dtype=">i4"), np.array([True, False]), np.float32(3)]
    half = np.ones(2, ml_dtypes.bfloat16)
    inputs, outputs = ([f"{k}{i}.npy" for i in range(4)] for k in ("in", "out"))
    for file, array in zip(inputs, [*arrays, half], strict=True):
        np.save(file, array)
    for program in ("kinds.xpr", "kinds.vmfb"):
        assert call(*arguments, "-o", program).status == 0
        done = call("run", program, "--input", *inputs, "--output", *outputs)
        types = ("i32[3]", "bool[2]", "f32[]", "bf16[2]")
        lines = [f"{f}: {t}\n" for f, t in zip(outputs, types, strict=True)]
        assert done == (0, "".join(lines), "")
        np.testing.assert_array_equal(np.load("out0.npy"), [0, 2, 4])
        np.testing.assert_array_equal(np.load("out1.npy"), [False, True])
        assert np.load("out2.npy") == 4
        np.testing.assert_array_equal(np.load("out3.npy").view(half.dtype), half + half)
        # The loader alone reads and writes the same files.
    loaded = [part for f in inputs for part in ("--input", f)]
    assert loader.main(["kinds.xpr", *loaded, "--output", "alone"]) == 0
    np.testing.assert_array_equal(np.load("alone"), [0, 2, 4])


def test_inputs_that_are_no_arrays(call: Call, folder: Path, bundle: Path) -> None:
    np.savez("two.npz", np.ones(2))
    np.save("object.npy", np.array([{}], object))
    Path("empty.npy").touch()
    for name, message in (
        ("two.npz", "two.npz holds several arrays: one in a .npy file is needed"),
        ("object.npy", "object.npy is no .npy file with an array: "),
        ("empty.npy", "empty.npy is no .npy file with an array: "),
    ):
        done = call("run", str(bundle), "--input", "x.npy", name)
        assert done.status == 1
        assert done.err.startswith(f"xpr run: {message}")


def test_names_with_other_characters(call: Call, folder: Path) -> None:
    Path("model.py").rename("Größe 1.py")
    done = call("compile", "Größe 1.py:Held.half", "--args", "f32[8]", "-o", "Ergebnis ü.xpr")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Ergebnis ü.xpr: ")
    done = call("run", "Ergebnis ü.xpr", "--input", "w.npy", "--output", "ö.npy")
    assert done == (0, "ö.npy: f32[8]\n", "")
    np.testing.assert_array_equal(np.load("ö.npy"), np.load("w.npy") / 2)


def test_one_file_for_two_results_is_refused(call: Call, bundle: Path) -> None:
    inputs = ("--input", "x.npy", "w.npy")
    done = call("run", str(bundle), *inputs, "--output", "a.npy", "./a.npy")
    assert done == (2, "", "xpr run: each result needs an --output file of its own\n")
    assert not Path("a.npy").exists()
    assert call("run", str(bundle), *inputs, "--output", os.devnull, os.devnull).status == 0


def test_a_module_for_a_gpu_that_is_not_the_one_here(call: Call, folder: Path) -> None:
    """Another GPU is made up: what its driver tells is enough."""
    arguments = ("compile", "model.py:predict", "--args", "f32[4,8]", "f32[8]")
    assert call(*arguments, "--target", "cuda:sm_90", "-o", "p.vmfb").status == 0
    data = Path("p.vmfb").read_bytes()

    class Gpu(HalDevice):
        def __init__(self) -> None:
            self.runtime = SimpleNamespace(name="cuda")

        def told(self) -> str:
            return "- gpu-compute-capability: 7.5"

    with pytest.raises(CommandError, match=r"p\.vmfb cannot run here: it is for GPUs from sm_89"):
        check_gpu(Gpu(), describe(data, "p.vmfb"), data, Path("p.vmfb"))


def test_devices_lists_every_runtime() -> None:
    """In a process of its own: drivers that are started stay."""
    done = subprocess.run(
        [sys.executable, "-m", "xpr", "devices"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    names = {re.split(r"[:\s]", line)[0] for line in done.stdout.splitlines()}
    assert {"cpu", "reference", "vmvx", "vulkan", "cuda", "rocm", "metal"} <= names
    assert done.stdout.splitlines()[-1].startswith("several processes: ")
