"""What is computed once for several devices: the parts of stages that give them all the same.

An update of parameters that every device has, say. Such a part becomes a stage of its own, which
one device of those that are alike runs; where it begins with a sum over all devices, that is a part
of its program.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from xpr.primitives.elementwise import add_p
from xpr.sharding.alike import Alike, acts, alike, differ, is_finer

_WORTH = 1 << 18
"""Bytes written by what is computed once from which another program, and its call, pay."""

_MAX_SUMMED = 8
"""Ranks whose sums a program computes itself: it has an argument for each."""


@dataclass(frozen=True)
class Sharing:
    """Which ranks have the same value of each variable."""

    size: int
    of: Mapping[Var, Alike]
    is_one_memory: bool = True
    """Whether programs can read the arrays of all ranks."""

    def of_eqn(self, eqn: JaxprEqn) -> Alike:
        if acts(eqn) or not eqn.outvars:
            return differ(self.size)
        return self.of[eqn.outvars[0]]

    def has(self, found: Alike) -> bool:
        """Whether some ranks are alike."""
        return len(set(found)) < self.size


def sunk(jaxpr: Jaxpr, of_eqn: Sequence[int], last: int, sharing: Sharing) -> list[int]:
    """The levels of the equations, shared ones as late as their results are read.

    There most shared ones come together. What reads more than it gives stays.
    """
    found = list(of_eqn)
    read_at: dict[Var, int] = {}
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[i]
        if not acts(eqn) and sharing.has(sharing.of_eqn(eqn)) and _gives_more(eqn):
            found[i] = max(found[i], min((read_at.get(v, last) for v in eqn.outvars), default=0))
        for v in eqn.invars:
            if isinstance(v, Var):
                read_at[v] = min(read_at.get(v, last), found[i])
    return found


def _gives_more(eqn: JaxprEqn) -> bool:
    return _nbytes(eqn.outvars) >= _nbytes(
        list(dict.fromkeys(v for v in eqn.invars if isinstance(v, Var)))
    )


def _nbytes(variables: Sequence[Var]) -> int:
    return sum(v.aval.dtype.itemsize * math.prod(v.aval.shape) for v in variables)


def apart(
    eqns: Sequence[JaxprEqn], outputs: Sequence[Var], sharing: Sharing
) -> tuple[list[JaxprEqn], list[JaxprEqn], set[Var], Alike] | None:
    """The equations of a stage that each device runs, and those that are run once: with which
    results, and for whom.

    None where everybody had better run all of it. Equations may be among both.
    """
    groups = Counter[Alike]()
    for v in outputs:
        if sharing.has(sharing.of[v]):
            groups[sharing.of[v]] += _nbytes([v])
    if not groups:
        return None
    chosen = alike(*groups)
    if not sharing.has(chosen):
        chosen = max(groups, key=lambda a: groups[a])
    once = {v for v in outputs if is_finer(chosen, sharing.of[v])}
    everywhere = [v for v in outputs if v not in once]
    own = _needed(eqns, set(everywhere), keep_acts=True)
    shared = _needed(eqns, once, keep_acts=False)
    if own:
        both = {id(e) for e in own}
        alone = sum(_work(e) for e in shared if id(e) not in both)
        if alone < _WORTH + 4 * sum(_work(e) for e in shared if id(e) in both):
            return None
    return own, shared, once, chosen


def _work(eqn: JaxprEqn) -> int:
    """Bytes written, and for products those that would be without the sum."""
    if all(isinstance(v, Literal) for v in eqn.invars):
        return 0
    found = _nbytes(eqn.outvars)
    if eqn.primitive.name == "dot_general":
        (axes, _), _ = eqn.params["dimension_numbers"]
        found *= math.prod(eqn.invars[0].aval.shape[a] for a in axes)
    return found


def _needed(eqns: Sequence[JaxprEqn], wanted: set[Var], *, keep_acts: bool) -> list[JaxprEqn]:
    found = []
    for eqn in reversed(eqns):
        if not wanted.isdisjoint(eqn.outvars) or (keep_acts and acts(eqn)):
            found.append(eqn)
            wanted = wanted.union(v for v in eqn.invars if isinstance(v, Var))
    return found[::-1]


# ---- sums over all devices as a part of what is computed once


def summed_inside(eqn: JaxprEqn, sharing: Sharing) -> dict[Var, Var]:
    """The operands, by the results, of a collective that a shared program can compute itself.

    That is a sum over all ranks, which share memory, of types that are added as they are.
    """
    own = eqn.params["collective"] if eqn.primitive.name == "group_collective" else None
    if own is None or own.kind != "all_reduce" or own.op != "sum":
        return {}
    if sharing.size > _MAX_SUMMED or any(sharing.of[eqn.outvars[0]]) or len(own.groups) > 1:
        return {}
    return {
        v: x
        for x, v in zip(eqn.invars, eqn.outvars, strict=True)
        if isinstance(x, Var) and x.aval.dtype in _ADDED
    }


_ADDED = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64", "uint32", "uint64")))


_ELEMENT_BY_ELEMENT = frozenset(
    {"elementwise", "elementary", "power", "integer", "compare", "convert"}
)


def is_used_by_elements(jaxpr: Jaxpr, v: Var) -> bool:
    """Whether only elementwise operations read the input, directly or not.

    A reduction that is compiled together with what makes its operand may round otherwise.
    """
    reached = {v}
    for eqn in jaxpr.eqns:
        if not reached.isdisjoint(x for x in eqn.invars if isinstance(x, Var)):
            if not _is_elementwise(eqn):
                return False
            reached.update(eqn.outvars)
    return True


def _is_elementwise(eqn: JaxprEqn) -> bool:
    if eqn.primitive.family in ("shape", "reduce"):  # of axes with one element
        counts = {math.prod(v.aval.shape) for v in (*eqn.invars, *eqn.outvars)}
        return len(counts) == 1
    return eqn.primitive.family in _ELEMENT_BY_ELEMENT


def with_sums(closed: ClosedJaxpr, summed: Mapping[Var, Var], size: int) -> ClosedJaxpr:
    """The program with the operands of all ranks instead of each sum, at the end of its inputs.

    `summed` has the operand of each input that is a sum. They are added in the order of the ranks.
    """
    jaxpr = closed.jaxpr
    parts: list[Var] = []
    front: list[JaxprEqn] = []
    for total, operand in summed.items():
        aval = operand.aval.strip_weak_type()
        terms = [Var(aval) for _ in range(size)]
        parts += terms
        found = terms[0]
        for i, term in enumerate(terms[1:], 2):
            out = total if i == size else Var(aval)
            front.append(JaxprEqn([found, term], [out], add_p, {}))
            found = out
    inputs = [v for v in jaxpr.invars if v not in summed]
    return ClosedJaxpr(
        jaxpr.replace(invars=[*inputs, *parts], eqns=[*front, *jaxpr.eqns]), closed.consts
    )
