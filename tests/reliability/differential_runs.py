"""Runs programs of `differential`, compiled and eager, and tells of each that goes wrong.

    python -m tests.reliability.differential_runs 1000 500 --together 40 --seconds 400

runs the programs 1000 to 1499, forty of them as one compiled program, which costs a tenth of the
time. A group that goes wrong is halved until single programs are left. Wrong are: a number, a
dtype, an error, a warning of the compiler's that it took a simpler form, an operand that was
changed, and a group that takes longer than its programs may. The exit status is 1 if any is.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr
from tests.reliability.differential import Library
from tests.reliability.differential_programs import Program, program, results
from xpr.core.config import override
from xpr.runtimes import registry

XPR = Library(xpr.numpy, xpr.lax, xpr.nn, xpr)
SECONDS = 20.0
"""What one program may take, compiled on its own."""


_NARROW = {"bfloat16": 0.1, "float16": 0.03}


def difference(found: Any, expected: Any, exact: bool) -> str:
    """What is wrong with a result; empty if nothing is."""
    a, b = np.asarray(found), np.asarray(expected)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
    tolerance = 0.0 if exact or a.dtype.kind in "biu" else _NARROW.get(a.dtype.name, 2e-3)
    wide = a.dtype if a.dtype.kind in "biu" else np.complex128
    try:
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), tolerance, tolerance)
    except AssertionError as error:
        return " ".join(str(error).split())[:400]
    return ""


def eager(p: Program, notes: list[bool]) -> list[np.ndarray[Any, Any]]:
    """The results operation by operation, by the reference rules alone: nothing is compiled."""
    arrays = xpr.device_put(p.operands, registry.devices("reference")[0])
    return [np.asarray(x) for x in results(p, arrays, XPR, notes)]


def faults(programs: Sequence[Program], compile_seconds: float | None = None) -> list[str]:
    """What is wrong with programs that are compiled as one."""
    limit = SECONDS * len(programs) if compile_seconds is None else compile_seconds
    notes: list[list[bool]] = [[] for _ in programs]
    arrays = [[xpr.numpy.asarray(x) for x in p.operands] for p in programs]
    for own, p in zip(arrays, programs, strict=True):
        if p.way == "twice":
            own[1] = own[0]
    expected = [eager(p, note) for p, note in zip(programs, notes, strict=True)]
    donated = [
        [own[0] if p.way == "donated" else None] for own, p in zip(arrays, programs, strict=True)
    ]
    kept = [
        [None, *own[1:]] if p.way == "donated" else own
        for own, p in zip(arrays, programs, strict=True)
    ]

    def together(donated: Any, kept: Any) -> list[list[Any]]:
        out = []
        for p, (given,), (first, *others) in zip(programs, donated, kept, strict=True):
            own = [first if given is None else given, *others]
            out.append(results(p, own, XPR, []))
        return out

    begin = time.monotonic()
    wrong: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = xpr.jit(together, donate_argnums=0)(donated, kept)
            found = [[np.asarray(x) for x in row] for row in found]
        except Exception as error:
            return [f"{programs[0].number}: {type(error).__name__}: {str(error)[:400]}"]
    if time.monotonic() - begin > limit:
        wrong.append(f"{programs[0].number}: takes {time.monotonic() - begin:.0f} s")
    wrong += [
        f"{programs[0].number}: {w.category.__name__}: {str(w.message)[:400]}"
        for w in told
        if issubclass(w.category, RuntimeWarning) and "compile" in str(w.message)
    ]
    for p, row, rights, note, own in zip(programs, found, expected, notes, arrays, strict=True):
        for i, (a, b, exact) in enumerate(zip(row, rights, note, strict=True)):
            what = difference(a, b, exact)
            if what:
                wrong.append(f"{p.number} ({p.way}), result {i}: {what}")
        for i, (array, operand) in enumerate(zip(own, p.operands, strict=True)):
            if p.way == "donated" and i == 0:
                continue
            if np.asarray(array).tobytes() != operand.tobytes():
                wrong.append(f"{p.number} ({p.way}): operand {i} was changed")
    return wrong


def bisected(programs: Sequence[Program], wrong: list[str]) -> list[str]:
    """The faults of single programs, or those of a group of which no half is wrong."""
    if len(programs) == 1 or not wrong:
        return wrong
    half = len(programs) // 2
    found = [
        line for part in (programs[:half], programs[half:]) for line in bisected(part, faults(part))
    ]
    return found or [f"{programs[0].number} to {programs[-1].number}, only together: {wrong}"]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--together", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    begin, done, bad = time.monotonic(), 0, 0
    end = options.first + options.count
    with override("enable_x64", True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for first in range(options.first, end, options.together):
            if time.monotonic() - begin > options.seconds:
                break
            numbers = range(first, min(first + options.together, end))
            programs = [program(n) for n in numbers]
            try:
                wrong = bisected(programs, faults(programs))
            except Exception as error:
                wrong = [f"{first}: eager: {type(error).__name__}: {str(error)[:300]}"]
            done += len(programs)
            bad += len(wrong)
            for line in wrong:
                print(line, flush=True)
            sys.stderr.write(f"\r{done} {time.monotonic() - begin:.0f} s ")
    print(f"{done} programs, {bad} faults, {time.monotonic() - begin:.0f} s", flush=True)
    sys.exit(bad != 0)


if __name__ == "__main__":
    _main()
