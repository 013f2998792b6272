"""How time and memory grow with size: ``python -m benchmarks.programs.growth --jax-python ...``.

For each program the least time of a call in three sizes and the exponents with which it grows from
the first to the second and from the second to the third; with ``--memory`` the most memory that a
call of the largest one takes beside its operands, results included (the process's greatest resident
set less what it had before).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence

from benchmarks.programs.all_programs import PROGRAMS
from benchmarks.programs.libraries import Child, prepared
from benchmarks.programs.program import Program

_LEAST_SECONDS = 0.005
_SAMPLES = 7
# Times are uncertain by some percent, and sizes ten apart: exponents by less than this.
_UNCERTAIN = 0.25


def _least(child: Child, program: Program, size: int) -> float:
    prepared(child, program, size)
    once = min(child.ask(do="seconds", calls=1) for _ in range(3))
    calls = max(1, int(_LEAST_SECONDS / once))
    return min(once, *(child.ask(do="seconds", calls=calls) / calls for _ in range(_SAMPLES)))


def _exponents(sizes: tuple[int, ...], times: list[float]) -> list[float]:
    pairs = zip(
        zip(sizes, times, strict=True), zip(sizes[1:], times[1:], strict=False), strict=False
    )
    return [math.log(u / t) / math.log(n / m) for (m, t), (n, u) in pairs]


def _times(program: Program, children: dict[str, Child]) -> str:
    cells, grown = [], []
    for child in children.values():
        times = [_least(child, program, size) for size in program.sizes]
        grown.append(_exponents(program.sizes, times))
        cells.append(" ".join(f"{t * 1e3:.3g}" for t in times))
        cells.append(" ".join(f"{e:.2f}" for e in grown[-1]))
    # Between the larger two sizes: the smaller ones take about as long as a call.
    faster = len(grown) == 2 and grown[0][-1] > grown[1][-1] + _UNCERTAIN
    sizes = " ".join(map(str, program.sizes))
    return f"| {program.name} | {sizes} | {' | '.join(cells)} | {'yes' if faster else ''} |"


def _memory(program: Program, start: Callable[[str], Child], libraries: Sequence[str]) -> str:
    """In processes of their own: what one has given back to no system it uses again unseen."""
    cells = []
    for library in libraries:
        child = start(library)
        prepared(child, program, program.sizes[-1])
        cells.append(f"{child.ask(do='most_memory') / 1e6:.1f}")
        child.close()
    return f"| {program.name} | {program.sizes[-1]} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default=os.environ.get("XPR_BENCH_JAX_PYTHON"))
    parser.add_argument("--only", default="", help="programs whose name has one of these words")
    parser.add_argument("--memory", action="store_true", help="memory in place of times")
    options = parser.parse_args()
    words = options.only.split(",")
    pythons = {"xpr": sys.executable}
    if options.jax_python:
        pythons["jax"] = options.jax_python
    titles = [f"{name}, MB" if options.memory else f"{name}, ms | exponents" for name in pythons]
    last = "" if options.memory else " grows faster |"
    print(f"| program | size | {' | '.join(titles)} |{last}")
    print("| --- | ---: |" + " ---: |" * (2 if options.memory else 4) + " --- |" * bool(last))
    with tempfile.TemporaryDirectory() as cache:

        def start(library: str) -> Child:
            return Child(pythons[library], library, cache)

        children = {} if options.memory else {name: start(name) for name in pythons}
        for program in PROGRAMS:
            if any(w in program.name for w in words):
                row = (
                    _memory(program, start, list(pythons))
                    if options.memory
                    else _times(program, children)
                )
                print(row, flush=True)
        for child in children.values():
            child.close()


if __name__ == "__main__":
    main()
