"""Places in memory: sums of multiples of indices that only the running program knows.

Of two such sums one can tell here whether they are equal, how far apart they are, and between which
bounds they lie; so it is known without running the program which elements are read before they are
overwritten, and which indices need no check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xpr.lowering.ir.graph import Value

UNBOUNDED: Final = 1 << 62


class Symbol:
    """An index of the running program, from `low` to `high`; `value` is None for a lane."""

    __slots__ = ("high", "low", "value")

    def __init__(self, value: Value | None, low: int, high: int) -> None:
        self.value = value
        self.low = low
        self.high = high


class Place:
    """`constant` and the sum of the symbols, each times a factor that is not 0."""

    __slots__ = ("_key", "constant", "terms")

    def __init__(self, constant: int = 0, terms: Mapping[Symbol, int] | None = None) -> None:
        self.constant = constant
        self.terms: Mapping[Symbol, int] = terms or {}
        self._key: tuple[int, frozenset[tuple[Symbol, int]]] | None = None

    @staticmethod
    def of(symbol: Symbol) -> Place:
        return Place(0, {symbol: 1})

    @property
    def key(self) -> tuple[int, frozenset[tuple[Symbol, int]]]:
        if self._key is None:
            self._key = self.constant, frozenset(self.terms.items())
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Place | int) -> Place:
        if isinstance(other, int):
            return Place(self.constant + other, self.terms) if other else self
        terms = dict(self.terms)
        for symbol, factor in other.terms.items():
            total = terms.get(symbol, 0) + factor
            if total:
                terms[symbol] = total
            else:
                del terms[symbol]
        return Place(self.constant + other.constant, terms)

    def __mul__(self, factor: int) -> Place:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Place(self.constant * factor, {s: f * factor for s, f in self.terms.items()})

    def __sub__(self, other: Place | int) -> Place:
        return self + (-other if isinstance(other, int) else other * -1)

    @property
    def known(self) -> int | None:
        """The number that it is, if it depends on no index."""
        return None if self.terms else self.constant

    def factor(self, symbol: Symbol) -> int:
        return self.terms.get(symbol, 0)

    def without(self, symbol: Symbol) -> Place:
        if symbol not in self.terms:
            return self
        return Place(self.constant, {s: f for s, f in self.terms.items() if s is not symbol})

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest number that it may be; beyond UNBOUNDED nothing is known."""
        low = high = self.constant
        for symbol, factor in self.terms.items():
            ends = symbol.low * factor, symbol.high * factor
            low += min(ends)
            high += max(ends)
        return low, high


ZERO: Final = Place()
