"""Transposition: from a linear program to the one that maps cotangents backwards.

A program that is linear in some inputs is walked from its results to those inputs; each primitive's
transpose rule maps the cotangent of its result to the cotangents of its linear operands. Values
that do not depend on linear inputs are computed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.config import loose_types
from xpr.core.context import context, current_stack
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, literal_operand
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Absent, get_primitive
from xpr.core.trace import get_aval
from xpr.interpreters.caching import weak_jaxpr_cache
from xpr.interpreters.zeros import Zero, add_tangents, cotangent_aval


class Linear:
    """Stands for an operand in which the program is linear: its value is not there."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Linear({self.aval})"


def is_linear(x: Any) -> bool:
    """Whether `x` stands for a linear operand in a transpose rule."""
    return type(x) is Linear


def backward_pass(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Cotangents of the inputs given as `Linear`, from those of the results.

    `args` holds a value or `Linear` for each input; cotangents may be `Zero`. Inputs that are not
    linear get None.
    """
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    linear: set[Var] = set()
    for v, a in zip(jaxpr.invars, args, strict=True):
        if type(a) is Linear:
            linear.add(v)
        else:
            values[v] = a
    eqns: list[JaxprEqn] = []
    outer_source, stack = context.source, current_stack()
    try:
        for eqn in jaxpr.eqns:
            if any(isinstance(v, Var) and v in linear for v in eqn.invars):
                linear.update(eqn.outvars)
                eqns.append(eqn)
                continue
            context.source = eqn.source_info.at((*stack, *eqn.source_info.stack))
            operands = [values[v] if isinstance(v, Var) else literal_operand(v) for v in eqn.invars]
            found = eqn.primitive.bind(*operands, **eqn.params)
            values.update(
                zip(eqn.outvars, found if eqn.primitive.multiple_results else [found], strict=True)
            )
        sums: dict[Var, Any] = {}
        for v, ct in zip(jaxpr.outvars, cotangents, strict=True):
            context.source = outer_source
            _accumulate(sums, linear, v, ct)
        for eqn in reversed(eqns):
            names = (*stack, "transpose(", *eqn.source_info.stack)
            context.source = eqn.source_info.at(names)
            _transpose_eqn(eqn, values, linear, sums)
    finally:
        context.source = outer_source
    return [
        sums.get(v, Zero(cotangent_aval(v.aval))) if v in linear else None for v in jaxpr.invars
    ]


def _accumulate(sums: dict[Var, Any], linear: set[Var], atom: Atom, ct: Any) -> None:
    if ct is None or type(ct) is Zero or isinstance(atom, Literal) or atom not in linear:
        return
    known = sums.get(atom)
    sums[atom] = ct if known is None else add_tangents(known, ct)


def _transpose_eqn(
    eqn: JaxprEqn, values: dict[Var, Any], linear: set[Var], sums: dict[Var, Any]
) -> None:
    cts = [sums.pop(v, None) for v in eqn.outvars]
    if all(ct is None for ct in cts):
        return
    cts = [
        Zero(cotangent_aval(v.aval)) if ct is None else ct
        for v, ct in zip(eqn.outvars, cts, strict=True)
    ]
    operands = [
        literal_operand(v)
        if isinstance(v, Literal)
        else Linear(v.aval)
        if v in linear
        else values[v]
        for v in eqn.invars
    ]
    primitive = eqn.primitive
    rule = primitive.transpose
    if isinstance(rule, Absent):
        raise NotImplementedError(
            f"Transpose rule (for reverse-mode differentiation) for '{primitive.name}' not "
            f"implemented: {rule.reason}"
        )
    given = cts if primitive.multiple_results else cts[0]
    if any(v.aval.sharding is not None for v in (*eqn.invars, *eqn.outvars)):
        # How the cotangents are sharded is known: as the operands.
        with loose_types():
            found = rule(given, *operands, **eqn.params)
        found = [_sharded_like(v.aval, ct) for v, ct in zip(eqn.invars, found, strict=True)]
    else:
        found = rule(given, *operands, **eqn.params)
    for v, ct in zip(eqn.invars, found, strict=True):
        _accumulate(sums, linear, v, ct)


def _sharded_like(aval: ShapedArray, ct: Any) -> Any:
    """The cotangent of an operand of type `aval`, sharded as that is."""
    if ct is None or type(ct) is Zero or context.manual_axes:
        return ct
    found, wanted = get_aval(ct).sharding, cotangent_aval(aval).sharding
    if found == wanted:
        return ct
    if wanted is None:
        if found.spec.unreduced:
            ct = get_primitive("reshard").bind(ct, sharding=_summed(found))
        return get_primitive("mesh_cast").bind(ct, sharding=None)
    if found is None and not (aval.ndim or wanted.spec.unreduced or wanted.spec.reduced):
        return ct
    return get_primitive("reshard").bind(ct, sharding=wanted)


def _summed(sharding: Any) -> Any:
    """The sharding of what has `sharding`, when its sums are complete."""
    return sharding.with_spec(sharding.spec.update(unreduced=frozenset()))


@weak_jaxpr_cache
def transpose_jaxpr(
    closed: ClosedJaxpr, linear: tuple[bool, ...], nonzero_cts: tuple[bool, ...]
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The program from (non-linear inputs, nonzero cotangents of results) to cotangents.

    Returns the program and which of the linear inputs get a cotangent that is not zero.
    """
    known_avals = [a for a, lin in zip(closed.in_avals, linear, strict=True) if not lin]
    ct_avals = [
        cotangent_aval(a) for a, nz in zip(closed.out_avals, nonzero_cts, strict=True) if nz
    ]
    nonzero: list[bool] = []

    def flat(*args: Any) -> Sequence[Any]:
        known, given = iter(args[: len(known_avals)]), iter(args[len(known_avals) :])
        operands = [
            Linear(a) if lin else next(known)
            for a, lin in zip(closed.in_avals, linear, strict=True)
        ]
        cts = [
            next(given) if nz else Zero(cotangent_aval(a))
            for a, nz in zip(closed.out_avals, nonzero_cts, strict=True)
        ]
        found = backward_pass(closed.jaxpr, closed.consts, operands, cts)
        found = [ct for ct, lin in zip(found, linear, strict=True) if lin]
        nonzero.extend(type(ct) is not Zero for ct in found)
        return [ct for ct in found if type(ct) is not Zero]

    program = trace_to_jaxpr(flat, [*known_avals, *ct_avals], closed.jaxpr.debug_info)
    return program, tuple(nonzero)
