"""How programs of several processes end: well, by a failure, and with a process that is gone.

Every program ends in bounded time, and the processes that are left say which one was missing.
"""

from __future__ import annotations

import re

import pytest

# With it processes that are left go on after one has failed: without, Open MPI ends them.
GOING_ON = ("--enable-recovery",)
SHORT = {"XPR_COLLECTIVE_TIMEOUT": "2"}

MEETING = """
import os, signal, sys, time
from xpr.runtimes import processes
here = processes.current
here.barrier(what="the warm-up")
if here.index == 1:
    {failure}
try:
    here.barrier(what="the meeting")
except Exception as error:
    print(type(error).__name__, error)
    raise
"""


@pytest.mark.parametrize(
    ("failure", "flags", "status", "message"),
    [
        (
            "raise KeyError('a loss')",
            (),
            1,
            r"PeerError the meeting: process 1 \(host \S+, pid \d+\) failed: KeyError: 'a loss'",
        ),
        (
            "sys.exit(7)",
            (),
            7,
            r"PeerError the meeting: process 1 \(host \S+, pid \d+\) has ended",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            GOING_ON,
            1,
            r"PeerError the meeting: process 1 \(host \S+, pid \d+\) is gone: it was killed",
        ),
        (
            "os.kill(os.getpid(), signal.SIGSTOP)",
            (),
            1,
            r"TimeoutError the meeting: process 1 \(host \S+, pid \d+\) \[stopped, last met \d+ s "
            r"ago at the warm-up\] did not come within 2 s \(the setting collective_timeout, or",
        ),
        (
            "time.sleep(60)",
            (),
            1,
            r"TimeoutError the meeting: process 1 \(host \S+, pid \d+\) \[last met \d+ s ago at "
            r"the warm-up\] did not come within 2 s",
        ),
        (
            "here.barrier(what='something else')",
            (),
            1,
            r"CollectiveError process . \(host \S+, pid \d+\) is at the meeting, process 1 \(host "
            r"\S+, pid \d+\) at something else: processes must do the same, in the same order",
        ),
    ],
    ids=["raises", "exits", "is killed", "is stopped", "sleeps", "is elsewhere"],
)
def test_a_process_that_does_not_come(run_processes, failure, flags, status, message):
    processes = 3 if "raise" in failure else 2
    outcome = run_processes(
        processes,
        MEETING.format(failure=failure),
        env=SHORT,
        timeout=50,
        may_fail=True,
        flags=flags,
    )
    for p in range(0, processes, 2):
        assert re.match(message, outcome.out[p]), str(outcome)
    assert outcome.code == status, str(outcome)
    if "raise" in failure:
        # Others show where it came from.
        assert 'program.py", line' in outcome.err[0]
        assert "KeyError: 'a loss'" in outcome.err[0].partition("What process 1")[2]


def test_a_killed_process_under_plain_mpirun(run_processes):
    outcome = run_processes(
        2,
        MEETING.format(failure="os.kill(os.getpid(), signal.SIGKILL)"),
        env=SHORT,
        timeout=50,
        may_fail=True,
    )
    assert outcome.code == 128 + 9
    assert re.search(r"rank 1 .* signal\s+9", outcome.launcher.replace("\n", " "))


def test_a_late_process_is_named(run_processes):
    program = """
        import time
        from xpr.runtimes import processes
        processes.LATE = 1.0
        here = processes.current
        if here.index == 0:
            time.sleep(3)
        here.barrier(what="the meeting")
        print("met")
    """
    outcome = run_processes(2, program)
    assert outcome.out == ["met\n", "met\n"]
    assert outcome.err[0] == ""
    waits, goes_on = outcome.err[1].splitlines()
    assert re.match(
        r"xpr: process 1 \(.*\) has waited \d+ s at the meeting for process 0 \(host \S+, pid "
        r"\d+\) "
        r"\[last met \d+ s ago at xpr.distributed.initialize\(\)\]; it will wait 30 s",
        waits,
    )
    assert re.match(r"xpr: process 1 \(.*\) goes on after \d+ s at the meeting", goes_on)


def test_the_end_waits_for_the_others(run_processes):
    program = """
        import os, sys, time, xpr
        child = os.fork()
        if not child:
            sys.exit(0)  # it is no process of MPI's, and nobody waits for it
        os.waitpid(child, 0)
        if xpr.process_index() == 1:
            time.sleep(1.5)
        print(time.time())
        xpr.distributed.shutdown()
        print(time.time())
        try:
            from xpr.runtimes import processes
            processes.current.barrier(what="the meeting")
        except RuntimeError as error:
            print(error)
        if xpr.process_index() == 1:
            raise ValueError("after the end")  # which is no concern of the others
    """
    outcome = run_processes(2, program, may_fail=True)
    found = [text.splitlines() for text in outcome.out]
    arrived, left = ([float(text[i]) for text in found] for i in (0, 1))
    assert min(left) >= max(arrived)
    message = "the meeting: this process has left the others by shutdown()"
    assert [text[2] for text in found] == [message] * 2
    assert outcome.code == 1
    assert outcome.err[0] == ""
    assert outcome.err[1].endswith("ValueError: after the end\n")


@pytest.mark.parametrize(
    ("end", "env", "message"),
    [
        ("time.sleep(60)", {}, r"did not come within 2 s \(shutdown_timeout_seconds\)"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", SHORT, r"process 1 \(.*\) is stopped"),
    ],
    ids=["sleeps", "is stopped"],
)
def test_a_process_that_does_not_end(run_processes, end, env, message):
    program = f"""
        import os, signal, time, xpr
        xpr.distributed.initialize(shutdown_timeout_seconds={2 if not env else 300})
        if xpr.process_index() == 1:
            {end}
    """
    outcome = run_processes(2, program, env=env, timeout=50, may_fail=True, initialize=False)
    assert re.search(r"xpr: process 0 \(.*\) at its end: .*" + message, outcome.err[0])
    assert outcome.code != 0


def test_a_failure_where_somebody_else_ends_mpi(run_processes):
    """mpi4py would end MPI at the end of the process, and wait for the other one for ever."""
    program = """
        from mpi4py import MPI
        import os, signal, xpr
        xpr.distributed.initialize()
        if xpr.process_index() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        from xpr.runtimes import processes
        from xpr.distributed import leaving
        leaving._FINALIZE = 1
        processes.current.barrier(what="the meeting")
    """
    outcome = run_processes(2, program, env=SHORT, initialize=False, may_fail=True, timeout=50)
    assert re.search(r"TimeoutError: the meeting: process 1 \(.*\) \[stopped", outcome.err[0])
    assert outcome.code != 0


def test_a_process_that_never_starts_mpi(run_processes):
    """MPI's own start waits for all processes, and nothing can interrupt it."""
    program = """
        import os, time, xpr
        if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
            time.sleep(60)
        xpr.distributed.initialize(initialization_timeout=2)
    """
    outcome = run_processes(2, program, initialize=False, may_fail=True, timeout=50)
    assert outcome.code == 1, str(outcome)
    assert "Timeout (0:00:02)!" in outcome.err[0]
    assert "in initialize" in outcome.err[0]


def test_mpi_itself_finds_a_process_gone(run_processes):
    """As between machines: by TCP, and without a look at the process."""
    program = MEETING.replace(
        "here = processes.current", "here = processes.current\nhere._visible = [False] * 3"
    )
    flags = "--mca btl self,tcp --mca btl_tcp_if_include lo --with-ft ulfm".split()
    outcome = run_processes(
        3,
        program.format(failure="os.kill(os.getpid(), signal.SIGKILL)"),
        timeout=50,
        may_fail=True,
        flags=tuple(flags),
    )
    for p in (0, 2):
        message = r"PeerError the meeting: process 1 \(host \S+, pid \d+\) (is gone|failed)"
        assert re.match(message, outcome.out[p]), str(outcome)
    assert outcome.code != 0
