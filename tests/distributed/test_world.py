"""The world of processes: numbers, devices, and what everybody says."""

from __future__ import annotations

import ast


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
