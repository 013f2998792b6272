"""Keys of programs: two with the same key compute the same, whenever they were traced."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var


def fingerprint(value: Any) -> Hashable:
    """A key of a parameter of an equation: of a program its structure, else the value itself.

    Raises TypeError for what cannot be hashed. Programs that close over arrays are only equal to
    themselves, and so are functions among the parameters.

    >>> import xpr
    >>> one, other, third = (xpr.make_jaxpr(lambda x: x + n)(0.0) for n in (1, 1, 2))
    >>> one is other, fingerprint(one) == fingerprint(other), fingerprint(one) == fingerprint(third)
    (False, True, False)
    """
    if isinstance(value, ClosedJaxpr):
        return value if value.consts else (ClosedJaxpr, _of_jaxpr(value.jaxpr))
    if isinstance(value, Jaxpr):
        return (Jaxpr, _of_jaxpr(value))
    if type(value) is tuple:
        return tuple([(type(v), fingerprint(v)) for v in value])
    hash(value)
    return value


def _of_jaxpr(jaxpr: Jaxpr) -> Hashable:
    number: dict[Var, int] = {}

    def of_atom(x: Any) -> Hashable:
        if isinstance(x, Literal):
            # Zeros that differ in their sign are equal, and so are numbers of several types.
            return np.asarray(x.val, x.aval.dtype).tobytes(), x.aval
        return number.setdefault(x, len(number))

    inputs = [(of_atom(v), v.aval) for v in (*jaxpr.constvars, *jaxpr.invars)]
    eqns = []
    for eqn in jaxpr.eqns:
        params = tuple([(k, type(v), fingerprint(v)) for k, v in eqn.params.items()])
        operands = tuple(map(of_atom, eqn.invars))
        results = tuple([(of_atom(v), v.aval) for v in eqn.outvars])
        # Errors of collectives name the line.
        line = str(eqn.source_info) if eqn.primitive.family == "collectives" else ""
        eqns.append((eqn.primitive, params, operands, results, eqn.effects, line))
    return len(jaxpr.constvars), tuple(inputs), tuple(eqns), tuple(map(of_atom, jaxpr.outvars))
