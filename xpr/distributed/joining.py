"""`initialize`, `shutdown` and `is_initialized`."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Sequence
from typing import Any

from xpr.core.config import on_update, state
from xpr.distributed import environment, library, seats, starting
from xpr.distributed.environment import Launcher
from xpr.distributed.leaving import Leaving
from xpr.distributed.mpi_processes import MpiProcesses, library_version
from xpr.runtimes import processes, registry
from xpr.runtimes.base import Device

_WHAT = "xpr.distributed.initialize()"

_joined: Leaving | None = None
_was_joined = False


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int | None = None,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Joins this process to the others that were started with it, by `mpirun` or `srun`.

    From then on `xpr.devices()` are the devices of all processes, and every process must run the
    same program. It must come before any computation. A process that was started alone, without a
    launcher, goes on alone, unless it is told of others: processes of one machine that nothing has
    launched find each other at `coordinator_address` (this needs Open MPI).

    Args:
      coordinator_address: host:port, where process 0 listens for the others. Not used by processes
        that a launcher started: MPI has found them already.
      num_processes, process_id: how many processes there are, and which one this is. With a
        launcher they must be those of MPI, where they are given. Without one, what is None is
        taken from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID.
      local_device_ids: the devices of the default backend that this process uses, by their numbers
        within the machine. None: all CPU devices; of GPUs those that are this process's when the
        processes of one machine share them out.
      cluster_detection_method: "ompi", "pmi" or "slurm" ask for a process that Open MPI, MPICH or
        Slurm started. "mpi4py" and None take what there is; "deactivate" does not look, and needs
        num_processes and process_id.
      initialization_timeout: seconds that the others may take to come here.
      heartbeat_timeout_seconds: seconds after which a process that does not answer is given up,
        where the setting `collective_timeout` does not tell; None means 60.
      shutdown_timeout_seconds: seconds that a process waits at its end for the others to end.
      coordinator_bind_address: host:port where process 0 listens, if it is not
        coordinator_address.
      partition_index: a number that the devices of this process have as `slice_index`; either all
        processes give one or none. `slice_index` is an older name for it.

    Raises:
      RuntimeError: it is called twice or after devices were used, or the launcher and the MPI
        library do not belong together.
      ImportError: mpi4py or an MPI library is missing.
      TypeError, ValueError: an argument cannot be honoured.

    A program that is started as `mpirun -n 4 python program.py` prints 4 here; started alone, 1:

    >>> import subprocess, sys
    >>> program = "import xpr; xpr.distributed.initialize(); print(xpr.process_count())"
    >>> print(subprocess.check_output([sys.executable, "-c", program], text=True).strip())
    1
    """
    global _joined, _was_joined
    if _joined is not None:
        raise RuntimeError(f"{_WHAT[:-2]} should only be called once.")
    if _was_joined:
        raise RuntimeError(
            f"{_WHAT} was called and then xpr.distributed.shutdown(): MPI cannot be started again "
            "in the same process"
        )
    if registry.live():
        raise RuntimeError(
            f"{_WHAT} must be called before any XPR calls that might start a backend. This "
            "includes any computation, but also calls to xpr.devices, xpr.device_put, and others: "
            f"here {', '.join(registry.live())} has started"
        )
    launcher = environment.detect(os.environ, cluster_detection_method)
    given = {
        "coordinator_address": coordinator_address,
        "coordinator_bind_address": coordinator_bind_address,
        "num_processes": num_processes,
        "process_id": process_id,
    }
    if launcher is None:
        given = environment.with_variables(os.environ, given)
    address = _checked_address("coordinator_address", given["coordinator_address"])
    bound = _checked_address("coordinator_bind_address", given["coordinator_bind_address"])
    count = _whole("num_processes", given["num_processes"], 1)
    index = _whole("process_id", given["process_id"], 0)
    if count is not None and index is not None and index >= count:
        raise ValueError(
            "process_id and num_processes must be nonnegative, with process_id < num_processes. "
            f"Got process_id={index}, num_processes={count}."
        )
    patience = _seconds("initialization_timeout", initialization_timeout)
    last_patience = _seconds("shutdown_timeout_seconds", shutdown_timeout_seconds)
    limit = _seconds("heartbeat_timeout_seconds", heartbeat_timeout_seconds)
    ids = _device_ids(local_device_ids)
    if partition_index is None:
        partition_index = slice_index
    partition = _whole("partition_index", partition_index, 0)
    if cluster_detection_method == "deactivate" and None in (count, index):
        raise ValueError(
            "cluster_detection_method='deactivate' needs num_processes and process_id, got "
            f"{count} and {index}"
        )
    if launcher is not None:
        _compare(count, index, launcher.count, launcher.index, launcher.name)
    elif count is not None and count > 1:
        launcher = _take_seat(address, bound, count, index, patience)

    MPI, started_here = starting.start(library.load(), patience)
    _check_library(MPI, launcher)
    found = MpiProcesses(MPI)
    leaving = Leaving(found, last_patience, finalizes=started_here)
    _was_joined = True
    try:
        _compare(count, index, found.count, found.index, "MPI")
        found.meet(_WHAT, patience)
        _join_devices(found, ids, partition, patience)
    except BaseException as error:
        found.fail(error)  # or the others would wait for what this one will never do
        raise
    _joined = leaving
    _heartbeat[0] = limit
    _set_limit(state.collective_timeout)
    if found.count > 1:
        processes.current = found


def is_initialized() -> bool:
    """Whether `initialize` has joined this process to others, and `shutdown` was not called.

    >>> import xpr
    >>> xpr.distributed.is_initialized()
    False
    """
    return _joined is not None


def shutdown() -> None:
    """Waits until all processes have come here or ended, and leaves them.

    Every program that was joined does this when it ends. Afterwards nothing can be computed
    together any more. Does nothing in a program that was not joined. Raises TimeoutError when
    `shutdown_timeout_seconds` are over, PeerError when another process failed.

    >>> import xpr
    >>> xpr.distributed.shutdown()  # in a program that was not joined
    """
    global _joined
    found, _joined = _joined, None
    if found is not None:
        found.leave()


def _take_seat(
    address: str | None, bound: str | None, count: int, index: int | None, patience: float
) -> Launcher | None:
    """Joins MPI's job of processes that nothing has launched."""
    if address is None or index is None:
        raise RuntimeError(
            f"{_WHAT} was told that there are {count} processes, but this one was started alone. "
            f"Processes find each other by MPI: start the program with `mpirun -n {count} python "
            f"...`, or with `xpr launch -n {count} ...`; or give coordinator_address, "
            "num_processes and process_id, on one machine"
        )
    if library.is_started():
        raise RuntimeError(
            f"MPI has been started in this process before {_WHAT}, for this process alone: call "
            "initialize first"
        )
    seats.take(address, bound, count, index, patience)
    return environment.detect(os.environ)


# ---- arguments


def _checked_address(name: str, address: Any) -> str | None:
    if address is None:
        return None
    if not isinstance(address, str):
        raise TypeError(f"{name} must be a string host:port, got {type(address).__name__}")
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise ValueError(f"{name} must be of the form host:port, got {address!r}")
    return address


def _whole(name: str, value: int | None, least: int) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def _seconds(name: str, value: float | None) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}")
    if not value > 0:
        raise ValueError(f"{name} must be a positive number of seconds, got {value}")
    return float(value)


def _device_ids(ids: int | Sequence[int] | None) -> list[int] | None:
    if ids is None:
        return None
    wanted = [ids] if isinstance(ids, int) else list(ids)
    found = [_whole("local_device_ids", i, 0) for i in wanted]
    numbers = [i for i in found if i is not None]
    if not numbers or len(set(numbers)) < len(wanted):
        raise ValueError(f"local_device_ids must be different numbers of devices, got {wanted}")
    return numbers


def _compare(count: int | None, index: int | None, real: int, here: int, whose: str) -> None:
    for name, given, right in (
        ("num_processes", count, real),
        ("process_id", index, here),
    ):
        if given is not None and given != right:
            raise ValueError(
                f"{name}={given} does not agree with {whose}, which has started {real} processes, "
                f"of which this one is number {here}: leave the argument out, or start the program "
                "with another number of processes"
            )


def _check_library(MPI: Any, launcher: Launcher | None) -> None:
    world = MPI.COMM_WORLD
    seen = (world.Get_rank(), world.Get_size())
    if launcher is None or seen == (launcher.index, launcher.count):
        return
    raise RuntimeError(
        f"{launcher.name} started {launcher.count} processes, this being number {launcher.index}, "
        f"but for the MPI library of this process ({library_version(MPI)}) it is number {seen[0]} "
        f"of {seen[1]}: the launcher and the library belong to different MPIs. Use the launcher of "
        "that library (`xpr launch` finds it), or set MPI4PY_LIBMPI to the folder of the "
        "launcher's library"
    )


# ---- devices


def _join_devices(
    found: MpiProcesses, ids: list[int] | None, partition: int | None, patience: float
) -> None:
    default = registry.default_backend()
    names = dict.fromkeys([default, "cpu", "reference"])
    own: dict[str, Sequence[Device]] = {}
    error = None
    for name in names:
        here = registry.get_runtime(name).devices()
        own[name] = here
        if name == default and ids is not None:
            if max(ids) < len(here):
                own[name] = [here[i] for i in ids]
            else:
                error = (
                    f"local_device_ids={ids} needs {max(ids) + 1} devices of {default} in this "
                    f"process, which has {len(here)}"
                )
        elif not registry.get_runtime(name).is_host:
            own[name] = _share(here, found)
    mine = {
        "default": default,
        "devices": {
            name: [(d.local_hardware_id, d.device_kind) for d in ds] for name, ds in own.items()
        },
        "partition": partition,
        "error": error,
    }
    texts = found.gather(json.dumps(mine).encode(), what=_WHAT, timeout=patience)
    all_of_them = [json.loads(text) for text in texts]
    _check_agreement(found, all_of_them)
    devices = {name: [one["devices"][name] for one in all_of_them] for name in names}
    registry.join(devices, own, found.index)
    if partition is not None:
        for name in names:
            for device in registry.devices(name):
                device.slice_index = all_of_them[device.process_index]["partition"]


def _share(here: Sequence[Device], found: MpiProcesses) -> Sequence[Device]:
    """The GPUs of a machine that are this process's, of those of its machine."""
    machine = found.hosts[found.index]
    beside = [p for p in range(found.count) if found.hosts[p] == machine]
    place = beside.index(found.index)
    return list(here[place :: len(beside)]) or [here[place % len(here)]]


def _check_agreement(found: MpiProcesses, all_of_them: Sequence[dict[str, Any]]) -> None:
    for p, one in enumerate(all_of_them):
        if one["error"] is not None:
            raise ValueError(f"{found.describe(p)}: {one['error']}")
    first = all_of_them[0]
    for p, one in enumerate(all_of_them):
        if one["default"] != first["default"]:
            raise RuntimeError(
                f"{found.describe(0)} works on {first['default']} and {found.describe(p)} on "
                f"{one['default']}: all processes need the same backend, set XPR_PLATFORMS"
            )
        if (one["partition"] is None) != (first["partition"] is None):
            raise ValueError(
                f"either all processes give partition_index or none: {found.describe(0)} has "
                f"{first['partition']}, {found.describe(p)} has {one['partition']}"
            )


# ---- the limit of waits

_heartbeat = [math.nan]


def _set_limit(value: float | None) -> None:
    if _joined is not None:
        otherwise = processes.DEFAULT_LIMIT if math.isnan(_heartbeat[0]) else _heartbeat[0]
        _joined.processes.limit = otherwise if value is None else value


on_update("collective_timeout", _set_limit)
