"""Symbolic dimensions: polynomials in named sizes, each of which is at least one, and in quotients,
remainders, greater and lesser ones of such.

They stand in the shapes of `ShapeDtypeStruct`s that `xpr.export` takes, and of the types of
exported functions. Traced programs have numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from xpr.core.errors import InconclusiveDimensionOperation
from xpr.core.polynomials import (
    Monomial,
    Terms,
    added,
    call_text,
    evaluate,
    is_call,
    multiplied,
    parsed_call,
    text_of,
    variables,
)

if TYPE_CHECKING:
    from fractions import Fraction


class SymbolicDim:
    """A symbolic dimension, such as `b` or `2*b + 1`.

    Made by `xpr.export.symbolic_shape`. It can be added to, multiplied and divided by integers and
    others of its scope; comparisons answer if the answer is the same for all sizes of one and more
    that satisfy the scope's constraints.
    """

    __slots__ = ("scope", "terms")

    def __init__(self, terms: Mapping[Monomial, int], scope: Any) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in sorted(terms.items()) if c}
        self.scope = scope

    # ---- arithmetic

    def _other(self, other: Any) -> Terms | None:
        if isinstance(other, SymbolicDim):
            if other.scope is not self.scope:
                raise ValueError(
                    f"Invalid mixing of symbolic scopes: {self} and {other} come from different "
                    "calls of symbolic_shape; give the second one the scope of the first"
                )
            return other.terms
        if isinstance(other, int):
            return {(): other} if other else {}
        return None

    def _plus(self, other: Any, sign: int) -> Any:
        terms = self._other(other)
        if terms is None:
            return NotImplemented
        return simplified(added(self.terms, terms, sign), self.scope)

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
        return simplified(multiplied(self.terms, terms), self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        return math.prod([self] * power, start=1)

    def __divmod__(self, other: Any) -> Any:
        """Quotient and remainder; what is left over may depend on the sizes."""
        terms = self._other(other)
        if terms is None:
            return NotImplemented
        return divided(self.terms, terms, self.scope)

    def __rdivmod__(self, other: Any) -> Any:
        terms = self._other(other)
        return NotImplemented if terms is None else divided(terms, self.terms, self.scope)

    def __floordiv__(self, other: Any) -> Any:
        found = self.__divmod__(other)
        return found if found is NotImplemented else found[0]

    def __rfloordiv__(self, other: Any) -> Any:
        found = self.__rdivmod__(other)
        return found if found is NotImplemented else found[0]

    def __mod__(self, other: Any) -> Any:
        found = self.__divmod__(other)
        return found if found is NotImplemented else found[1]

    def __rmod__(self, other: Any) -> Any:
        found = self.__rdivmod__(other)
        return found if found is NotImplemented else found[1]

    def __truediv__(self, other: Any) -> Any:
        raise NotImplementedError(
            f"symbolic dimensions cannot be divided to fractions: {self} by {other}; use //"
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
        return frozenset(variables(self.terms))

    def __repr__(self) -> str:
        return text_of(self.terms)


def simplified(terms: Mapping[Monomial, int], scope: Any) -> Any:
    """A polynomial as a size: a plain integer if it has no symbolic dimension."""
    found = {m: c for m, c in terms.items() if c}
    if all(m == () for m in found):
        return found.get((), 0)
    return SymbolicDim(found, scope)


def _called(function: str, a: Terms, b: Terms, scope: Any) -> Any:
    return simplified({(call_text(function, a, b),): 1}, scope)


def divided(dividend: Terms, divisor: Terms, scope: Any) -> tuple[Any, Any]:
    """Quotient and remainder of two polynomials.

    They are polynomials if the division ends with a remainder that is right for all sizes, and else
    stand for what is computed when the sizes are known. ZeroDivisionError for the divisor 0.
    """
    if not any(divisor.values()):
        raise ZeroDivisionError(f"division of the symbolic dimension {text_of(dividend)} by zero")
    quotient: Terms = {}
    rest = dict(dividend)
    lead = _leading(divisor)
    while rest and set(rest) != {()}:
        monomial = _leading(rest)
        over = _without(monomial, lead)
        if over is None or rest[monomial] % divisor[lead]:
            break
        term = {over: rest[monomial] // divisor[lead]}
        quotient = added(quotient, term)
        rest = added(rest, multiplied(term, divisor), -1)
    else:
        left = rest.get((), 0)
        if lead == ():
            whole, left = divmod(left, divisor[()])
            return simplified(added(quotient, {(): whole}), scope), left
        if left == 0:
            return simplified(quotient, scope), 0
    return _called("floordiv", dividend, divisor, scope), _called("mod", dividend, divisor, scope)


def _leading(terms: Terms) -> Monomial:
    return max(terms, key=lambda m: (len(m), m))


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """The quotient of two monomials; None if it is none."""
    names = list(monomial)
    for name in part:
        if name not in names:
            return None
        names.remove(name)
    return tuple(names)


def greater(a: Any, b: Any) -> Any:
    """The greater of two sizes."""
    return _chosen("max", a, b)


def lesser(a: Any, b: Any) -> Any:
    """The lesser of two sizes."""
    return _chosen("min", a, b)


def _chosen(function: str, a: Any, b: Any) -> Any:
    scope = a.scope if isinstance(a, SymbolicDim) else getattr(b, "scope", None)
    if scope is None:
        return max(a, b) if function == "max" else min(a, b)
    difference = a - b
    if isinstance(difference, int):
        low = high = float(difference)
    else:
        low, high = bounds(difference.terms, scope.known)
    if low >= 0:
        return a if function == "max" else b
    if high <= 0:
        return b if function == "max" else a
    first, second = (x.terms if isinstance(x, SymbolicDim) else {(): x} for x in (a, b))
    return _called(function, first, second, scope)


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
    facts = (*_facts(terms), *known)
    low = _lower(exact, facts, 3)
    return low, -_lower({m: -c for m, c in exact.items()}, facts, 3)


def _facts(terms: Mapping[Monomial, int]) -> list[Known]:
    """What is known of the quotients and the greater and lesser ones in a polynomial."""
    found: list[Known] = []
    for name in sorted({n for m in terms for n in m if is_call(n)}):
        function, a, b = parsed_call(name)
        own: Terms = {(name,): 1}
        if function == "floordiv" and set(b) == {()} and b[()] > 0:
            over = added(a, multiplied(own, b), -1)  # 0, ..., b - 1
            found += [Known(over, False), Known(added({(): b[()] - 1}, over, -1), False)]
        elif function in ("max", "min"):
            sign = 1 if function == "max" else -1
            for x in (a, b):
                difference = added(own, x, -1)
                found.append(Known({m: sign * c for m, c in difference.items()}, False))
        else:
            continue
        found += _facts(a) + _facts(b)
    return found


def _interval(name: str) -> tuple[float, float]:
    """Between which numbers lies what a name stands for."""
    if not is_call(name):
        return 1, math.inf
    function, a, b = parsed_call(name)
    (low, high), (least, most) = bounds(a), bounds(b)
    if function == "max":
        return max(low, least), max(high, most)
    if function == "min":
        return min(low, least), min(high, most)
    if function == "mod":
        if least > 0:
            return 0, min(most - 1, high if low >= 0 else math.inf)
        return (least + 1, 0) if most < 0 else (-math.inf, math.inf)
    if least == most and least != 0:
        ends = sorted((low / least, high / least))
        return _floor(ends[0]), _floor(ends[1])
    if least > 0 and low >= 0:
        return 0, high
    return -math.inf, math.inf


def _floor(x: float) -> float:
    return x if math.isinf(x) else math.floor(x)


def _least(monomial: Monomial, factor: Fraction) -> float:
    """A lower bound of a monomial with its factor."""
    low, high = 1.0, 1.0
    for name in monomial:
        ends = [0.0 if 0 in (x, y) else x * y for x in (low, high) for y in _interval(name)]
        low, high = min(ends), max(ends)
    end = low if factor > 0 else high
    return end * float(factor) if end else 0.0


def _lower(terms: dict[Monomial, Fraction], known: tuple[Known, ...], depth: int) -> float:
    best = sum(_least(m, c) for m, c in terms.items())
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
