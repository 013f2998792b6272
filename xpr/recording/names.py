"""Values of a frame by name: the letters of its jaxpr, arguments, the user's variables."""

from __future__ import annotations

import ast
from typing import Any

from xpr.core.jaxpr import JaxprEqn, Literal, Var
from xpr.core.naming import VariableNames
from xpr.interpreters.walk import Frame
from xpr.interpreters.walk_text import derivative_text, source_text


def letters_of(frame: Frame) -> dict[Var, str]:
    """The letter of each variable of a frame's jaxpr, as `xpr.make_jaxpr` prints it alone."""
    names = VariableNames()
    jaxpr = frame.closed.jaxpr
    for var in (*jaxpr.constvars, *jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outvars)):
        names(var)
    return names.names


def assigned_name(eqn: JaxprEqn) -> str | None:
    """The user's variable that the line of an equation assigns, if it is only one."""
    try:
        tree = ast.parse(source_text(eqn.source_info))
    except (SyntaxError, ValueError):
        return None
    if len(tree.body) != 1:
        return None
    statement = tree.body[0]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def values_by_name(frame: Frame) -> dict[str, Any]:
    """All values that a frame holds; a variable of the user hides a letter.

    Of a line with several operations, the last one that has run is the variable's value.
    """
    found = {name: frame.env[v] for v, name in letters_of(frame).items() if v in frame.env}
    jaxpr = frame.closed.jaxpr
    for var, name in zip(jaxpr.invars, jaxpr.debug_info.arg_names, strict=False):
        if name.isidentifier() and var in frame.env:
            found[name] = frame.env[var]
    for eqn in jaxpr.eqns:
        # An operation that a derivative made computes no variable of the user's.
        if len(eqn.outvars) == 1 and eqn.outvars[0] in frame.env and not derivative_text(eqn):
            name = assigned_name(eqn)
            if name is not None:
                found[name] = frame.env[eqn.outvars[0]]
    return found


def equation_text(eqn: JaxprEqn, names: dict[Var, str]) -> str:
    """An equation in one line, without the programs among its parameters."""
    left = " ".join(names.get(v, "_") for v in eqn.outvars)
    right = " ".join(
        str(a.val) if isinstance(a, Literal) else names.get(a, "_") for a in eqn.invars
    )
    return f"{left} = {eqn.primitive.name} {right}"
