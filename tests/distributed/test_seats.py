"""Processes that nothing has launched: they find each other at an address, as JAX's do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping

import pytest

from tests.distributed.conftest import skip_without_mpi
from xpr.distributed import coordinator


@pytest.fixture(autouse=True)
def _needs_mpi() -> None:
    skip_without_mpi()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def run(programs: list[str], env: list[Mapping[str, str]] | None = None) -> list[tuple[str, str]]:
    """What the programs, started at once, write to their outputs."""
    started = []
    for p, program in enumerate(programs):
        more = env[p] if env else {}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(program)],
                env={**os.environ, **more},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return [p.communicate(timeout=120) for p in started]


PROGRAM = """
import sys
import numpy as np
import xpr as jax, xpr.numpy as jnp
jax.distributed.initialize({arguments})
assert jax.process_count() == 3 == jax.device_count()
mesh = jax.make_mesh((3,), ("i",))
sharding = jax.NamedSharding(mesh, jax.P("i"))
x = jax.make_array_from_callback((6,), sharding, lambda index: np.arange(6.0)[index])
total = jax.jit(lambda x: (x * x).sum())(x)
print(jax.process_index(), float(total))
"""


def coordinators(port: int) -> list[str]:
    """The command lines of the coordinators that listen on `port`."""
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [a for a in done.stdout.splitlines() if "coordinator.py" in a and f": {port}" in a]


def test_three_processes_compute_together_and_leave_nothing_behind() -> None:
    port = free_port()
    call = f"'localhost:{port}', 3, {{p}}, initialization_timeout=60"
    # The last one comes by variables, and process 0 comes last.
    programs = [PROGRAM.format(arguments=call.format(p=p)) for p in (1, 0)]
    programs.insert(0, PROGRAM.format(arguments=""))
    variables = {
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "2",
    }
    out = run(programs, [variables, {}, {}])
    assert [o.split() for o, _ in out] == [["2", "55.0"], ["1", "55.0"], ["0", "55.0"]], out
    end = time.monotonic() + 20
    while coordinators(port):
        assert time.monotonic() < end, "the coordinator has not ended"
        time.sleep(0.1)


START = "import xpr; xpr.distributed.initialize('127.0.0.1:{port}', {rest})"


def test_processes_that_do_not_come_are_named() -> None:
    port = free_port()
    one = START.format(port=port, rest="3, 0, initialization_timeout=3")
    ((_, error),) = run([one])
    assert "process 0 could not join the others" in error
    assert "processes 1, 2 did not come" in error


def test_numbers_must_agree() -> None:
    port = free_port()
    rests = ("2, 0, initialization_timeout=12", "3, 1, initialization_timeout=12")
    (_, first), (_, second) = run([START.format(port=port, rest=rest) for rest in rests])
    assert "process 0 has num_processes=2, this one 3" in second
    assert "process 1 did not come" in first


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ((_, error),) = run([START.format(port=port, rest="2, 0, initialization_timeout=5")])
    assert f"127.0.0.1:{port} cannot be listened on" in error


def test_no_coordinator_is_an_error() -> None:
    ((_, error),) = run([START.format(port=free_port(), rest="2, 1, initialization_timeout=1")])
    assert "no coordinator answers at 127.0.0.1" in error


def test_after_mpi_has_started_it_is_too_late() -> None:
    program = "from mpi4py import MPI\n" + START.format(port=free_port(), rest="2, 0")
    ((_, error),) = run([program])
    assert "MPI has been started in this process before" in error


def test_strangers_get_no_place() -> None:
    """Whoever sends nonsense, or comes twice or from another machine, is refused."""
    server = coordinator.Coordinator(2, time.monotonic() + 60)
    me = {"count": 2, "machine": coordinator.machine()}
    for said, refusal in (
        ({}, "process 0 has num_processes=2, this one None"),
        ({**me, "process": "0"}, "there is no process 0 among 2"),
        ({**me, "process": 2}, "there is no process 2 among 2"),
        ({**me, "process": 1, "machine": "another"}, "on another machine than process 0"),
    ):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            coordinator.send(ours, said)
            server._process(theirs)
            assert refusal in (coordinator.receive(ours) or {})["error"]
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(b"GET / HTTP/1.1\r\n")
        server._process(theirs)
        assert "num_processes=2" in (coordinator.receive(ours) or {})["error"]
