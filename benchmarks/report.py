"""The table: medians, spreads, ratios and their geometric means, as text or as Markdown."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from benchmarks.implementations import MODES
from benchmarks.timing import Measurement, geometric_mean, ratio_of_medians

TITLES = {
    "calls": "Overhead of a call",
    "compiling": "Tracing and compiling",
    "compile": "Compiling, nothing cached: processor time",
    "processes": "New processes",
    "between": "Sums over processes",
    "checkpoints": "Checkpoints: the least of several rounds",
    "kernels": "Kernels",
    "arrays": "Sorting, factorisations, statistics",
    "derivatives": "Derivatives",
    "sharding": "Several devices: the least of many short samples",
    "loops": "Loops, random numbers, training",
}

# Rows of which the second is compared with the first, and what the second is, in words.
_PAIRS = (
    ("MLP 256x784, forward", "MLP 256x784, gradient", "the gradient of the MLP"),
    (
        "training step, 1 device on 1 core",
        "training step, 2 devices",
        "a training step on 2 devices, not on one device and core,",
    ),
    ("transformer block, forward", "transformer block, gradient", "that of the transformer block"),
    ("batch of 512, by hand", "batch of 512, by vmap", "a batch by vmap instead of by hand"),
    (
        "trace the gradient of 1000 equations",
        "trace the gradient of 10000 equations",
        "tracing the gradient of 10 times as many equations",
    ),
)

HEADINGS = {
    "numpy": "NumPy",
    "xpr eager": "xpr eager",
    "xpr jit": "xpr jit",
    "xpr iree": "xpr, run by IREE",
    "jax eager": "JAX eager",
    "jax jit": "JAX jit",
    "xpr engine": "xpr's engine",
    "mpi4py": "mpi4py",
}

_RATIOS = (
    ("xpr jit", "jax jit"),
    ("xpr jit", "xpr iree"),
    ("xpr jit", "numpy"),
    ("xpr eager", "jax eager"),
    ("xpr eager", "numpy"),
    ("xpr engine", "mpi4py"),
)


@dataclass(frozen=True)
class Row:
    """What was measured of one case; ``remarks`` say what failed or was wrong."""

    name: str
    group: str
    measured: dict[str, Measurement]
    unit: str = "s"
    remarks: tuple[str, ...] = ()

    def ratio(self, over: str, under: str) -> float | None:
        return ratio_of_medians(self.measured.get(over), self.measured.get(under))


def machine() -> list[str]:
    """What the figures depend on: processor, system and versions."""
    versions = [f"Python {platform.python_version()}"]
    for package in ("xpr", "iree-base-compiler", "numpy"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return [f"{_processor()}, {os.cpu_count()} cores, {platform.system()}", ", ".join(versions)]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


def render(rows: Sequence[Row], markdown: bool) -> str:
    """The tables of all groups that have rows."""
    parts: list[str] = []
    for group, title in TITLES.items():
        of_group = [row for row in rows if row.group == group]
        if of_group:
            parts.append(f"## {title}\n" if markdown else f"{title}\n")
            parts.append(_table(of_group, markdown))
            parts.append("")
    return "\n".join(parts)


def findings(rows: Sequence[Row]) -> list[str]:
    """What is to be said beside the tables: what went wrong, and what follows from several rows."""
    found = [f"{row.name}: {remark}" for row in rows for remark in row.remarks]
    by_name = {row.name: row for row in rows}
    short, long = (by_name.get(f"trace and lower {n} equations") for n in (1000, 4000))
    if short is not None and long is not None:
        for mode in MODES:
            ratio = ratio_of_medians(long.measured.get(mode), short.measured.get(mode))
            if ratio is not None:
                found.append(
                    f"{HEADINGS[mode]} takes {ratio:.1f} times as long to trace and lower 4000 "
                    "equations as 1000 (4 is linear)"
                )
    for first, second, what in _PAIRS:
        one, other = by_name.get(first), by_name.get(second)
        if one is None or other is None:
            continue
        for mode in MODES:
            ratio = ratio_of_medians(other.measured.get(mode), one.measured.get(mode))
            if ratio is not None:
                found.append(f"{HEADINGS[mode]}: {what} takes {ratio:.2f} times as long")
    return found


def _table(rows: Sequence[Row], markdown: bool) -> str:
    modes = [mode for mode in HEADINGS if any(mode in row.measured for row in rows)]
    ratios = [pair for pair in _RATIOS if any(row.ratio(*pair) is not None for row in rows)]
    header = ["", *(HEADINGS[mode] for mode in modes)]
    header += [f"{HEADINGS[over]} / {HEADINGS[under]}" for over, under in ratios]
    lines = [header]
    for row in rows:
        cells = [row.name, *(_quantity(row.measured.get(mode), row.unit) for mode in modes)]
        cells += [_ratio(row.ratio(*pair)) for pair in ratios]
        lines.append(cells)
    if len(rows) > 1 and ratios:
        means = [_ratio(_mean(rows, pair)) for pair in ratios]
        lines.append(["geometric mean", *[""] * len(modes), *means])
    return markdown_table(lines) if markdown else text_table(lines)


def _mean(rows: Sequence[Row], pair: tuple[str, str]) -> float | None:
    # Bytes have no place among ratios of times, nor has what grew by nothing.
    found = [row.ratio(*pair) for row in rows if row.unit == "s"]
    return geometric_mean([ratio for ratio in found if ratio is not None and ratio > 0])


def _quantity(measurement: Measurement | None, unit: str) -> str:
    if measurement is None:
        return ""
    if unit == "B":
        return f"{measurement.median / 1e6:.1f} MB"
    value = measurement.median
    scales = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    scale, name = next((pair for pair in scales if value >= pair[0]), scales[-1])
    spread = f" ±{measurement.spread:.0%}" if len(measurement.samples) > 1 else ""
    return f"{value / scale:.3g} {name}{spread}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def markdown_table(lines: list[list[str]]) -> str:
    """A table in Markdown; the first line is its head."""
    header, *body = (f"| {' | '.join(line)} |" for line in lines)
    columns = len(lines[0])
    rule = "| --- |" + " ---: |" * (columns - 1)
    return "\n".join([header, rule, *body])


def text_table(lines: list[list[str]]) -> str:
    """A table for the terminal."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    out = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        out.append("  ".join(cells).rstrip())
    out.insert(1, "-" * max(map(len, out)))
    return "\n".join(out)


def progress(text: str) -> None:
    """Say on standard error what is being measured."""
    print(text, file=sys.stderr, flush=True)
