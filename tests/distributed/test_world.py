"""The world of processes: numbers, devices, and what everybody says."""

from __future__ import annotations

import ast
import re

from xpr.distributed.mpi_processes import Peer, _share


def test_numbers_and_devices(run_processes):
    def program():
        import xpr

        print(
            [
                xpr.process_index(),
                xpr.process_count(),
                xpr.process_indices(),
                str(xpr.devices()),
                str(xpr.local_devices()),
                [d.process_index for d in xpr.devices()],
                [d.local_hardware_id for d in xpr.devices()],
                str(xpr.local_devices(process_index=1)),
                (xpr.device_count(), xpr.local_device_count()),
                xpr.distributed.is_initialized(),
                float(xpr.numpy.arange(4.0).sum()),
                str(xpr.numpy.ones(2).devices()),
            ]
        )

    found = [ast.literal_eval(out) for out in run_processes(2, program, devices=2).out]
    everything = ", ".join(f"CpuDevice(id={i})" for i in range(4))
    for p, got in enumerate(found):
        mine = f"[CpuDevice(id={2 * p}), CpuDevice(id={2 * p + 1})]"
        assert got == [
            p,
            2,
            [0, 1],
            f"[{everything}]",
            mine,
            [0, 0, 1, 1],
            [0, 1, 0, 1],
            "[CpuDevice(id=2), CpuDevice(id=3)]",
            (4, 2),
            True,
            6.0,
            f"{{CpuDevice(id={2 * p})}}",
        ]


def test_gather(run_processes):
    def program():
        from xpr.runtimes import processes

        here = processes.current
        mine = bytes([here.index]) * 10**6
        big = here.gather(mine, what="big")
        print([(b[0], len(b)) for b in big])
        if here.index != 1:
            print(here.gather(b"%d" % here.index, what="some", members=(2, 0)))
        here.barrier(what="end")

    found = run_processes(3, program).out
    sizes = str([(p, 10**6) for p in range(3)])
    assert found == [f"{sizes}\n[b'2', b'0']\n", f"{sizes}\n", f"{sizes}\n[b'2', b'0']\n"]


def test_what_meets_in_the_background_has_an_order_of_its_own(run_processes):
    def program():
        import threading

        from xpr.runtimes import processes

        here = processes.current
        found = []
        start = threading.Event()

        def behind():
            start.wait()
            found.append(here.gather(b"%d" % here.index, what="saving", channel="behind"))

        thread = threading.Thread(target=behind)
        thread.start()
        if here.index == 0:  # the background comes first here, last there
            start.set()
        print(here.gather(b"%d" % here.index, what="first"))
        print(here.gather(b"%d" % (here.index + 2), what="second"))
        start.set()
        thread.join()
        print(found)

    expected = "[b'0', b'1']\n[b'2', b'3']\n[[b'0', b'1']]\n"
    assert run_processes(2, program).out == [expected] * 2


def test_devices_of_other_processes(run_processes):
    def program():
        import numpy as np

        import xpr
        import xpr.numpy as jnp
        from xpr.runtimes import processes

        def failure(f):
            try:
                f()
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            return "nothing"

        (far,) = [d for d in xpr.devices() if d not in xpr.local_devices()]
        print(far, far.platform, far.client, far.memory_stats(), far.host_id)
        print(failure(lambda: xpr.jit(jnp.sin, device=far)(2.0)))
        with xpr.default_device(far):
            print(failure(lambda: jnp.ones(2) + 1))
        with xpr.default_device("cpu"):
            print(jnp.ones(2).devices() == set(xpr.local_devices()))
        print(failure(lambda: far.client.buffer_from_host(np.ones(2), far, copy=True)))
        print(xpr.devices("vmvx") == xpr.local_devices(backend="vmvx"))
        print(*[li for li in xpr.print_devices(return_string=True).splitlines() if "cpu:" in li])
        text = xpr.print_environment_info(return_string=True)
        about = [li for li in text.splitlines() if "process" in li]
        print(about[0])
        print(about[1] == f"this process: {processes.current.describe(xpr.process_index())}")
        print(about[2])

    for p, out in enumerate(run_processes(2, program).out):
        other = 1 - p
        lines = out.splitlines()
        refused = f"ValueError: CpuDevice(id={other}) belongs to process {other} and cannot"
        place = "use one of xpr.local_devices(), or a sharding over the devices of all processes"
        assert lines[:6] == [
            f"cpu:{other} cpu <RemoteRuntime 'cpu'> None {other}",
            f"{refused} run a program of this process: {place}",
            f"{refused} be the default device of this process: {place}",
            "True",
            f"{refused} hold an array of this process: {place}",
            "True",
        ]
        assert re.search(rf"cpu:{p}\* +cpu .* cpu:{other} +cpu +- +in process {other}$", lines[6])
        assert lines[7:9] == ["process_count: 2", "True"]
        assert re.fullmatch(r"processes meet by: MPI, .* v?\d[\d.]+, on 1 machine", lines[9])


def test_one_thread_at_a_time(run_processes):
    """An MPI that somebody else started, and that takes calls of one thread at a time."""

    def program():
        import threading

        import mpi4py
        import numpy as np

        mpi4py.rc.thread_level = "serialized"
        from mpi4py import MPI

        import xpr

        print(MPI.Query_thread() == MPI.THREAD_SERIALIZED)
        xpr.distributed.initialize()
        from xpr.runtimes import processes

        here = processes.current
        found = {}

        def work(name):
            for i in range(20):
                parts = here.gather(b"%d" % (i + here.index), what=name, channel=name)
                found[name, i] = [int(b) for b in parts]

        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(found == {(n, i): [i, i + 1] for n in "abc" for i in range(20)})

        P = xpr.sharding.PartitionSpec
        mesh = xpr.make_mesh((2,), ("x",))
        a = xpr.device_put(np.arange(4.0), xpr.sharding.NamedSharding(mesh, P("x")))
        thread = threading.Thread(target=work, args=("d",))
        thread.start()
        print([float(xpr.jit(lambda a, i: (a + i).sum())(a, i)) for i in range(5)])
        thread.join()

    expected = "True\nTrue\n[6.0, 10.0, 14.0, 18.0, 22.0]\n"
    assert run_processes(2, program, initialize=False).out == [expected] * 2


def test_an_mpi_without_threads_is_refused(run_processes):
    def program():
        import mpi4py

        mpi4py.rc.thread_level = "single"
        from mpi4py import MPI

        import xpr

        assert MPI.Query_thread() < MPI.THREAD_SERIALIZED
        try:
            xpr.distributed.initialize()
        except RuntimeError as error:
            print(error)

    (out,) = run_processes(1, program, initialize=False).out
    assert out.startswith("xpr.distributed needs MPI_THREAD_MULTIPLE, or at least MPI_THREAD_SERI")


def test_processes_of_a_machine_share_its_cores(run_processes):
    def peer(machine, *cores):
        return Peer(machine, machine, 1, "", list(cores))

    bound = [peer("a", 0, 1), peer("a", 2, 3), peer("b", 0, 1)]
    assert [_share(p, bound) for p in bound] == [2, 2, 2]
    free = [peer("a", 0, 1, 2, 3)] * 3 + [peer("b", *range(4))]
    assert [_share(p, free) for p in free] == [1, 1, 1, 4]
    crowd = [peer("a", 0, 1)] * 3 + [peer("a", 1)]
    assert [_share(p, crowd) for p in crowd] == [1] * 4

    def program():
        import os

        from xpr.runtimes import processes

        print(processes.current.cores, len(os.sched_getaffinity(0)))

    for out in run_processes(2, program, flags=("--bind-to", "none")).out:
        mine, all_of_them = map(int, out.split())
        assert mine == max(1, all_of_them // 2)
