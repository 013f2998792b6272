"""Which compiles run side by side, together, once, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from xpr.lowering.iree.requests import Bundle, Requests

SECONDS = 60


class Compiler:
    """Stands for the compiler: a compile ends when the test says so."""

    def __init__(self) -> None:
        self.begun: list[Bundle] = []
        self.may_end = threading.Event()
        self.changed = threading.Condition()

    def __call__(self, bundle: Bundle) -> Sequence[Any]:
        with self.changed:
            self.begun.append(bundle)
            self.changed.notify_all()
        assert self.may_end.wait(SECONDS)
        return [r.job() if callable(r.job) else r.job for r in bundle.requests]

    def wait_for(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.begun) == number, SECONDS)

    @property
    def sizes(self) -> list[int]:
        return [len(b.requests) for b in self.begun]


@pytest.fixture
def compiler() -> Compiler:
    return Compiler()


@pytest.fixture
def requests(compiler: Compiler) -> Requests:
    return Requests(compiler, most=8, cores=2)


def ask(requests: Requests, name: int, kind: Any = "k", job: Any = None) -> Any:
    return requests.ask(b"%d" % name, name if job is None else job, kind)[0]


def test_one_program_is_compiled_once(compiler: Compiler, requests: Requests) -> None:
    first, is_new = requests.ask(b"a", 1, None)
    second, is_new_again = requests.ask(b"a", 2, None)
    assert first is second
    assert (is_new, is_new_again) == (True, False)
    compiler.may_end.set()
    assert requests.wait(first) == 1
    third, is_new = requests.ask(b"a", 3, None)
    assert is_new
    assert requests.wait(third) == 3


def test_what_is_asked_for_together_fills_the_cores(compiler: Compiler, requests: Requests) -> None:
    with requests.together():
        asked = [ask(requests, i) for i in range(7)] + [ask(requests, 7, None)]
        assert not compiler.begun
    compiler.wait_for(2)
    compiler.may_end.set()
    assert [requests.wait(r) for r in asked] == list(range(8))
    assert sorted(compiler.sizes) == [1, 3, 4]


def test_no_more_than_most_are_compiled_together(compiler: Compiler) -> None:
    requests = Requests(compiler, most=3, cores=2)
    compiler.may_end.set()
    with requests.together():
        asked = [ask(requests, i) for i in range(10)]
    assert [requests.wait(r) for r in asked] == list(range(10))
    assert sorted(compiler.sizes) == [2, 2, 3, 3]


def test_what_waits_is_compiled_with_its_like(compiler: Compiler, requests: Requests) -> None:
    asked = [ask(requests, i, None) for i in range(2)]
    compiler.wait_for(2)
    asked += [ask(requests, i, "odd" if i % 2 else "even") for i in range(2, 8)]
    compiler.may_end.set()
    assert [requests.wait(r) for r in asked] == list(range(8))
    for bundle in compiler.begun:
        assert len({r.kind for r in bundle.requests}) == 1
    assert sorted(compiler.sizes) == [1, 1, 1, 1, 2, 2]


def test_who_waits_in_a_block_gets_the_result(compiler: Compiler, requests: Requests) -> None:
    compiler.may_end.set()
    with requests.together():
        assert requests.wait(ask(requests, 1)) == 1
        later = ask(requests, 2)
    assert requests.wait(later) == 2


def test_errors_come_to_those_who_asked(compiler: Compiler, requests: Requests) -> None:
    compiler.may_end.set()
    with requests.together():
        good = ask(requests, 1)
        bad = ask(requests, 2, job=ValueError("of this one"))
        raising = ask(requests, 3, None, job=lambda: 1 / 0)
    assert requests.wait(good) == 1
    with pytest.raises(ValueError, match="of this one"):
        requests.wait(bad)
    with pytest.raises(ZeroDivisionError):
        requests.wait(raising)
    again, is_new = requests.ask(b"2", 2, None)
    assert is_new
    assert requests.wait(again) == 2


class InterruptedRequests(Requests):
    """Ctrl-C while a thread waits."""

    def _hurry(self, request: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt


def test_an_interrupt_ends_what_nobody_else_waits_for(compiler: Compiler) -> None:
    requests = InterruptedRequests(compiler, most=8, cores=2)
    alone = ask(requests, 1, None)
    kept = ask(requests, 2, None)
    kept.wanted = True
    compiler.wait_for(2)
    queued = ask(requests, 3)
    for request in (alone, kept, queued):
        with pytest.raises(KeyboardInterrupt):
            requests.wait(request)
    bundles = {b.requests[0]: b for b in compiler.begun}
    assert bundles[alone].interruption.requested
    assert not bundles[kept].interruption.requested
    again, is_new = requests.ask(b"1", 11, None)
    assert is_new
    compiler.may_end.set()
    assert kept.future.result(SECONDS) == 2
    assert again.future.result(SECONDS) == 11
    assert queued not in {r for b in compiler.begun for r in b.requests}


def test_an_interrupt_leaves_others_their_compile(compiler: Compiler) -> None:
    requests = InterruptedRequests(compiler, most=8, cores=2)
    request = ask(requests, 1)
    compiler.wait_for(1)
    found: list[Any] = []
    other = threading.Thread(target=lambda: found.append(requests.wait(request)))
    other.start()
    while not request.waiting:
        threading.Event().wait(0.001)
    with pytest.raises(KeyboardInterrupt):
        requests.wait(request)
    assert not compiler.begun[0].interruption.requested
    compiler.may_end.set()
    other.join()
    assert found == [1]


def test_at_the_end_only_what_somebody_waits_for_goes_on(
    compiler: Compiler, requests: Requests
) -> None:
    with requests.together():
        unawaited, awaited = ask(requests, 1, None), ask(requests, 2, None)
        unawaited.wanted = True
    compiler.wait_for(2)
    thread = threading.Thread(target=lambda: requests.wait(awaited))
    thread.start()
    while not awaited.waiting:
        threading.Event().wait(0.001)
    requests.end_unawaited()
    bundles = {b.requests[0]: b for b in compiler.begun}
    assert bundles[unawaited].interruption.requested
    assert not bundles[awaited].interruption.requested
    compiler.may_end.set()
    thread.join()


def test_who_waits_long_gets_a_thread(
    compiler: Compiler, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpr.lowering.iree.requests._PATIENCE", 0.01)
    first = [ask(requests, i, None) for i in range(2)]
    compiler.wait_for(2)
    late = ask(requests, 2, None)
    thread = threading.Thread(target=lambda: requests.wait(late))
    thread.start()
    compiler.wait_for(3)
    compiler.may_end.set()
    thread.join()
    assert [requests.wait(r) for r in first] == [0, 1]


def test_without_threads_the_caller_compiles(
    compiler: Compiler, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    compiler.may_end.set()
    monkeypatch.setattr(threading.Thread, "start", none)
    assert requests.wait(ask(requests, 1)) == 1
