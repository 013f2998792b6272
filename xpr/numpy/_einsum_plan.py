"""From the subscripts of an einsum to the steps that compute it: parsing, checks, the order."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpr.numpy._typing import Shape

Subscripts = tuple[tuple[str, ...], str]


# ---- subscripts


def from_interleaved(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """Subscripts and operands of the form (operand, labels, operand, labels, ..., labels)."""
    operands, lists = list(args[: len(args) // 2 * 2 : 2]), list(args[1::2])
    result = list(args[-1]) if len(args) % 2 else None
    for labels in [*lists, *([] if result is None else [result])]:
        if not hasattr(labels, "__iter__"):
            raise TypeError(
                f"einsum: each operand must be followed by a sequence of labels, got {labels!r}"
            )
    used = {x for labels in lists for x in labels if x is not Ellipsis}
    if result is not None and (extra := [x for x in result if x is not Ellipsis and x not in used]):
        raise ValueError(f"einsum: output label {extra[0]!r} did not appear in the input")
    symbols = _unused_symbols("")
    try:
        names = {label: next(symbols) for label in sorted(used)}
    except TypeError:
        raise TypeError(
            f"einsum: labels must be of types that can be ordered, got {sorted(map(repr, used))}"
        ) from None
    names[Ellipsis] = "..."
    text = ",".join("".join(names[x] for x in labels) for labels in lists)
    if result is not None:
        text += "->" + "".join(names[x] for x in result)
    return text, operands


def _unused_symbols(used: str) -> Any:
    for symbol in string.ascii_lowercase + string.ascii_uppercase:
        if symbol not in used:
            yield symbol
    code = 0x100
    while True:
        if chr(code) not in used:
            yield chr(code)
        code += 1


def _fail(subscripts: str, text: str) -> ValueError:
    return ValueError(f"{text} (einsum of {subscripts!r})")


@functools.lru_cache(maxsize=4096)
def parse(subscripts: str, shapes: tuple[Shape, ...]) -> Subscripts:
    """The labels of each operand, one character for each axis, and those of the result."""
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    if "->" in right or any(c in "->" for c in left + right):
        raise _fail(subscripts, "Subscripts can only contain one '->'.")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise _fail(
            subscripts,
            f"Number of einsum subscripts, {len(terms)}, must be equal to the number of operands, "
            f"{len(shapes)}.",
        )
    if "," in right:
        raise _fail(subscripts, "The output cannot have several terms.")
    for term in [*terms, right]:
        if term.count(".") != 3 * term.count("...") or term.count("...") > 1:
            raise _fail(subscripts, "Invalid Ellipses.")
    counts = [
        _hidden(subscripts, t, s, i) for i, (t, s) in enumerate(zip(terms, shapes, strict=True))
    ]
    hidden = max(counts)
    fresh = _unused_symbols(text)
    dots = "".join(next(fresh) for _ in range(hidden))
    labels = [t.replace("...", dots[hidden - n :]) for t, n in zip(terms, counts, strict=True)]
    if arrow:
        # Axes of an ellipsis that the result lacks are summed over.
        result = right.replace("...", dots)
    else:
        joined = "".join(labels)
        once = sorted(c for c in set(joined) - set(dots) if joined.count(c) == 1)
        result = dots + "".join(once)
    _check_result(subscripts, result, "".join(labels))
    _check_sizes(subscripts, labels, shapes)
    return tuple(labels), result


def _hidden(subscripts: str, term: str, shape: Shape, operand: int) -> int:
    """How many axes the ellipsis of a term stands for."""
    named = len(term.replace("...", ""))
    if named == len(shape) or ("..." in term and named < len(shape)):
        return len(shape) - named
    raise _fail(
        subscripts,
        f"Einstein sum subscript {term!r} does not contain the correct number of indices for "
        f"operand {operand}, which has shape {shape}.",
    )


def _check_result(subscripts: str, result: str, given: str) -> None:
    for c in result:
        if result.count(c) > 1:
            raise _fail(
                subscripts, f"Output character {c!r} appeared more than once in the output."
            )
        if c not in given:
            raise _fail(subscripts, f"Output character {c!r} did not appear in the input")


def _check_sizes(subscripts: str, labels: Sequence[str], shapes: Sequence[Shape]) -> None:
    sizes: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(labels, shapes, strict=True)):
        for c, size in zip(term, shape, strict=True):
            known = sizes.get(c, 1)
            if size != known and 1 not in (size, known):
                raise _fail(
                    subscripts,
                    f"Size of label {c!r} for operand {i} ({size}) does not match previous terms "
                    f"({known}). The operands have the shapes {', '.join(map(str, shapes))}.",
                )
            sizes[c] = size if known == 1 else known


# ---- steps


@dataclass(frozen=True, slots=True)
class Diagonal:
    """Takes the diagonal of neighbouring axes, after a transpose where they are none."""

    permutation: Shape | None
    merged: Shape
    axis: int
    stride: int


@dataclass(frozen=True, slots=True)
class Preparation:
    """What happens to one operand before it meets another one."""

    squeeze: Shape
    diagonals: tuple[Diagonal, ...]
    sums: Shape


@dataclass(frozen=True, slots=True)
class Step:
    """One contraction: which operands it takes, and what is done with them.

    The operands are removed from the list and the result is added at its end. Without dimension
    numbers there is one operand. Otherwise they are those of `dot_general(first, second)`.
    The operand that stands later in the list is prepared first.
    """

    operands: tuple[int, ...]
    preparations: tuple[Preparation, ...]
    dimension_numbers: Any
    permutation: Shape | None


@functools.lru_cache(maxsize=4096)
def plan(subscripts: str, shapes: tuple[Shape, ...], optimize: Any) -> tuple[Step, ...]:
    """The steps that compute the einsum of operands of those shapes."""
    labels, result = parse(subscripts, shapes)
    sizes: dict[str, int] = {}
    for term, shape in zip(labels, shapes, strict=True):
        for c, size in zip(term, shape, strict=True):
            sizes[c] = max(size, sizes.get(c, size)) if size and sizes.get(c, 1) else 0
    present = list(labels)
    squeezes: list[Shape] = []
    for i, (term, shape) in enumerate(zip(labels, shapes, strict=True)):
        drop = tuple(k for k, c in enumerate(term) if shape[k] == 1 and sizes[c] != 1)
        squeezes.append(drop)
        present[i] = "".join(c for k, c in enumerate(term) if k not in drop)
    steps: list[Step] = []
    order = contraction_order(tuple(present), result, sizes, optimize)
    for index, (picked, wanted) in enumerate(order):
        final = result if index == len(order) - 1 else wanted
        _add_steps(steps, present, squeezes, picked, final, sizes, index == len(order) - 1)
    return tuple(steps)


def _add_steps(
    steps: list[Step],
    present: list[str],
    squeezes: list[Shape],
    picked: Sequence[int],
    result: str,
    sizes: dict[str, int],
    last: bool,
) -> None:
    """Contracts the picked operands in pairs; the lists are kept up to date."""
    if len(picked) > 2:
        rest = "".join(present[i] for i in picked[2:])
        between = "".join(
            c for c in dict.fromkeys(present[picked[0]] + present[picked[1]]) if c in rest + result
        )
        _add_steps(steps, present, squeezes, picked[:2], between, sizes, False)
        gone = sorted(picked[:2])
        left = [i - sum(g < i for g in gone) for i in picked[2:]]
        return _add_steps(steps, present, squeezes, [*left, len(present) - 1], result, sizes, last)
    operands = sorted(picked, reverse=True)
    terms = [present[i] for i in operands]
    prepared, after = [], []
    for k, (i, term) in enumerate(zip(operands, terms, strict=True)):
        others = "".join(t for j, t in enumerate(terms) if j != k)
        preparation, kept = _prepare(squeezes[i], term, set(result + others), sizes)
        prepared.append(preparation)
        after.append(kept)
    for i in operands:
        del present[i], squeezes[i]
    numbers = None
    names = after[0]
    if len(operands) == 2:
        # The later operand goes first unless only the other order gives the result as it is.
        numbers, labels = contraction(after[0], after[1], result)
        turned, others = contraction(after[1], after[0], result)
        if "".join(others) == result:
            numbers, labels = turned, others
            operands.reverse()
            prepared.reverse()
        names = "".join(labels)
    permutation = None
    if last and names != result:
        permutation, names = tuple(names.index(c) for c in result), result
    steps.append(Step(tuple(operands), tuple(prepared), numbers, permutation))
    present.append(names)
    squeezes.append(())
    return None


def contraction(
    left: Sequence[str], right: Sequence[str], result: Sequence[str]
) -> tuple[Any, list[str]]:
    """Dimension numbers for two operands by the labels of their axes, and what comes out.

    Shared labels are batch axes where the result has them, else they are summed over.
    """
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in result]
    summed = [c for c in shared if c not in result]
    numbers = (
        (tuple(left.index(c) for c in summed), tuple(right.index(c) for c in summed)),
        (tuple(left.index(c) for c in batch), tuple(right.index(c) for c in batch)),
    )
    free = [c for c in left if c not in shared] + [c for c in right if c not in shared]
    return numbers, batch + free


def _prepare(
    squeeze: Shape, term: str, needed: set[str], sizes: dict[str, int]
) -> tuple[Preparation, str]:
    """Diagonals for repeated labels, sums over labels that nobody needs; the labels left."""
    diagonals = []
    for c in dict.fromkeys(term):
        count = term.count(c)
        if count == 1:
            continue
        last = term.rindex(c)
        before = [k for k in range(last) if term[k] != c]
        places = [k for k in range(last + 1) if term[k] == c]
        order = (*before, *places, *range(last + 1, len(term)))
        axis, size = len(before), sizes[c]
        rest = "".join(term[k] for k in before), term[last + 1 :]
        merged = (*(sizes[x] for x in rest[0]), size**count, *(sizes[x] for x in rest[1]))
        stride = sum(size**k for k in range(count))
        moved = None if order == tuple(range(len(term))) else order
        diagonals.append(Diagonal(moved, merged, axis, stride))
        term = rest[0] + c + rest[1]
    sums = tuple(k for k, c in enumerate(term) if c not in needed)
    kept = "".join(c for c in term if c in needed)
    return Preparation(squeeze, tuple(diagonals), sums), kept


# ---- order


def contraction_order(
    labels: tuple[str, ...], result: str, sizes: dict[str, int], optimize: Any
) -> list[tuple[tuple[int, ...], str]]:
    """Which operands meet, one pair after the other, and the labels of what they give."""
    if len(labels) <= 2 and isinstance(optimize, (str, bool)):
        return [(tuple(range(len(labels))), result)]
    if optimize is False:
        # From left to right: the result of a pair, at the end of the list, meets the next one.
        optimize = ((0, 1), *((0, n - 1) for n in range(len(labels) - 1, 1, -1)))
    from opt_einsum import contract_path  # noqa: PLC0415  slow to load and rarely needed

    text = f"{','.join(labels)}->{result}"
    shapes = [tuple(sizes[c] for c in term) for term in labels]
    method: Any = "optimal" if optimize is True else optimize
    if not isinstance(method, str):
        method = [tuple(pair) for pair in method]
    paths: Any = contract_path  # its overloads know neither shapes=True nor paths of its own
    _, contractions = paths(text, *shapes, shapes=True, einsum_call=True, optimize=method)
    return [(tuple(c[0]), str(c[2]).partition("->")[2]) for c in contractions]
