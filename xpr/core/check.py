"""The jaxpr checker: scoping, arity and types of every equation."""

from __future__ import annotations

from xpr.core.aval import same_type
from xpr.core.errors import JaxprTypeError
from xpr.core.jaxpr import Atom, ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var, sub_jaxprs


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr, checked: set[Jaxpr] | None = None) -> None:
    """Raises JaxprTypeError, naming the equation and the user's line, for an ill-formed jaxpr.

    Checked: each variable is bound once and before its use; each equation's results have the
    types that its primitive's abstract rule gives; sub-jaxprs likewise. Those in `checked` are
    known to be well-formed, and the others are added to it: one that many equations call is
    checked once.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    checked = set() if checked is None else checked
    if jaxpr in checked:
        return
    checked.add(jaxpr)
    bound: set[Var] = set()
    for v in (*jaxpr.constvars, *jaxpr.invars):
        _bind(v, bound, "an input")
    for eqn in jaxpr.eqns:
        try:
            _check_eqn(eqn, bound, checked)
        except JaxprTypeError as error:
            raise JaxprTypeError(f"{error}\nin equation: {eqn}\nfrom {eqn.source_info}") from None
    for out in jaxpr.outvars:
        _read(out, bound)


def _bind(var: Var, bound: set[Var], role: str) -> None:
    if var in bound:
        raise JaxprTypeError(f"variable {var} is bound twice, the second time as {role}")
    bound.add(var)


def _read(atom: Atom, bound: set[Var]) -> None:
    if isinstance(atom, Literal):
        return
    if atom not in bound:
        raise JaxprTypeError(f"variable {atom} is read before it is bound")


def _check_eqn(eqn: JaxprEqn, bound: set[Var], checked: set[Jaxpr]) -> None:
    for atom in eqn.invars:
        _read(atom, bound)
    for sub in sub_jaxprs(eqn.params):
        check_jaxpr(sub, checked)
    if not eqn.primitive.is_high and any(a.aval.has_qdd for a in eqn.invars):
        # The state at this equation is not that in the variable's type.
        _bind_results(eqn, bound)
        return
    found = eqn.primitive.abstract(*(a.aval for a in eqn.invars), **eqn.params)
    expected = list(found) if eqn.primitive.multiple_results else [found]
    if len(expected) != len(eqn.outvars):
        raise JaxprTypeError(
            f"{eqn.primitive.name} gives {len(expected)} results, the equation binds "
            f"{len(eqn.outvars)}"
        )
    for var, aval in zip(eqn.outvars, expected, strict=True):
        if not same_type(var.aval, aval):
            raise JaxprTypeError(
                f"{eqn.primitive.name} gives {aval.str_short()}, the variable has "
                f"{var.aval.str_short()}"
            )
    _bind_results(eqn, bound)


def _bind_results(eqn: JaxprEqn, bound: set[Var]) -> None:
    for var in eqn.outvars:
        if not isinstance(var, DropVar):
            _bind(var, bound, f"a result of {eqn.primitive.name}")
