"""Effects: what equations do beside computing their results.

An equation with effects is never removed, whether or not its results are read. Programs run their
effects in the order in which they were traced.
"""

from __future__ import annotations

from typing import Any


class Effect:
    """A kind of effect. One that is not `exact` may be repeated by transformations.

    A subclass that a program defines is a kind of its own, named after the class.
    """

    # A subclass need not call `__init__`.
    name = ""
    exact = True
    ordered = False

    def __init__(self, name: str = "", exact: bool = True, ordered: bool = False) -> None:
        self.name = name or type(self).__name__
        self.exact = exact
        self.ordered = ordered

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Effect) or type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, bool, bool]:
        return self._called(), self.exact, self.ordered

    def _called(self) -> str:
        return self.name or type(self).__name__

    def __repr__(self) -> str:
        return self._called()


DEBUG = Effect("Debug", exact=False, ordered=False)
ORDERED_DEBUG = Effect("OrderedDebug", exact=False, ordered=True)
IO = Effect("IO", exact=True, ordered=False)
ORDERED_IO = Effect("OrderedIO", exact=True, ordered=True)
INSPECT = Effect("InspectSharding", exact=False, ordered=False)
"""Something is told when a program is compiled, and nothing is done when it runs."""

CHECK = Effect("Check", exact=False, ordered=False)
"""A program may fail here, by what it finds when it runs: see `xpr.experimental.checkify`."""

Effects = frozenset[Any]
NONE: Effects = frozenset()


def refuse_exact(effects: Effects, where: str) -> None:
    """NotImplementedError if an effect must happen once each time, which `where` cannot promise."""
    exact = sorted(str(e) for e in effects if e.exact)
    if exact:
        raise NotImplementedError(f"{' and '.join(exact)} effects are not supported in {where}")
