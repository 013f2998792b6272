"""One library's end: ``python -m benchmarks.programs.child xpr``, a JSON object a line each way."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

import numpy

from benchmarks.programs import all_programs


class _Library:
    def __init__(self, name: str) -> None:
        root = importlib.import_module(name)
        root.config.update("enable_x64" if name == "xpr" else "jax_enable_x64", True)
        self._root = root
        self._np = importlib.import_module(f"{name}.numpy")
        self._lax = importlib.import_module(f"{name}.lax")
        self._call: Any = None
        self._operands: list[Any] = []

    def prepare(self, program: str, size: int, path: str) -> float:
        """Compiles a program and saves its results; the seconds of the first call."""
        found = all_programs.by_name(program)
        self._operands = [self._root.device_put(x) for x in found.inputs(size)]
        self._call = self._root.jit(found.traced(self._np, self._lax))
        start = time.perf_counter()
        results = self._root.block_until_ready(self._call(*self._operands))
        taken = time.perf_counter() - start
        several = results if isinstance(results, tuple | list) else [results]
        numpy.savez(path, *(numpy.asarray(x) for x in several))
        return taken

    def seconds(self, calls: int) -> float:
        """The seconds of so many calls, one after the other."""
        start = time.perf_counter()
        for _ in range(calls):
            self._root.block_until_ready(self._call(*self._operands))
        return time.perf_counter() - start

    def most_memory(self) -> int:
        """The bytes that a call takes beside its operands: the most of three calls."""
        most, library = 0, ctypes.CDLL(None)
        for _ in range(3):
            gc.collect()
            library.malloc_trim(0)
            with open("/proc/self/clear_refs", "w") as references:
                references.write("5")
            before = _status("VmRSS")
            results = self._root.block_until_ready(self._call(*self._operands))
            most = max(most, _status("VmHWM") - before)
            del results
        return most


def _status(name: str) -> int:
    """A size that Linux tells about this process, in bytes."""
    with open("/proc/self/status") as lines:
        line = next(x for x in lines if x.startswith(f"{name}:"))
    return int(line.split()[1]) << 10


def main() -> None:
    # Whatever a library prints must not land between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    library = _Library(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            answer: dict[str, Any] = {"value": getattr(library, do)(**request)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
