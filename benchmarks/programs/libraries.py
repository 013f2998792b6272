"""Libraries in processes of their own, which run the programs, and what they give back."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import Any

import numpy

from benchmarks.programs.program import Program


class Child:
    """A library in a process of its own."""

    def __init__(self, python: str, library: str, cache: str) -> None:
        environment = os.environ | {"XPR_CACHE_DIR": cache}
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.programs.child", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, **request: Any) -> Any:
        """The answer to a request; RuntimeError if it failed there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def prepared(child: Child, program: Program, size: int) -> float:
    """Seconds of the first call; AssertionError if the results are not NumPy's."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.npz")
        first = child.ask(do="prepare", program=program.name, size=size, path=path)
        with numpy.load(path) as saved:
            found = [saved[k] for k in saved.files]
    wanted = program.plain(*program.inputs(size))
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for x, y in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-8, err_msg=program.name)
    return first
