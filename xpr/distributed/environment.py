"""What the launcher that started this process says in its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AUTOMATIC = ("ompi", "pmi", "slurm")
METHODS = (*AUTOMATIC, "mpi4py", "deactivate")
"""What `cluster_detection_method` may be."""


@dataclass(frozen=True)
class Launcher:
    """A launcher, and which of its processes this one is."""

    method: str
    name: str
    index: int
    count: int


_VARIABLES = {
    "ompi": ("Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "pmi": ("MPICH's mpiexec", "PMI_RANK", "PMI_SIZE"),
    "slurm": ("Slurm's srun", "SLURM_PROCID", "SLURM_NTASKS"),
}

_STEP = ("SLURM_STEP_ID", "SLURM_STEPID")
"""Set in what srun starts, and not in a batch script, where SLURM_PROCID and SLURM_NTASKS are."""

_STEP_SIZE = "SLURM_STEP_NUM_TASKS"
"""The number of processes of one srun, where SLURM_NTASKS may be that of the whole job."""


def with_variables(environment: Mapping[str, str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` of `initialize`, with what JAX's variables say in place of None."""
    found = dict(arguments)
    for name in arguments:
        variable = f"JAX_{name.upper()}"
        text = environment.get(variable)
        if found[name] is not None or not text:
            continue
        if name in ("num_processes", "process_id"):
            if not text.isdecimal():
                raise ValueError(f"{variable} must be a whole number, got {text!r}")
            found[name] = int(text)
        else:
            found[name] = text
    return found


def detect(environment: Mapping[str, str], method: str | None = None) -> Launcher | None:
    """The launcher that started this process; None for a process that was started alone.

    An mpirun inside a Slurm job is the launcher there. Raises RuntimeError for a launcher that sets
    a part of its variables, or nonsense, and for one other than `method` asks for.
    """
    if method is not None and method not in METHODS:
        raise ValueError(
            f"cluster_detection_method must be one of {', '.join(METHODS)} or None, got {method!r}"
        )
    for name in (method,) if method in AUTOMATIC else AUTOMATIC:
        found = _of(name, environment)
        if found is not None:
            return found
    if method in AUTOMATIC:
        shown, *variables = _VARIABLES[method]
        raise RuntimeError(
            f"cluster_detection_method={method!r} needs a process that {shown} started: "
            f"{' and '.join(variables)} are not set"
        )
    return None


def _of(method: str, environment: Mapping[str, str]) -> Launcher | None:
    name, rank, size = _VARIABLES[method]
    if method == "slurm":
        if not any(v in environment for v in _STEP):
            return None
        if _STEP_SIZE in environment:
            size = _STEP_SIZE
    there = [v for v in (rank, size) if v in environment]
    if not there:
        return None
    if len(there) == 1:
        (missing,) = {rank, size} - set(there)
        raise RuntimeError(
            f"{there[0]}={environment[there[0]]} is set and {missing} is not, so which of "
            f"{name}'s processes this is cannot be known: start the program with mpirun, mpiexec, "
            "srun or `xpr launch`, or unset what is left over of one of them"
        )
    values = []
    for variable in (rank, size):
        text = environment[variable]
        if not text.isdecimal():
            raise RuntimeError(f"{variable} must be a number, got {text!r}")
        values.append(int(text))
    index, count = values
    if index >= count:
        raise RuntimeError(f"{rank}={index} must be less than {size}={count}")
    return Launcher(method, name, index, count)
