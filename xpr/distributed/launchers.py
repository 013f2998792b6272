"""MPI's own launchers: which one to use, and how each is told what to do."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpr.distributed import library

_PASSED_ON = ("XPR_", "JAX_", "PYTHON", "MPI4PY_", "LD_LIBRARY_PATH", "PATH", "VIRTUAL_ENV")
"""Beginnings of the names of variables that processes on other hosts get, too."""


AS_ROOT: Mapping[str, str] = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""What Open MPI wants to be told by root, as whom containers run all."""


class LauncherMissingError(RuntimeError):
    """No launcher of an MPI is installed, or the one that was asked for does not work."""


@dataclass(frozen=True)
class MpiLauncher:
    """A program that starts the processes of an MPI job."""

    path: str
    kind: str
    """`openmpi`, or `hydra`, which is that of MPICH and of all that were made from it."""
    version: str = ""
    """What it says of itself."""

    def command(
        self, count: int, hosts: Sequence[str], environment: Mapping[str, str]
    ) -> list[str]:
        """The command line up to the program that each of `count` processes runs."""
        words = [self.path]
        if self.kind == "openmpi":
            # Processes have threads, which Open MPI would tie to one core otherwise.
            words += ["--oversubscribe", "--bind-to", "none"]
            if hosts:
                words += ["--host", ",".join(hosts)]
                for name in sorted(environment):
                    if name.startswith(_PASSED_ON):
                        words += ["-x", name]
        elif hosts:
            words += ["-hosts", ",".join(hosts)]
        return [*words, "-n", str(count)]

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables that the launcher itself needs, beside those that are set."""
        found = dict(environment)
        if self.kind == "openmpi" and _is_root():
            found.update(AS_ROOT)
        return found

    def remark(self) -> str:
        """What a user should know about how the launcher was started; "" for nothing."""
        if self.kind == "openmpi" and _is_root():
            return "started as root, which Open MPI advises against"
        return ""


def find(environment: Mapping[str, str], wished: str | None = None) -> MpiLauncher:
    """The launcher to use: the one that is `wished`, that of the library in `MPI4PY_LIBMPI`, that
    of an MPI of the machine, or that of a wheel.

    Raises LauncherMissingError, saying what to install, when there is none.
    """
    if wished is not None:
        return _of(wished)
    asked = environment.get("MPI4PY_LIBMPI")
    beside = _beside(asked) if asked else None
    path = beside or library.system_launcher(environment) or library.wheel_launcher()
    if path is None:
        raise LauncherMissingError(
            "no MPI is installed here, which starts the processes and lets them talk: "
            "`pip install 'xpr[mpi]'` brings one, or install Open MPI or MPICH with your system's "
            "package manager (`apt install openmpi-bin`, `module load openmpi`)"
        )
    return _of(path)


def _beside(place: str) -> str | None:
    """The launcher that belongs to the library in this file or folder."""
    for name in place.split(os.pathsep):
        path = Path(name).expanduser()
        folder = path if path.is_dir() else path.parent
        for launcher in ("mpirun", "mpiexec"):
            found = folder.parent / "bin" / launcher
            if os.access(found, os.X_OK):
                return str(found)
    return None


def _of(path: str) -> MpiLauncher:
    try:
        said = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LauncherMissingError(f"{path} cannot be started: {error}") from error
    text = said.stdout + said.stderr
    for kind, sign in (("openmpi", "Open MPI"), ("hydra", "HYDRA"), ("hydra", "Intel(R) MPI")):
        if sign in text:
            numbers = re.search(r"\d+(\.\d+)+", text)
            name = {"Open MPI": "Open MPI", "HYDRA": "MPICH"}.get(sign, "Intel MPI")
            return MpiLauncher(path, kind, f"{name} {numbers[0]}" if numbers else name)
    raise LauncherMissingError(
        f"{path} is not a launcher that is known here, which are those of Open MPI, MPICH and "
        f"Intel MPI; it says {' '.join(text.split())[:200]!r}. Start it yourself: {path} -n 4 "
        "python program.py"
    )


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
