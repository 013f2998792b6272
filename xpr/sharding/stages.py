"""A partitioned program cut where the devices meet.

Between two cuts the devices have nothing to do with each other, so that a few threads can run the
stage for any number of devices, one after the other, and one thread that has everybody's arrays in
hand does the collective. Collectives inside loops and branches stay where they are: a stage with
one needs a thread for each device. What gives several devices the same is a stage of its own,
which is run once for them (`shared.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, sub_jaxprs
from xpr.sharding.alike import Alike
from xpr.sharding.shared import Sharing, apart, is_used_by_elements, summed_inside, sunk, with_sums

CUTS = frozenset({"group_collective", "call_once"})
"""Primitives that concern all devices together."""


@dataclass
class Stage:
    """What the devices compute up to the next cut."""

    closed: ClosedJaxpr
    inputs: list[Var]
    outputs: list[Var]
    meets: bool
    """Whether collectives inside of loops or branches make the devices meet meanwhile."""

    collectives: list[JaxprEqn] = field(default_factory=list)
    """What follows the stage: collectives on its results and on those of earlier stages."""

    dead: list[Var] = field(default_factory=list)
    """Variables that nothing reads after the collectives."""

    alike: Alike | None = None
    """Which ranks get the same results; None where each computes its own."""

    summed: list[Var] = field(default_factory=list)
    """Operands that the program gets from all ranks, each for the sum over them that it needs.
    They come after `inputs`."""


def has_collectives(jaxpr: Jaxpr) -> bool:
    """Whether devices meet while the partitioned program `jaxpr` runs."""
    return any(_meets(e) for e in jaxpr.eqns)


def _meets(eqn: JaxprEqn) -> bool:
    return eqn.primitive.name in CUTS or any(map(has_collectives, sub_jaxprs(eqn.params)))


def levels(jaxpr: Jaxpr) -> tuple[dict[Var, int], list[int]]:
    """How many cuts come before each variable is there, and before each equation."""
    of_var: dict[Var, int] = dict.fromkeys((*jaxpr.constvars, *jaxpr.invars), 0)
    of_eqn: list[int] = []
    # Effects keep their order: the next one comes no earlier than these, inside or after a stage.
    inside = after = 0
    for eqn in jaxpr.eqns:
        level = max((of_var[v] for v in eqn.invars if isinstance(v, Var)), default=0)
        cuts = eqn.primitive.name in CUTS
        if eqn.effects:
            level = max(level, after if cuts else inside)
            inside, after = level + cuts, level
        of_eqn.append(level)
        of_var.update(dict.fromkeys(eqn.outvars, level + cuts))
    return of_var, of_eqn


def stages(closed: ClosedJaxpr, sharing: Sharing | None = None) -> list[Stage]:
    """The stages of a partitioned program without constants, in order.

    Results of the program are results of stages or of collectives, its inputs, or literals. With
    `sharing` what is the same for several ranks is a stage of its own.
    """
    jaxpr = closed.jaxpr
    of_var, of_eqn = levels(jaxpr)
    last = max([0, *of_var.values(), *of_eqn])
    if sharing is not None:
        of_eqn = sunk(jaxpr, of_eqn, last, sharing)
    eqns: list[list[JaxprEqn]] = [[] for _ in range(last + 1)]
    collectives: list[list[JaxprEqn]] = [[] for _ in range(last + 1)]
    made_by: dict[Var, JaxprEqn] = {}
    for eqn, level in zip(jaxpr.eqns, of_eqn, strict=True):
        if eqn.primitive.name in CUTS:
            collectives[level].append(eqn)
            continue
        made_by.update(dict.fromkeys(eqn.outvars, eqn))
        if not _is_free(eqn):
            eqns[level].append(eqn)
    final = {v for v in jaxpr.outvars if isinstance(v, Var)}
    found: list[Stage] = []
    needed = set(final)
    for level in range(last, -1, -1):
        following = _together(collectives[level])
        given = {v for e in following for v in e.outvars}
        wanted = (needed - given) | _reads(following)
        own = _with_free(eqns[level], wanted, made_by)
        made = {v for e in own for v in e.outvars}
        outputs = [v for e in own for v in e.outvars if v in wanted]
        split = None if sharing is None else apart(own, outputs, sharing)
        if split is None:
            found.append(_stage(closed, own, outputs, following))
        else:
            each, shared, once, alike = split
            found.append(_stage(closed, shared, [v for v in outputs if v in once], following))
            found[-1].alike = alike
            if each:
                found.append(_stage(closed, each, [v for v in outputs if v not in once], []))
        needed = (wanted - made) | {v for v in _reads_in_order(own) if v not in made}
    found.reverse()
    if sharing is not None and sharing.is_one_memory:
        _sum_inside(found, final, sharing)
    _note_dead(found, final)
    return found


def _together(eqns: list[JaxprEqn]) -> list[JaxprEqn]:
    """The same collectives in fewer equations: those that differ in their arrays alone are one.

    None of them reads what another one gives. Ten gradients are then summed in one go.
    """
    found: dict[Hashable, list[JaxprEqn]] = {}
    for eqn in eqns:
        own = eqn.params.get("collective") if eqn.primitive.name == "group_collective" else None
        key = id(eqn) if own is None else replace(own, number=0, source="")
        found.setdefault(key, []).append(eqn)
    return [same[0] if len(same) == 1 else _one(same) for same in found.values()]


def _one(eqns: list[JaxprEqn]) -> JaxprEqn:
    first = eqns[0].params["collective"]
    sources = dict.fromkeys(e.params["collective"].source for e in eqns)
    return eqns[0].replace(
        invars=[v for e in eqns for v in e.invars],
        outvars=[v for e in eqns for v in e.outvars],
        params={"collective": replace(first, source="; ".join(sources))},
    )


def joined(jaxpr: Jaxpr) -> Jaxpr:
    """The program with collectives that differ in their arrays alone as one, also inside of loops.

    Each is done as soon as all that could be done beside it is there.
    """
    jaxpr = joined_inside(jaxpr)
    of_var, of_eqn = levels(jaxpr)
    eqns: list[JaxprEqn] = []
    count = 0
    for level in range(max([0, *of_var.values(), *of_eqn]) + 1):
        here = [e for e, at in zip(jaxpr.eqns, of_eqn, strict=True) if at == level]
        cuts = [e for e in here if e.primitive.name in CUTS]
        together = _together(cuts)
        count += len(cuts) - len(together)
        eqns += [e for e in here if e.primitive.name not in CUTS]
        eqns += together
    return jaxpr.replace(eqns=eqns) if count else jaxpr


def joined_inside(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the loops and branches in which devices meet `joined`."""
    if not any(map(has_collectives, (s for e in jaxpr.eqns for s in sub_jaxprs(e.params)))):
        return jaxpr
    eqns = [
        e.replace(params={k: _joined_programs(v) for k, v in e.params.items()})
        if any(map(has_collectives, sub_jaxprs(e.params)))
        else e
        for e in jaxpr.eqns
    ]
    return jaxpr.replace(eqns=eqns)


def _joined_programs(value: Any) -> Any:
    """A parameter whose programs, if it has some, are `joined`."""
    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=joined(value.jaxpr))
    if isinstance(value, Jaxpr):
        return joined(value)
    return tuple(map(_joined_programs, value)) if type(value) is tuple else value


def _is_free(eqn: JaxprEqn) -> bool:
    """Whether an equation costs less than carrying its result from one stage to another."""
    return not eqn.effects and all(isinstance(v, Literal) for v in eqn.invars)


def _reads(eqns: list[JaxprEqn]) -> set[Var]:
    return {v for e in eqns for v in e.invars if isinstance(v, Var)}


def _reads_in_order(eqns: list[JaxprEqn]) -> list[Var]:
    return [v for e in eqns for v in e.invars if isinstance(v, Var)]


def _with_free(
    eqns: list[JaxprEqn], wanted: set[Var], made_by: dict[Var, JaxprEqn]
) -> list[JaxprEqn]:
    """The equations of a stage with those that every stage makes for itself in front."""
    front: dict[int, JaxprEqn] = {}
    for v in (*_reads_in_order(eqns), *wanted):
        eqn = made_by.get(v)
        if eqn is not None and _is_free(eqn):
            front[id(eqn)] = eqn
    return [*front.values(), *eqns]


def _stage(
    closed: ClosedJaxpr,
    eqns: list[JaxprEqn],
    outputs: list[Var],
    collectives: list[JaxprEqn],
) -> Stage:
    made = {v for e in eqns for v in e.outvars}
    inputs = list(dict.fromkeys(v for v in _reads_in_order(eqns) if v not in made))
    outvars: list[Atom] = list(outputs)
    jaxpr = closed.jaxpr.replace(constvars=[], invars=inputs, outvars=outvars, eqns=eqns)
    meets = any(_meets(e) for e in eqns)
    return Stage(ClosedJaxpr(jaxpr, []), inputs, outputs, meets, collectives)


def _sum_inside(found: list[Stage], final: set[Var], sharing: Sharing) -> None:
    """Makes sums over all ranks that only one shared stage reads a part of that stage."""
    readers = Counter(v for s in found for v in {*s.inputs, *_reads(s.collectives)})
    sums: dict[Var, Var] = {}
    for stage in found:
        for eqn in stage.collectives:
            sums |= summed_inside(eqn, sharing)
    moved: set[Var] = set()
    for stage in found:
        if stage.alike is None or any(stage.alike):
            continue
        jaxpr = stage.closed.jaxpr
        own = {
            v: sums[v]
            for v in stage.inputs
            if v in sums and v not in final and readers[v] == 1 and is_used_by_elements(jaxpr, v)
        }
        if own:
            stage.closed = with_sums(stage.closed, own, sharing.size)
            stage.inputs = [v for v in stage.inputs if v not in own]
            stage.summed = list(own.values())
            moved.update(own)
    for stage in found:
        stage.collectives = [e for e in (_without(e, moved) for e in stage.collectives) if e]


def _without(eqn: JaxprEqn, moved: set[Var]) -> JaxprEqn | None:
    """A collective without some of its results."""
    if moved.isdisjoint(eqn.outvars):
        return eqn
    kept = [(x, v) for x, v in zip(eqn.invars, eqn.outvars, strict=True) if v not in moved]
    if not kept:
        return None
    return eqn.replace(invars=[x for x, _ in kept], outvars=[v for _, v in kept])


def _note_dead(found: list[Stage], final: set[Var]) -> None:
    """Notes after which stage each variable is no longer read."""
    alive = set(final)
    for stage in reversed(found):
        read = {*stage.inputs, *stage.summed} | _reads(stage.collectives)
        here = read | set(stage.outputs) | {v for e in stage.collectives for v in e.outvars}
        stage.dead = [v for v in here if v not in alive]
        alive |= here
