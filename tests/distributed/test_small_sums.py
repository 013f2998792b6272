"""Sums of a few numbers over processes, planned with their first run, against NumPy."""

from __future__ import annotations

import textwrap

from .spread import HERE


def test_programs_on_one_device_each(run_processes):
    program = """
        import ml_dtypes

        mesh, n = Mesh(np.array(devices), ("x",)), count
        data = np.arange(2.0 * n, dtype=np.float32)
        parts = data.reshape(n, 2)

        def over(f, outs, **options):
            return xpr.jit(
                xpr.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=outs), **options
            )

        def several(x):
            total = lax.psum(x, "x")
            short = lax.psum(x.astype(jnp.bfloat16) / 3, "x")
            whole, flags = lax.psum((x.astype(jnp.int8), x[:0]), "x")
            # one sum after the other, and results that are operands, constants or the same
            again = lax.psum(total * x, "x")
            return total, x, short, whole, flags, again, total, jnp.zeros(2), lax.pmax(x[0], "x")

        outs = (P(), P("x"), P(), P(), P(), P(), P(), P(), P())
        step = over(several, outs)
        thirds = [(p.astype(ml_dtypes.bfloat16) / 3).astype(np.float32) for p in parts]
        total = parts.sum(0)
        wanted = (
            total, data, sum(thirds).astype(ml_dtypes.bfloat16), total.astype(np.int8), np.zeros(0),
            (total * parts).sum(0), total, np.zeros(2), parts[:, 0].max(),
        )
        x = spread(data, "x", mesh=mesh)
        for _ in range(3):
            out = step(x)
            for found, value in zip(out, wanted, strict=True):
                check(found, value)
        out[1].delete()  # a result that was an operand is an array of its own
        out[0].delete()
        check(step(x)[6], total)
        check(out[6], total)

        # an argument that is given up
        given = over(lambda x: lax.psum(x, "x") + x, P("x"), donate_argnums=0)
        y = spread(data, "x", mesh=mesh)
        check(given(y), (total + parts).reshape(-1))
        assert y.is_deleted()

        # sums that overflow do so without a word
        huge = spread(np.full(2 * n, 3e38, np.float32), "x", mesh=mesh)
        with np.errstate(all="raise"):
            check(over(lambda x: lax.psum(x, "x"), P())(huge), np.full(2, np.inf))

        # one process's error ends the run in all, and the next run is fine
        def risky(x):
            x = xpr.pure_callback(fails, xpr.ShapeDtypeStruct((2,), np.float32), x)
            return lax.psum(x, "x")

        def fails(v):
            if me == 1 and broken:
                raise ValueError("not today")
            return np.asarray(v)

        broken = True
        program = over(risky, P())
        with pytest.raises(Exception, match="not today"):
            program(x).block_until_ready()
        broken = False
        check(program(x), total)
        check(step(x)[5], wanted[5])
        print("fine")
    """
    assert (
        run_processes(3, HERE.replace("grid =", "#") + textwrap.dedent(program)).out
        == ["fine\n"] * 3
    )


def test_one_process_combines_for_all(run_processes):
    def program():
        import numpy as np

        from tests.distributed.collective_cases import every_group, outcome, places, ways
        from xpr.runtimes.collectives import Collective, perform_for_all

        groups = [((0, 1, 2),), ((2, 0, 1),)]
        print(every_group(range(3), groups, ("root",)))
        print(every_group((0, 1, 2, 1), [((3, 0, 1, 2),)], ("root",)))
        with ways("root"):
            here = places(range(3))
            (me,) = here.ranks
            total = Collective("all_reduce", ((2, 0, 1),), "sum")
            xs = [np.full(2, me, np.float16), np.array(me == 2)]
            several = Collective("all_reduce", ((2, 0, 1),), "max", number=1)
            print(perform_for_all(total, [xs[:1]], here)[0], perform_for_all(several, [xs], here))
            print(outcome(lambda: perform_for_all(total, [[np.ones(3 if me == 1 else 4)]], here)))
            print(perform_for_all(total, [xs[:1]], here)[0][0])

    for out in run_processes(3, program).out:
        lines = out.splitlines()
        assert lines[2] == (
            "[array([3., 3.], dtype=float16)] [[array([2., 2.], dtype=float16), array(True)]]"
        )
        assert lines[3].startswith("CollectiveError after 0 s"), lines[3]
        assert "float64[3]" in lines[3]
        assert lines[4] == "[3. 3.]"


def test_processes_whose_files_lie_in_other_folders(run_processes):
    def program():
        import numpy as np

        from tests.distributed.collective_cases import places
        from xpr.runtimes import processes
        from xpr.runtimes.collectives import Collective, perform_for_all, switchboard

        slow = []
        wait_for = switchboard.Switchboard.wait_for

        def counted(*args):
            slow.append(1)
            return wait_for(*args)

        here = places(range(2))
        (me,) = here.ranks
        source = "a program in " + "/folder" * (3 * me)
        total = Collective("all_reduce", ((0, 1),), "sum", source=source)
        large = Collective("all_gather", ((0, 1),), number=1, source=source)
        for turn in range(200):
            processes.current.barrier(what=f"turn {turn}")
            switchboard.Switchboard.wait_for = counted
            (found,) = perform_for_all(total, [[np.arange(3) + me]], here)[0]
            switchboard.Switchboard.wait_for = wait_for
            assert found.tolist() == [1, 3, 5]
        (found,) = perform_for_all(large, [[np.full(3, me, "int8")]], here)[0]
        assert found.tolist() == [0, 0, 0, 1, 1, 1]
        print(len(slow) < 200)

    assert run_processes(2, program).out == ["True\n"] * 2
