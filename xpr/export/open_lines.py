"""Lines of StableHLO text at several choices of the open sizes, made one line for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xpr.export.generalize import ADVICE, Fitter, SizeDependenceError, Terms

_TOKEN = re.compile(
    r"tensor<(?P<dims>(?:\d+x)*)(?P<element>complex<\w+>|[a-zA-Z]\w*)>"
    r'|"[^"]*"|0x[0-9A-Fa-f]+|[%@][\w#:]+|[A-Za-z_][\w.]*'
    r"|(?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
)
_OPERATION = re.compile(r'(?:stablehlo|chlo|func|util|flow)\.[\w.]+|"[\w.]+"')

Dim = int | Terms


class OpenType(NamedTuple):
    """A tensor type some extents of which are polynomials in the open sizes."""

    dims: tuple[Dim, ...]
    element: str

    def __str__(self) -> str:
        sizes = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in self.dims)
        return f"tensor<{sizes}{self.element}>"

    @property
    def open(self) -> bool:
        """Whether an extent is open."""
        return any(not isinstance(d, int) for d in self.dims)


class OpenNumber(NamedTuple):
    """A number that is a polynomial in the open sizes, or the inverse of one."""

    terms: Terms
    is_float: bool
    inverse: bool


class OpenLine(NamedTuple):
    """A line for all sizes."""

    text: str
    """The line with `?` for open sizes in types, and numbered holes for other numbers."""

    types: list[OpenType]
    numbers: list[OpenNumber]

    @property
    def same(self) -> bool:
        """Whether the line has nothing that depends on the sizes."""
        return not self.numbers and not any(t.open for t in self.types)


# The bytes of a short row of integers.
_TABLE = re.compile(r'dense<"0x(?P<bytes>[0-9A-F]{2,256})">(?= : tensor<\d+xu?i(?P<bits>32|64)>)')


def _as_list(table: re.Match[str]) -> str:
    """A row of integers as numbers, some of which may be open sizes."""
    numbers = np.frombuffer(bytes.fromhex(table["bytes"]), f"i{int(table['bits']) // 8}")
    return f"dense<[{', '.join(map(str, numbers))}]>"


def operation_of(line: str) -> str:
    """The operation in a line of text, for messages."""
    found = _OPERATION.search(line)
    return found[0].strip('"') if found else line.strip()[:60]


def unify_lines(lines: Sequence[str], fitter: Fitter) -> OpenLine:
    """One line for all sizes; SizeDependenceError naming the operation when there is none."""
    if len(set(lines)) > 1 and _TABLE.search(lines[0]):
        lines = [_TABLE.sub(_as_list, line) for line in lines]
    first = lines[0]
    matches = [list(_TOKEN.finditer(line)) for line in lines]
    if len({len(m) for m in matches}) != 1:
        raise refusal(lines)
    out, types, numbers = [], [], []
    ends = [0] * len(lines)
    for group in zip(*matches, strict=True):
        gaps = {line[e : m.start()] for line, e, m in zip(lines, ends, group, strict=True)}
        if len(gaps) != 1:
            raise refusal(lines)
        out.append(gaps.pop())
        ends = [m.end() for m in group]
        texts = {m[0] for m in group}
        if group[0]["element"] is not None:
            kind = _unify_type([(m["dims"], m["element"]) for m in group], fitter)
            if kind is None:
                raise refusal(lines)
            types.append(kind)
            out.append(str(kind))
        elif len(texts) == 1:
            out.append(texts.pop())
        else:
            number = _unify_number([m["number"] for m in group], fitter)
            if number is None:
                raise refusal(lines)
            out.append(f"⟦{len(numbers)}⟧")
            numbers.append(number)
    rests = {line[e:] for line, e in zip(lines, ends, strict=True)}
    if len(rests) != 1:
        raise refusal([first])
    return OpenLine("".join(out) + rests.pop(), types, numbers)


def refusal(lines: Sequence[str]) -> SizeDependenceError:
    """The error for lines of which no general one can be made."""
    return SizeDependenceError(
        f"{operation_of(lines[0])} cannot be compiled for open sizes: it takes forms that "
        f"differ in more than sums and products of them. {ADVICE}"
    )


def _unify_type(types: Sequence[tuple[str | None, str]], fitter: Fitter) -> OpenType | None:
    elements = {element for _, element in types}
    shapes = [tuple(int(d) for d in (dims or "").split("x") if d) for dims, _ in types]
    if len(elements) != 1 or len({len(s) for s in shapes}) != 1:
        return None
    dims: list[Dim] = []
    for sizes in zip(*shapes, strict=True):
        terms = fitter.fit(sizes)
        if terms is None:
            return None
        dims.append(sizes[0] if len(set(sizes)) == 1 else terms)
    return OpenType(tuple(dims), elements.pop())


def _unify_number(texts: Sequence[str | None], fitter: Fitter) -> OpenNumber | None:
    if any(t is None for t in texts):
        return None
    if all(re.fullmatch(r"-?\d+", t or "") for t in texts):
        terms = fitter.fit([int(t or 0) for t in texts])
        return None if terms is None else OpenNumber(terms, False, False)
    found = fitter.fit_float([float(t or 0) for t in texts], np.dtype(np.float32))
    found = found or fitter.fit_float([float(t or 0) for t in texts], np.dtype(np.float64))
    return None if found is None else OpenNumber(found[0], True, found[1])
