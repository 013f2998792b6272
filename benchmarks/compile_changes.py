"""What it costs to compile a program again after a change, and several programs at once.

    python -m benchmarks.compile_changes
    python -m benchmarks.compile_changes --rounds 5

A training step of an MLP is compiled with nothing cached, then with another learning rate, and with
another activation; eight small programs are compiled one after the other, and asked for together.
Processor time of tracing, lowering and compiling in one process, the least of several processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.report import markdown_table, progress
from benchmarks.sessions import ROOT, environment

_SIZES = (784, 512, 512, 10)
_BATCH = 256
_SMALL = 8


def _step(rate: float, activation: Callable[[Any], Any]) -> Any:
    import xpr  # noqa: PLC0415
    import xpr.numpy as jnp  # noqa: PLC0415

    def loss(layers: Any, x: Any, y: Any) -> Any:
        for w, b in layers[:-1]:
            x = activation(x @ w + b)
        w, b = layers[-1]
        return -jnp.mean(jnp.sum(xpr.nn.log_softmax(x @ w + b) * y, -1))

    def step(layers: Any, x: Any, y: Any) -> Any:
        gradients = xpr.grad(loss)(layers, x, y)
        return xpr.tree_util.tree_map(lambda p, g: p - rate * g, layers, gradients)

    return xpr.jit(step)


def _small(index: int, other: float) -> Any:
    """One of eight programs that have nothing but their size in common."""
    import xpr  # noqa: PLC0415
    import xpr.numpy as jnp  # noqa: PLC0415

    formulas = (
        lambda x: jnp.sin(x) * other,
        lambda x: jnp.sum(x * x) + other,
        lambda x: jnp.tanh(x) - x * other,
        lambda x: jnp.cumsum(x)[::-1] * other,
        lambda x: jnp.outer(x, x) + other,
        lambda x: jnp.maximum(x, other) / 3,
        lambda x: (x - jnp.mean(x)) * other,
        lambda x: jnp.exp(-x * x * other),
    )
    return xpr.jit(formulas[index])


def _seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _changes() -> dict[str, float]:
    import xpr  # noqa: PLC0415

    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(_SIZES)
    layers = [(rng.random((m, n), np.float32), rng.random(n, np.float32)) for m, n in pairs]
    x, y = (rng.random((_BATCH, n), np.float32) for n in (_SIZES[0], _SIZES[-1]))
    # What is loaded when a function is first used is no part of a change.
    xpr.make_jaxpr(lambda x: (xpr.nn.sigmoid(x), xpr.numpy.tanh(x)))(x)
    steps = {
        "cold": _step(0.1, xpr.numpy.tanh),
        "another learning rate": _step(0.3, xpr.numpy.tanh),
        "another activation": _step(0.1, xpr.nn.sigmoid),
    }
    return {name: _seconds(lambda f=f: f(layers, x, y)) for name, f in steps.items()}


def _together() -> dict[str, float]:
    import xpr  # noqa: PLC0415

    x = np.linspace(0.1, 1, 64, dtype=np.float32)
    one_by_one = _seconds(lambda: [_small(i, 0.5)(x) for i in range(_SMALL)])

    def at_once() -> None:
        for warming in xpr.compile_ahead([(_small(i, 0.25), x) for i in range(_SMALL)]):
            warming.wait()

    return {"one after the other": one_by_one, "together": _seconds(at_once)}


_GROUPS: dict[str, Callable[[], dict[str, float]]] = {
    "MLP training step": _changes,
    "eight small programs": _together,
}


@contextmanager
def _empty_cache() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield directory


def _child(group: str) -> dict[str, float]:
    with _empty_cache() as directory:
        # In one process, whose time is all there is.
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compile_changes", "--child", group],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env=environment(XPR_CACHE_DIR=directory, XPR_COMPILER="inline"),
        )
    return json.loads(done.stdout.splitlines()[-1])


def _measured_here(group: str) -> dict[str, float]:
    import xpr  # noqa: PLC0415
    from xpr.dispatch import compiling  # noqa: PLC0415
    from xpr.lowering.iree import compiler_library  # noqa: PLC0415
    from xpr.lowering.targets.flags import ProgramHints  # noqa: PLC0415

    # As the process that compiles for users.
    compiler_library.load(alone_for=compiling.get_target("cpu").flag_sets(ProgramHints())[0])
    xpr.jit(lambda x: xpr.numpy.sum(xpr.numpy.cos(x)))(np.ones(3, np.float32))
    return _GROUPS[group]()


def main(arguments: Sequence[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=list(_GROUPS))
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(_measured_here(options.child)))
        return 0
    lines = [["", "ms", "of the first"]]
    for group in _GROUPS:
        progress(group)
        answers = [_child(group) for _ in range(options.rounds)]
        least = {name: min(a[name] for a in answers) for name in answers[0]}
        first = next(iter(least.values()))
        lines += [
            [f"{group}: {name}", f"{1e3 * s:.0f}", f"{s / first:.2f}"] for name, s in least.items()
        ]
    print(markdown_table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
