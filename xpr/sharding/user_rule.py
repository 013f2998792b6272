"""Sharding rules as users write them for `custom_partitioning`, in the notation of einsum.

`"... i j, j k -> ... i k"` names the factors of each axis of operands and results. A leading `...`
stands for any number of axes (with a number behind it, such as `...1`, for those of one group), and
`(i j)` for an axis that several factors make up, from major to minor. The notation and the names
are those of JAX, which has them from Shardy and einops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from xpr.core.aval import Shape
from xpr.sharding.rule import FactorRule, Factors

BATCHING = "…"
"""The first entry of a mapping that stands for any number of leading axes."""

_TOKEN = re.compile(r"\.\.\.\d*|\w+|\S")


def _is_batching(entry: Any) -> bool:
    return isinstance(entry, str) and (
        entry == BATCHING or (entry[:1] == BATCHING and entry[1:].isdecimal())
    )


def _check_factor(name: str) -> None:
    if not name[:1].isalpha():
        raise ValueError(f"Factor names have to start with a letter, but got '{name[:1]}'")
    for char in name:
        if not (char.isalpha() or char.isdigit() or char == "_"):
            raise ValueError(f"Unknown character '{char}'")


class CompoundFactor(tuple[str, ...]):
    """The factors that one axis is made of, from major to minor; at least two.

    >>> CompoundFactor("b", "c")
    ('b', 'c')
    """

    __slots__ = ()

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError("A compound factor should contain at least two factors")
        for factor in factors:
            if not isinstance(factor, str):
                raise ValueError(
                    f"Each element of CompoundFactor must be a str, but got {type(factor)}"
                )
            if _is_batching(factor):
                raise ValueError("Ellipsis can't be used in a compound factor")
            _check_factor(factor)
        return super().__new__(cls, factors)


class ArrayMapping(tuple["str | CompoundFactor", ...]):
    """The factors of each axis of one operand or result; the first entry may be `BATCHING`.

    >>> ArrayMapping(BATCHING, CompoundFactor("b", "c"), "d")
    ('…', ('b', 'c'), 'd')
    """

    __slots__ = ()

    def __new__(cls, *entries: str | CompoundFactor) -> ArrayMapping:
        for i, entry in enumerate(entries):
            if isinstance(entry, CompoundFactor):
                continue
            if not isinstance(entry, str):
                raise ValueError(
                    "Each element of ArrayMapping must be a str or CompoundFactor, but got "
                    f"{type(entry)}"
                )
            if not _is_batching(entry):
                _check_factor(entry)
            elif i:
                raise ValueError("Ellipsis can only be used at the beginning of a dimension")
        return super().__new__(cls, entries)


class SdyShardingRule:
    """How the axes of operands and results of a function correspond.

    `operand_mappings` and `result_mappings` have an `ArrayMapping`, or a tuple of its entries, for
    each operand and result. `factor_sizes` gives the sizes of factors that are nowhere a whole
    axis. `reduction_factors` names those that operands have and results do not,
    `need_replication_factors` those that cannot be computed in parts, `permutation_factors` those
    for which devices exchange parts; what is done about them is the partition function's work.

    >>> print(SdyShardingRule((ArrayMapping("i", "j"),), (("i",),), reduction_factors=("j",)))
    SdyShardingRule((('i', 'j'),), (('i',),), {} reduction_factors=('j',))
    """

    def __init__(
        self,
        operand_mappings: Sequence[Any],
        result_mappings: Sequence[Any],
        *,
        reduction_factors: tuple[str, ...] = (),
        need_replication_factors: tuple[str, ...] = (),
        permutation_factors: tuple[str, ...] = (),
        **factor_sizes: int,
    ) -> None:
        self.operand_mappings = tuple(operand_mappings)
        self.result_mappings = tuple(result_mappings)
        self.factor_sizes = factor_sizes
        self.reduction_factors = reduction_factors
        self.need_replication_factors = need_replication_factors
        self.permutation_factors = permutation_factors
        used, whole = self._factors()
        for factor in factor_sizes:
            if factor not in used:
                raise ValueError(f"Factor {factor} is not used in the rule, but size is provided")
            if factor in whole:
                raise ValueError(
                    f"Factor {factor} represents a whole dimension; do not specify its size"
                )
        for factor in used:
            if factor not in whole and factor not in factor_sizes:
                raise ValueError(
                    f"Factor {factor} is only used in compound factors; must specify its size"
                )
        self._check_special(used)

    def _factors(self) -> tuple[list[str], set[str]]:
        """All factors, and those that are a whole axis somewhere."""
        used: dict[str, None] = {}
        whole: set[str] = set()
        for mapping in (*self.operand_mappings, *self.result_mappings):
            for entry in mapping:
                if isinstance(entry, str):
                    whole.add(entry)
                    used[entry] = None
                else:
                    used.update(dict.fromkeys(entry))
        return list(used), whole

    def _special(self) -> dict[str, tuple[str, ...]]:
        return {
            "reduction_factors": self.reduction_factors,
            "need_replication_factors": self.need_replication_factors,
            "permutation_factors": self.permutation_factors,
        }

    def _check_special(self, used: Sequence[str]) -> None:
        seen: set[str] = set()
        for kind, factors in self._special().items():
            if not isinstance(factors, tuple):
                raise ValueError(f"{kind} must be a tuple of factors")
            if len(factors) != len(set(factors)):
                raise ValueError(f"{kind} contains duplicated factors")
            for factor in factors:
                if factor not in used:
                    raise ValueError(f"Factor {factor} in {kind} is not used in the rule")
                if factor in seen:
                    raise ValueError(
                        f"Factor {factor} can only be in one of the reduction, need replication, "
                        "or permutation factor sets."
                    )
                seen.add(factor)

    def __str__(self) -> str:
        special = "".join(f" {kind}={names}" for kind, names in self._special().items() if names)
        return (
            f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, "
            f"{self.factor_sizes}{special})"
        )


# ---- the notation


def parsed(rule: str, **options: Any) -> SdyShardingRule:
    """The rule that a string in the notation of einsum means.

    >>> print(parsed("(a b), ... c -> ... a b c"))
    SdyShardingRule(((('a', 'b'),), ('…0', 'c')), (('…0', 'a', 'b', 'c'),), {})
    """
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a str, but got {type(rule)}")
    special = ("reduction_factors", "need_replication_factors", "permutation_factors")
    sizes = {k: v for k, v in options.items() if k not in special}
    if not all(isinstance(n, int) for n in sizes.values()):
        raise TypeError(f"factor_sizes must be a dict of str to int, but got {sizes}")
    sides = rule.split("->")
    if len(sides) != 2:
        raise ValueError(f"There is no -> in rule: '{rule}'")
    return SdyShardingRule(_mappings(sides[0]), _mappings(sides[1]), **options)


def _mappings(text: str) -> list[ArrayMapping]:
    found: list[ArrayMapping] = []
    entries: list[str | CompoundFactor] = []
    inside: list[str] | None = None
    for token in _TOKEN.findall(text):
        if token.startswith("..."):
            if entries or inside is not None:
                raise ValueError("Ellipsis can only be used at the beginning of a dimension")
            entries.append(f"{BATCHING}{int(token[3:] or 0)}")
        elif token == "(":
            if inside is not None:
                raise ValueError(
                    "Compound factors should be one level, nested brackets are not allowed"
                )
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError("Brackets are not balanced")
            if len(inside) < 2:
                raise ValueError("Brackets should contain at least two factors")
            entries.append(CompoundFactor(*inside))
            inside = None
        elif token == "," and inside is None:
            found.append(ArrayMapping(*entries))
            entries = []
        elif token == ".":
            raise ValueError("Character '.' must be used inside ellipsis '...'")
        else:
            if token != ",":
                _check_name(token)
            (entries if inside is None else inside).append(token)
    if inside is not None:
        raise ValueError(f"Brackets are not balanced in rule: '{text}'")
    return [*found, ArrayMapping(*entries)]


def _check_name(token: str) -> None:
    if not (token[0].isalnum() or token[0] == "_"):
        raise ValueError(f"Unknown character '{token[0]}'")
    _check_factor(token)


# ---- a rule for arrays of known shapes


def factor_rule(
    rule: SdyShardingRule, operands: Sequence[Shape], results: Sequence[Shape]
) -> FactorRule:
    """What the rule means for arrays of these shapes; ValueError if it does not fit them.

    A factor that is the whole of axes of different sizes has the smallest of these.
    """
    for what, mappings, shapes in (
        ("operands", rule.operand_mappings, operands),
        ("results", rule.result_mappings, results),
    ):
        if len(mappings) != len(shapes):
            raise ValueError(
                f"Sharding rule has {len(mappings)} {what}, but the operation has "
                f"{len(shapes)} {what}"
            )
    factors = _Factors(rule)
    values = [
        *(
            (f"{i}th operand", m, s)
            for i, (m, s) in enumerate(zip(rule.operand_mappings, operands, strict=True))
        ),
        *(
            (f"{i}th result", m, s)
            for i, (m, s) in enumerate(zip(rule.result_mappings, results, strict=True))
        ),
    ]
    named = [(label, factors.names(label, m, s), s) for label, m, s in values]
    for _, entries, shape in named:
        factors.measure(entries, shape)
    dims = [factors.numbers(label, entries, shape) for label, entries, shape in named]
    return FactorRule(
        tuple(factors.sizes.values()), tuple(dims[: len(operands)]), tuple(dims[len(operands) :])
    )


class _Factors:
    """The factors of a rule, in the order in which they are met, with their sizes."""

    def __init__(self, rule: SdyShardingRule) -> None:
        self.given = rule.factor_sizes
        self.sizes: dict[str, int] = {}
        self.ranks: dict[str, int] = {}

    def names(self, label: str, mapping: Sequence[Any], shape: Shape) -> list[tuple[str, ...]]:
        """The names of the factors of each axis, those that `...` stands for included."""
        entries = [(e,) if isinstance(e, str) else tuple(e) for e in mapping]
        if mapping and _is_batching(mapping[0]):
            group = mapping[0][1:] or "0"
            rank = max(0, len(shape) - len(entries) + 1)
            if self.ranks.setdefault(group, rank) != rank:
                raise ValueError(
                    "Ellipsis represents different number of leading dimensions "
                    f"{self.ranks[group]} and {rank}"
                )
            entries = [*((f"{BATCHING}{group}_{j}",) for j in range(rank)), *entries[1:]]
        if len(entries) != len(shape):
            raise ValueError(
                f"Sharding rule {label} has rank {len(entries)}, but the operation {label} has "
                f"rank {len(shape)}"
            )
        return entries

    def measure(self, entries: Sequence[tuple[str, ...]], shape: Shape) -> None:
        for names, size in zip(entries, shape, strict=True):
            if len(names) != 1:
                self.sizes.update({n: self.given[n] for n in names if n in self.given})
                continue
            (name,) = names
            old = self.sizes.get(name, size)
            if old != size and name.startswith(BATCHING):
                raise ValueError(
                    f"Batching dimension {name[1:]} corresponds to two sizes: {old} and {size}"
                )
            self.sizes[name] = min(old, size)

    def numbers(self, label: str, entries: Sequence[tuple[str, ...]], shape: Shape) -> Factors:
        order = list(self.sizes)
        for names, size in zip(entries, shape, strict=True):
            total = math.prod(self.sizes[n] for n in names)
            if len(names) > 1 and total != size:
                raise ValueError(
                    f"{label} actual size {size} doesn't match the size {total} derived from the "
                    f"compound factors {names}"
                )
        return tuple(tuple(order.index(n) for n in names) for names in entries)
