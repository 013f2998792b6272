"""The arguments of `initialize`, and what it says when it cannot be done."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

import xpr
from xpr.distributed import joining, mpi_processes


def alone(program, **env):
    """What a program without a launcher prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "XPR_NUM_CPU_DEVICES": "2", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


REFUSED = [
    ({"coordinator_address": 7}, "TypeError: coordinator_address must be a string host:port"),
    ({"coordinator_address": "here"}, "ValueError: coordinator_address must be of the form host"),
    ({"coordinator_bind_address": ":1"}, "ValueError: coordinator_bind_address must be of the"),
    ({"num_processes": 0}, "ValueError: num_processes must be at least 1, got 0"),
    ({"num_processes": "2"}, "TypeError: num_processes must be an integer, got str"),
    ({"process_id": -1}, "ValueError: process_id must be at least 0, got -1"),
    (
        {"num_processes": 2, "process_id": 2},
        "ValueError: process_id and num_processes must be nonnegative, with process_id < num_proc",
    ),
    ({"local_device_ids": []}, "ValueError: local_device_ids must be different numbers of devices"),
    ({"local_device_ids": [1, 1]}, "ValueError: local_device_ids must be different numbers of"),
    ({"local_device_ids": 1.5}, "TypeError: 'float' object is not iterable"),
    ({"cluster_detection_method": "k8s"}, "ValueError: cluster_detection_method must be one of"),
    ({"cluster_detection_method": "slurm"}, "RuntimeError: cluster_detection_method='slurm' needs"),
    ({"cluster_detection_method": "deactivate"}, "ValueError: cluster_detection_method='deactiv"),
    ({"initialization_timeout": 0}, "ValueError: initialization_timeout must be a positive number"),
    ({"shutdown_timeout_seconds": "5"}, "TypeError: shutdown_timeout_seconds must be a number of"),
    ({"heartbeat_timeout_seconds": -1}, "ValueError: heartbeat_timeout_seconds must be a positive"),
    ({"partition_index": -1}, "ValueError: partition_index must be at least 0, got -1"),
    (
        {"num_processes": 2},
        "RuntimeError: xpr.distributed.initialize() was told that there are 2 processes, but this "
        "one was started alone. Processes find each other by MPI: start the program with `mpirun "
        "-n 2 python ...`, or with `xpr launch -n 2 ...`",
    ),
]


def test_refused_arguments():
    program = f"""
        import xpr
        for arguments in {[a for a, _ in REFUSED]}:
            try:
                xpr.distributed.initialize(**arguments)
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}")
        assert not xpr.distributed.is_initialized()
        xpr.distributed.shutdown()
    """
    lines = alone(program).splitlines()
    for line, (arguments, message) in zip(lines, REFUSED, strict=True):
        assert line.startswith(message), arguments


def test_after_devices_were_used():
    xpr.devices("cpu")
    with pytest.raises(
        RuntimeError, match=r"must be called before any XPR calls.*cpu.* has started"
    ):
        xpr.distributed.initialize()
    assert not xpr.distributed.is_initialized()


def test_half_of_a_launcher():
    program = """
        import xpr
        try:
            xpr.distributed.initialize()
        except RuntimeError as error:
            print(error)
    """
    found = alone(program, OMPI_COMM_WORLD_SIZE="2")
    assert found.startswith("OMPI_COMM_WORLD_SIZE=2 is set and OMPI_COMM_WORLD_RANK is not, so")


@pytest.mark.parametrize(
    ("before", "env", "message"),
    [
        ("sys.modules['mpi4py'] = None", {}, "xpr.distributed needs the package mpi4py: pip"),
        ("", {"MPI4PY_LIBMPI": "/no/where"}, "mpi4py found no MPI library that it can use (MPI4PY"),
    ],
)
def test_without_mpi(before, env, message):
    pytest.importorskip("mpi4py", reason="mpi4py is of the extra mpi")
    program = f"""
        import sys
        import xpr
        {before}
        try:
            xpr.distributed.initialize()
        except ImportError as error:
            print(error)
        print(xpr.numpy.arange(3).sum())
    """
    found = alone(program, **env)
    assert found.startswith(message)
    assert "pip install 'xpr[mpi]'" in found
    assert found.endswith("3\n")


def test_a_program_that_was_started_alone():
    pytest.importorskip("mpi4py", reason="mpi4py is of the extra mpi")
    program = """
        import xpr
        xpr.distributed.initialize(num_processes=1, process_id=0, local_device_ids=1)
        print(xpr.process_count(), xpr.distributed.is_initialized(), xpr.devices())
        print([d.local_hardware_id for d in xpr.devices()], xpr.numpy.ones(2).devices())
        for _ in range(2):
            try:
                xpr.distributed.initialize()
            except RuntimeError as error:
                print(error)
            xpr.distributed.shutdown()
            print(xpr.distributed.is_initialized())
    """
    assert alone(program).splitlines() == [
        "1 True [CpuDevice(id=0)]",
        "[1] {CpuDevice(id=0)}",
        "xpr.distributed.initialize should only be called once.",
        "False",
        "xpr.distributed.initialize() was called and then xpr.distributed.shutdown(): MPI cannot "
        "be started again in the same process",
        "False",
    ]


def test_what_arguments_do(run_processes):
    def program():
        import os

        import xpr

        rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        xpr.distributed.initialize(
            "10.0.0.1:1234",
            2,
            rank,
            local_device_ids=[2, 0][: rank + 1],
            cluster_detection_method="ompi",
            heartbeat_timeout_seconds=7,
            partition_index=5 + rank,
        )
        from xpr.runtimes import processes

        print([processes.current.limit])
        xpr.config.update("collective_timeout", 9)
        print([processes.current.limit])
        xpr.config.update("collective_timeout", None)
        print([processes.current.limit])
        print([(d.id, d.local_hardware_id, d.slice_index) for d in xpr.devices()])
        try:
            xpr.config.update("num_cpu_devices", 2)
        except RuntimeError as error:
            print([str(error)])

    out = run_processes(
        2, program, devices=3, initialize=False, env={"XPR_COLLECTIVE_TIMEOUT": "none"}
    ).out
    assert out[0] == out[1]
    found = [ast.literal_eval(line) for line in out[0].splitlines()]
    assert found[:4] == [[7.0], [9.0], [7.0], [(0, 2, 5), (1, 2, 6), (2, 0, 6)]]
    assert found[4][0].startswith("num_cpu_devices must be set before")


def test_processes_that_do_not_agree(run_processes):
    # One process is told the wrong number, and asks for devices that it does not have.
    def program():
        import os

        import xpr

        rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        for arguments in ({"num_processes": 3}, {"local_device_ids": 4 * rank}):
            try:
                xpr.distributed.initialize(**arguments)
            except Exception as error:
                print(f"{type(error).__name__}: {error}")
        print(xpr.distributed.is_initialized())

    out = run_processes(2, program, initialize=False, may_fail=True).out
    for p, text in enumerate(out):
        number, devices, joined = text.splitlines()
        assert number == (
            "ValueError: num_processes=3 does not agree with Open MPI's mpirun, which has started "
            f"2 processes, of which this one is number {p}: leave the argument out, or start the "
            "program with another number of processes"
        )
        assert devices.startswith("ValueError: process 1 (host ")
        assert devices.endswith(
            "local_device_ids=[4] needs 5 devices of cpu in this process, which has 1"
        )
        assert joined == "False"


@pytest.mark.parametrize(
    ("hosts", "shares"),
    [
        ((0, 0, 0, 0), ["a", "b", "c", "d"]),
        ((0, 0, 1, 1), ["ac", "bd", "ac", "bd"]),
        ((0, 1, 0, 2), ["ac", "abcd", "bd", "abcd"]),
        ((0,) * 5, ["a", "b", "c", "d", "a"]),
    ],
)
def test_the_processes_of_a_machine_share_its_gpus(hosts, shares):
    found = [
        joining._share("abcd", SimpleNamespace(index=p, count=len(hosts), hosts=hosts))
        for p in range(len(hosts))
    ]
    assert found == [list(share) for share in shares]


def test_a_process_that_ends_is_seen(monkeypatch):
    pytest.importorskip("mpi4py", reason="mpi4py is of the extra mpi")
    with subprocess.Popen(["sleep", "60"]) as child:
        for there in (True, False):
            monkeypatch.setattr(os.path, "isdir", lambda path, there=there: there)
            assert mpi_processes._started(child.pid)
            assert mpi_processes._started(child.pid) == mpi_processes._started(child.pid)
        child.kill()
    for there in (True, False):
        monkeypatch.setattr(os.path, "isdir", lambda path, there=there: there)
        assert mpi_processes._started(child.pid) == ""
