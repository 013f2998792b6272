"""Sessions of the compiler that are kept for the next compile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from xpr.lowering.iree import compiler_library, driver, sessions
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

FUSED, PLAIN = get_target("cpu").flag_sets(ProgramHints())
REFUSED = "func.func public @main(%x: tensor<4xf32>) -> tensor<5xf32> {\n  return %x\n}\n"


def add_text(size: int = 8) -> str:
    t = f"tensor<{size}xf32>"
    return (
        f"func.func public @main(%x: {t}) -> {t} {{\n"
        f"  %0 = stablehlo.add %x, %x : {t}\n  return %0 : {t}\n}}\n"
    )


@pytest.fixture(autouse=True)
def none_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[sessions.Session]]:
    """A list of its own of kept sessions."""
    kept: list[sessions.Session] = []
    monkeypatch.setattr(sessions, "_kept", kept)
    yield kept
    for session in kept:
        session.end()


def compiled(text: str, flags: tuple[str, ...] = FUSED, *, parallel: bool = True) -> bytes | None:
    return driver.compile_module(text, flags, name="program", verify=False, parallel=parallel)[0]


def test_the_next_compile_has_the_session(none_kept: list[sessions.Session]) -> None:
    first = compiled(add_text())
    (session,) = none_kept
    assert compiled(add_text(16)) != first
    # What came between leaves no trace in the module.
    assert compiled(add_text()) == first
    assert none_kept == [session]


def test_other_flags_have_another_session(none_kept: list[sessions.Session]) -> None:
    plain = compiled(add_text(), PLAIN)
    assert compiled(add_text()) is not None
    first, second = none_kept
    assert compiled(add_text(), PLAIN) == plain
    assert none_kept == [second, first]


def test_few_are_kept(none_kept: list[sessions.Session], monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[sessions.Session] = []
    end = sessions.Session.end

    def noted(session: sessions.Session) -> None:
        ended.append(session)
        end(session)

    monkeypatch.setattr(sessions, "_MOST_KEPT", 1)
    monkeypatch.setattr(sessions.Session, "end", noted)
    compiled(add_text())
    (first,) = none_kept
    compiled(add_text(), PLAIN)
    assert ended == [first]
    assert len(none_kept) == 1


def test_one_in_which_a_compile_failed_is_not_kept(none_kept: list[sessions.Session]) -> None:
    assert compiled(add_text()) is not None
    assert len(none_kept) == 1
    assert compiled(REFUSED) is None
    assert none_kept == []
    assert compiled(add_text()) is not None


@pytest.mark.parametrize(("limit", "value"), [("_MOST_COMPILES", 2), ("_MOST_TEXT", 200)])
def test_a_session_ends(
    none_kept: list[sessions.Session], monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(sessions, limit, value)
    kept = []
    for _ in range(4):
        compiled(add_text())
        kept.append(len(none_kept))
    assert kept == [1, 0, 1, 0]


def test_threads_do_not_share_a_session(none_kept: list[sessions.Session]) -> None:
    library = compiler_library.load()
    inside = threading.Barrier(2)
    found: list[sessions.Session] = []

    def use() -> None:
        with sessions.session(library, FUSED, "", parallel=True) as session:
            found.append(session)
            inside.wait(60)
            session.keep = True

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is not found[1]
    assert sorted(map(id, none_kept)) == sorted(map(id, found))


def test_one_with_threads_is_not_for_one_core(none_kept: list[sessions.Session]) -> None:
    compiled(add_text())
    compiled(add_text(), parallel=False)
    first, second = none_kept
    assert (first.has_threads, second.has_threads) == (True, False)
    # The other way around it gets threads.
    none_kept.remove(first)
    compiled(add_text())
    assert none_kept == [second]
    assert second.has_threads
    first.end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_sessions_without_threads(none_kept: list[sessions.Session]) -> None:
    alone = compiled(add_text(), parallel=False)
    compiled(add_text())  # this takes the session without threads
    compiled(add_text(), parallel=False)
    assert [s.has_threads for s in none_kept] == [True, False]
    child = os.fork()
    if not child:
        right = False
        try:
            right = [s.has_threads for s in none_kept] == [False]
            right = right and compiled(add_text()) == alone
            right = right and [s.has_threads for s in none_kept] == [False]
        finally:
            os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
