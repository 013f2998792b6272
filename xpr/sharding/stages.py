"""A partitioned program cut where the devices meet.

Between two cuts the devices have nothing to do with each other, so that a few threads can run the
stage for any number of devices, one after the other, and one thread that has everybody's arrays in
hand does the collective. Collectives inside loops and branches stay where they are: a stage with
one needs a thread for each device.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, sub_jaxprs

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


def stages(closed: ClosedJaxpr) -> list[Stage]:
    """The stages of a partitioned program without constants, in order.

    Results of the program are results of stages or of collectives, its inputs, or literals.
    """
    jaxpr = closed.jaxpr
    of_var, of_eqn = levels(jaxpr)
    last = max([0, *of_var.values(), *of_eqn])
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
        inputs = list(dict.fromkeys(v for v in _reads_in_order(own) if v not in made))
        found.append(_stage(closed, own, inputs, outputs, following))
        needed = (wanted - made) | set(inputs)
    found.reverse()
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
    inputs: list[Var],
    outputs: list[Var],
    collectives: list[JaxprEqn],
) -> Stage:
    outvars: list[Atom] = list(outputs)
    jaxpr = closed.jaxpr.replace(constvars=[], invars=inputs, outvars=outvars, eqns=eqns)
    meets = any(_meets(e) for e in eqns)
    return Stage(ClosedJaxpr(jaxpr, []), inputs, outputs, meets, collectives)


def _note_dead(found: list[Stage], final: set[Var]) -> None:
    """Notes after which stage each variable is no longer read."""
    alive = set(final)
    for stage in reversed(found):
        read = set(stage.inputs) | _reads(stage.collectives)
        here = read | set(stage.outputs) | {v for e in stage.collectives for v in e.outvars}
        stage.dead = [v for v in here if v not in alive]
        alive |= here
