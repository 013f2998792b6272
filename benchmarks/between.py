"""Sums over the processes of a machine, under MPI's launcher, next to mpi4py's own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Row, progress
from benchmarks.sessions import ROOT, environment
from benchmarks.timing import Measurement

COUNTS = (2, 4)
SIZES = ("8 B", "64 MiB")


def _name(size: str, count: int) -> str:
    return f"psum of {size}, {count} processes"


NAMES = tuple(_name(size, count) for count in COUNTS for size in SIZES)


def measure(rounds: int, wanted: frozenset[str]) -> list[Row]:
    """The rows among `NAMES` that are wanted; none without mpi4py and its launcher."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    launcher = shutil.which("mpirun", path=places)
    if launcher is None or importlib.util.find_spec("mpi4py") is None:
        progress("mpi4py or mpirun is not installed: sums over processes are left out")
        return []
    rows: list[Row] = []
    for count in COUNTS:
        names = {size: _name(size, count) for size in SIZES}
        if not wanted & set(names.values()):
            continue
        progress(f"{count} processes")
        try:
            found = _launched(launcher, count, rounds)
        except RuntimeError as error:
            rows += [Row(n, "between", {}, remarks=(str(error),)) for n in names.values()]
            continue
        for size, name in names.items():
            measured = {way: Measurement(tuple(times)) for way, times in found[size].items()}
            rows.append(Row(name, "between", measured))
    return [row for row in rows if row.name in wanted]


def _launched(launcher: str, count: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    command = [launcher, "--oversubscribe", "-n", str(count)]
    command += [sys.executable, "-m", "benchmarks.between_child", str(rounds)]
    # Containers run all as root, which Open MPI wants to be told.
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment(**root)
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        errors = [line for line in lines if "Error: " in line]  # among the launcher's own words
        reason = (errors or lines)[-1]
        raise RuntimeError(f"{reason} (status {done.returncode})")
    return json.loads(done.stdout.splitlines()[-1])


def findings(rows: list[Row]) -> list[str]:
    """How much longer xpr takes, by medians and by the least of all samples."""
    found: list[str] = []
    for row in rows:
        theirs = row.measured.get("mpi4py")
        for way in ("xpr engine", "xpr jit"):
            ours = row.measured.get(way)
            if ours is None or theirs is None:
                continue
            more = [(ours.median - theirs.median) * 1e6, (ours.least - theirs.least) * 1e6]
            found.append(
                f"{row.name}: {way} takes {ours.median / theirs.median:.2f} times as long as "
                f"mpi4py (least {ours.least / theirs.least:.2f}), {more[0]:.0f} µs more "
                f"(least {more[1]:.0f})"
            )
    return found
