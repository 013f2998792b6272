"""From programs at some choices of the symbolic dimensions to the program for all of them.

A number that differs between the choices must be a polynomial, of degree two at most, in the
symbolic dimensions: it is fitted at some of the choices and must be right at the others too. All
else must be the same at each choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from xpr.core.polynomials import Monomial, Terms, evaluate
from xpr.export.program_data import Json, dtype_of
from xpr.export.symbolic import terms_data, terms_of

Sizes = dict[str, int]

ADVICE = "Export a bundle for each size, or one for arrays that are padded to a size that is fixed"
"""What to do where a program cannot be compiled for symbolic dimensions."""


class SizeDependenceError(ValueError):
    """A program that depends on a symbolic dimension in a way that has no general form."""


class Fitter:
    """Fits polynomials to the values of numbers at the points, which are choices of sizes."""

    def __init__(self, names: Sequence[str], points: Sequence[Sizes]) -> None:
        self.points = list(points)
        degrees = range(3)
        self.monomials: list[Monomial] = [
            m for d in degrees for m in itertools.combinations_with_replacement(names, d)
        ]
        rows = [[evaluate({m: 1}, p) for m in self.monomials] for p in points]
        self._chosen, self._inverse = _independent_rows(rows)
        self._known: dict[tuple[int, ...], Terms | None] = {}

    def fit(self, values: Sequence[int]) -> Terms | None:
        """The polynomial with integer factors that has these values; None if there is none."""
        key = tuple(values)
        if key not in self._known:
            self._known[key] = self._solve(key)
        return self._known[key]

    def _solve(self, values: tuple[int, ...]) -> Terms | None:
        picked = [values[i] for i in self._chosen]
        terms: Terms = {}
        for monomial, row in zip(self.monomials, self._inverse, strict=True):
            factor = sum((a * b for a, b in zip(row, picked, strict=True)), Fraction(0))
            if factor.denominator != 1:
                return None
            if factor:
                terms[monomial] = int(factor)
        right = all(evaluate(terms, p) == v for p, v in zip(self.points, values, strict=True))
        return terms if right else None

    def fit_float(self, values: Sequence[float], dtype: np.dtype[Any]) -> tuple[Terms, bool] | None:
        """A polynomial whose values, or the inverses of whose values, these are."""
        if all(np.isfinite(v) and v == int(v) for v in values):
            terms = self.fit([int(v) for v in values])
            return None if terms is None else (terms, False)
        if all(np.isfinite(v) and v != 0 for v in values):
            counts = [round(1 / v) for v in values]
            inverse = [float(np.asarray(1 / c if c else 0, dtype)) for c in counts]
            terms = self.fit(counts) if inverse == list(values) else None
            return None if terms is None else (terms, True)
        return None


def count_of_points(names: Sequence[str]) -> int:
    """How many choices of the sizes are needed: as many as there are factors, and two more."""
    k = len(names)
    return (k + 1) * (k + 2) // 2 + 2


def _independent_rows(rows: list[list[int]]) -> tuple[list[int], list[list[Fraction]]]:
    """Rows that determine the factors, and the inverse of their matrix."""
    width = len(rows[0])
    chosen: list[int] = []
    echelon: list[list[Fraction]] = []
    for i, row in enumerate(rows):
        reduced = [Fraction(x) for x in row]
        for other in echelon:
            pivot = next(j for j, x in enumerate(other) if x)
            factor = reduced[pivot] / other[pivot]
            reduced = [a - factor * b for a, b in zip(reduced, other, strict=True)]
        if any(reduced):
            echelon.append(reduced)
            chosen.append(i)
            if len(chosen) == width:
                return chosen, _inverse([[Fraction(x) for x in rows[j]] for j in chosen])
    raise SizeDependenceError("the constraints leave too little choice of the symbolic dimensions")


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse, by Gauss-Jordan elimination."""
    n = len(matrix)
    work = [row + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        pivot = next(j for j in range(i, n) if work[j][i])
        work[i], work[pivot] = work[pivot], work[i]
        work[i] = [x / work[i][i] for x in work[i]]
        for j in range(n):
            if j != i and work[j][i]:
                factor = work[j][i]
                work[j] = [a - factor * b for a, b in zip(work[j], work[i], strict=True)]
    return [row[n:] for row in work]


# ---- programs as data


def generalize_data(tables: Sequence[Json], fitter: Fitter) -> Json:
    """One table of programs for all sizes from those at the fitter's points."""
    return [
        _Unifier(fitter, f"the program {programs[0]['name']}").program(programs)
        for programs in _zipped(tables, "the function", fitter)
    ]


def _zipped(lists: Sequence[Json], what: str, fitter: Fitter) -> list[tuple[Json, ...]]:
    if len({len(x) for x in lists}) != 1:
        sizes = ", ".join(f"{n} = {v}" for n, v in fitter.points[0].items())
        parting = (group[0][0] for group in zip(*lists, strict=False) if _names_differ(group))
        first = next((f", from {name!r} on" for name in parting), "")
        raise SizeDependenceError(
            f"{what} does different operations for different symbolic dimensions ({sizes} and "
            f"others){first}"
            ": a branch of Python, or an operation itself, depends on the size"
        )
    return list(zip(*lists, strict=True))


def _names_differ(group: Sequence[Json]) -> bool:
    """Whether what belongs together is not one operation."""
    return all(isinstance(e, list) for e in group) and len({e[0] for e in group}) > 1


class _Unifier:
    def __init__(self, fitter: Fitter, what: str) -> None:
        self.fitter = fitter
        self.what = what

    def program(self, programs: Sequence[Json]) -> Json:
        eqns = [
            _Unifier(self.fitter, f"the operation {group[0][0]}").value(group)
            for group in _zipped([p["eqns"] for p in programs], self.what, self.fitter)
        ]
        rest = {key: self.value([p[key] for p in programs]) for key in programs[0] if key != "eqns"}
        return rest | {"eqns": eqns}

    def refuse(self, values: Sequence[Any]) -> SizeDependenceError:
        shown = "; ".join(
            f"{v!r} for {', '.join(f'{n} = {x}' for n, x in p.items())}"
            for p, v in list(zip(self.fitter.points, values, strict=True))[:3]
        )
        return SizeDependenceError(
            f"{self.what} cannot be exported with symbolic dimensions: it depends on them in "
            f"another way than by sums, products and simple quotients ({shown})"
        )

    def value(self, values: Sequence[Json]) -> Json:
        first = values[0]
        if all(v == first for v in values) and all(type(v) is type(first) for v in values):
            return first
        if any(type(v) is not type(first) for v in values):
            raise self.refuse(values)
        if isinstance(first, dict):
            if any(v.keys() != first.keys() for v in values):
                raise self.refuse(values)
            if first.keys() == {"float"}:
                return {"float": self.number([float.fromhex(v["float"]) for v in values], "f8")}
            if first.keys() == {"scalar"}:
                return {"scalar": self.scalar([v["scalar"] for v in values])}
            return {key: self.value([v[key] for v in values]) for key in first}
        if isinstance(first, list):
            if len({len(v) for v in values}) != 1:
                raise self.refuse(values)
            return [self.value(items) for items in zip(*values, strict=True)]
        if isinstance(first, int) and not isinstance(first, bool):
            terms = self.fitter.fit(values)
            if terms is not None:
                return {"dim": terms_data(terms)}
        raise self.refuse(values)

    def number(self, values: Sequence[float], dtype: Any) -> Json:
        found = self.fitter.fit_float(values, np.dtype(dtype))
        if found is None:
            raise self.refuse(values)
        return {"terms": terms_data(found[0]), "inverse": found[1]}

    def scalar(self, values: Sequence[Json]) -> Json:
        name = values[0][0]
        dtype = dtype_of(name)
        if any(v[0] != name for v in values) or dtype.kind not in "iuf":
            raise self.refuse(values)
        numbers = [np.frombuffer(bytes.fromhex(v[1]), dtype)[0].item() for v in values]
        return [name, self.number(numbers, dtype)]


def specialize(data: Json, sizes: Sizes) -> Json:
    """The data of the program for these sizes."""
    if isinstance(data, list):
        return [specialize(v, sizes) for v in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"dim"}:
        return evaluate(terms_of(data["dim"]), sizes)
    if data.keys() == {"float"} and isinstance(data["float"], dict):
        return {"float": float(_number(data["float"], sizes)).hex()}
    if data.keys() == {"scalar"} and isinstance(data["scalar"][1], dict):
        name, number = data["scalar"]
        value = np.asarray(_number(number, sizes), dtype_of(name))
        return {"scalar": [name, value.tobytes().hex()]}
    return {key: specialize(v, sizes) for key, v in data.items()}


def _number(data: Json, sizes: Sizes) -> float | int:
    value = evaluate(terms_of(data["terms"]), sizes)
    return 1 / value if data["inverse"] else value
