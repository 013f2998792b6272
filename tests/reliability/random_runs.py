"""Many random programs, several in each compiled module, and a line for each that goes wrong.

    python -m tests.reliability.random_runs arrays cpu 1000 500 --together 8 --seconds 400

runs the programs 1000 to 1499 of `test_random_programs`, as far as it comes in that time. Eight of
them are one program to the compiler, which takes a third of the time; a group that goes wrong is
run again program by program. A wrong number, an error and a fallback of the compiler all count,
and so does a process that ends: then the last line says which programs it was at. A compile may
take 20 seconds (`--limit`) for each program, in a process of its own; one that does not end is a
fallback.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xpr
from tests.reliability import random_arrays, random_programs, random_updates
from xpr.core.config import override
from xpr.runtimes import registry

_LIMIT = 20.0
"""The seconds that the compile of a program may take."""


class Program(NamedTuple):
    """A random program and what it is called with."""

    kind: str
    number: int
    operands: list[np.ndarray[Any, Any]]
    steps: Any
    most: int
    """How many results there are at most; 0 for a program of loops."""

    def results(self, arrays: Sequence[Any]) -> list[Any]:
        if self.kind == "updates":
            return random_updates.results(self.steps, arrays, self.most)
        if self.most:
            return random_arrays.results(self.steps, arrays, self.most)
        return random_programs.results(self.steps, arrays)


def program(kind: str, number: int) -> Program:
    """The program of some kind that has this number."""
    rng = np.random.default_rng(number)
    if kind == "loops":
        operands = random_programs.operands(rng)
        return Program(kind, number, operands, random_programs.steps(rng), 0)
    if kind == "updates":
        operands = random_updates.operands(rng)
        return Program(kind, number, operands, random_updates.steps(rng), 8)
    arrays, program = random_arrays.operands(rng), random_arrays.steps(rng)
    return Program(kind, number, arrays, program, int(rng.integers(1, 6)))


def _run(programs: Sequence[Program], device: str) -> list[list[np.ndarray[Any, Any]]]:
    def all_results(operands: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [p.results(xs) for p, xs in zip(programs, operands, strict=True)]

    operands = xpr.device_put([p.operands for p in programs], registry.devices(device)[0])
    return [[np.asarray(x) for x in found] for found in xpr.jit(all_results)(operands)]


def faults(programs: Sequence[Program], device: str, limit: float = _LIMIT) -> list[str]:
    """What is wrong with programs that are compiled as one, in `limit` seconds for each."""
    limits = override("compiler_timeout", limit * len(programs))
    with warnings.catch_warnings(record=True) as told, limits:
        warnings.simplefilter("always")
        try:
            found = _run(programs, device)
        except Exception as error:
            return [f"{type(error).__name__}: {str(error)[:400]}"]
    expected = _run(programs, "reference")
    wrong = [f"{w.category.__name__}: {str(w.message)[:400]}" for w in told]
    for program, ours, theirs in zip(programs, found, expected, strict=True):
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            try:
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
            except AssertionError as error:
                wrong.append(f"{program.number}, result {i}: {str(error).strip()[:300]}")
    return wrong


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["loops", "arrays", "updates"])
    parser.add_argument("device")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--together", type=int, default=8)
    parser.add_argument("--limit", type=float, default=_LIMIT)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    begin = time.monotonic()
    end = options.first + options.count
    bad = done = 0
    with override("enable_x64", options.kind == "loops"):
        for first in range(options.first, end, options.together):
            if time.monotonic() - begin > options.seconds:
                end = first
                break
            numbers = range(first, min(first + options.together, end))
            sys.stderr.write(f"\rat {numbers[0]} to {numbers[-1]} ")
            programs = [program(options.kind, n) for n in numbers]
            done += len(programs)
            together = faults(programs, options.device, options.limit)
            if not together:
                continue
            alone = [(p.number, faults([p], options.device, options.limit)) for p in programs]
            for number, wrong in alone:
                bad += bool(wrong)
                for line in wrong:
                    print(f"{options.kind} {options.device} {number}: {line!r}", flush=True)
            if not any(wrong for _, wrong in alone):
                bad += 1
                print(f"{options.kind} {options.device} {numbers}, only together: {together!r}")
    seconds = time.monotonic() - begin
    print(
        f"{options.kind} on {options.device}: {done} programs, {options.first} to {end - 1}, "
        f"{bad} went wrong, {seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    _main()
