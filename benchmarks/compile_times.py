"""How much of the processor's time compiling takes, stage by stage, beside JAX."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from benchmarks.compile_programs import NAMES as NAMES
from benchmarks.report import Row, markdown_table, progress, text_table
from benchmarks.sessions import ROOT, environment
from benchmarks.timing import Measurement

# What the stages of `xpr.debug.explain` are added up to.
_COLUMNS = {
    "trace": ("trace",),
    "lower": ("prepare", "lower"),
    "fusion": (
        "parse",
        "input",
        "abi",
        "preprocessing",
        "global-optimization",
        "dispatch-creation",
    ),
    "stream": ("flow", "stream"),
    "code": ("executable-sources", "executable-configurations", "executable-targets"),
    "LLVM": ("hal",),
    "link": ("link",),
    "host": ("dispatches", "host", "vm", "end", "write"),
    "load": ("load",),
}

_stages: dict[str, dict[str, Any]] = {}


def measure(
    pythons: Mapping[str, str], rounds: int, wanted: frozenset[str], quick: bool
) -> list[Row]:
    """The rows among `NAMES` that are wanted: the least of several processes each."""
    rows: list[Row] = []
    for name in NAMES:
        if name not in wanted:
            continue
        progress(name)
        answers: dict[str, list[dict[str, Any]]] = {}
        remarks: list[str] = []
        for _ in range(rounds):
            for library in ("xpr", "jax"):
                if library in pythons and len(remarks) == 0:
                    try:
                        found = _child(pythons[library], library, name, quick)
                        answers.setdefault(f"{library} jit", []).append(found)
                    except RuntimeError as error:
                        remarks.append(f"{library} failed: {error}")
        measured: dict[str, Measurement] = {}
        for mode, found in answers.items():
            best = min(found, key=_total)
            measured[mode] = Measurement((_total(best),))
            if mode == "xpr jit":
                _stages[name] = best
        rows.append(Row(name, "compile", measured, remarks=tuple(remarks)))
    return rows


def _total(answer: dict[str, Any]) -> float:
    return sum(answer["stages"].values())


def _child(python: str, library: str, name: str, quick: bool) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-m", "benchmarks.compile_child", library, name, *(["quick"] if quick else [])],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(XPR_CACHE="0", JAX_ENABLE_COMPILATION_CACHE="0"),
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{reason} (status {done.returncode})")
    return json.loads(done.stdout.splitlines()[-1])


def breakdown(rows: list[Row], markdown: bool) -> str:
    """Milliseconds of xpr's stages for each row, and the number of dispatches."""
    lines = [["ms", "dispatches", *_COLUMNS]]
    for row in rows:
        if row.name in _stages:
            found = _stages[row.name]
            stages = found["stages"]
            sums = [sum(stages.get(s, 0.0) for s in of) for of in _COLUMNS.values()]
            counted = "" if found.get("dispatches") is None else str(found["dispatches"])
            lines.append([row.name, counted, *(f"{1e3 * seconds:.0f}" for seconds in sums)])
    return (markdown_table if markdown else text_table)(lines)
