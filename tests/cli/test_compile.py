"""`xpr compile`, and `inspect`, `run` and `bench` of the modules that it writes."""

from __future__ import annotations

import io
import platform
import re
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import xpr
from xpr.cli.errors import UsageError
from xpr.cli.modules import describe
from xpr.cli.specs import parse_type, parse_types
from xpr.core.progress import phase
from xpr.export.targets import baseline
from xpr.runtimes import processor_features
from xpr.runtimes.bundle.machine import host_architecture

from .conftest import Call

PREDICT = ("model.py:predict", "--args", "f32[4,8]", "f32[8]")


@pytest.mark.parametrize(
    ("text", "name", "shape", "dtype"),
    [
        ("f32[8,64]", None, (8, 64), "float32"),
        ("i32[]", None, (), "int32"),
        ("x=bf16[3]", "x", (3,), "bfloat16"),
        ("u8[0, 2]", None, (0, 2), "uint8"),
        ("bool[1]", None, (1,), "bool"),
        ("c64[2]", None, (2,), "complex64"),
        ("float16[2]", None, (2,), "float16"),
        ("f8_e4m3fn[2]", None, (2,), "float8_e4m3fn"),
    ],
)
def test_types_are_read(text: str, name: str | None, shape: tuple[int, ...], dtype: str) -> None:
    found, struct = parse_type(text)
    assert (found, struct.shape, struct.dtype.name) == (name, shape, dtype)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["f32"], "written like f32"),
        (["f32[2"], "written like f32"),
        (["f32[-1]"], "sizes cannot be negative"),
        (["f32[b/2]"], "the sizes of 'f32\\[b/2\\]' cannot be read"),
        (["f31[2]"], "unknown dtype 'f31'"),
        (["float0[2]"], "unknown dtype"),
        (["f64[2]"], "XPR_ENABLE_X64=1"),
        (["x=f32[]", "f32[]"], "has no name and follows"),
        (["x=f32[]", "x=f32[]"], "x is given twice"),
    ],
)
def test_wrong_types_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_types(texts)


def test_64_bits_can_be_kept() -> None:
    with xpr.enable_x64(True):
        assert parse_type("f64[2]")[1].dtype == np.float64


def test_a_compiled_module_is_inspected_run_and_measured(call: Call, folder: Path) -> None:
    status, out, err = call("compile", *PREDICT, "-o", "predict.vmfb")
    assert (status, err) == (0, "")
    assert re.fullmatch(rf"predict\.vmfb: predict for {baseline()}, \d+\.\d kB\n", out)

    status, out, err = call("inspect", "predict.vmfb")
    assert (status, err) == (0, "")
    assert "main(f32[4,8], f32[8]) -> (f32[4], i32[8])" in out
    assert re.search(r"^device +local$", out, flags=re.MULTILINE)
    assert re.search(r"^format +embedded-elf-\w+$", out, flags=re.MULTILINE)
    assert re.search(r"^part +module\.fb, \d+\.\d kB$", out, flags=re.MULTILINE)
    assert len(re.findall(r"^dispatch +main_dispatch_\d+", out, flags=re.MULTILINE)) >= 2

    inputs = ("--input", "x.npy", "w.npy")
    status, out, err = call("run", "predict.vmfb", *inputs, "--output", "score.npy", "sum")
    assert (status, err) == (0, "")
    assert out == "score.npy: f32[4]\nsum: i32[8]\n"
    x, w = np.load("x.npy"), np.load("w.npy")
    np.testing.assert_allclose(np.load("score.npy"), np.tanh(x @ w), rtol=1e-6)
    np.testing.assert_array_equal(np.load("sum"), x.sum(0).astype(np.int32))
    status, out, err = call("run", "predict.vmfb", *inputs)
    assert out.startswith("result 0 f32[4]\n[")
    assert f"result 1 i32[8]\n{x.sum(0).astype(np.int32)}\n" in out

    status, out, err = call("bench", "predict.vmfb", *inputs, "--seconds", "0.01")
    assert (status, err) == (0, "")
    kinds = ("runtime +cpu", "load .*s", "first call .*s", "later calls .*s", "fastest .*s")
    assert all(re.search(f"^{kind}", out, flags=re.MULTILINE) for kind in kinds)
    status, out, err = call("bench", "predict.vmfb", "--seconds", "0.01", "--plot", "p.svg")
    assert (status, err) == (0, "")
    assert "wrote       p.svg" in out
    assert ElementTree.parse("p.svg").getroot().get("viewBox") == "0 0 720 320"


def test_programs_without_a_runtime(call: Call, folder: Path) -> None:
    half = ("compile", "model:Held.half", "--args", "f32[8]")
    done = call(*half, "--target", "aarch64-linux", "-o", "arm/")
    assert done == (0, "arm/arm.c: <lambda> for aarch64-linux\n", "")
    assert {"arm.c", "arm.h", "arm.o", "main.c", "arm.json"} <= {
        p.name for p in Path("arm").iterdir()
    }
    assert call(*half, "-o", "web/half.wasm") == (0, "web/half.wasm: <lambda> for wasm32\n", "")
    assert call(*half, "--target", "vulkan", "-o", "v/").status == 2
    assert not Path("v").exists()
    assert (
        "unknown target 'vulkan' of a program without"
        in call(*half, "--target", "vulkan", "-o", "v/").err
    )
    both = call(*half, "--target", "host", "--target", "aarch64", "-o", "v/")
    assert (
        both.err
        == "xpr compile: a program without a runtime is for one target, got host, aarch64\n"
    )


@pytest.mark.skipif(baseline() != "x86_64-v3", reason="compiles for levels of x86-64")
def test_a_module_that_needs_what_the_processor_lacks(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = frozenset({"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "lahf_lm"})
    monkeypatch.setattr(processor_features, "host_features", lambda: here)
    affine = ("compile", "model.py:affine", "--args", "f32[8]", "scale=f32[]", "-o", "a.vmfb")
    inputs = ("--input", "w.npy", "scale.npy", "--output", "r.npy")
    np.save("scale.npy", np.float32(3))
    assert call(*affine).status == 0
    done = call("run", "a.vmfb", *inputs)
    assert done.status == 1
    assert "a.vmfb needs CPU features that are missing here: avx, avx2, bmi, bmi2, f16c" in done.err
    assert call(*affine, "--target", "x86_64-v2").status == 0
    assert call("run", "a.vmfb", *inputs).status == 0


def test_saved_modules_are_for_any_processor_of_the_architecture(folder: Path) -> None:
    x = np.ones(8, np.float32)
    program = xpr.jit(lambda x: x * 2 + 1)
    program.save("a.vmfb", x)
    cpu = dict(describe(Path("a.vmfb").read_bytes(), "a").details)["cpu"]
    assert cpu == {"x86_64-v3": "x86-64-v3"}.get(baseline(), "generic")
    program.save("b.vmfb", x, target="aarch64-linux")
    assert describe(Path("b.vmfb").read_bytes(), "b").architectures == ("aarch64",)
    program.save("c.vmfb", x, target="host")
    assert describe(Path("c.vmfb").read_bytes(), "c").architectures == (host_architecture(),)
    with pytest.raises(ValueError, match=r"unknown target 'vax'; expected cpu, host, baseline"):
        program.save("d.vmfb", x, target="vax")
    xpr.jit(lambda x, target: x * target).save("e.vmfb", x, target=x)
    assert len(describe(Path("e.vmfb").read_bytes(), "e").functions[0].inputs or ()) == 2


def test_arguments_by_name_and_jitted_functions(call: Call, folder: Path) -> None:
    done = call("compile", "model.py:affine", "--args", "f32[8]", "scale=f32[]", "-o", "a.vmfb")
    assert (done.status, done.err) == (0, "")
    np.save("scale.npy", np.float32(3))
    assert call("run", "a.vmfb", "--input", "w.npy", "scale.npy", "--output", "r.npy").status == 0
    np.testing.assert_allclose(np.load("r.npy"), np.load("w.npy") * 3 + 1, rtol=1e-6)


def test_a_module_for_another_target(call: Call, folder: Path) -> None:
    done = call("compile", "model.Held.half".replace("model.", "model:"), "-o", "a.vmfb", "--args")
    assert done.status == 1
    assert "missing" in done.err
    done = call(
        "compile", "model:Held.half", "--args", "f32[8]", "--target", "vmvx", "-o", "h.vmfb"
    )
    assert (done.status, done.err) == (0, "")
    assert "format     vmvx-bytecode-fb\n" in call("inspect", "h.vmfb").out
    assert call("run", "h.vmfb", "--input", "w.npy", "--output", "r.npy").status == 0
    np.testing.assert_array_equal(np.load("r.npy"), np.load("w.npy") / 2)
    done = call("run", "h.vmfb", "--input", "w.npy", "--runtime", "cpu")
    assert done == (2, "", "xpr run: h.vmfb is made for vmvx, not for cpu\n")


def test_a_module_for_another_processor_is_not_run(call: Call, folder: Path) -> None:
    other = "aarch64" if platform.machine().lower() in ("x86_64", "amd64") else "x86_64"
    arguments = ("compile", "model:Held.half", "--args", "f32[8]", "--target", f"{other}-linux")
    assert call(*arguments, "-o", "h.vmfb").status == 0
    assert call("inspect", "h.vmfb").status == 0
    done = call("run", "h.vmfb", "--input", "w.npy")
    assert done.status == 1
    assert f"h.vmfb is for the architecture {other}, and this machine is " in done.err


def test_inputs_that_do_not_fit_are_refused(call: Call, folder: Path) -> None:
    assert call("compile", *PREDICT, "-o", "p.vmfb").status == 0
    done = call("run", "p.vmfb", "--input", "x.npy")
    assert done == (2, "", "xpr run: the program takes 2 inputs (f32[4,8], f32[8]), got 1\n")
    done = call("run", "p.vmfb", "--input", "x.npy", "x.npy")
    assert done == (1, "", "xpr run: input 1 must be f32[8], got f32[4,8] in x.npy\n")
    np.save("wide.npy", np.load("w.npy").astype(np.float64))
    done = call("run", "p.vmfb", "--input", "x.npy", "wide.npy")
    assert done == (1, "", "xpr run: input 1 must be f32[8], got f64[8] in wide.npy\n")
    done = call("run", "p.vmfb", "--input", "x.npy", "model.py")
    assert done.status == 1
    assert done.err.startswith("xpr run: model.py is no .npy file with an array: ")
    done = call("run", "p.vmfb", "--input", "x.npy", "w.npy", "--output", "a.npy")
    assert done == (2, "", "xpr run: the program has 2 results, got 1 file for them\n")
    assert call("run", "p.vmfb", "--input", "x.npy", "w.npy", "--runtime", "tpu").status == 2
    assert call("bench", "p.vmfb", "--seconds", "0").status == 2
    assert call("bench", "p.vmfb", "--plot", "p.png").status == 2


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nowhere.py:f", "-o", "f.vmfb"), 1, "nowhere.py: there is no such file"),
        (("nowhere:f", "-o", "f.vmfb"), 1, "there is no module 'nowhere'"),
        (("model.py:nothing", "-o", "f.vmfb"), 1, "model.py has no 'nothing'"),
        (("model.py:number", "-o", "f.vmfb"), 1, "is no function but of type int"),
        (("model.py", "-o", "f.vmfb"), 2, "a function is named like model.py:predict"),
        ((*PREDICT, "--constraint", "b <= 3", "-o", "f.vmfb"), 2, "names b, which is no size"),
        ((*PREDICT, "--constraint", "b ? 3", "-o", "f.vmfb"), 2, "a constraint must be of the"),
        (("broken.py:f", "-o", "f.vmfb"), 1, "SyntaxError"),
        ((*PREDICT, "-o", "f.so"), 2, "must end in .vmfb, .xpr, .c, .wasm or a slash, got 'f.so'"),
        ((*PREDICT, "-o", "no/f.vmfb"), 2, "there is no folder no"),
        ((*PREDICT, "-o", "f.vmfb", "--target", "abacus"), 2, "abacus"),
        ((*PREDICT, "-o", "f.vmfb", "--target", "cpu", "--target", "vmvx"), 2, "one target"),
    ],
)
def test_what_cannot_be_compiled(
    call: Call, folder: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    (folder / "broken.py").write_text("def f(x:\n")
    done = call("compile", *arguments)
    assert (done.status, done.out) == (status, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not list(folder.glob("f.*"))


def test_what_is_no_module(call: Call, folder: Path) -> None:
    done = call("inspect", "model.py")
    assert done == (1, "", "xpr inspect: model.py is not a compiled module\n")


def test_a_damaged_module_is_refused_before_it_is_loaded(call: Call, folder: Path) -> None:
    assert call("compile", *PREDICT, "-o", "p.vmfb").status == 0
    data = bytearray(Path("p.vmfb").read_bytes())
    data[3000] ^= 1
    Path("bad.vmfb").write_bytes(data)
    Path("short.vmfb").write_bytes(data[:-10])
    for command in ("inspect", "run", "bench"):
        done = call(command, "bad.vmfb")
        line = "bad.vmfb is damaged: the checksum of module.fb is wrong"
        assert done == (1, "", f"xpr {command}: {line}\n")
        done = call(command, "short.vmfb")
        assert done.status == 1
        assert "short.vmfb is not a compiled module, or damaged: " in done.err


def test_bare_bytecode_is_described(call: Call, folder: Path) -> None:
    assert call("compile", *PREDICT, "-o", "p.vmfb").status == 0
    whole = describe(Path("p.vmfb").read_bytes(), "p.vmfb")
    with zipfile.ZipFile("p.vmfb") as archive:
        inner = archive.read("module.fb")
    # Within the archive, the size that comes first is not a part of the member.
    bare = describe(inner, "module.fb")
    assert (bare.functions, bare.dispatches) == (whole.functions, whole.dispatches)
    assert bare.parts == (("module.fb", len(inner)),)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_line_is_for_terminals_and_long_work() -> None:
    terminal, file = _Terminal(), io.StringIO()
    with phase("tracing f", terminal):
        pass
    with phase("tracing f", file, patience=0):
        time.sleep(0.01)
    assert (terminal.getvalue(), file.getvalue()) == ("", "")
    with phase("compiling f", terminal, patience=0):
        deadline = time.monotonic() + 10
        while not terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    text = terminal.getvalue()
    assert text.startswith("\r\033[Kcompiling f ... 0 s")
    assert text.endswith("\r\033[K")
