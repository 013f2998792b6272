"""`run_processes`: a program under MPI's launcher, in bounded time."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from xpr.distributed.launchers import AS_ROOT

ROOT = Path(__file__).parent.parent.parent
LAUNCHER = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
START = "import xpr; xpr.distributed.initialize()\n"


@dataclass(frozen=True)
class Outcome:
    """What a program of several processes did: `out[p]` and `err[p]` are what process p wrote."""

    code: int
    out: list[str]
    err: list[str]
    launcher: str
    """What the launcher itself wrote."""

    def __str__(self) -> str:
        parts = [f"exit status {self.code}", self.launcher]
        for p, (out, err) in enumerate(zip(self.out, self.err, strict=True)):
            parts.append(f"--- process {p}\n{out}{err}")
        return "\n".join(parts)


def skip_without_mpi() -> None:
    """Skips where programs of several processes cannot be started."""
    if importlib.util.find_spec("mpi4py") is None or LAUNCHER is None:
        pytest.skip("needs mpi4py and mpirun: pip install 'xpr[mpi]'")


@pytest.fixture
def run_processes(tmp_path: Path) -> Callable[..., Outcome]:
    """A function that runs a program in `n` processes.

    `program` is a text, or a function whose body is taken for one (it must need nothing around it);
    `initialize` puts `xpr.distributed.initialize()` before it. Without `may_fail` a status
    other than 0 fails the test with all that was written. A launch takes 1 to 2 s: test several
    things in one.
    """
    skip_without_mpi()

    def run(
        n: int,
        program: str | Callable[[], Any],
        *,
        devices: int = 1,
        env: Mapping[str, str] | None = None,
        timeout: float = 240,
        may_fail: bool = False,
        initialize: bool = True,
        flags: tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
    ) -> Outcome:
        text = program if isinstance(program, str) else _body(program)
        script = tmp_path / "program.py"
        script.write_text((START if initialize else "") + textwrap.dedent(text))
        outcome = _launch(n, script, devices, dict(env or {}), timeout, flags, arguments)
        if outcome.code and not may_fail:
            pytest.fail(str(outcome))
        return outcome

    return run


def _body(function: Callable[[], Any]) -> str:
    lines = inspect.getsource(function).splitlines()
    start = next(i for i, line in enumerate(lines) if line.rstrip().endswith(":"))
    return textwrap.dedent("\n".join(lines[start + 1 :])) + "\n"


def _launch(
    n: int,
    script: Path,
    devices: int,
    env: dict[str, str],
    timeout: float,
    flags: tuple[str, ...],
    arguments: tuple[str, ...],
) -> Outcome:
    # Each process writes into files of its own, so that lines do not mix.
    folder = Path(tempfile.mkdtemp(dir=script.parent))
    wrapper = (
        'exec "$0" "$@" >"$XPR_TEST_FOLDER/out.$OMPI_COMM_WORLD_RANK" '
        '2>"$XPR_TEST_FOLDER/err.$OMPI_COMM_WORLD_RANK"'
    )
    command = [str(LAUNCHER), "--oversubscribe", *flags, "-n", str(n)]
    command += ["sh", "-c", wrapper, sys.executable, str(script), *arguments]
    environment = {
        **os.environ,
        **AS_ROOT,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "XPR_NUM_CPU_DEVICES": str(devices),
        "XPR_COLLECTIVE_TIMEOUT": "30",
        "XPR_TEST_FOLDER": str(folder),
        **env,
    }
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as launcher:
        try:
            said, _ = launcher.communicate(timeout=timeout)
            late = ""
        except subprocess.TimeoutExpired:
            late = f"did not end within {timeout} s"
            os.killpg(launcher.pid, signal.SIGTERM)  # the launcher ends its processes
            try:
                said, _ = launcher.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(launcher.pid, signal.SIGKILL)
                said, _ = launcher.communicate()

    def read(kind: str) -> Iterator[str]:
        for p in range(n):
            path = folder / f"{kind}.{p}"
            yield path.read_text() if path.exists() else ""

    outcome = Outcome(launcher.returncode, list(read("out")), list(read("err")), said)
    if late:
        pytest.fail(f"the processes {late}\n{outcome}")
    return outcome
