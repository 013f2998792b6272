"""Groups that meet in rounds, as those of more than 8 processes do, when a process fails."""

from __future__ import annotations

import re


def test_a_process_that_raises_is_late_or_dies_in_a_round(run_processes):
    def program():
        import os
        import signal
        import time

        from tests.distributed.collective_cases import outcome, summed, ways
        from xpr.runtimes import processes
        from xpr.runtimes.collectives import rounds

        here = processes.current
        me = here.index
        send = rounds.Line.swap

        def in_round(number, process, act):
            calls = []

            def swap(line, *args):
                calls.append(1)
                if me == process and len(calls) == number:
                    act()
                return send(line, *args)

            rounds.Line.swap = swap

        def raises():
            raise ValueError("in a round")

        def say(what, **options):
            found = outcome(lambda: summed(**options))
            rounds.Line.swap = send
            print(f"{what}: {found}", flush=True)

        def together():  # those whose part was done may be ahead
            here.gather(b"", what="the next case", timeout=20)

        kinds = {
            "sum": {},
            "large sum": {"count": 1 << 20},
            "gather": {"kind": "all_gather"},
            "large gather": {"kind": "all_gather", "count": 1 << 18},
        }
        with ways("rounds"):
            for number, (name, options) in enumerate(kinds.items()):
                in_round(1, 1, raises)
                say(f"{name}, raises", number=2 * number, **options)
                say("after", number=2 * number + 1, **options)
            in_round(2, 2, lambda: time.sleep(4))
            say("late", number=20)
            together()
            say("after", number=21)
            in_round(2, 3, lambda: os.kill(os.getpid(), signal.SIGKILL))
            say("killed", number=22)
            say("gone", number=23, count=1 << 20)
            say("gone too", number=24, kind="all_gather")

    found = run_processes(
        4,
        program,
        may_fail=True,
        flags=("--continuous",),
        env={"XPR_COLLECTIVE_TIMEOUT": "2"},
        timeout=90,
    )
    for p, out in enumerate(found.out):
        lines = [line.partition(": ")[::2] for line in out.splitlines()]
        assert [text for what, text in lines if what == "after"] == ["fine"] * 5, str(found)
        said = dict(lines)
        for name in ("sum", "large sum", "gather", "large gather"):
            kind = "ValueError" if p == 1 else "PeerError"
            raised = said[f"{name}, raises"]
            assert re.match(rf"{kind} after [0-2] s: .*in a round", raised), str(found)
            assert p == 1 or "process 1" in raised, str(found)
        # In the second round 0 sends to 2, and 1 to 3; the others may have ended before they hear.
        late = {
            0: r"TimeoutError after [2-3] s: .*process 2",
            2: r"PeerError after 4 s: .*TimeoutError",
        }.get(p, r"(fine|(PeerError|TimeoutError) after [2-4] s: .*process [02])")
        assert re.match(late, said["late"]), str(found)
        if p == 3:
            assert "killed" not in said, str(found)
            continue
        killed = r"PeerError after [0-2] s: .*process 3"
        assert re.match(killed if p == 1 else rf"fine|{killed}", said["killed"]), str(found)
        for what in ("gone", "gone too"):
            assert re.match(r"(PeerError|CollectiveError) after [0-2] s: ", said[what]), str(found)
            assert "process 3" in said[what], str(found)
