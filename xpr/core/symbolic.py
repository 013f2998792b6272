"""Symbolic dimensions: polynomials in named sizes, each of which is at least one.

They stand in the shapes of `ShapeDtypeStruct`s that `xpr.export` takes, and of the types of
exported functions. Traced programs have numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from xpr.core.errors import InconclusiveDimensionOperation
from xpr.core.polynomials import Monomial, evaluate

if TYPE_CHECKING:
    from fractions import Fraction


class SymbolicDim:
    """A symbolic dimension, such as `b` or `2*b + 1`.

    Made by `xpr.export.symbolic_shape`. It can be added to and multiplied by integers and others
    of its scope; comparisons answer if the answer is the same for all sizes of one and more that
    satisfy the scope's constraints.
    """

    __slots__ = ("scope", "terms")

    def __init__(self, terms: Mapping[Monomial, int], scope: Any) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in sorted(terms.items()) if c}
        self.scope = scope

    # ---- arithmetic

    def _other(self, other: Any) -> dict[Monomial, int] | None:
        if isinstance(other, SymbolicDim):
            if other.scope is not self.scope:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes: {self} and {other} come from different "
                    "calls of symbolic_shape; give the second one the scope of the first"
                )
            return other.terms
        if isinstance(other, int):
            return {(): other}
        return None

    def _plus(self, other: Any, sign: int) -> Any:
        terms = self._other(other)
        if terms is None:
            return NotImplemented
        total = dict(self.terms)
        for monomial, factor in terms.items():
            total[monomial] = total.get(monomial, 0) + sign * factor
        return simplified(total, self.scope)

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1)

    def __neg__(self) -> Any:
        return self * -1

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        terms = self._other(other)
        if terms is None:
            return NotImplemented
        total: dict[Monomial, int] = {}
        for m, a in self.terms.items():
            for n, b in terms.items():
                key = tuple(sorted(m + n))
                total[key] = total.get(key, 0) + a * b
        return simplified(total, self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        return math.prod([self] * power, start=1)

    def __divmod__(self, other: Any) -> tuple[Any, int]:
        """Quotient and remainder, where the remainder is the same for all sizes."""
        if not isinstance(other, int) or isinstance(other, bool):
            raise self._undivided(other)
        if other == 0:
            raise ZeroDivisionError(f"division of the symbolic dimension {self} by zero")
        if any(c % other for m, c in self.terms.items() if m):
            raise self._undivided(other)
        return simplified({m: c // other for m, c in self.terms.items()}, self.scope), (
            self.terms.get((), 0) % other
        )

    def __floordiv__(self, other: Any) -> Any:
        return divmod(self, other)[0]

    def __mod__(self, other: Any) -> int:
        return divmod(self, other)[1]

    def __truediv__(self, other: Any) -> Any:
        raise self._undivided(other)

    def _undivided(self, other: Any) -> NotImplementedError:
        return NotImplementedError(
            f"symbolic dimensions cannot be divided: {self} by {other}, for what is left over "
            "depends on the sizes"
        )

    # ---- questions

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return False
        if not isinstance(other, SymbolicDim):
            return NotImplemented
        return self.scope is other.scope and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    def __ge__(self, other: Any) -> bool:
        low, high = self._range(other)
        return self._decide(low >= 0, high < 0, ">=", other)

    def __gt__(self, other: Any) -> bool:
        low, high = self._range(other)
        return self._decide(low > 0, high <= 0, ">", other)

    def __le__(self, other: Any) -> bool:
        low, high = self._range(other)
        return self._decide(high <= 0, low > 0, "<=", other)

    def __lt__(self, other: Any) -> bool:
        low, high = self._range(other)
        return self._decide(high < 0, low >= 0, "<", other)

    def _range(self, other: Any) -> tuple[float, float]:
        difference = self - other
        if isinstance(difference, int):
            return difference, difference
        return bounds(difference.terms, self.scope.known)

    def _decide(self, yes: bool, no: bool, relation: str, other: Any) -> bool:
        if yes or no:
            return yes
        raise InconclusiveDimensionOperation(
            f"Symbolic dimension comparison '{self}' {relation} '{other}' is inconclusive: it "
            "depends on the values of the symbolic dimensions"
        )

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise InconclusiveDimensionOperation(
            f"the symbolic dimension {self} has no value: only xpr.export.export takes shapes "
            f"with it"
        )

    __int__ = __index__

    # ---- values and text

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number for these sizes."""
        return evaluate(self.terms, sizes)

    @property
    def names(self) -> frozenset[str]:
        """The symbolic dimensions that it depends on."""
        return frozenset(n for monomial in self.terms for n in monomial)

    def __repr__(self) -> str:
        return text_of(self.terms)


def simplified(terms: Mapping[Monomial, int], scope: Any) -> Any:
    """A polynomial as a size: a plain integer if it has no symbolic dimension."""
    found = {m: c for m, c in terms.items() if c}
    if all(m == () for m in found):
        return found.get((), 0)
    return SymbolicDim(found, scope)


class Known(NamedTuple):
    """What a constraint says: that `terms` are zero, or that they are not negative."""

    terms: dict[Monomial, int]
    zero: bool


def bounds(terms: Mapping[Monomial, int], known: tuple[Known, ...] = ()) -> tuple[float, float]:
    """Bounds on a polynomial in sizes that are at least one, of which more is `known`.

    They are right, and need not be the narrowest: of what is known, up to three constraints are
    used together, each so often that a monomial is gone.
    """
    from fractions import Fraction  # noqa: PLC0415  most programs have no symbolic dimensions

    exact = {monomial: Fraction(factor) for monomial, factor in terms.items() if factor}
    low = _lower(exact, known, 3)
    return low, -_lower({m: -c for m, c in exact.items()}, known, 3)


def _lower(terms: dict[Monomial, Fraction], known: tuple[Known, ...], depth: int) -> float:
    best = sum(float(c) if c > 0 or not m else -math.inf for m, c in terms.items())
    if depth == 0:
        return best
    for i, fact in enumerate(known):
        for monomial, factor in fact.terms.items():
            # terms = times * fact + rest, and times * fact is not negative.
            times: Any = terms.get(monomial, 0) / factor if monomial else 0
            if times > 0 or (times and fact.zero):
                rest = dict(terms)
                for m, c in fact.terms.items():
                    rest[m] = rest.get(m, 0) - times * c
                rest = {m: c for m, c in rest.items() if c}
                best = max(best, _lower(rest, known[:i] + known[i + 1 :], depth - 1))
    return float(best)


def text_of(terms: Mapping[Monomial, int]) -> str:
    """A polynomial as one writes it: `2*b + 1`."""
    out = ""
    for monomial, factor in sorted(terms.items(), key=lambda t: (-len(t[0]), t[0])):
        names = "*".join(monomial)
        size = abs(factor)
        part = str(size) if not names else names if size == 1 else f"{size}*{names}"
        sign = "-" if factor < 0 else "+"
        out += f" {sign} {part}" if out else part if factor > 0 else f"-{part}"
    return out or "0"
