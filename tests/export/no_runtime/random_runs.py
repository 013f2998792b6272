"""Random programs in C, compared bit by bit with their modules for the same target.

    python -m tests.export.no_runtime.random_runs 0 200

compares the programs 0 to 199 of `tests.reliability.differential`, several in one. The exit status
is 1 if one differs.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xpr
from tests.reliability.differential_programs import Program, program, results
from tests.reliability.differential_runs import XPR

from .harness import Model, module_results, save_model

_TOGETHER = 10


def compared(programs: Sequence[Program], folder: Path) -> list[int]:
    """The results that differ, of programs that are compiled as one."""

    def whole(*arrays: Any) -> list[Any]:
        found: list[Any] = []
        rest = list(arrays)
        for p in programs:
            count = len(p.operands)
            found += results(p, rest[:count], XPR, [])
            del rest[:count]
        return found

    args = [np.asarray(xpr.numpy.asarray(x)) for p in programs for x in p.operands]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_model(folder, {"f": (whole, args)})
        expected = module_results(whole, args, folder)
    found = Model(folder).call("f", args)
    return [i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b]


def main(first: int, count: int) -> int:
    """Prints a line for each group."""
    bad = 0
    for start in range(first, first + count, _TOGETHER):
        with tempfile.TemporaryDirectory() as folder:
            different = compared([program(start + i) for i in range(_TOGETHER)], Path(folder))
        bad += len(different)
        print(f"{start} to {start + _TOGETHER - 1}: {different or 'same'}", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
