"""Which devices hold the same values of a partitioned program, and so would compute the same.

Parameters that every device has, and what devices sum up together, are the same everywhere; so is
what is computed from them alone. Devices that share memory compute it once.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var, sub_jaxprs
from xpr.sharding.layout import Sizes, used_axes
from xpr.sharding.rule import Spec

Alike = tuple[int, ...]
"""For each rank the first rank that has the same value."""


def alike(*keys: Sequence[Hashable]) -> Alike:
    """Which ranks have equal entries in all of `keys`, which have one entry for each rank.

    >>> alike("aabb", [1, 2, 1, 1])
    (0, 1, 2, 2)
    """
    first: dict[Hashable, int] = {}
    return tuple(first.setdefault(key, i) for i, key in enumerate(zip(*keys, strict=True)))


def differ(size: int) -> Alike:
    """Of what each of so many ranks has a value of its own."""
    return tuple(range(size))


def by_spec(spec: Spec, sizes: Sizes) -> Alike:
    """Which ranks, numbered along the mesh axes from major to minor, have the same part.

    >>> by_spec((("x",), ()), {"x": 2, "y": 2})
    (0, 0, 2, 2)
    """
    used = used_axes(spec)
    places = itertools.product(*(range(n) for n in sizes.values()))
    return alike([tuple(i for i, a in zip(at, sizes, strict=True) if a in used) for at in places])


def is_finer(one: Alike, other: Alike) -> bool:
    """Whether ranks that are alike in `one` are so in `other`, too."""
    return all(other[i] == other[first] for i, first in enumerate(one))


def of_variables(jaxpr: Jaxpr, given: Sequence[Alike], places: Alike) -> dict[Var, Alike]:
    """Which ranks have the same value of each variable of the program.

    `given` is that of the inputs; ranks that are not alike in `places` share nothing.
    """
    found = {v: alike(places, a) for v, a in zip(jaxpr.invars, given, strict=True)}
    found.update(dict.fromkeys(jaxpr.constvars, places))
    size = len(places)
    for eqn in jaxpr.eqns:
        operands = [found[v] for v in eqn.invars if isinstance(v, Var)]
        name = eqn.primitive.name
        if name == "group_collective":
            of_eqn = alike(places, _received(eqn, operands, size))
        elif name == "call_once":
            of_eqn = places
        elif acts(eqn):
            of_eqn = differ(size)
        else:
            of_eqn = alike(places, *operands)
        found.update(dict.fromkeys(eqn.outvars, of_eqn))
    return found


def acts(eqn: JaxprEqn) -> bool:
    """Whether an equation does more than compute: devices meet in it, or it calls this process."""
    if eqn.effects or eqn.primitive.family in ("group_collective", "callback"):
        return True
    return any(acts(e) for sub in sub_jaxprs(eqn.params) for e in sub.eqns)


def _received(eqn: JaxprEqn, operands: Sequence[Alike], size: int) -> list[Hashable]:
    """What tells apart the results that ranks get from a collective."""
    collective = eqn.params["collective"]
    sent = alike(*operands) if operands else (0,) * size
    if collective.kind == "permute":
        sender = {d: s for s, d in collective.pairs}
        return [sent[sender[r]] if r in sender else None for r in range(size)]
    found: list[Hashable] = list(range(size))
    for group in collective.groups:
        everybody = tuple(sent[r] for r in group)
        for i, rank in enumerate(group):
            # Of a scattered result each rank of the group has another part.
            own = None if collective.kind in ("all_reduce", "all_gather") else i
            found[rank] = (everybody, own)
    return found
