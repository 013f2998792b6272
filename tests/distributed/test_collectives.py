"""Collectives between processes: against loops over the ranks, and that no failure hangs."""

from __future__ import annotations

import os
import re

import pytest


def test_every_dtype(run_processes):
    def program():
        from tests.distributed.collective_cases import every_dtype

        print(every_dtype((0, 1)), every_dtype((0, 1, 0)))

    found = run_processes(2, program)
    assert len(set(found.out)) == 1
    assert int(found.out[0].split()[0]) > 250


def test_groups_over_two_processes(run_processes):
    def program():
        from tests.distributed.collective_cases import crossing_in_threads, every_group

        rows, columns = ((0, 1), (2, 3)), ((0, 2), (1, 3))
        groups = [((0, 1, 2, 3),), ((3, 1, 0, 2),), columns, ((3, 0), (1, 2)), rows]
        print(every_group((0, 0, 1, 1), groups), every_group((1, 0), [((0, 1),)]))
        print(crossing_in_threads((0, 0, 1, 1), [rows, columns, ((0, 3), (2, 1))]))

    found = run_processes(2, program)
    assert [out.splitlines()[1] for out in found.out] == ["[2.5, 2.5]"] * 2


def test_groups_over_four_processes(run_processes):
    def program():
        from tests.distributed.collective_cases import crossing_in_threads, every_group

        print(every_group(range(4), [((0, 1, 2, 3),), ((0, 1), (2, 3)), ((0, 3), (1, 2))]))
        owners = (0, 0, 1, 1, 2, 2, 3, 3)
        groups = [((7, 0, 2, 5), (1, 3, 4, 6)), ((0, 1), (2, 4), (3, 6), (5, 7))]
        print(every_group(owners, groups))
        rows, columns = ((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 4), (1, 5), (2, 6), (3, 7))
        print(crossing_in_threads(owners, [rows, columns]))

    found = run_processes(4, program)
    assert [out.splitlines()[2] for out in found.out] == ["[4.5, 4.5]"] * 4


def test_many_processes_meet_in_rounds(run_processes):
    def program():
        from tests.distributed.collective_cases import (
            every_dtype,
            every_group,
            outcome,
            summed,
            ways,
        )
        from xpr.runtimes import processes

        n = processes.current.count
        way = ("rounds", "rounds, blocks")
        uneven = (tuple(range(n + 1)),)
        print(every_group(range(n), [(tuple(range(n)),), ((0, *range(n - 1, 0, -1)),)], way))
        print(every_group((*range(n), *range(n)), [(tuple(range(2 * n)),)], way))
        print(every_group((*range(n), 0), [uneven], way))
        with ways("rounds"):
            print(every_dtype(range(n)))
            last = processes.current.index == n - 1
            print(outcome(lambda: summed(1, dtype="float32" if last else "int32")))
            print(outcome(lambda: summed(2, count=4 if last else 100_000)))
            print(outcome(lambda: summed(3)))

    long = bool(os.environ.get("XPR_LONG_TESTS"))
    counts = (3, 4, 8) if long else (4,)
    for n in counts:
        for out in run_processes(n, program, timeout=300 if n > 4 else 120).out:
            lines = out.splitlines()
            assert int(lines[3]) > 100
            for line, other in zip(lines[4:6], ("float32[4]", "float32[4]"), strict=True):
                assert line.startswith("CollectiveError after 0 s"), line
                assert other in line, line
            assert lines[6] == "fine"


def test_large_sums_have_the_bits_of_one_process(run_processes):
    def program():
        import numpy as np

        from tests.distributed.collective_cases import places
        from tests.runtimes.test_collectives import combined
        from xpr.runtimes.collectives import Collective, perform_for_all

        for dtype in ("float32", "bfloat16", "float16", "complex64"):
            xs = [np.random.default_rng(p).standard_normal(3_000_001).astype(dtype) for p in (0, 1)]
            here = places((0, 1))
            total = Collective("all_reduce", ((0, 1),), "sum")
            (found,) = perform_for_all(total, [[xs[here.ranks[0]]]], here)
            expected = combined("sum", xs)
            assert found[0].tobytes() == expected.tobytes(), dtype
            one = perform_for_all(total, [[x] for x in xs])
            assert found[0].tobytes() == one[0][0].tobytes(), dtype
        print("same")

    assert run_processes(2, program).out == ["same\n"] * 2


def test_small_sums_again(run_processes):
    def program():
        import numpy as np

        from tests.distributed.collective_cases import outcome, places
        from xpr.runtimes.collectives import Collective, perform_for_all

        here = places(range(3))
        me = here.ranks[0]
        total = Collective("all_reduce", ((2, 0, 1),), "sum")

        def summed(xs):
            return perform_for_all(total, [xs], here)[0]

        for turn in range(5):
            # Not contiguous, and of types whose sums are rounded at the end.
            xs = [np.arange(6.0).reshape(2, 3).T * (me + turn), np.full(3, me, "int8")]
            one, two = summed(xs)
            np.testing.assert_array_equal(one, np.arange(6.0).reshape(2, 3).T * (3 + 3 * turn))
            np.testing.assert_array_equal(two, np.full(3, 3, "int8"))
            assert not one.flags.writeable
        print(outcome(lambda: summed([np.ones((3, 2)), np.ones(3, "int8" if me else "int16")])))
        print(summed(xs)[1])
        with np.errstate(all="raise"):
            print(summed([np.full((3, 2), 1e308), np.ones(3, "int8")])[0].max())

    for out in run_processes(3, program).out:
        lines = out.splitlines()
        assert lines[0].startswith("CollectiveError after 0 s")
        assert "int16[3]" in lines[0]
        assert "int8[3]" in lines[0]
        assert lines[1:] == ["[3 3 3]", "inf"]


def test_processes_that_disagree_or_fail(run_processes):
    def program():
        import time

        import numpy as np

        from tests.distributed.collective_cases import outcome, places, summed
        from xpr.runtimes import processes
        from xpr.runtimes.collectives import Collective, perform, run_together, streams

        here = processes.current
        me = here.index

        def say(what, function):
            print(f"{what}: {outcome(function)}")

        say("kind", lambda: summed(1, kind=["all_reduce", "all_gather"][me % 2]))
        say("number", lambda: summed(2 + me % 2))
        say("types", lambda: summed(4, dtype=["float32", "int32"][me % 2]))
        say("sizes", lambda: summed(5, count=[4, 100_000][me % 2]))
        say("program", lambda: summed(6, name=["f", "g"][me % 2]))
        say("after", lambda: summed(7))

        def fails():
            with places(range(here.count), "step").running() as run:
                if me == 1:
                    raise ValueError("boom")
                total = Collective("all_reduce", (tuple(range(here.count)),), "sum", number=8)
                run_together([lambda: perform(total, [np.ones(3)])], places=run)

        say("raises", fails)
        say("after", lambda: summed(9))

        # In the middle of a transfer of 32 MB.
        advance = streams.Flow.advance
        calls = []

        def breaks(flow):
            calls.append(advance(flow))
            if me == 1 and sum(calls) == 3:
                raise ValueError("in the middle")
            return calls[-1]

        streams.Flow.advance = breaks
        say("middle", lambda: summed(10, count=1 << 23))
        streams.Flow.advance = advance
        say("after", lambda: summed(11, count=1 << 20))
        if me == 1:
            time.sleep(4)
        say("late", lambda: summed(12))
        say("after", lambda: summed(13))

    found = run_processes(3, program, env={"XPR_COLLECTIVE_TIMEOUT": "2"})
    for p, out in enumerate(found.out):
        lines = [line.partition(": ")[::2] for line in out.splitlines()]
        assert [text for what, text in lines if what == "after"] == ["fine"] * 4, str(found)
        said = dict(lines)
        for what, one, two in [
            ("kind", "all_reduce sum number 1", "all_gather number 1"),
            ("number", "number 2", "number 3"),
            ("types", "float32[4]", "int32[4]"),
            ("sizes", "float32[4]", "float32[100000]"),
            ("program", "in f", "in g"),
        ]:
            assert said[what].startswith("CollectiveError after 0 s"), str(found)
            assert one in said[what], said[what]
            assert two in said[what], said[what]
            assert "process 1" in said[what], said[what]
        for what, text in [("raises", "boom"), ("middle", "in the middle")]:
            kind = "ValueError" if p == 1 else "PeerError"
            assert re.match(f"{kind} after [0-5] s.*{text}", said[what]), said[what]
            assert p == 1 or "process 1" in said[what], said[what]
        if p == 1:
            assert re.match(r"PeerError after 0 s.*TimeoutError.*process 1", said["late"])
        else:
            assert re.match(r"(TimeoutError|PeerError) after [23] s.*process 1", said["late"])


@pytest.mark.parametrize("at", ["before", "middle"])
def test_a_process_that_is_killed(run_processes, at):
    program = f"""
        import os, signal
        from tests.distributed.collective_cases import outcome, summed
        from xpr.runtimes import processes
        from xpr.runtimes.collectives import streams

        me = processes.current.index
        print(summed(1), flush=True)
        advance = streams.Flow.advance
        calls = []

        def dies(flow):
            calls.append(advance(flow))
            if sum(calls) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return calls[-1]

        if me == 1:
            if {at == "before"}:
                os.kill(os.getpid(), signal.SIGKILL)
            streams.Flow.advance = dies
        for number in (2, 3):
            print(outcome(lambda: summed(number, count=1 << 23)), flush=True)
    """
    found = run_processes(3, program, may_fail=True, flags=("--continuous",), timeout=60)
    assert found.out[1] == "3.0\n"
    for p in (0, 2):
        first, second, third = found.out[p].splitlines()
        assert first == "3.0"
        assert re.match(r"PeerError after \d s: .*process 1", second), str(found)
        assert re.match(r"(PeerError|CollectiveError) after \d s: .*process 1", third), str(found)


def test_a_process_that_is_stopped_and_one_that_is_late(run_processes):
    def program():
        import os
        import signal
        import time

        from tests.distributed.collective_cases import outcome, summed
        from xpr.runtimes import processes

        here = processes.current
        processes.LATE = 0.5
        pids = [int(b) for b in here.gather(b"%d" % os.getpid(), what="pids")]
        summed(1)
        if here.index == 1:
            time.sleep(1.5)
        summed(2)
        print("late is fine")
        if here.index == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        print(outcome(lambda: summed(3)))
        if here.index == 0:
            os.kill(pids[1], signal.SIGCONT)
        here.gather(b"", what="again", timeout=20)
        print(outcome(lambda: summed(4)))

    found = run_processes(2, program, env={"XPR_COLLECTIVE_TIMEOUT": "3"})
    assert re.search(
        r"xpr: process 0 .* has waited \d s at .*number 2.*for process 1", found.err[0]
    )
    assert "goes on" in found.err[0]
    zero, one = (out.splitlines() for out in found.out)
    assert re.match(r"TimeoutError after [34] s: .*number 3.*process 1.*stopped", zero[1]), found
    assert re.match(r"PeerError after 0 s: .*number 3.*process 0.*TimeoutError", one[1]), found
    assert zero[2] == one[2] == "fine"
