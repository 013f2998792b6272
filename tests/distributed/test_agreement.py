"""Processes that run one program, compile it once, and tell when one of them does not go along."""

from __future__ import annotations

import textwrap

from .spread import HERE


def test_different_programs_are_told_apart(run_processes):
    program = """
        import sys

        row = np.arange(9, dtype=np.float32)
        mesh = Mesh(np.array(devices), ("x",))
        v = xpr.make_array_from_process_local_data(named("x", mesh=mesh), row[3 * me : 3 * me + 3])

        def train_step(v):
            return v - v.sum()

        def eval_step(v):
            return v + v.sum()

        mine = train_step if me != 1 else eval_step
        with pytest.raises(RuntimeError) as caught:
            xpr.jit(mine)(v)
        first = str(caught.value)
        with pytest.raises(RuntimeError, match="they called different ones") as caught:
            xpr.jit(lambda v: v * (2.0 + (me == 2)))(v)
        second = str(caught.value)
        table = np.full(9, me, np.float32)
        with pytest.raises(RuntimeError, match="constant 0: float32.*digest"):
            xpr.jit(lambda v: v + table)(v)
        with pytest.raises(RuntimeError, match="settings:"):
            with xpr.default_matmul_precision("highest" if me == 0 else "default"):
                xpr.jit(lambda v: v * 7)(v)
        with pytest.raises(RuntimeError, match="result 0: NamedSharding"):
            spec = P("x") if me == 0 else P()
            xpr.jit(lambda v: v * 8, out_shardings=NamedSharding(mesh, spec))(v)
        # who agrees goes on
        check(xpr.jit(train_step)(v), row - row.sum())
        # and need not ask again
        from xpr.dispatch import agreement

        asked = []
        gather = type(xpr.runtimes.processes.current).gather

        def counted(self, payload, **options):
            asked.append(options["what"])
            return gather(self, payload, **options)

        type(xpr.runtimes.processes.current).gather = counted
        if me == 0:
            xpr.clear_caches()
        check(xpr.jit(train_step)(v), row - row.sum())
        check(xpr.jit(eval_step)(v), row + row.sum())
        asked = [a for a in asked if a.startswith(("the first call", "compiling"))]
        assert asked == ["the first call of a program of several processes", "compiling eval_step"]
        print(first, "===", second, sep="\\n")
    """
    found = run_processes(3, HERE.replace("grid =", "# grid =") + textwrap.dedent(program)).out
    assert found[0] == found[1] == found[2]
    first, second = found[0].split("===\n")
    assert first.startswith("the processes of a mesh have to run the same program, but they called")
    assert "processes 0, 2: train_step at " in first
    assert "process 1: eval_step at " in first
    assert "line 1 of what they compare:\n  processes 0, 2: function train_step\n" in first
    assert "processes 0, 1: <lambda> at " in second
    assert "mul a 2.0:f32[]" in second
    assert "process 2: { lambda ; a:f32[9]. let b:f32[9] = mul a 3.0:f32[] in (b,) }" in second


def test_one_process_of_a_machine_compiles(run_processes, tmp_path):
    program = """
        import os, time
        import xpr.lowering.iree.attempts as attempts
        import xpr.dispatch.compiling as compiling
        from xpr.core.errors import CompileError

        compiles = []
        real = attempts.compile_job
        pause = 0.0

        def counted(job):
            compiles.append(job)
            time.sleep(pause)
            return real(job)

        attempts.compile_job = counted
        row = np.arange(8, dtype=np.float32)
        v = spread(row, "x")
        check(xpr.jit(lambda v: v - v.sum())(v), row - row.sum())
        assert (len(compiles) > 0) == (me == 0), (me, len(compiles))

        # a compile that takes longer than anybody waits
        pause = 1.5 * float(os.environ["XPR_COLLECTIVE_TIMEOUT"])
        check(xpr.jit(lambda v: jnp.sin(v) * 3)(v), np.sin(row) * np.float32(3), rtol=1e-6)
        pause = 0.0

        # one that fails
        start = compiling.start_compile
        said = "the program cannot be compiled"

        def fails(*args, **options):
            raise CompileError(said, stablehlo_path=None, diagnostics="", source_location=None)

        compiling.start_compile = fails if me == 0 else start
        with pytest.raises(CompileError, match=said):
            xpr.jit(lambda v: v * 5 + v.sum())(v)
        compiling.start_compile = start
        check(xpr.jit(lambda v: v * 5 + v.sum())(v), row * 5 + row.sum())

        # without a cache everybody compiles
        os.environ["XPR_CACHE"] = "0"
        before = len(compiles)
        check(xpr.jit(lambda v: v * 6 + v.sum())(v), row * 6 + row.sum())
        assert len(compiles) > before
        print("done")
    """
    found = run_processes(
        2,
        HERE + textwrap.dedent(program),
        devices=2,
        env={"XPR_CACHE_DIR": str(tmp_path / "cache"), "XPR_COLLECTIVE_TIMEOUT": "4"},
    )
    assert found.out == ["done\n"] * 2


def test_a_mesh_whose_processes_are_gone(run_processes):
    program = """
        row = np.arange(8, dtype=np.float32)
        v = spread(row, "x")
        known = xpr.jit(lambda v: v - v.sum())
        check(known(v), row - row.sum())
        xpr.distributed.shutdown()
        for f in (known, xpr.jit(lambda v: v * 9)):
            with pytest.raises(RuntimeError, match=r"left the others by shutdown\\(\\)"):
                f(v)
        print("done")
    """
    assert run_processes(2, HERE + textwrap.dedent(program), devices=2).out == ["done\n"] * 2


def test_a_process_of_the_mesh_is_killed(run_processes):
    """Whatever the others do with the mesh afterwards names it, at once."""
    program = """
        import os
        import signal
        import time

        from xpr.experimental.multihost_utils import process_allgather
        from xpr.runtimes.collectives import PeerError

        row = np.arange(8, dtype=np.float32)
        v = spread(row, "x")
        known = xpr.jit(lambda v: v - v.sum())
        check(known(v), row - row.sum())
        if me == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        start = time.monotonic()
        new = xpr.jit(lambda v: v * 3)
        for use in (
            lambda: known(v),
            lambda: new(v),
            lambda: spread(row, "x"),
            lambda: v.sum(),
            lambda: xpr.device_put(v, named()),
            lambda: process_allgather(row),
        ):
            with pytest.raises(PeerError, match=r"process 1 \\(host .* is gone: it was killed"):
                use()
        assert time.monotonic() - start < 10
        # what is here stays
        np.testing.assert_array_equal(v.addressable_data(0), row[:2])
        local = Mesh(np.array(xpr.local_devices()), ("x",))
        check(xpr.jit(lambda v: v - v.sum())(spread(row, "x", mesh=local)), row - row.sum())
        print("done", flush=True)
        os._exit(0)
    """
    found = run_processes(
        2,
        HERE + textwrap.dedent(program),
        devices=2,
        flags=("--enable-recovery",),
        may_fail=True,
    )
    assert found.out[0] == "done\n", found


def test_a_process_that_does_something_else(run_processes):
    """Who calls a program and who does not are told so in bounded time, and no result is made."""
    program = """
        from xpr.runtimes.collectives import CollectiveError

        row = np.arange(8, dtype=np.float32)
        v = spread(row, "x")
        first, second = xpr.jit(lambda v: v - v.sum()), xpr.jit(lambda v: v + v.max())
        check(first(v), row - row.sum())
        check(second(v), row + 7)
        with pytest.raises((CollectiveError, TimeoutError)) as caught:
            xpr.block_until_ready((first if me == 0 else second)(v))
        print(type(caught.value).__name__, caught.value)
    """
    found = run_processes(
        2,
        HERE + textwrap.dedent(program),
        devices=2,
        env={"XPR_COLLECTIVE_TIMEOUT": "5"},
        may_fail=True,
    )
    for out in found.out:
        assert out.startswith(("CollectiveError", "TimeoutError")), found
