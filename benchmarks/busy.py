"""The same programs beside another process that keeps one of the cores busy.

A program that cuts its work into as many parts as there are cores, and waits for all of them, takes
as long as the slowest: beside a busy process some take ten times their time alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.report import HEADINGS, Row
from benchmarks.timing import geometric_mean, ratio_of_medians

BESIDE = ", beside a busy process"
"""What is behind the name of a row that was measured so."""


@contextmanager
def one_busy_core() -> Iterator[None]:
    """A block beside which another process computes all the time."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def findings(rows: Sequence[Row]) -> list[str]:
    """How many times as long as alone programs take beside a busy process."""
    alone = {row.name: row for row in rows}
    found: list[str] = []
    for mode, heading in HEADINGS.items():
        ratios: dict[str, float] = {}
        for row in rows:
            name = row.name.removesuffix(BESIDE)
            if name == row.name:
                continue
            ratio = ratio_of_medians(row.measured.get(mode), alone[name].measured.get(mode))
            if ratio is not None:
                ratios[name] = ratio
        mean = geometric_mean(list(ratios.values()))
        if mean is not None:
            worst = max(ratios, key=ratios.__getitem__)
            found.append(
                f"{heading} beside a busy process: {mean:.2f} times as long as alone in the "
                f"geometric mean, at most {ratios[worst]:.2f} ({worst})"
            )
    return found
