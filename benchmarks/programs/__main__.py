"""xpr and JAX side by side: ``python -m benchmarks.programs --jax-python ~/jax/bin/python``."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile

from benchmarks.programs.all_programs import PROGRAMS
from benchmarks.programs.libraries import Child, prepared
from benchmarks.programs.program import Program

_LEAST_SECONDS = 0.02


def _measure(
    children: dict[str, Child], program: Program, size: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """The seconds of the first call and the median of later ones, by library."""
    first = {name: prepared(child, program, size) for name, child in children.items()}
    calls = {}
    for name, child in children.items():
        once = min(child.ask(do="seconds", calls=1) for _ in range(2))
        calls[name] = max(1, int(_LEAST_SECONDS / once))
    samples: dict[str, list[float]] = {name: [] for name in children}
    for turn in range(rounds):
        names = list(children)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            taken = children[name].ask(do="seconds", calls=calls[name])
            samples[name].append(taken / calls[name])
    return {name: (first[name], statistics.median(samples[name])) for name in children}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default=os.environ.get("XPR_BENCH_JAX_PYTHON"))
    parser.add_argument("--only", default="", help="programs whose name has one of these words")
    parser.add_argument("--sizes", default="0,1,2", help="which of the three sizes")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    words = options.only.split(",")
    ratios = []
    print("| program | size | first call, xpr | JAX | xpr | JAX | xpr / JAX |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        children = {"xpr": Child(sys.executable, "xpr", cache)}
        if options.jax_python:
            children["jax"] = Child(options.jax_python, "jax", cache)
        for program in PROGRAMS:
            if not any(w in program.name for w in words):
                continue
            for k in map(int, options.sizes.split(",")):
                size = program.sizes[k]
                found = _measure(children, program, size, options.rounds)
                first, steady = found["xpr"]
                theirs, their_steady = found.get("jax", (float("nan"), float("nan")))
                ratios.append(steady / their_steady)
                print(
                    f"| {program.name} | {size} | {first:.2f} s | {theirs:.2f} s | "
                    f"{steady * 1e3:.3f} ms | {their_steady * 1e3:.3f} ms | {ratios[-1]:.2f} |",
                    flush=True,
                )
        for child in children.values():
            child.close()
    mean = statistics.geometric_mean(ratios)
    print(f"| geometric mean | | | | | | {mean:.2f} |")


if __name__ == "__main__":
    main()
