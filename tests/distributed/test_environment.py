"""What launchers say in the environment, and which MPI library goes with them."""

from __future__ import annotations

import os
import sys

import pytest

from xpr.distributed import library
from xpr.distributed.environment import Launcher, detect

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "3"}
SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        (OPEN_MPI, Launcher("ompi", "Open MPI's mpirun", 1, 4)),
        (MPICH, Launcher("pmi", "MPICH's mpiexec", 2, 3)),
        (SLURM, Launcher("slurm", "Slurm's srun", 0, 8)),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "2"}, Launcher("slurm", "Slurm's srun", 0, 2)),
        # mpirun in a job of Slurm; a batch script, and a shell, that no launcher started
        ({**SLURM, **OPEN_MPI}, Launcher("ompi", "Open MPI's mpirun", 1, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"SLURM_NTASKS": "8"}, None),
    ],
)
def test_launchers(environment, expected):
    assert detect(environment) == expected


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"OMPI_COMM_WORLD_SIZE": "2"},
            "OMPI_COMM_WORLD_SIZE=2 is set and OMPI_COMM_WORLD_RANK is not",
        ),
        ({"PMI_RANK": "0"}, "PMI_RANK=0 is set and PMI_SIZE is not"),
        ({"SLURM_PROCID": "1", "SLURM_STEP_ID": "0"}, "SLURM_PROCID=1 is set and SLURM_NTASKS is"),
        ({"PMI_RANK": "0", "PMI_SIZE": "many"}, "PMI_SIZE must be a number, got 'many'"),
        ({"PMI_RANK": "3", "PMI_SIZE": "3"}, "PMI_RANK=3 must be less than PMI_SIZE=3"),
    ],
)
def test_launchers_that_say_half(environment, message):
    with pytest.raises(RuntimeError, match=message):
        detect(environment)


def test_methods():
    both = {**OPEN_MPI, **SLURM}
    found = [detect(both, m) for m in (None, "ompi", "slurm", "mpi4py", "deactivate")]
    assert [f and f.method for f in found] == ["ompi", "ompi", "slurm", "ompi", "ompi"]
    with pytest.raises(RuntimeError, match="needs a process that MPICH's mpiexec started"):
        detect(both, "pmi")
    with pytest.raises(ValueError, match="must be one of ompi, pmi, slurm, mpi4py, deactivate"):
        detect({}, "k8s")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with an MPI in a folder of its own, and a wheel in Python's environment."""
    for name, found in (
        ("system", ("bin/mpirun", "lib64/libmpi.so.40")),
        ("python", ("bin/mpirun", "bin/mpiexec", "lib/libmpi.so.12")),
        ("launcher", ("lib/libmpi.so.40",)),
    ):
        for path in found:
            file = tmp_path / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path / "python"))
    monkeypatch.setattr(library, "_ancestors", lambda: iter(()))
    return tmp_path


def test_the_order_of_libraries(machine):
    wheel = f"{machine}/python/lib"
    path = os.pathsep.join([f"{machine}/python/bin", f"{machine}/system/bin"])
    assert library.places({"PATH": f"{machine}/python/bin"}) == ["", wheel]
    assert library.places({"PATH": path}) == [f"{machine}/system/lib64", "", wheel]
    # What started the process comes first, because others cannot talk to it.
    assert library.places({"PATH": path, "OMPI_LIBDIR_LOC": wheel})[0] == wheel
    started = {"PATH": path, "OPAL_PREFIX": f"{machine}/launcher"}
    assert library.places(started) == [
        f"{machine}/launcher/lib",
        f"{machine}/system/lib64",
        "",
        wheel,
    ]


def test_a_launcher_above_this_process(machine, monkeypatch):
    above = [machine / "sh", machine / "launcher" / "bin" / "prted"]
    monkeypatch.setattr(library, "_ancestors", lambda: iter(above))
    assert library.places({"PATH": ""})[0] == f"{machine}/launcher/lib"


def test_launchers_of_the_machine_and_of_the_wheel(machine):
    path = os.pathsep.join([f"{machine}/python/bin", f"{machine}/system/bin"])
    assert library.system_launcher({"PATH": path}) == f"{machine}/system/bin/mpirun"
    assert library.system_launcher({"PATH": f"{machine}/python/bin"}) is None
    assert library.wheel_launcher() == f"{machine}/python/bin/mpirun"
