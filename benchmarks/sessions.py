"""One implementation at work on one case at a time, in this process or in another interpreter."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy

from benchmarks import implementations
from benchmarks.arrays import ARRAYS
from benchmarks.cases import Call, Case
from benchmarks.derivatives import DERIVATIVES
from benchmarks.devices import DEVICES
from benchmarks.kernels import KERNELS
from benchmarks.loops import LOOPS
from benchmarks.overheads import OVERHEADS
from benchmarks.training import TRAINING

CASES: dict[str, Case] = {
    case.name: case
    for case in (*OVERHEADS, *KERNELS, *ARRAYS, *DERIVATIVES, *LOOPS, *TRAINING, *DEVICES)
}

# The environment variable that tells a worker on how many of the machine's cores to run; 0: all.
CORES = "XPR_BENCH_CORES"

ROOT = Path(__file__).resolve().parent.parent


class Session(ABC):
    """Prepares a case once, then times it as often as asked."""

    @abstractmethod
    def prepare(self, case: str, mode: str, quick: bool) -> list[numpy.ndarray]:
        """Make ``case`` ready in ``mode`` and run it once; its results, if they can be checked."""

    @abstractmethod
    def seconds(self, loops: int) -> float:
        """How long ``loops`` calls of the prepared case take together."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the prepared case and of what the session holds."""


class LocalSession(Session):
    """Runs in this process."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._implementation: implementations.Implementation | None = None
        self._wait_each = True

    def prepare(self, case: str, mode: str, quick: bool) -> list[numpy.ndarray]:
        definition = CASES[case]
        self._implementation = implementations.load(mode)
        self._wait_each = definition.wait_each
        self._call = definition.prepare(self._implementation, quick)
        result = self._implementation.wait(self._call())
        return self._implementation.host(result) if definition.checked else []

    def seconds(self, loops: int) -> float:
        if self._call is None or self._implementation is None:
            raise RuntimeError("seconds() requires a prepared case, got none")
        call, wait = self._call, self._implementation.wait
        # A collection in the middle would hit whichever implementation is at work just then.
        gc.collect()
        gc.disable()
        try:
            if self._wait_each:
                start = time.perf_counter()
                for _ in repeat(None, loops):
                    wait(call())
                return time.perf_counter() - start
            result = None
            start = time.perf_counter()
            for _ in repeat(None, loops):
                result = call()
            wait(result)
            return time.perf_counter() - start
        finally:
            gc.enable()

    def close(self) -> None:
        self._call = self._implementation = None


class WorkerSession(Session):
    """Runs in a process of another interpreter, one JSON object a line each way (see `worker`)."""

    def __init__(self, python: str, devices: int = 0, cores: int = 0, **settings: str) -> None:
        """`settings` are environment variables of the process."""
        extra = {CORES: str(cores), **settings}
        if devices:
            extra["XPR_NUM_CPU_DEVICES"] = str(devices)
            extra["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
        self._folder = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(**extra),
        )

    def prepare(self, case: str, mode: str, quick: bool) -> list[numpy.ndarray]:
        path = Path(self._folder.name, "results.npz")
        count = self._ask(do="prepare", case=case, mode=mode, quick=quick, results=str(path))
        if not count:
            return []
        with numpy.load(path) as results:
            return [results[f"arr_{index}"] for index in range(count)]

    def seconds(self, loops: int) -> float:
        return self._ask(do="seconds", loops=loops)

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._folder.cleanup()

    def _ask(self, **request: Any) -> Any:
        to, answers = self._process.stdin, self._process.stdout
        if to is None or answers is None:
            raise RuntimeError("the worker has no pipes")
        to.write(json.dumps(request) + "\n")
        to.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError(f"the worker ended with {self._process.wait()} during {request}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the worker failed during {request}:\n{answer['error']}")
        return answer["value"]


def environment(**extra: str) -> dict[str, str]:
    """What new processes are started with: modules from this tree, CPUs only."""
    inherited = dict(os.environ)
    # An import is timed as installed packages are imported, with their bytecode on disk.
    inherited.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**inherited, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **extra}


def version_in(python: str, package: str) -> str | None:
    """The version of a package that an interpreter has, or None; the package is not imported."""
    question = f"from importlib.metadata import version; print(version({package!r}))"
    try:
        answer = subprocess.run(
            [python, "-c", question], capture_output=True, text=True, check=False, env=environment()
        )
    except OSError as error:
        print(f"{python} does not start: {error}", file=sys.stderr)
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
