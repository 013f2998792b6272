"""The printed form of jaxprs, the one JAX prints."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    sub_jaxprs,
)
from xpr.core.naming import VariableNames, literal_text
from xpr.core.pretty import Break, Doc, Group, Nest, Note, Text, concat, join, render


class _Names(VariableNames):
    """Names of variables, and what of a program is to be shown."""

    def __init__(
        self,
        source_info: bool = False,
        name_stack: bool = False,
        print_shapes: bool = True,
        custom_pp_eqn_rules: bool = True,
    ) -> None:
        super().__init__()
        # Programs that are called more than once are printed once, under these names.
        self.shared: dict[int, str] = {}
        self.source_info = source_info
        self.name_stack = name_stack
        self.print_shapes = print_shapes
        self.custom_pp_eqn_rules = custom_pp_eqn_rules
        # Results that nothing reads, printed as `_`.
        self.unread: set[Var] = set()


def _atom(names: _Names, atom: Atom) -> str:
    if isinstance(atom, Literal):
        return f"{literal_text(atom)}:{atom.aval.str_short()}"
    return names(atom)


def _binder(names: _Names, var: Var) -> Doc:
    name = Text("_" if isinstance(var, DropVar) or var in names.unread else names(var))
    return concat(name, Text(f":{var.aval.str_short()}", "type")) if names.print_shapes else name


def _binders(names: _Names, variables: list[Var]) -> Doc:
    return Nest(2, Group(join(Break(), [_binder(names, v) for v in variables])))


def _value(names: _Names, value: Any) -> Doc:
    if isinstance(value, ClosedJaxpr):
        shared = names.shared.get(id(value))
        return _jaxpr(names, value.jaxpr) if shared is None else Text(shared)
    if isinstance(value, Jaxpr):
        return _jaxpr(names, value)
    if isinstance(value, (tuple, list)) and any(isinstance(v, (ClosedJaxpr, Jaxpr)) for v in value):
        inner = join(Break(), [_value(names, v) for v in value])
        return concat("(", Nest(2, concat(Break(""), inner)), Break(""), ")")
    if isinstance(value, np.dtype):
        return Text(value.name)
    if isinstance(value, type) and issubclass(value, np.generic):
        return Text(np.dtype(value).name)
    if callable(value) and hasattr(value, "__name__"):
        return Text(value.__name__)
    return Text(str(value))


def _params(names: _Names, params: dict[str, Any]) -> Doc:
    if not params:
        return Text("")
    pairs = [concat(f"{k}=", _value(names, v)) for k, v in params.items()]
    return Group(concat("[", Nest(2, concat(Break(""), join(Break(), pairs))), Break(""), "]"))


def _eqn(names: _Names, eqn: JaxprEqn) -> Doc:
    out = join(Text(" "), [_binder(names, v) for v in eqn.outvars])
    custom = names.custom_pp_eqn_rules
    if custom and eqn.primitive.name == "jit" and id(eqn.params["jaxpr"]) not in names.shared:
        # The inner program reads as the outer one: its inputs take the operands' names.
        inner = eqn.params["jaxpr"].jaxpr
        taken: set[Var] = set()
        for outer, var in (
            *zip(eqn.invars, inner.invars, strict=True),
            *zip(eqn.outvars, inner.outvars, strict=True),
        ):
            if not isinstance(var, Var) or not isinstance(outer, Var):
                continue
            if isinstance(outer, DropVar) or outer in names.unread:
                names.names.setdefault(var, "_")
            elif outer not in taken:
                # An operand that is passed twice gives its name to one input only.
                taken.add(outer)
                names.names.setdefault(var, names(outer))
    params = eqn.params
    shown = eqn.primitive.printed_params(params) if custom else dict(sorted(params.items()))
    if custom and eqn.primitive.name in _ACCESSES:
        return _access(names, eqn)
    args = "".join(f" {_atom(names, a)}" for a in eqn.invars)
    head = concat(out, " = ") if eqn.outvars else ""
    # Behind the first line of the equation, where it has several.
    notes = []
    if names.source_info:
        notes.append(Note(str(eqn.source_info)))
    if names.name_stack:
        notes.append(Note(f"[{eqn.source_info.name_stack}]"))
    return concat(head, eqn.primitive.name, *notes, _params(names, shown), args)


_ACCESSES = ("get", "swap", "addupdate")


def _access(names: _Names, eqn: JaxprEqn) -> Doc:
    """What is done with a reference: `b <- a[0]`, `b, a[0] <- a[0], c` and `a[0] += c`."""
    ref, *rest = [_atom(names, a) for a in eqn.invars]
    operands = rest if eqn.primitive.name == "get" else rest[1:]
    shown = [
        "..." if e is Ellipsis else re.sub(r"#(\d+)", lambda m: operands[int(m[1])], str(e))
        for e in eqn.params["index"]
    ]
    place = f"{ref}[{','.join(shown)}]"
    out = [_binder(names, v) for v in eqn.outvars]
    if eqn.primitive.name == "get":
        return concat(*out, f" <- {place}")
    if eqn.primitive.name == "swap":
        return concat(*out, f", {place} <- {place}, {rest[0]}")
    return Text(f"{place} += {rest[0]}")


def _jaxpr(names: _Names, jaxpr: Jaxpr) -> Doc:
    read = {v for e in jaxpr.eqns for v in e.invars} | set(jaxpr.outvars)
    names.unread.update(v for e in jaxpr.eqns for v in e.outvars if v not in read)
    constvars, invars = _binders(names, jaxpr.constvars), _binders(names, jaxpr.invars)
    eqns = [_eqn(names, e) for e in jaxpr.eqns]
    if len(jaxpr.outvars) == 1:
        outs = f"({_atom(names, jaxpr.outvars[0])},)"
    else:
        outs = "(" + ", ".join(_atom(names, v) for v in jaxpr.outvars) + ")"
    head = concat(
        "{ ", Text("lambda ", "keyword"), constvars, "; ", invars, ". ", Text("let", "keyword")
    )
    body = concat(Break(), join(Break("; "), eqns))
    return Group(
        concat(head, Nest(4, body), Nest(2, concat(Break(), Text("in ", "keyword"), outs)), " }")
    )


def _calls(jaxpr: Jaxpr, seen: dict[int, list[JaxprEqn]]) -> None:
    """Collects the calls of each program, inner programs first."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jit":
            closed = eqn.params["jaxpr"]
            if id(closed) not in seen:
                _calls(closed.jaxpr, seen)
            seen.setdefault(id(closed), []).append(eqn)
        else:
            for sub in sub_jaxprs(eqn.params):
                _calls(sub, seen)


def jaxpr_text(jaxpr: Jaxpr, *, width: int = 80, use_color: bool = False, **shown: bool) -> str:
    """The text of a jaxpr in lines of at most `width` columns where possible."""
    names = _Names(**shown)
    calls: dict[int, list[JaxprEqn]] = {}
    _calls(jaxpr, calls)
    out = []
    for key, eqns in calls.items():
        if len(eqns) > 1:
            base = re.sub(r"\W", "", eqns[0].params["name"]) or "f"
            name, n = base, 1
            while name in names.shared.values():
                name, n = f"{base}{n}", n + 1
            program = _jaxpr(names, eqns[0].params["jaxpr"].jaxpr)
            out.append(render(concat(f"let {name} = ", program, " in"), width, use_color) + "\n")
            names.shared[key] = name
    return "".join(out) + render(_jaxpr(names, jaxpr), width, use_color)


def eqn_text(eqn: JaxprEqn, width: int = 80) -> str:
    return render(_eqn(_Names(), eqn), width)
