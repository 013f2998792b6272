"""Programs on extended dtypes become programs on the numbers that these stand for.

It is one pass over a jaxpr, after all other transformations and before sharding and lowering, which
see plain arrays only. An array of keys becomes `uint32[..., 2]`. An equation that has such operands
or results is replaced by what its *physical rule* binds; programs inside it are converted in turn;
all other equations stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.extended_array import base_of
from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    joined_effects,
    sub_jaxprs,
)
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.physical import has_extended, is_extended_aval, physical_aval
from xpr.core.primitive import Primitive
from xpr.core.references import uses_references
from xpr.interpreters.caching import weak_jaxpr_cache

# rule(avals, out_avals, args, params) -> physical results: what operands of types `avals` give,
# as lists. `args` are the physical operands.
PhysicalRule = Callable[
    [Primitive, Sequence[ShapedArray], Sequence[Any], dict[str, Any]], Sequence[Any]
]
_rules: dict[str, PhysicalRule] = {}


_loaders: list[Callable[[], object]] = []


def install_rules(load: Callable[[], object]) -> None:
    """Has a function register the rules of xpr's primitives before one is looked up."""
    _loaders.append(load)


def register_physical(name: str, rule: PhysicalRule) -> None:
    """Says what the primitive called `name` does with the numbers of extended dtypes."""
    _rules[name] = rule


def bind_physical(
    primitive: Primitive, avals: Sequence[ShapedArray], args: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """Binds what a primitive on operands of types `avals` is on their physical values `args`.

    Raises TypeError for a primitive that takes no such dtypes.
    """
    for load in _loaders:
        load()
    rule = _rules.get(primitive.name)
    if rule is not None:
        return list(rule(primitive, avals, args, params))
    if any(True for _ in sub_jaxprs(params)):
        out = primitive.bind(*args, **_physical_params(params))
        return list(out) if primitive.multiple_results else [out]
    dtype = next(a.dtype for a in avals if is_extended_aval(a))
    raise TypeError(f"{primitive.name} does not accept dtype {dtype}")


def physical_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program on plain arrays that a program is, without references and extended dtypes.

    It is the program itself if that has none.
    """
    if uses_references(closed.jaxpr):
        from xpr.interpreters.references import without_references  # noqa: PLC0415  they are rare

        closed = without_references(closed)
    return _converted(closed) if has_extended(closed.jaxpr) else closed


@weak_jaxpr_cache
def _converted(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr, consts = _convert(closed.jaxpr)
    return ClosedJaxpr(jaxpr, [*map(base_of, closed.consts), *consts])


def _physical_params(params: dict[str, Any]) -> dict[str, Any]:
    return {k: _physical_param(v) for k, v in params.items()}


def _physical_param(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return physical_program(value)
    if isinstance(value, Jaxpr):
        return _open(value)
    if isinstance(value, (tuple, list)):
        return type(value)(map(_physical_param, value))
    return value


def _open(jaxpr: Jaxpr) -> Jaxpr:
    if not has_extended(jaxpr):
        return jaxpr
    found, consts = _convert(jaxpr)
    if consts:
        raise NotImplementedError(
            "a program of keys inside an operation cannot have constants of its own: "
            f"{jaxpr.debug_info.describe()}"
        )
    return found


def _convert(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Any]]:
    """The program on numbers, and constants that its rules have made."""
    env: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    constvars: list[Var] = []
    consts: list[Any] = []

    def binder(v: Var) -> Var:
        if not is_extended_aval(v.aval):
            return v
        new = type(v)(physical_aval(v.aval))
        env[v] = new
        return new

    def read(v: Atom) -> Atom:
        return env.get(v, v) if isinstance(v, Var) else v

    first = [binder(v) for v in jaxpr.constvars]
    invars = [binder(v) for v in jaxpr.invars]
    for eqn in jaxpr.eqns:
        atoms = (*eqn.invars, *eqn.outvars)
        here = any(is_extended_aval(v.aval) for v in atoms)
        if not here and not any(has_extended(sub) for sub in sub_jaxprs(eqn.params)):
            if any(v in env for v in eqn.invars if isinstance(v, Var)):
                eqn = eqn.replace(invars=[read(v) for v in eqn.invars])
            eqns.append(eqn)
        elif eqn.primitive.name not in _rules and any(True for _ in sub_jaxprs(eqn.params)):
            eqns.append(
                eqn.replace(
                    invars=[read(v) for v in eqn.invars],
                    outvars=[binder(v) for v in eqn.outvars],
                    params=_physical_params(eqn.params),
                )
            )
        else:
            inner = _rule_program(eqn)
            constvars += inner.jaxpr.constvars
            consts += inner.consts
            eqns += _spliced(inner.jaxpr, [read(v) for v in eqn.invars], eqn.outvars, env)
    found = jaxpr.replace(
        constvars=[*first, *constvars],
        invars=invars,
        eqns=eqns,
        outvars=[read(v) for v in jaxpr.outvars],
        effects=joined_effects(eqns),
    )
    return found, consts


def _rule_program(eqn: JaxprEqn) -> ClosedJaxpr:
    """What the physical rule binds for an equation, as a program of its physical operands."""
    avals = [v.aval for v in eqn.invars]
    literals = {i: v for i, v in enumerate(eqn.invars) if isinstance(v, Literal)}

    def bound(*args: Any) -> Sequence[Any]:
        values = [literals[i].val if i in literals else x for i, x in enumerate(args)]
        return bind_physical(eqn.primitive, avals, values, eqn.params)

    source, context.source = context.source, eqn.source_info
    try:
        return trace_to_jaxpr(bound, [physical_aval(a) for a in avals])
    finally:
        context.source = source


def _spliced(
    inner: Jaxpr, operands: Sequence[Atom], outvars: Sequence[Var], env: dict[Var, Atom]
) -> list[JaxprEqn]:
    """The equations of a rule's program with its operands put in; its results become `outvars`."""
    names: dict[Var, Atom] = dict(zip(inner.invars, operands, strict=True))
    eqns = [
        eqn.replace(invars=[names.get(v, v) if isinstance(v, Var) else v for v in eqn.invars])
        for eqn in inner.eqns
    ]
    own = {v for eqn in inner.eqns for v in eqn.outvars}
    for v, result in zip(outvars, inner.outvars, strict=True):
        if isinstance(result, Var) and result in own:
            result.aval = physical_aval(v.aval)  # with the manual axes that a rule knows nothing of
        if not isinstance(v, DropVar):
            env[v] = names.get(result, result) if isinstance(result, Var) else result
    return eqns
