"""The coordinator of processes that nobody launched, and the seats that it keeps for them.

Run by path, without the rest of xpr: `coordinator.py {"address": ...}` by process 0, and
`coordinator.py --seat PORT TOKEN` by MPI's launcher. `xpr.distributed.seats` tells how they work
together. Messages are lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from typing import Any

_PASSED_ON = ("PMIX_", "OMPI_", "PRTE_", "OPAL_")
"""Beginnings of the names of variables by which a process of Open MPI finds its job."""

_LIMIT = 1 << 20
"""The longest message, in bytes."""


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Sends a message."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """The next message; None when the other side has ended or sends no message."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            part = connection.recv(4096)
        except OSError:
            return None
        line += part
        if not part or len(line) > _LIMIT:
            return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def machine() -> str:
    """What tells machines apart; a container has that of its machine, and a name of its own."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


class Coordinator:
    """Brings `count` processes and as many seats together."""

    def __init__(self, count: int, deadline: float) -> None:
        self._count = count
        self._deadline = deadline
        self._changed = threading.Condition()
        self._processes: set[int] = set()
        self._seats: dict[int, tuple[dict[str, str], socket.socket]] = {}
        self._error = ""
        self._token = secrets.token_hex(16)

    def run(self, processes: socket.socket, launcher: list[str]) -> None:
        """Serves the processes that connect to `processes`, until MPI's job has ended."""
        seats = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_serve, args=(seats, self._seat), daemon=True).start()
        threading.Thread(target=_serve, args=(processes, self._process), daemon=True).start()
        own = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
        command = [*launcher, *own, "--seat", str(seats.getsockname()[1]), self._token]
        job = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        threading.Thread(target=self._watch, args=(job,), daemon=True).start()
        said = job.communicate()[0].decode(errors="replace")
        self._fail(f"{launcher[0]} has ended with status {job.returncode}: {said[-500:].strip()}")
        time.sleep(1)  # until all that wait have been told

    def _watch(self, job: subprocess.Popen[bytes]) -> None:
        with self._changed:
            self._changed.wait_for(self._is_complete, self._deadline - time.monotonic())
            if self._is_complete():
                return
            if len(self._processes) < self._count:
                missing = sorted(set(range(self._count)) - self._processes)
                who = "process" if len(missing) == 1 else "processes"
                error = f"{who} {', '.join(map(str, missing))} did not come"
            else:
                error = f"{' '.join(map(str, job.args))} did not start"  # type: ignore[arg-type]
        self._fail(error)
        job.kill()

    def _is_complete(self) -> bool:
        return bool(self._error) or len(self._processes) == self._count == len(self._seats)

    def _fail(self, error: str) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _seat(self, connection: socket.socket) -> None:
        said = receive(connection)
        if said is None or said.get("token") != self._token:
            connection.close()
            return
        with self._changed:
            self._seats[said["seat"]] = (said["environment"], connection)
            self._changed.notify_all()

    def _process(self, connection: socket.socket) -> None:
        said = receive(connection) or {}
        index: Any = said.get("process")
        refusal = self._refusal(index, said)
        if refusal:
            send(connection, {"error": refusal})
            connection.close()
            return
        with self._changed:
            self._processes.add(index)
            self._changed.notify_all()
            self._changed.wait_for(self._is_complete)
            error = self._error
        if error:
            send(connection, {"error": error})
            connection.close()
            return
        environment, seat = self._seats[index]
        send(connection, {"environment": environment})
        receive(connection)  # returns when the process ends
        connection.close()
        seat.close()

    def _refusal(self, index: Any, said: dict[str, Any]) -> str:
        if said.get("count") != self._count:
            return f"process 0 has num_processes={self._count}, this one {said.get('count')}"
        if not isinstance(index, int) or not 0 <= index < self._count:
            return f"there is no process {index} among {self._count}"
        if said.get("machine") != machine():
            return (
                "it is on another machine than process 0, and Open MPI lets processes join a job "
                "only on the machine of its launcher: start the processes with mpirun, srun or "
                "`xpr launch --hosts`"
            )
        with self._changed:
            if index in self._processes:
                return f"there is a process with process_id={index} already"
        return ""


def _serve(server: socket.socket, handle: Any) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=handle, args=(connection,), daemon=True).start()


def coordinate(address: str, port: int, count: int, patience: float, launcher: list[str]) -> None:
    """Runs the coordinator; the first line of its output is empty, or says why it cannot run."""
    try:
        server = socket.create_server((address, port))
    except OSError as error:
        print(f"{address}:{port} cannot be listened on: {error}", flush=True)
        return
    print(flush=True)
    Coordinator(count, time.monotonic() + patience).run(server, launcher)


def sit(port: int, token: str) -> None:
    """Gives this process's place in MPI's job away, and ends when who took it has ended."""
    environment = {n: v for n, v in os.environ.items() if n.startswith(_PASSED_ON)}
    with socket.create_connection(("127.0.0.1", port)) as connection:
        seat = int(environment["OMPI_COMM_WORLD_RANK"])
        send(connection, {"token": token, "seat": seat, "environment": environment})
        receive(connection)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        if sys.argv[1] == "--seat":
            sit(int(sys.argv[2]), sys.argv[3])
        else:
            coordinate(**json.loads(sys.argv[1]))
