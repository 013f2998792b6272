"""Sums over the processes of a machine, under MPI's launcher, next to mpi4py's own."""

from __future__ import annotations

from benchmarks.launched import launch, launcher
from benchmarks.report import Row, progress
from benchmarks.timing import Measurement

COUNTS = (2, 4)
SIZES = ("8 B", "64 MiB")


def _name(size: str, count: int) -> str:
    return f"psum of {size}, {count} processes"


NAMES = tuple(_name(size, count) for count in COUNTS for size in SIZES)


def measure(rounds: int, wanted: frozenset[str]) -> list[Row]:
    """The rows among `NAMES` that are wanted; none without mpi4py and its launcher."""
    if launcher() is None:
        progress("mpi4py or mpirun is not installed: sums over processes are left out")
        return []
    rows: list[Row] = []
    for count in COUNTS:
        names = {size: _name(size, count) for size in SIZES}
        if not wanted & set(names.values()):
            continue
        progress(f"{count} processes")
        try:
            found = launch(count, ["-m", "benchmarks.between_child", str(rounds)])
        except RuntimeError as error:
            rows += [Row(n, "between", {}, remarks=(str(error),)) for n in names.values()]
            continue
        for size, name in names.items():
            measured = {way: Measurement(tuple(times)) for way, times in found[size].items()}
            rows.append(Row(name, "between", measured))
    return [row for row in rows if row.name in wanted]


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
