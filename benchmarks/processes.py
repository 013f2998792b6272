"""Measurements that need new processes: imports, first calls, and the memory of a donation."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.report import Row, progress
from benchmarks.sessions import ROOT, environment
from benchmarks.timing import Measurement

# The column that each library's figures stand in.
_COLUMN = {"numpy": "numpy", "xpr": "xpr jit", "jax": "jax jit"}

NAMES = (
    "import",
    "50 equations, nothing cached: first call",
    "50 equations, in the disk cache: first call",
    "50 equations, in the disk cache: import and first call",
    "x + 1 on 64 MB, donated: growth of peak memory",
    "x + 1 on 64 MB, not donated: growth of peak memory",
)


def measure(pythons: Mapping[str, str], rounds: int, wanted: frozenset[str]) -> list[Row]:
    """The rows among `NAMES` that are wanted; ``pythons`` gives each library its interpreter."""
    rows: list[Row] = []
    compiled = {library: python for library, python in pythons.items() if library != "numpy"}
    with tempfile.TemporaryDirectory() as folder:
        if NAMES[0] in wanted:
            rows += _rows(_turns("import", pythons, rounds, {}), {NAMES[0]: "import"})
        if NAMES[1] in wanted:
            cold = _turns("start", compiled, rounds, _caches(None))
            rows += _rows(cold, {NAMES[1]: "first call"})
        warm = {NAMES[2]: "first call", NAMES[3]: "both"}
        if wanted & set(warm):
            caches = _caches(Path(folder))
            _turns("start", compiled, 1, caches)  # fills the caches
            rows += _rows(_turns("start", compiled, rounds, caches), warm)
        donation = {NAMES[4]: "donated", NAMES[5]: "kept"}
        if wanted & set(donation):
            if sys.platform == "linux":
                grown = _turns("donate", compiled, 1, _caches(Path(folder)))
                rows += _rows(grown, donation, unit="B")
            else:
                progress("the peak of memory is measured on Linux only: skipped")
    return [row for row in rows if row.name in wanted]


@dataclass
class _Samples:
    """What the processes of one library answered, until one failed."""

    answers: list[dict[str, float]] = field(default_factory=list)
    failure: str = ""


def _caches(folder: Path | None) -> dict[str, str]:
    """The environment that makes each library keep its compiled programs in ``folder``, or not."""
    if folder is None:
        return {"XPR_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "0"}
    return {
        "XPR_CACHE": "1",
        "XPR_CACHE_DIR": str(folder / "xpr"),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        # JAX keeps only what took long to compile, unless told otherwise.
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def _turns(
    what: str, pythons: Mapping[str, str], rounds: int, extra: dict[str, str]
) -> dict[str, _Samples]:
    samples = {library: _Samples() for library in pythons}
    # The first round only brings the files into the operating system's memory.
    warm_up = 1 if rounds > 1 else 0
    for turn in range(rounds + warm_up):
        for library, python in pythons.items():
            of_library = samples[library]
            if of_library.failure:
                continue
            try:
                answer = _child(python, what, library, extra)
            except RuntimeError as error:
                of_library.failure = str(error)
                continue
            if turn >= warm_up:
                of_library.answers.append(answer)
    return samples


def _child(python: str, what: str, library: str, extra: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [python, "-m", "benchmarks.child", what, library],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(**extra),
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{reason} (status {done.returncode})")
    return json.loads(done.stdout)


# A donated call may need a little memory of its own, but not a second argument's worth.
_ALLOWED_GROWTH = 16e6


def _rows(samples: dict[str, _Samples], keys: dict[str, str], unit: str = "s") -> list[Row]:
    """One row for each name in ``keys``, from the figure of each answer that it names."""
    rows: list[Row] = []
    for name, key in keys.items():
        measured: dict[str, Measurement] = {}
        remarks: list[str] = []
        for library, of_library in samples.items():
            column = _COLUMN[library]
            if of_library.failure:
                remarks.append(f"{column} failed: {of_library.failure}")
                continue
            measured[column] = Measurement(tuple(answer[key] for answer in of_library.answers))
            growth = measured[column].median
            if key == "donated" and growth > _ALLOWED_GROWTH:
                remarks.append(f"{column} needs a second buffer: {growth / 1e6:.0f} MB more")
        rows.append(Row(name, "processes", measured, unit, tuple(remarks)))
    return rows
