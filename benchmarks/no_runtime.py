"""Programs without a runtime: their sizes, and their times beside the native executor's.

    python -m benchmarks.no_runtime [FOLDER]

builds the digits network (64 inputs, 32 hidden units, 10 classes) with its gradient step, and some
larger programs, as C for this processor and for a Cortex-M4, and as WebAssembly. It runs them on
one core, with gcc and Node.js, and prints a table. Times are the least of many rounds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np

import xpr
import xpr.numpy as jnp
from xpr import export
from xpr.cli.programs import ModuleProgram
from xpr.export.targets import baseline

Programs = Mapping[str, tuple[Callable[..., Any], Sequence[Any]]]
_RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _RNG.normal(size=shape).astype(np.float32)


def _logits(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def _loss(params: Any, x: Any, labels: Any) -> Any:
    chosen = jnp.take_along_axis(xpr.nn.log_softmax(_logits(params, x)), labels[:, None], axis=1)
    return -jnp.mean(chosen)


def step(params: Any, x: Any, labels: Any) -> Any:
    """A step of gradient descent."""
    loss, grads = xpr.value_and_grad(_loss)(params, x, labels)
    return {"params": xpr.tree.map(lambda p, g: p - 0.1 * g, params, grads), "loss": loss}


def predict(params: Any, x: Any) -> Any:
    """The classes of images."""
    return jnp.argmax(_logits(params, x), axis=1).astype(jnp.int32)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return xpr.nn.softmax(q @ k.T / 8.0, axis=-1) @ v


def _power(x: Any) -> Any:
    return xpr.lax.fori_loop(0, 20, lambda _, y: (x @ y) / jnp.linalg.norm(y), x)


_PARAMS = {"w1": _normal(64, 32) * 0.1, "b1": _normal(32), "w2": _normal(32, 10), "b2": _normal(10)}
DIGITS: Programs = {
    "predict": (predict, [_PARAMS, _normal(32, 64)]),
    "step": (step, [_PARAMS, _normal(32, 64), _RNG.integers(0, 10, 32).astype(np.int32)]),
}
PROGRAMS: Programs = {
    **DIGITS,
    "attention": (_attention, [_normal(128, 64), _normal(128, 64), _normal(128, 64)]),
    "matmul": (lambda x, y: x @ y, [_normal(256, 256), _normal(256, 256)]),
    "waves": (lambda x: jnp.tanh(x) * jnp.sin(x) + jnp.exp(x), [_normal(65536)]),
    "power": (_power, [_normal(128, 128)]),
}

_MAIN = """
#include <stdio.h>
#include <time.h>
#define main example_main
#include "main.c"
#undef main
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}
int main(void) {
  int i, round;
  double best = 1e30;
  for (round = 0; round < 500; ++round) {
    double start = now(), took;
    for (i = 0; i < CALLS; ++i) if (call()) return 1;
    took = (now() - start) / CALLS;
    if (took < best) best = took;
  }
  printf("%.3f\\n", best);
  return 0;
}
"""

_NODE = """
const start = performance.now();
const { load } = await import('./model.mjs');
const { readFileSync } = await import('node:fs');
const model = await load();
const [name] = Object.keys(model);
const inputs = JSON.parse(readFileSync('inputs.json'), (key, value) =>
  value && value.view ? globalThis[value.view].from(value.data) : value);
model[name](inputs);
const first = performance.now() - start;
let best = Infinity;
for (let round = 0; round < 500; ++round) {
  const begin = performance.now();
  for (let i = 0; i < CALLS; ++i) model[name](inputs);
  best = Math.min(best, (performance.now() - begin) / CALLS);
}
console.log(JSON.stringify({ first, best: 1000 * best }));
"""


def _exported(programs: Programs) -> dict[str, Any]:
    return {n: export.export(xpr.jit(f))(*args) for n, (f, args) in programs.items()}


def _calls(name: str) -> int:
    """How many calls are timed together: few, so that no other process runs meanwhile."""
    return 10 if name in DIGITS else 1


def _run(*command: Any, cwd: Path) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")
    return done.stdout


def time_c(name: str, folder: Path) -> float:
    """Microseconds of a call in C."""
    function, args = PROGRAMS[name]
    exported = _exported({name: (function, args)})
    export.save_c(folder / "model.c", exported, examples={name: xpr.tree.leaves(tuple(args))})
    text = (folder / "main.c").read_text()
    # The example's own call, in a function that is timed.
    begin = text.index("  int status = ") + len("  int status = ")
    body = text[text.index(f"static int check_{name}(void) {{") : begin]
    declared = body[body.index("{") + 1 :].replace("int same = 1;", "").rpartition("int status")[0]
    call = text[begin : text.index(";", begin)]
    (folder / "timed.c").write_text(
        _MAIN.replace(
            "static double",
            f"static int call(void) {{{declared} return {call}; }}\nstatic double",
            1,
        )
    )
    objects = sorted(folder.glob("*.o"))
    _run(
        "gcc",
        "-O2",
        f"-DCALLS={_calls(name)}",
        "timed.c",
        "model.c",
        *objects,
        "-o",
        "timed",
        cwd=folder,
    )
    return float(_run(folder / "timed", cwd=folder))


def time_native(name: str, folder: Path) -> float:
    """Microseconds of a call of the same module by the native executor."""
    function, args = PROGRAMS[name]
    path = folder / "module.vmfb"
    xpr.jit(function).save(path, *args, target=baseline())
    program = ModuleProgram(path, "cpu")
    device, executable = program._device, program._executable
    leaves = [np.asarray(x) for x in xpr.tree.leaves(tuple(args))]
    buffers = [device.runtime.buffer_from_host(x, device, copy=False) for x in leaves]
    best = 1e30
    for _ in range(500):
        start = time.perf_counter()
        for _ in range(_calls(name)):
            executable(buffers)
        best = min(best, (time.perf_counter() - start) / _calls(name))
    return 1e6 * best


def time_wasm(name: str, folder: Path) -> tuple[float, float, int]:
    """Microseconds of a call in Node.js, milliseconds to the first result, and bytes."""
    function, args = PROGRAMS[name]
    export.save_wasm(folder / "model.wasm", _exported({name: (function, args)}))
    line = next(x for x in (folder / "model.mjs").read_text().splitlines() if "FUNCTIONS =" in x)
    entry = json.loads(line.partition("= ")[2].removesuffix(";"))[name]
    inputs: dict[str, Any] = {}
    leaves = xpr.tree.leaves(tuple(args))
    for fact, x in zip(entry["inputs"], leaves, strict=True):
        target = inputs
        for part in fact["path"][:-1]:
            target = target.setdefault(part, {})
        values = np.asarray(x).ravel().tolist()
        target[fact["path"][-1]] = {"view": fact["view"], "data": values}
    (folder / "inputs.json").write_text(json.dumps(inputs))
    (folder / "timed.mjs").write_text(_NODE.replace("CALLS", str(_calls(name))))
    found = json.loads(_run("node", "timed.mjs", cwd=folder))
    return found["best"], found["first"], (folder / "model.wasm").stat().st_size


def sizes(folder: Path) -> dict[str, int]:
    """Bytes of code of the digits network with its step, without parameters."""
    found = {}
    for target in (baseline(), "cortex-m4", "aarch64"):
        export.save_c(folder / "model.c", _exported(DIGITS), target=target)
        facts = json.loads((folder / "model.json").read_text())
        found[target] = sum(o["code_bytes"] for o in facts["objects"].values())
        for file in folder.glob("*.o"):
            file.unlink()
    export.save_wasm(folder / "model.wasm", _exported(DIGITS))
    found["wasm32"] = (folder / "model.wasm").stat().st_size
    return found


def main(arguments: Sequence[str]) -> int:
    """Prints the tables."""
    folder = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="xpr-no-runtime-"))
    for kind, size in sizes(_fresh(folder, "sizes")).items():
        print(f"digits network and step for {kind}: {size} bytes of code")
    print("program      native us     C us   ratio   wasm us   ratio   first ms   wasm bytes")
    for name in PROGRAMS:
        native = time_native(name, _fresh(folder, f"{name}-native"))
        c = time_c(name, _fresh(folder, f"{name}-c"))
        wasm, first, size = time_wasm(name, _fresh(folder, f"{name}-wasm"))
        print(
            f"{name:12} {native:9.1f} {c:8.1f} {c / native:7.2f} {wasm:9.1f} {wasm / native:7.2f}"
            f" {first:10.1f} {size:12}"
        )
    if not arguments:
        shutil.rmtree(folder)
    return 0


def _fresh(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir(parents=True, exist_ok=True)
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
