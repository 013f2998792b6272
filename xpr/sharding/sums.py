"""Sums of sums over devices: what is added afterwards anyway is summed by one collective.

The gradient of a value that several products read is a sum, and where each product sums over
devices, so is each term: `all_reduce(a) + all_reduce(b)` is `all_reduce(a + b)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Var

_ADDITIONS = frozenset({"add", "add_any", "sub"})
_KINDS = frozenset({"all_reduce", "reduce_scatter"})


def joined_sums(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A partitioned program with one collective for several whose results are only added up."""
    jaxpr = closed.jaxpr
    uses = Counter(
        v for atoms in (jaxpr.outvars, *(e.invars for e in jaxpr.eqns)) for v in _variables(atoms)
    )
    # Sums that only one equation reads, by their results.
    sums: dict[Atom, JaxprEqn] = {}
    dropped: set[int] = set()
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        found = [eqn]
        terms = [sums[v] for v in eqn.invars if v in sums]
        if (
            eqn.primitive.name in _ADDITIONS
            and len(terms) == 2
            and _kind(terms[0]) == _kind(terms[1])
        ):
            dropped.update(map(id, terms))
            found = _summed_once(eqn, terms)
        eqns += found
        last = found[-1]
        if _is_sum(last) and uses[last.outvars[0]] == 1:
            sums[last.outvars[0]] = last
    if not dropped:
        return closed
    kept = [e for e in eqns if id(e) not in dropped]
    return closed.replace(jaxpr=jaxpr.replace(eqns=kept))


def _variables(atoms: Sequence[Atom]) -> list[Var]:
    return [v for v in atoms if isinstance(v, Var)]


def _is_sum(eqn: JaxprEqn) -> bool:
    if eqn.primitive.name != "group_collective" or len(eqn.outvars) != 1:
        return False
    collective = eqn.params["collective"]
    return collective.op == "sum" and collective.kind in _KINDS


def _kind(eqn: JaxprEqn) -> tuple[Any, ...]:
    """What two sums must have in common, beside the shapes that the addition sees to."""
    collective = eqn.params["collective"]
    return collective.kind, collective.groups, collective.axis


def _summed_once(addition: JaxprEqn, terms: Sequence[JaxprEqn]) -> list[JaxprEqn]:
    """The terms added up on each device, then summed over devices."""
    term, last = terms[0].invars[0], terms[1]
    local = Var(term.aval.strip_weak_type())
    added = addition.replace(invars=[t.invars[0] for t in terms], outvars=[local])
    return [added, last.replace(invars=[local], outvars=addition.outvars)]
