"""Programs in WebAssembly, run by Node.js."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import export

from .harness import run_tool
from .programs import ALONE, PROGRAMS

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node.js to run the modules")

# Calls each function with the arrays of a file, and writes the results to another one.
_SCRIPT = """
import { readFileSync, writeFileSync } from 'node:fs';
import { load } from './model.mjs';
const model = await load();
const calls = JSON.parse(readFileSync('calls.json'));
const parts = [];
const fields = (value) =>
  ArrayBuffer.isView(value) ? [value] : Object.values(value).flatMap(fields);
for (const [name, inputs] of Object.entries(calls)) {
  const found = {};
  for (const { path, view, hex } of inputs) {
    const bytes = Uint8Array.from(Buffer.from(hex, 'hex'));
    let target = found;
    for (const step of path.slice(0, -1)) target = target[step] ??= {};
    target[path.at(-1)] = new globalThis[view](bytes.buffer);
  }
  for (const result of fields(model[name](found))) {
    parts.push(Buffer.from(result.buffer, result.byteOffset, result.byteLength));
  }
}
writeFileSync('results.bin', Buffer.concat(parts));
"""

Programs = Mapping[str, tuple[Callable[..., Any], Sequence[Any]]]


def _results(folder: Path, programs: Programs) -> bytes:
    """The bytes of all results, as Node.js computes them."""
    exported = {n: export.export(xpr.jit(f))(*args) for n, (f, args) in programs.items()}
    export.save_wasm(folder / "model.wasm", exported)
    source = (folder / "model.mjs").read_text()
    line = next(x for x in source.splitlines() if x.startswith("const FUNCTIONS"))
    functions = json.loads(line.removeprefix("const FUNCTIONS = ").removesuffix(";"))
    calls = {}
    for name, (_, args) in programs.items():
        leaves = [np.asarray(x) for x in xpr.tree.leaves(tuple(args))]
        pairs = zip(functions[name]["inputs"], leaves, strict=True)
        calls[name] = [
            {"path": f["path"], "view": f["view"], "hex": x.tobytes().hex()} for f, x in pairs
        ]
    (folder / "calls.json").write_text(json.dumps(calls))
    (folder / "run.mjs").write_text(_SCRIPT)
    assert NODE is not None
    run_tool(NODE, "run.mjs", cwd=folder)
    return (folder / "results.bin").read_bytes()


def _compare(found: bytes, programs: Programs) -> None:
    """With what the programs give here, up to the rounding of other instructions."""
    at = 0
    for name, (function, args) in programs.items():
        for result in xpr.tree.leaves(xpr.jit(function)(*args)):
            expected = np.asarray(result)
            got = np.frombuffer(found, expected.dtype, expected.size, at).reshape(expected.shape)
            at += expected.nbytes
            exact = expected.dtype.kind not in "fc" or expected.dtype.itemsize < 4
            if exact:
                np.testing.assert_array_equal(got, expected, name)
            else:
                scale = max(np.abs(expected).max(initial=0), 1)
                np.testing.assert_allclose(
                    got, expected, rtol=1e-5, atol=2e-6 * scale, err_msg=name
                )
    assert at == len(found)


def test_programs(tmp_path: Path) -> None:
    programs = PROGRAMS | ALONE
    _compare(_results(tmp_path, programs), programs)


def test_dtypes(tmp_path: Path) -> None:
    names = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    names += ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    with xpr.enable_x64(True):
        args = [np.array([0, 1, 3, 1]).astype(jnp.dtype(name)) for name in names]
        programs = {"all": (lambda *xs: [x[::-1] for x in xs], args)}
        _compare(_results(tmp_path, programs), programs)


def test_sizes(tmp_path: Path) -> None:
    xpr.jit(lambda x: jnp.tanh(2 * x)).save(tmp_path / "model.wasm", np.ones(64, np.float32))
    assert (tmp_path / "model.wasm").stat().st_size < 2048
    module = (tmp_path / "model.wasm").read_bytes()
    assert b"\x02env" not in module[:200], "it has an import"


def test_arguments_are_checked(tmp_path: Path) -> None:
    def score(params: Any, x: Any) -> Any:
        return {"score": x @ params["w"], "count": jnp.int32(3)}

    program = xpr.jit(score)
    program.save(
        tmp_path / "model.wasm", {"w": np.ones((2, 3), np.float32)}, np.ones(2, np.float32)
    )
    (tmp_path / "run.mjs").write_text("""
import { load } from './model.mjs';
import { readFileSync } from 'node:fs';
const { score } = await load(readFileSync('model.wasm'));
const w = new Float32Array(6).fill(0.5), x = Float32Array.of(1, 2);
const told = (inputs) => { try { return score(inputs); } catch (error) { return `${error}`; } };
console.log(JSON.stringify(told({ params: { w }, x })));
console.log(told({ x }));
console.log(told({ params: { w: [1, 2] }, x }));
console.log(told({ params: { w: x }, x }));
""")
    assert NODE is not None
    assert run_tool(NODE, "run.mjs", cwd=tmp_path).splitlines() == [
        '{"count":{"0":3},"score":{"0":1.5,"1":1.5,"2":1.5}}',
        "TypeError: score: the argument params.w is missing",
        "TypeError: score: params.w must be a Float32Array",
        "RangeError: score: params.w, [2, 3], has 6 elements, got 2",
    ]
    types = (tmp_path / "model.d.ts").read_text()
    assert (
        "score(inputs: { params: { w: Float32Array; }; x: Float32Array; }): "
        "{ count: Int32Array; score: Float32Array; };" in types
    )
