"""Workers in several processes, started by MPI's launcher."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.sessions import ROOT, environment
from xpr.distributed.launchers import AS_ROOT


def launcher() -> str | None:
    """The path of MPI's launcher; None where it, or mpi4py, is not installed."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if importlib.util.find_spec("mpi4py") is None:
        return None
    return shutil.which("mpirun", path=places)


def launch(count: int, arguments: Sequence[str], *options: str, **variables: str) -> Any:
    """The JSON in the last line that `python *arguments` prints in one of `count` processes.

    `options` are the launcher's, `variables` of the environment. Raises RuntimeError, with the
    reason, where there is no launcher and where a process fails.
    """
    found = launcher()
    if found is None:
        raise RuntimeError("there is no mpi4py or no mpirun: pip install 'xpr[mpi]'")
    command = [found, "--oversubscribe", *options, "-n", str(count), sys.executable, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(**AS_ROOT, **variables),
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        errors = [line for line in lines if "Error: " in line]  # among the launcher's own words
        raise RuntimeError(f"{(errors or lines)[-1]} (status {done.returncode})")
    return json.loads(done.stdout.splitlines()[-1])
