"""The programs of the gallery in C, compared bit by bit with their modules for the same target.

    python -m tests.export.no_runtime.gallery_runs [NAME ...]

prints a line for each: the same, what differs, or why it cannot be without a runtime. The exit
status is 1 if one differs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import xpr
from benchmarks.programs.all_programs import PROGRAMS, by_name

from .harness import Model, module_results, save_model


def compared(name: str, folder: Path) -> str:
    """`same`, or how the two differ, or why there is no program in C."""
    program = by_name(name)
    function = program.traced(xpr.numpy, xpr.lax)
    args = [np.asarray(xpr.numpy.asarray(x)) for x in program.inputs(program.sizes[0])]
    try:
        save_model(folder, {"f": (function, args)})
    except NotImplementedError as error:
        return f"refused: {error}"
    found = Model(folder).call("f", args)
    expected = module_results(function, args, folder)
    if found == expected:
        return "same"
    pairs = zip(found, expected, strict=True)
    return f"different results: {[i for i, (a, b) in enumerate(pairs) if a != b]}"


def main(names: Sequence[str]) -> int:
    """Prints a line for each program."""
    bad = 0
    for name in names or [p.name for p in PROGRAMS]:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            outcome = compared(name, Path(folder))
        bad += outcome.startswith("different")
        print(f"{name}: {outcome} ({time.perf_counter() - start:.1f} s)", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
