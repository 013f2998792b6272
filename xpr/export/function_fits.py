"""Sizes that are quotients, remainders, greater or lesser ones of symbolic dimensions, from values.

What a number is at many sizes in a row, and at some others, tells which of a few forms it has. One
is taken if it is right at all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from xpr.core.polynomials import Terms, added, call_text, evaluate, multiplied
from xpr.export.generalize import Fitter, Sizes

RUN = 30
"""So many sizes are tried in a row."""

_GREATEST_DIVISOR = 16
_FACTORS = (1, -1, 2, -2, 3, -3, 4, -4)
_Line = tuple[int, int]
"""Factor and offset of a linear function."""


class FunctionFitter(Fitter):
    """Fits polynomials, and functions of polynomials where these do not do.

    `runs` says for each name at which of the points it alone is varied.
    """

    def __init__(
        self, names: Sequence[str], points: Sequence[Sizes], runs: dict[str, list[int]]
    ) -> None:
        super().__init__(names, points)
        self._names = list(names)
        self._runs = runs

    def fit(self, values: Sequence[int]) -> Terms | None:
        """The polynomial or the function that has these values; None if none is known."""
        key = tuple(values)
        if key not in self._known:
            found = self._solve(key)
            if found is None:
                forms = (t for t in self._forms(key) if self._is_right(t, key))
                found = next(forms, None)
            self._known[key] = found
        return self._known[key]

    def _is_right(self, terms: Terms, values: Sequence[int]) -> bool:
        return all(evaluate(terms, p) == v for p, v in zip(self.points, values, strict=True))

    def _forms(self, values: Sequence[int]) -> Iterator[Terms]:
        """Forms that may be right."""
        for name in self._names:
            yield from self._of_one(name, values)
        for a, b in itertools.permutations(self._names, 2):
            first, second = (values[i] for i in self._runs[b][:2])
            step = [self.points[i][b] for i in self._runs[b][:2]]
            factor = Fraction(second - first, step[1] - step[0])
            if factor.denominator == 1:
                # A multiple of one size, and a function of the other.
                rest = [v - int(factor) * p[b] for v, p in zip(values, self.points, strict=True)]
                for terms in self._of_one(a, rest):
                    yield added(terms, {(b,): int(factor)})
            if all(v % p[b] == 0 for v, p in zip(values, self.points, strict=True)):
                ratio = [v // p[b] for v, p in zip(values, self.points, strict=True)]
                for terms in self._of_one(a, ratio):
                    yield multiplied(terms, {(b,): 1})
            for function in ("max", "min"):
                yield {(call_text(function, {(a,): 1}, {(b,): 1}),): 1}

    def _of_one(self, name: str, values: Sequence[int]) -> Iterator[Terms]:
        """Functions of one size."""
        places = self._runs[name]
        sizes = [self.points[i][name] for i in places]
        found = [values[i] for i in places]
        last = max(range(len(self.points)), key=lambda i: self.points[i][name])
        slopes = {_slope(sizes[0], found[0], self.points[last][name], values[last])}
        slopes.add(_slope(sizes[0], found[0], sizes[-1], found[-1]))
        for slope in sorted(slopes):
            yield from _quotients(name, sizes, found, slope)
            yield from _remainders(name, sizes, found, slope)
        yield from _ends(name, sizes, found)


def _slope(x: int, y: int, other_x: int, other_y: int) -> Fraction:
    return Fraction(other_y - y, other_x - x).limit_denominator(_GREATEST_DIVISOR)


def _linear(name: str, factor: int, offset: int) -> Terms:
    terms: Terms = {(name,): factor, (): offset}
    return {m: c for m, c in terms.items() if c}


def _agree(compute: Callable[[int], int], sizes: Sequence[int], values: Sequence[int]) -> bool:
    return all(compute(n) == v for n, v in zip(sizes, values, strict=True))


def _quotients(
    name: str, sizes: Sequence[int], values: Sequence[int], slope: Fraction
) -> Iterator[Terms]:
    """`times * floordiv(factor * name + offset, divisor) + constant`."""
    if not slope:
        return
    for divisor, times in itertools.product(range(2, _GREATEST_DIVISOR + 1), _FACTORS):
        factor = slope * divisor / times
        if factor.denominator != 1 or math.gcd(int(factor), divisor) == divisor:
            continue
        for offset in range(divisor):
            start = (int(factor) * sizes[0] + offset) // divisor
            constant = values[0] - times * start

            def compute(n: int, offset: int = offset, constant: int = constant) -> int:
                quotient = (int(factor) * n + offset) // divisor  # noqa: B023  called at once
                return times * quotient + constant  # noqa: B023

            if _agree(compute, sizes, values):
                # The offset takes up the constant.
                if constant % times == 0:
                    offset, constant = offset + divisor * (constant // times), 0
                call = call_text("floordiv", _linear(name, int(factor), offset), {(): divisor})
                yield added({(call,): times}, {(): constant} if constant else {})
                return


def _remainders(
    name: str, sizes: Sequence[int], values: Sequence[int], slope: Fraction
) -> Iterator[Terms]:
    """`times * mod(factor * name + offset, divisor) + constant`, with a multiple of the size."""
    if slope.denominator != 1:
        return
    rest = [v - int(slope) * n for n, v in zip(sizes, values, strict=True)]
    for divisor, times in itertools.product(range(2, _GREATEST_DIVISOR + 1), _FACTORS):
        if any(a != b for a, b in zip(rest, rest[divisor:], strict=False)):
            continue
        for factor, offset in itertools.product(range(1, divisor), range(divisor)):
            constant = rest[0] - times * ((factor * sizes[0] + offset) % divisor)

            def compute(n: int, factor: int = factor, offset: int = offset) -> int:
                return times * ((factor * n + offset) % divisor) + constant  # noqa: B023

            if _agree(compute, sizes, rest):
                call = call_text("mod", _linear(name, factor, offset), {(): divisor})
                yield added({(call,): times}, _linear(name, int(slope), constant))
                return


def _ends(name: str, sizes: Sequence[int], values: Sequence[int]) -> Iterator[Terms]:
    """The lesser or the greater one of two linear functions."""
    tail = _line(sizes[-2:], values[-2:])
    if tail is None:
        return
    count = 0
    while count < len(sizes) and tail[0] * sizes[-1 - count] + tail[1] == values[-1 - count]:
        count += 1
    head, found = sizes[: len(sizes) - count], values[: len(sizes) - count]
    if not 0 < len(head) <= len(sizes) // 2:
        return
    lines: list[_Line] = []
    if len(head) > 1:
        line = _line(head[:2], found[:2])
        lines = [] if line is None else [line]
    else:
        lines = [(f, found[0] - f * head[0]) for f in (1, 0, 2, -1)]
    for function, line in itertools.product(("min", "max"), lines):
        choose = min if function == "min" else max

        def compute(n: int, line: _Line = line, choose: Callable[..., int] = choose) -> int:
            return choose(line[0] * n + line[1], tail[0] * n + tail[1])

        if _agree(compute, sizes, values):
            yield {(call_text(function, _linear(name, *line), _linear(name, *tail)),): 1}


def _line(sizes: Sequence[int], values: Sequence[int]) -> _Line | None:
    """The line with integer factors through two points."""
    factor = Fraction(values[1] - values[0], sizes[1] - sizes[0])
    if factor.denominator != 1:
        return None
    return int(factor), values[0] - int(factor) * sizes[0]
