"""Values that a policy of `checkpoint` keeps: also inside loops, branches and calls.

A kept value inside the body of a scan is one more stacked result of the scan that runs first, and
one more operand of the scan that runs again; inside a branch it is one more result of all branches,
zeros in the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xpr.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Var
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.references import AbstractRef
from xpr.interpreters.batching import with_dim
from xpr.interpreters.zeros import is_float0, zeros

Policy = Callable[..., bool]
"""Whether to keep an operation's results, by its primitive, operand types and parameters."""


class Divided(NamedTuple):
    """A program's equations as they run first and as they run again, and what is kept between.

    The kept variables are results of the first, and free in the second.
    """

    first: list[JaxprEqn]
    again: list[JaxprEqn]
    kept: list[Var]


def divided(jaxpr: Jaxpr, policy: Policy | None) -> Divided:
    """The equations of `jaxpr` by what `policy` keeps of their results; None keeps nothing."""
    if policy is None:
        return Divided(jaxpr.eqns, jaxpr.eqns, [])
    first: list[JaxprEqn] = []
    again: list[JaxprEqn] = []
    kept: list[Var] = []
    for eqn in jaxpr.eqns:
        if policy(eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params):
            first.append(eqn)
            kept += [v for v in eqn.outvars if not isinstance(v, DropVar)]
            continue
        divide = _INSIDE.get(eqn.primitive.name)
        found = None if divide is None else divide(eqn, policy)
        one, two, inner = found or Divided([eqn], [eqn], [])
        first += one
        again += two
        kept += inner
    return Divided(first, again, kept)


def _programs(closed: ClosedJaxpr, policy: Policy) -> tuple[Jaxpr, Jaxpr, list[Var]]:
    """A program that returns what is kept of it as well, and one that takes it."""
    jaxpr = closed.jaxpr
    parts = divided(jaxpr, policy)
    kept = [v for v in parts.kept if _is_plain(v.aval)]
    lost = {v for v in parts.kept if not _is_plain(v.aval)}
    again = parts.again
    if lost:  # these are computed again, by what computed them first
        again = [e for e in jaxpr.eqns if not any(v in kept for v in e.outvars)]
    first = jaxpr.replace(eqns=parts.first, outvars=[*jaxpr.outvars, *kept])
    return first, jaxpr.replace(eqns=again, invars=[*jaxpr.invars, *kept]), kept


def _is_plain(aval: Any) -> bool:
    return not (aval.is_high or isinstance(aval, AbstractRef) or is_float0(aval))


def _inside_scan(eqn: JaxprEqn, policy: Policy) -> Divided | None:
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    first, again, kept = _programs(closed, policy)
    if not kept:
        return None
    length = eqn.params["length"]
    stacks = [Var(with_dim(v.aval, 0, length)) for v in kept]
    return Divided(
        [_with_program(eqn, first, outvars=[*eqn.outvars, *stacks])],
        [_with_program(eqn, again, invars=[*eqn.invars, *stacks])],
        stacks,
    )


def _inside_call(eqn: JaxprEqn, policy: Policy) -> Divided | None:
    first, again, kept = _programs(eqn.params["jaxpr"], policy)
    if not kept:
        return None
    copies = [Var(v.aval) for v in kept]
    donated = (*eqn.params["donated_invars"], *(False for _ in kept))
    return Divided(
        [_with_program(eqn, first, outvars=[*eqn.outvars, *copies])],
        [_with_program(eqn, again, {"donated_invars": donated}, invars=[*eqn.invars, *copies])],
        copies,
    )


def _with_program(
    eqn: JaxprEqn, jaxpr: Jaxpr, params: dict[str, Any] | None = None, **changes: Any
) -> JaxprEqn:
    consts = eqn.params["jaxpr"].consts
    new = eqn.params | {"jaxpr": ClosedJaxpr(jaxpr, consts)} | (params or {})
    return eqn.replace(params=new, **changes)


def _inside_branches(eqn: JaxprEqn, policy: Policy) -> Divided | None:
    branches: tuple[ClosedJaxpr, ...] = eqn.params["branches"]
    programs = [_programs(b, policy) for b in branches]
    groups = [kept for _, _, kept in programs]
    if not any(groups):
        return None
    first, again = [], []
    for i, (one, two, kept) in enumerate(programs):
        outvars, eqns = list(one.outvars[: len(one.outvars) - len(kept)]), list(one.eqns)
        for j, group in enumerate(groups):
            if i == j:
                outvars += group
                continue
            # Values of branches that are not taken.
            blank = trace_to_jaxpr(lambda group=group: [zeros(v.aval) for v in group], []).jaxpr
            outvars += blank.outvars
            eqns += blank.eqns
        first.append(ClosedJaxpr(one.replace(eqns=eqns, outvars=outvars), branches[i].consts))
        operands = list(two.invars[: len(two.invars) - len(kept)])
        for j, group in enumerate(groups):
            operands += group if i == j else [Var(v.aval) for v in group]
        again.append(ClosedJaxpr(two.replace(invars=operands), branches[i].consts))
    copies = [Var(v.aval) for group in groups for v in group]
    params = eqn.params
    return Divided(
        [eqn.replace(params=params | {"branches": tuple(first)}, outvars=[*eqn.outvars, *copies])],
        [eqn.replace(params=params | {"branches": tuple(again)}, invars=[*eqn.invars, *copies])],
        copies,
    )


_INSIDE: dict[str, Callable[[JaxprEqn, Policy], Divided | None]] = {
    "cond": _inside_branches,
    "jit": _inside_call,
    "scan": _inside_scan,
}
