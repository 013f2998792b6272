"""How one equation is sharded: the choice of mesh axes for its factors that moves least."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from xpr.core.jaxpr import JaxprEqn
from xpr.sharding.layout import Sizes, count, factor_axes, fitting, spec_of_factors
from xpr.sharding.moves import reshard_bytes
from xpr.sharding.rule import Axes, FactorRule, Spec

_MAX_CHOICES = 256
"""Combinations that are compared; of more, those of later factors stay at their first candidate."""

_WORK = 1e-3
"""What an element that is computed costs, in bytes moved: it only decides between equal moves."""


Choices = dict[Hashable, tuple[Axes, ...]]
"""What was chosen before, for programs say the same thing many times."""


def chosen_axes(
    eqn: JaxprEqn,
    rule: FactorRule,
    current: Sequence[Spec],
    wanted: Sequence[Spec],
    sizes: Sizes,
    choices: Choices,
    open_sums: Axes = (),
) -> tuple[Axes, ...]:
    """The mesh axes of each factor, from the specs that operands have and results should have.

    Sums over the axes `open_sums` are not completed, and so cost nothing.
    """
    if not any(map(any, current)) and not any(map(any, wanted)):
        return ((),) * len(rule.sizes)
    key = (
        eqn.primitive,
        rule.apply is None,
        rule.sizes,
        rule.operands,
        rule.results,
        tuple(rule.reduced.items()),
        rule.ended,
        rule.whole,
        tuple(current),
        tuple(wanted),
        tuple([(v.aval.shape, v.aval.dtype) for v in (*eqn.invars, *eqn.outvars)]),
        tuple(sizes.items()),
        open_sums,
    )
    found = choices.get(key)
    if found is None:
        found = choices[key] = _choose(eqn, rule, current, wanted, sizes, open_sums)
    return found


def _choose(
    eqn: JaxprEqn,
    rule: FactorRule,
    current: Sequence[Spec],
    wanted: Sequence[Spec],
    sizes: Sizes,
    open_sums: Axes,
) -> tuple[Axes, ...]:
    candidates = _candidates(eqn, rule, current, wanted, sizes)
    if not candidates:
        return ((),) * len(rule.sizes)
    factors = list(candidates)
    options = [candidates[f] for f in factors]
    if all(len(o) == 1 for o in options):
        choice = _assignment(rule, factors, [o[0] for o in options])
        if _is_valid(rule, choice, sizes):
            return choice
    # What no other factor asks for is kept: who disagrees about one axis of the mesh says nothing
    # about the others.
    kept = [_is_settled(i, options) for i in range(len(options))]
    best = _cheapest(eqn, rule, factors, options, kept, current, wanted, sizes, open_sums)
    if best is None and any(kept):
        nothing = [False] * len(options)
        best = _cheapest(eqn, rule, factors, options, nothing, current, wanted, sizes, open_sums)
    return ((),) * len(rule.sizes) if best is None else best


def _is_settled(i: int, options: Sequence[Sequence[Axes]]) -> bool:
    """Whether a factor has one candidate, of mesh axes that no other factor may have."""
    if len(options[i]) > 1:
        return False
    own = set(options[i][0])
    return not any(own & set(a) for j, o in enumerate(options) if j != i for a in o)


def _cheapest(
    eqn: JaxprEqn,
    rule: FactorRule,
    factors: Sequence[int],
    options: Sequence[Sequence[Axes]],
    kept: Sequence[bool],
    current: Sequence[Spec],
    wanted: Sequence[Spec],
    sizes: Sizes,
    open_sums: Axes,
) -> tuple[Axes, ...] | None:
    """The choice that moves least; factors that are not `kept` may stay whole."""
    total = 1
    lists: list[list[Axes]] = []
    for o, keep in zip(options, kept, strict=True):
        possible = list(o) if keep else [*o, ()]
        total *= len(possible)
        lists.append(possible if total <= _MAX_CHOICES else possible[:1])
    best: tuple[Axes, ...] | None = None
    least = float("inf")
    for combination in itertools.product(*lists):
        choice = _assignment(rule, factors, combination)
        if not _is_valid(rule, choice, sizes):
            continue
        cost = _cost(eqn, rule, choice, current, wanted, sizes, open_sums)
        if cost < least:
            best, least = choice, cost
    return best


def _assignment(rule: FactorRule, factors: Sequence[int], axes: Sequence[Axes]) -> tuple[Axes, ...]:
    found: list[Axes] = [()] * len(rule.sizes)
    for f, a in zip(factors, axes, strict=True):
        found[f] = a
    return tuple(found)


def _candidates(
    eqn: JaxprEqn,
    rule: FactorRule,
    current: Sequence[Spec],
    wanted: Sequence[Spec],
    sizes: Sizes,
) -> dict[int, list[Axes]]:
    """For each factor that somebody shards, the mesh axes it may have."""
    found: dict[int, list[Axes]] = {}
    roughly = takes_rough_blocks(eqn, rule)
    # The factors of axes that several make up must be cut evenly.
    shared = (
        {f for t in (*rule.operands, *rule.results) for d in t if len(d) > 1 for f in d}
        if roughly
        else set()
    )
    for specs, dims in ((current, rule.operands), (wanted, rule.results)):
        for spec, factors_of in zip(specs, dims, strict=True):
            for axes, factors in zip(spec, factors_of, strict=True):
                if not axes or not factors:
                    continue
                for f, part in factor_axes(axes, factors, rule.sizes, sizes, roughly=roughly):
                    if part and f in shared:
                        part = fitting(part, rule.sizes[f], sizes)
                    if part and f not in rule.whole and part not in found.setdefault(f, []):
                        found[f].append(part)
    return found


_LOCALIZED = frozenset({"broadcast_in_dim"})
"""Primitives whose parameters follow the shapes of the parts, whatever these are."""

_MASKED = frozenset({"reduce", "dot_general"})
"""Families whose operands the partitioner can mask."""


def takes_rough_blocks(eqn: JaxprEqn, rule: FactorRule) -> bool:
    """Whether devices may compute on elements that mean nothing, behind those of the array.

    They must not reach others: the primitive works on each place along the axis alone, or reduces
    the axis, which is masked before. And nobody may complain of them, as LAPACK does of NaNs.
    """
    primitive = eqn.primitive
    return (
        rule.apply is None
        and not rule.ended
        and (rule.localize is None or primitive.name in _LOCALIZED)
        and not primitive.family.startswith("linalg")
        and (not rule.reduced or primitive.family in _MASKED)
    )


def _is_valid(rule: FactorRule, choice: Sequence[Axes], sizes: Sizes) -> bool:
    seen: set[str] = set()
    for axes in choice:
        for a in axes:
            if a in seen:
                return False
            seen.add(a)
    return all(
        spec_of_factors(d, choice, rule.sizes, sizes) is not None
        for d in (*rule.operands, *rule.results)
    )


def _cost(
    eqn: JaxprEqn,
    rule: FactorRule,
    choice: Sequence[Axes],
    current: Sequence[Spec],
    wanted: Sequence[Spec],
    sizes: Sizes,
    open_sums: Axes,
) -> float:
    """Bytes that each device receives, and a little for the elements that it computes."""
    moved = 0.0
    for v, have, dims in zip(eqn.invars, current, rule.operands, strict=True):
        spec = spec_of_factors(dims, choice, rule.sizes, sizes)
        if spec is not None and spec != have:
            moved += reshard_bytes(v.aval.shape, v.aval.dtype.itemsize, have, spec, sizes)
    over = tuple(a for f in rule.reduced for a in choice[f] if a not in open_sums)
    # The results of such factors come together, as if they were reduced.
    ended = count(tuple(a for f in rule.ended for a in choice[f]), sizes)
    parts = 1
    for axes in choice:
        parts *= count(axes, sizes)
    work = 1.0
    for n in rule.sizes:
        work *= n
    moved += _WORK * work / parts
    for v, want, dims in zip(eqn.outvars, wanted, rule.results, strict=True):
        spec = spec_of_factors(dims, choice, rule.sizes, sizes)
        if spec is None:
            continue
        itemsize = v.aval.dtype.itemsize
        local = v.aval.size * itemsize
        for axes in spec:
            local /= count(axes, sizes)
        moved += 2 * local * (ended - 1) / ended
        if over:
            n = count(over, sizes)
            scattered = any(set(w[len(s) :]) & set(over) for s, w in zip(spec, want, strict=True))
            moved += (1 if scattered else 2) * local * (n - 1) / n
            if scattered:
                continue
        if spec != want:
            moved += reshard_bytes(v.aval.shape, itemsize, spec, want, sizes)
    return moved
