"""Bundles on the command line: written, inspected, run and measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


def test_sizes_may_be_left_open(call: Call, folder: Path) -> None:
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
    assert done == (1, "", "xpr run: open.vmfb has sizes left open: run it from a bundle\n")


def test_arguments_are_named_by_their_place(call: Call, bundle: Path) -> None:
    done = call("run", str(bundle), "--input", "x.npy", "x.npy")
    assert done == (1, "", "xpr run: argument args[1] must be f32[8], got f32[4,8] in x.npy\n")
    done = call("run", str(bundle), "--input", "x.npy")
    assert done == (2, "", "xpr run: 2 inputs are needed (f32[4,8], f32[8]), got 1\n")


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
    assert call("inspect", str(bundle)).err.startswith("xpr inspect: not a bundle, or a damaged")


def test_a_platform_that_the_bundle_lacks(call: Call, bundle: Path) -> None:
    done = call("run", str(bundle), "--runtime", "cuda")
    assert (done.status, done.out) == (1, "")
    assert "no module for the platform 'cuda', only for cpu, vmvx" in done.err


def test_a_bundle_is_known_by_its_content_too(call: Call, bundle: Path) -> None:
    bundle.rename("model")
    assert call("inspect", "model").out.startswith("bundle     predict")


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
