"""When the first call of a program answers, with the compiler alone and in a race with NumPy.

    python -m benchmarks.first_answers                     # all programs whose compile is measured
    python -m benchmarks.first_answers softmax,"a sine"    # those whose names have these words

Each program runs in two processes of its own, with nothing cached: in one it waits for the
compiler, in the other `XPR_FIRST_CALL=race` lets the reference rules compute meanwhile, whose own
time is taken behind that. The answer of the race should come no later than 1.2 times that time, or
than the compile's end; tracing and lowering, which both have to wait for, are in all figures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import numpy

from benchmarks import implementations
from benchmarks.compile_programs import NAMES, PORTABLE, program
from benchmarks.report import markdown_table, progress
from benchmarks.sessions import ROOT, environment

_LATER = 1.2


def _answer(way: str, name: str) -> dict[str, float]:
    """The seconds of one process's first call; in a race those of the reference rules, too."""
    import xpr  # noqa: PLC0415
    from xpr.interpreters.reference import interpret  # noqa: PLC0415

    implementation = implementations.load("xpr jit")
    small = implementation.jit(lambda x: implementation.np.sum(implementation.np.cos(x)))
    xpr.block_until_ready(small(numpy.ones(3, numpy.float32)))
    xpr.config.update("first_call", way)

    def first_call() -> float:
        function, arguments = program(name, implementation, False)
        start = time.perf_counter()
        xpr.block_until_ready(function(*arguments))
        return time.perf_counter() - start

    found = {"first": first_call()}
    if way == "race":
        function, arguments = program(name, implementation, False)
        leaves = xpr.tree_util.tree_leaves(arguments)
        if any(xpr.dtypes.issubdtype(x.dtype, xpr.dtypes.extended) for x in leaves):
            return found  # keys are no NumPy arrays
        hosts: list[Any] = [numpy.asarray(x) for x in leaves]
        start = time.perf_counter()
        closed = function.trace(*arguments).jaxpr
        function.lower(*arguments)
        interpret(closed, closed.consts, hosts)
        found["reference"] = time.perf_counter() - start
    return found


def _child(way: str, name: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_answers", "--child", way, name],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment(XPR_CACHE="0"),
    )
    return json.loads(done.stdout.splitlines()[-1])


def main(words: list[str]) -> int:
    """Prints the table."""
    if words[:1] == ["--child"]:
        print(json.dumps(_answer(*words[1:])))
        return 0
    wanted = [word for word in ",".join(words).split(",") if word]
    lines = [["ms", "wait", "race", "NumPy", "in time"]]
    for name in NAMES:
        short = name.removeprefix("compile: ")
        if short in PORTABLE or (wanted and not any(word in short for word in wanted)):
            continue  # compiled for another device than the one that would race
        progress(name)
        wait, race = _child("wait", name)["first"], _child("race", name)
        reference = race.get("reference")
        in_time = race["first"] <= max(_LATER * (reference or 0.0), wait)
        figures = [f"{1e3 * s:.0f}" for s in (wait, race["first"])]
        figures.append("" if reference is None else f"{1e3 * reference:.0f}")
        lines.append([short, *figures, "yes" if in_time else "no"])
    print(markdown_table(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
