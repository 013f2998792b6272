"""Declarations of guards: their order, their targets and their releases of IREE."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import xpr
import xpr.numpy as jnp
from xpr.lowering import passes
from xpr.lowering.iree import versions
from xpr.lowering.passes.guard import Guard, OrderError, needs, ordered


def _nothing(module: Any, target: Any, hints: Any) -> None:
    """Changes nothing."""


def guard(gives: str, *needed: str, **others: Any) -> Guard:
    return Guard(_nothing, (), gives, needs(*needed), **others)


def test_guards_run_behind_those_that_give_what_they_need() -> None:
    guards = {
        "a": guard("short", "copies"),
        "b": guard("barriers"),
        "c": guard("copies", "barriers", "parts"),
        "d": guard("parts"),
        "e": guard("barriers", "parts"),
    }
    assert [name for name, _ in ordered(guards.items())] == ["b", "d", "e", "c", "a"]
    assert ordered(reversed(guards.items())) == ordered(guards.items())


def test_needs_that_cannot_be_met() -> None:
    with pytest.raises(OrderError, match="guard a needs copies, parts, which no guard gives"):
        ordered([("a", guard("short", "copies", "parts"))])
    circle = [("a", guard("short", "copies")), ("b", guard("copies", "short"))]
    with pytest.raises(OrderError, match="guards need each other's invariants: a, b"):
        ordered(circle)


def test_every_guard_runs_behind_what_it_needs() -> None:
    given: set[str] = set()
    for name, one in passes.GUARDS.items():
        assert one.needs <= given, name
        given.add(one.gives)


@pytest.mark.parametrize(
    ("since", "until", "releases"),
    [
        (None, None, [True, True, True, True]),
        ((3, 13), None, [False, True, True, True]),
        (None, (3, 13), [True, False, False, True]),
        ((3, 13), (3, 14), [False, True, False, True]),
    ],
)
def test_a_guard_is_for_the_releases_with_the_fault(
    since: Any, until: Any, releases: list[bool]
) -> None:
    one = guard("nothing", since=since, until=until)
    assert [one.is_for(r) for r in ((3, 12), (3, 13), (3, 14), None)] == releases


def test_a_fixed_fault_needs_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    def barriers() -> int:
        text = xpr.jit(lambda x: x * 2).lower(jnp.ones(3)).as_text("iree")
        return text.count("util.optimization_barrier")

    assert barriers() == 1
    one = passes.PASSES["argument_barriers"]
    fixed = dataclasses.replace(one, until=versions.of_installed().number)
    monkeypatch.setitem(passes.PASSES, "argument_barriers", fixed)
    assert barriers() == 0
    # A release that nobody knows may have it again.
    unknown = dataclasses.replace(versions.of_installed(), tested=frozenset())
    monkeypatch.setattr(versions, "of_installed", lambda: unknown)
    assert barriers() == 1
