"""Declarations of guards: the hazards, where they apply, and the invariants that order them.

A guard is one file of this folder: a function `run(module, target, hints)` that changes the graph,
and `GUARD`, which declares it. `passes/__init__.py` finds the file; docs/hazards.md is generated
from the declarations (`python -m xpr.lowering.passes.hazards_page`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from xpr.lowering.ir.graph import Module
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

Run = Callable[[Module, Target, ProgramHints], None]
Release = tuple[int, int]
"""A minor release of IREE."""


class Hazard(NamedTuple):
    """A row of docs/hazards.md, in Markdown."""

    hazard: str
    """The fault of IREE, and how it shows."""
    guard: str
    """How a program avoids it."""
    tests: str
    """The tests that fail without the guard, or once IREE has fixed the fault."""


def _any_target(target: Target, hints: ProgramHints) -> bool:
    return True


@dataclass(frozen=True)
class Guard:
    """A pass against a class of hazards."""

    run: Run
    hazards: tuple[Hazard, ...]
    gives: str
    """The invariant that holds afterwards."""

    needs: frozenset[str] = frozenset()
    """The invariants that must hold before. Some only record an order that was tested: two guards
    that both write barriers may give other programs in the other order."""

    targets: Callable[[Target, ProgramHints], bool] = _any_target
    """Whether programs with these hints need the guard on a target."""

    since: Release | None = None
    """The first release of IREE with the fault; None for all before."""

    until: Release | None = None
    """The first release without it; None as long as none has fixed it."""

    def is_for(self, release: Release | None) -> bool:
        """Whether a release of IREE has the fault; an unknown one (None) has all of them."""
        if release is None:
            return True
        return (self.since is None or release >= self.since) and (
            self.until is None or release < self.until
        )


def needs(*invariants: str) -> frozenset[str]:
    """The invariants that a guard needs."""
    return frozenset(invariants)


class OrderError(Exception):
    """The needs of guards cannot all be met."""


def ordered(guards: Iterable[tuple[str, Guard]]) -> list[tuple[str, Guard]]:
    """The guards, each behind all that give what it needs; else by their names.

    Raises `OrderError` if no guard gives an invariant, or if guards need each other's.
    """
    left = dict(sorted(guards))
    given = {guard.gives for guard in left.values()}
    for name, guard in left.items():
        if not guard.needs <= given:
            unknown = ", ".join(sorted(guard.needs - given))
            raise OrderError(f"guard {name} needs {unknown}, which no guard gives")
    found: list[tuple[str, Guard]] = []
    while left:
        pending = {guard.gives for guard in left.values()}
        ready = next((n for n, g in left.items() if not g.needs & (pending - {g.gives})), None)
        if ready is None:
            raise OrderError(f"guards need each other's invariants: {', '.join(left)}")
        found.append((ready, left.pop(ready)))
    return found
