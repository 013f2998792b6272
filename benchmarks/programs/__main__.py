"""xpr and JAX side by side: ``python -m benchmarks.programs --jax-python ~/jax/bin/python``."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable

from benchmarks.busy import one_busy_core
from benchmarks.programs.all_programs import PROGRAMS
from benchmarks.programs.libraries import Child, prepared
from benchmarks.programs.program import Program

_LEAST_SECONDS = 0.02


def _by_library(
    children: dict[str, Child], rounds: int, of_rounds: Callable[[list[float]], float]
) -> dict[str, float]:
    """The seconds that a call takes, by library: the median of the rounds, or the least."""
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
    return {name: of_rounds(samples[name]) for name in children}


class _Steady:
    """The table of first calls and of later ones."""

    heading = "| program | size | first call, xpr | JAX | xpr | JAX | xpr / JAX |"
    ends = "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"

    def __init__(self, of_rounds: Callable[[list[float]], float]) -> None:
        self._of_rounds = of_rounds
        self._ratios: list[float] = []

    def row(self, children: dict[str, Child], program: Program, size: int, rounds: int) -> str:
        firsts = {name: prepared(child, program, size) for name, child in children.items()}
        later = _by_library(children, rounds, self._of_rounds)
        (first, theirs), (steady, their_steady) = (
            (found["xpr"], found.get("jax", float("nan"))) for found in (firsts, later)
        )
        self._ratios.append(steady / their_steady)
        return (
            f"| {program.name} | {size} | {first:.2f} s | {theirs:.2f} s | {steady * 1e3:.3f} ms "
            f"| {their_steady * 1e3:.3f} ms | {self._ratios[-1]:.2f} |"
        )

    def mean(self) -> str:
        return f"| geometric mean | | | | | | {statistics.geometric_mean(self._ratios):.2f} |"


class _Busy:
    """The table of calls alone and beside a process that keeps one core busy."""

    heading = "| program | size | xpr | beside | JAX | beside | xpr / JAX | beside |"
    ends = "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"

    def __init__(self, of_rounds: Callable[[list[float]], float]) -> None:
        self._of_rounds = of_rounds
        self._ratios: list[tuple[float, float, float, float]] = []

    def row(self, children: dict[str, Child], program: Program, size: int, rounds: int) -> str:
        for child in children.values():
            prepared(child, program, size)
        alone = _by_library(children, rounds, self._of_rounds)
        with one_busy_core():
            beside = _by_library(children, rounds, self._of_rounds)
        (a, b), (x, y) = ((t["xpr"], t.get("jax", float("nan"))) for t in (alone, beside))
        self._ratios.append((x / a, y / b, a / b, x / y))
        return (
            f"| {program.name} | {size} | {a * 1e3:.3f} ms | {x / a:.2f} | {b * 1e3:.3f} ms "
            f"| {y / b:.2f} | {a / b:.2f} | {x / y:.2f} |"
        )

    def mean(self) -> str:
        x, y, a, b = map(statistics.geometric_mean, zip(*self._ratios, strict=True))
        return f"| geometric mean | | | {x:.2f} | | {y:.2f} | {a:.2f} | {b:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default=os.environ.get("XPR_BENCH_JAX_PYTHON"))
    parser.add_argument("--only", default="", help="programs whose name has one of these words")
    parser.add_argument("--sizes", default="0,1,2", help="which of the three sizes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--busy",
        action="store_true",
        help="how many times as long calls take beside a process that keeps one core busy",
    )
    parser.add_argument(
        "--least",
        action="store_true",
        help="the least of the rounds in place of the median, for a machine that others use, too",
    )
    options = parser.parse_args()
    words = options.only.split(",")
    of_rounds = min if options.least else statistics.median
    table = _Busy(of_rounds) if options.busy else _Steady(of_rounds)
    print(table.heading, table.ends, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        children = {"xpr": Child(sys.executable, "xpr", cache)}
        if options.jax_python:
            children["jax"] = Child(options.jax_python, "jax", cache)
        for program in PROGRAMS:
            if not any(w in program.name for w in words):
                continue
            for k in map(int, options.sizes.split(",")):
                row = table.row(children, program, program.sizes[k], options.rounds)
                print(row, flush=True)
        for child in children.values():
            child.close()
    print(table.mean())


if __name__ == "__main__":
    main()
