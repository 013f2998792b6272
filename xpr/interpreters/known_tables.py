"""What a program computes from nothing but numbers is computed once, before it is compiled.

The factors of a Fourier transform and the weights of a quadrature are functions of indices: as part
of the program their formulas are compiled and then computed in each call. Of what costs little,
such as a range of indices or a matrix of zeros, nothing is gained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from xpr.interpreters.reference import interpret_equation

_COSTLY = frozenset(("elementary", "power", "special"))
_OTHERS = frozenset(
    ("elementwise", "integer", "compare", "shape", "joining", "creation", "slicing", "convert")
)
# Of the last family these say where or when something is computed.
_FIXED = frozenset(("optimization_barrier", "device_put", "copy", "empty"))
# Larger tables take more from memory than computing them anew does from a processor.
_MOST_BYTES = 1 << 20

Array = np.ndarray


def with_known_tables(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with tables that are costly to compute and known now among its constants.

    Their equations are left in it, without uses where nothing else needs them.
    """
    jaxpr = closed.jaxpr
    makers = _known(jaxpr)
    costly = _costly(jaxpr, makers)
    read = dict.fromkeys(v for v in _read_elsewhere(jaxpr, makers) if v in costly)
    # All that an equation makes, or none of it.
    wanted = list(dict.fromkeys(w for v in read for w in makers[v].outvars))
    if not wanted or sum(v.aval.nbytes for v in wanted) > _MOST_BYTES * 4:
        return closed
    values = _evaluated(jaxpr, makers, wanted)
    tables = set(wanted)
    eqns = [e for e in jaxpr.eqns if tables.isdisjoint(e.outvars)]
    constvars = [*jaxpr.constvars, *wanted]
    consts = [*closed.consts, *(values[v] for v in wanted)]
    return ClosedJaxpr(jaxpr.replace(constvars=constvars, eqns=eqns), consts)


def _known(jaxpr: Jaxpr) -> dict[Var, JaxprEqn]:
    """The variables that depend on no operand, and what makes them."""
    makers: dict[Var, JaxprEqn] = {}
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        if primitive.family not in _COSTLY | _OTHERS or primitive.name in _FIXED or eqn.effects:
            continue
        is_small = all(
            all(isinstance(n, int) for n in v.aval.shape) and v.aval.nbytes <= _MOST_BYTES
            for v in eqn.outvars
        )
        if is_small and all(isinstance(a, Literal) or a in makers for a in eqn.invars):
            makers.update(dict.fromkeys(eqn.outvars, eqn))
    return makers


def _costly(jaxpr: Jaxpr, makers: dict[Var, JaxprEqn]) -> set[Var]:
    """The known variables that are made by some costly function."""
    costly: set[Var] = set()
    for eqn in jaxpr.eqns:
        if all(v in makers for v in eqn.outvars) and (
            eqn.primitive.family in _COSTLY or any(a in costly for a in _variables(eqn.invars))
        ):
            costly.update(eqn.outvars)
    return costly


def _read_elsewhere(jaxpr: Jaxpr, makers: dict[Var, JaxprEqn]) -> Iterator[Var]:
    """The known variables that results and equations with operands read."""
    for eqn in jaxpr.eqns:
        if not all(v in makers for v in eqn.outvars):
            yield from (a for a in _variables(eqn.invars) if a in makers)
    yield from (a for a in _variables(jaxpr.outvars) if a in makers)


def _variables(atoms: Sequence[Atom]) -> list[Var]:
    return [a for a in atoms if isinstance(a, Var)]


def _evaluated(
    jaxpr: Jaxpr, makers: dict[Var, JaxprEqn], wanted: Sequence[Var]
) -> dict[Var, Array]:
    """The values of variables and of what they are made of."""
    needed = set(wanted)
    for eqn in reversed(jaxpr.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(_variables(eqn.invars))
    values: dict[Var, Array] = {}

    def read(atom: Atom) -> Array:
        if isinstance(atom, Literal):
            return np.asarray(atom.val, atom.aval.dtype)
        return values[atom]

    for eqn in jaxpr.eqns:
        if not needed.isdisjoint(eqn.outvars):
            found = interpret_equation(eqn, [read(a) for a in eqn.invars])
            values.update(zip(eqn.outvars, found, strict=True))
    return values
