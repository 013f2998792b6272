"""Processes that nobody launched: `initialize("host:port", num_processes, process_id)`.

A process joins a job of MPI by what its launcher puts into its environment. So process 0 starts a
coordinator, which has `mpirun` start a seat for each process: a process that sends its environment
to the coordinator, and sleeps. The processes connect to the coordinator, get the environment of the
seat with their number, and join the job in its place (Open MPI's PMIx server asks for a user and a
number, not for who started the process). Seats end when the processes do, and the job with them.

The server listens on its own machine alone, so this is for the processes of one machine.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from xpr.distributed import coordinator, launchers

_kept: list[Any] = []  # the coordinator, and the connection to it while this process lives


def take(address: str, bound: str | None, count: int, index: int, patience: float) -> None:
    """Puts the environment of seat `index` of `count` into this process's.

    `address` is that of the coordinator, host:port, and `bound` where it listens, if elsewhere.
    Raises RuntimeError when there is no Open MPI, when the address cannot be used, and when
    not all processes come within `patience` seconds.
    """
    deadline = time.monotonic() + (math.inf if math.isnan(patience) else patience)
    if index == 0:
        _start_coordinator(bound or address, count, patience)
    connection = _connected(address, deadline)
    me = {"process": index, "count": count, "machine": coordinator.machine()}
    coordinator.send(connection, me)
    # The coordinator keeps the time, and says who is missing; this is for one that hangs.
    connection.settimeout(None if deadline == math.inf else deadline + 10 - time.monotonic())
    answer = coordinator.receive(connection) or {"error": "the coordinator has ended"}
    connection.settimeout(None)
    if "error" in answer:
        connection.close()
        raise RuntimeError(_failed(address, index, answer["error"]))
    os.environ.update(answer["environment"])
    _kept.append(connection)


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _failed(address: str, index: int, why: str) -> str:
    return f"process {index} could not join the others at {address}: {why}"


def _start_coordinator(address: str, count: int, patience: float) -> None:
    launcher = launchers.find(os.environ)
    if launcher.kind != "openmpi":
        raise RuntimeError(
            f"{launcher.path} is {launcher.version}, whose processes cannot take the place of "
            f"others: start the program with `mpirun -n {count} python ...`, or install Open MPI"
        )
    host, port = _host_and_port(address)
    task = {
        "address": host,
        "port": port,
        "count": count,
        "patience": 1e9 if math.isnan(patience) else patience,
        "launcher": launcher.command(count, [], {}),
    }
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(coordinator.__file__)), json.dumps(task)],
        env=launcher.environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it outlives this process, and Ctrl-C is not meant for it
    )
    assert started.stdout is not None
    with started.stdout:
        error = started.stdout.readline().decode().strip()
    if error or started.poll() is not None:
        raise RuntimeError(_failed(address, 0, error or "the coordinator could not be started"))
    _kept.append(started)


def _connected(address: str, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(_host_and_port(address), timeout=10)
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"no coordinator answers at {address}, which process 0 starts: {error}"
                ) from error
            time.sleep(0.1)
