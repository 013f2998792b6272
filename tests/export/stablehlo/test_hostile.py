"""Damaged and unknown input ends in one error, and never in the end of the process.

`XPR_LONG_TESTS=1` tries 10 000 of them, `XPR_FUZZ` any number.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.export.stablehlo.programs import jax_names, jax_program
from xpr.export import StableHLOError, from_stablehlo
from xpr.export.stablehlo.container import read_container

COUNT = int(
    os.environ.get("XPR_FUZZ", "10000" if os.environ.get("XPR_LONG_TESTS") == "1" else "300")
)


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them changed, removed or added, or with the end cut off."""
    out = bytearray(data)
    if rng.random() < 0.15:
        return bytes(out[: rng.randrange(len(out))])
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        place, kind = rng.randrange(len(out)), rng.random()
        if kind < 0.5:
            out[place] = rng.randrange(256)
        elif kind < 0.8:
            out[place] ^= 1 << rng.randrange(8)
        elif kind < 0.9:
            del out[place : place + rng.randrange(1, 9)]
        else:
            out[place:place] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


def test_damaged_artifacts_are_refused_in_words() -> None:
    """Each is a program still, or a StableHLOError: nothing else is raised."""
    rng = random.Random(0)
    blobs = [jax_program(name)[0] for name in jax_names()]
    blobs += [read_container(b).module for b in blobs]
    refused = 0
    for _ in range(COUNT):
        try:
            from_stablehlo(_damaged(rng.choice(blobs), rng))
        except StableHLOError:
            refused += 1
    assert refused > COUNT / 2


def test_every_truncation_is_refused() -> None:
    blob = jax_program("cond_branches")[0]
    module = read_container(blob).module
    for size in range(0, len(module) - 1, 7):
        with pytest.raises(StableHLOError, match=r"damaged|missing|ends"):
            from_stablehlo(module[:size])


_UNSOUND = {
    "unknown operation": (
        'func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %y = "stablehlo.infeed2"(%x) : '
        "(tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}",
        "infeed2",
    ),
    "unknown custom call": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %y = stablehlo.custom_call @other(%x)"
        " : (tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}",
        "custom_call at .*:2:8: the custom call other is unknown",
    ),
    "callback": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %y = stablehlo.custom_call "
        "@xla_ffi_python_cpu_callback(%x) : (tensor<f32>) -> tensor<f32>\n"
        "  return %y : tensor<f32>\n}",
        "a callback into the Python process that exported",
    ),
    "recursion": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %y = call @main(%x) : "
        "(tensor<f32>) -> tensor<f32>\n  return %y : tensor<f32>\n}",
        "main calls itself",
    ),
    "syntax": ("func.func @main(%x: tensor<f32) { return }", "is not StableHLO: line 1"),
    "types": (
        "func.func @main(%x: tensor<f80>) -> tensor<f80> { return %x : tensor<f80> }",
        "unknown|counterpart",
    ),
    "collective": (
        "func.func @main() -> tensor<ui32> {\n  %y = stablehlo.partition_id : tensor<ui32>\n"
        "  return %y : tensor<ui32>\n}",
        "a collective outside a manual computation",
    ),
    "huge constant": (
        "func.func @main() -> tensor<4000000000000000xf32> {\n"
        "  %y = stablehlo.constant dense<0.0> : tensor<4000000000000000xf32>\n"
        "  return %y : tensor<4000000000000000xf32>\n}",
        "too many elements",
    ),
    "no function": ("module {}", "no function main"),
}


@pytest.mark.parametrize("name", _UNSOUND)
def test_unsound_text_is_refused_in_words(name: str) -> None:
    text, message = _UNSOUND[name]
    with pytest.raises(StableHLOError, match=message):
        from_stablehlo(text)


def test_calls_inside_calls_expand_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function calls the next one four times: 4**12 operations."""
    monkeypatch.setattr("xpr.export.stablehlo.importer._MOST_OPERATIONS", 20_000)
    parts = []
    for i in range(12):
        callee = f"f{i + 1}"
        calls = "\n".join(
            f"  %y{k + 1} = call @{callee}(%y{k}) : (tensor<f32>) -> tensor<f32>" for k in range(4)
        )
        name = "main" if i == 0 else f"f{i}"
        parts.append(
            f"func.func @{name}(%y0: tensor<f32>) -> tensor<f32> {{\n{calls}\n"
            "  return %y4 : tensor<f32>\n}"
        )
    parts.append("func.func @f12(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }")
    with pytest.raises(StableHLOError, match="expands to more than 20000 operations"):
        from_stablehlo("\n".join(parts))


def test_other_things_are_refused() -> None:
    with pytest.raises(StableHLOError, match=r"damaged|version"):
        from_stablehlo(b"\0" * 100)
    with pytest.raises(StableHLOError, match="damaged"):
        from_stablehlo(b"")
    with pytest.raises(TypeError, match="takes MLIR text, bytes, or the path of a file, got int"):
        from_stablehlo(3)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="nowhere"):
        from_stablehlo("/nowhere.mlir")


def test_newer_versions_are_named() -> None:
    blob = jax_program("cond_branches")[0]
    module = read_container(blob).module
    with pytest.raises(StableHLOError, match=r"written for StableHLO_v9\.15\.0, known .* up to 1"):
        from_stablehlo(module.replace(b"StableHLO_v1.15.0", b"StableHLO_v9.15.0"))
    format_ = bytearray(module)
    format_[4] = (99 << 1) | 1
    with pytest.raises(StableHLOError, match="version 99 of MLIR's format"):
        from_stablehlo(bytes(format_))


def test_wrong_arguments() -> None:
    exported = from_stablehlo(jax_program("cond_branches")[0])
    with pytest.raises(ValueError, match="same pytree structure"):
        exported.call(np.True_)
    with pytest.raises(ValueError, match=r"Shape mismatch for args\[1\]\.shape\[0\]: expected 4"):
        exported.call(np.True_, np.ones(3, np.float32))


def test_reading_an_artifact_loads_no_compiler() -> None:
    blob = jax_program("sorting")[0]
    code = (
        "import sys, xpr; e = xpr.export.from_stablehlo(sys.stdin.buffer.read()); "
        "print(len(e.in_avals), [m for m in sys.modules if m.startswith('iree')])"
    )
    out = subprocess.run([sys.executable, "-c", code], input=blob, capture_output=True, check=True)
    assert out.stdout.decode().strip() == "1 []"


def test_a_text_that_was_read_before_loads_no_mlir(tmp_path: Path) -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    code = (
        "import sys, xpr; e = xpr.export.from_stablehlo(sys.stdin.read()); "
        "print(len(e.in_avals), any(m.startswith('iree') for m in sys.modules))"
    )
    environment = os.environ | {"XPR_CACHE_DIR": str(tmp_path / "cache"), "XPR_CACHE": "1"}
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            input=text,
            capture_output=True,
            check=True,
            text=True,
            env=environment,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["1 True", "1 False"]
