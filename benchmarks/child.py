"""What is measured in a process of its own: ``python -m benchmarks.child WHAT LIBRARY``.

Prints one JSON object. It does not import NumPy itself, for imports are among what it measures.

- ``import``: seconds for importing the library.
- ``start``: seconds for importing the library and its array module, and for the first call of a
  jitted program of 50 equations, up to its value.
- ``donate``: bytes by which the peak of resident memory grows over a call whose 64 MB argument is
  donated, and over the same call without donation.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_DONATED_BYTES = 64_000_000


def measure_import(library: str) -> dict[str, float]:
    start = time.perf_counter()
    importlib.import_module(library)
    return {"import": time.perf_counter() - start}


def measure_start(library: str) -> dict[str, float]:
    start = time.perf_counter()
    root: Any = importlib.import_module(library)
    arrays: Any = importlib.import_module(f"{library}.numpy")
    imported = time.perf_counter()

    def program(x: Any) -> Any:
        for index in range(17):
            x = arrays.sin(x)
            x = x * (1.0 + index)
            if index < 16:
                x = x + 0.5
        return x

    x = arrays.ones(1000)
    before = time.perf_counter()
    value = float(root.jit(program)(x)[0])
    done = time.perf_counter()
    if not -18.0 < value < 18.0:
        raise ArithmeticError(f"the program's value must be within 18 of 0, got {value}")
    return {"import": imported - start, "first call": done - before, "both": done - start}


def measure_donation(library: str) -> dict[str, float]:
    # Otherwise freed memory stays with the process, and another buffer would not show.
    os.environ["XPR_TUNE_MALLOC"] = "0"
    root: Any = importlib.import_module(library)
    arrays: Any = importlib.import_module(f"{library}.numpy")

    # Made by a compiled program: memory that NumPy made could not be given away.
    make = root.jit(lambda one: arrays.full(_DONATED_BYTES // 4, one, dtype="float32"))

    def argument_of_its_own() -> Any:
        return make(1.0).block_until_ready()

    def program(x: Any) -> Any:
        return x + 1.0

    grown: dict[str, float] = {}
    # Donation comes first: memory that the other call frees could serve it unseen.
    for name, options in (("donated", {"donate_argnums": 0}), ("kept", {})):
        function = root.jit(program, **options)
        # Compiles and loads what the call needs; its buffers are free again afterwards.
        function(argument_of_its_own()).block_until_ready()
        gc.collect()
        argument = argument_of_its_own()
        before = _reset_peak()
        result = function(argument).block_until_ready()
        grown[name] = _peak() - before
        if float(result[-1]) != 2.0:
            raise ArithmeticError(f"1 + 1 must be 2, got {float(result[-1])}")
        del argument, result
    return grown


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def _reset_peak() -> int:
    """Make the present size the peak (Linux: proc(5), clear_refs); the size in bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


MEASURES = {"import": measure_import, "start": measure_start, "donate": measure_donation}


def main() -> None:
    what, library = sys.argv[1:]
    print(json.dumps(MEASURES[what](library)))


if __name__ == "__main__":
    main()
