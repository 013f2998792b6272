"""Operations on complex elements in straight-line programs, on their parts in vectors.

IREE's vectorizer leaves loops over complex numbers alone, and a quotient or an exponential with
C99's special values is some two hundred operations: one element after the other they take four
times as long as JAX's. Equations that follow each other, operate on elements of one shape and have
at least one such operation among them become one `one_pass` here, on arrays of real and imaginary
parts (`complex_parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xpr.core import dtypes
from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.core.primitive import registry
from xpr.lowering.loops.complex_parts import IN_PARTS
from xpr.lowering.loops.passes_over_memory import one_pass_equation, read_from_outside
from xpr.primitives import ELEMENTWISE_FAMILIES

# Taking fewer elements apart takes longer than is gained.
_LEAST_ELEMENTS = 512
# What is compiled for one pass, in operations of some hundred instructions,
_MOST_OPERATIONS = 6
# and what it reads and writes, in arrays of parts.
_MOST_ARRAYS = 24

_DTYPES = frozenset(map(np.dtype, ("f4", "f8", "c8", "c16", "?")))


def complex_passes(jaxpr: Jaxpr) -> Jaxpr:
    """The same program with `one_pass` for operations on many complex elements."""
    if not any(_is_long(e) for e in jaxpr.eqns):
        return jaxpr
    users: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        users.update((v, i) for v in eqn.invars if isinstance(v, Var))
    users.update((v, len(jaxpr.eqns)) for v in jaxpr.outvars if isinstance(v, Var))
    eqns: list[JaxprEqn] = []
    end = 0
    for group in _groups(jaxpr.eqns):
        end += len(group)
        # In their order: programs with one jaxpr have one text, by which the cache knows them.
        results = [v for e in group for v in e.outvars if users.get(v, -1) >= end]
        kept = _equation(group, results) if any(map(_is_long, group)) else None
        eqns += group if kept is None else [kept]
    return jaxpr.replace(eqns=eqns)


def _groups(eqns: Sequence[JaxprEqn]) -> Iterator[list[JaxprEqn]]:
    """The equations in their order: what may be one pass together, and what may not one by one."""
    group: list[JaxprEqn] = []
    count = 0  # of the long operations in it
    for eqn in eqns:
        is_long = _is_long(eqn)
        joins = bool(group) and _is_taken(eqn) and _is_taken(group[0])
        if joins:
            joins = eqn.outvars[0].aval.shape == group[0].outvars[0].aval.shape
        if group and not (joins and count + is_long <= _MOST_OPERATIONS):
            yield group
            group, count = [], 0
        group.append(eqn)
        count += is_long
    if group:
        yield group


def _equation(group: Sequence[JaxprEqn], results: Sequence[Var]) -> JaxprEqn | None:
    """One equation for a group, of which `results` are read elsewhere; None for too many arrays."""
    arrays = [*read_from_outside(group), *results]
    if sum(1 + dtypes.is_complex(v.aval.dtype) for v in arrays) > _MOST_ARRAYS:
        return None
    last = next(e for e in reversed(group) if _is_long(e))
    return one_pass_equation(last, group, results)


def _is_long(eqn: JaxprEqn) -> bool:
    """Whether an equation is an operation on complex elements of many instructions."""
    name, atoms = eqn.primitive.name, (*eqn.invars, *eqn.outvars)
    if not (any(dtypes.is_complex(a.aval.dtype) for a in atoms) and _is_taken(eqn)):
        return False
    # A negative power is a quotient.
    return name not in IN_PARTS or (name == "integer_pow" and eqn.params["y"] < 0)


def _is_taken(eqn: JaxprEqn) -> bool:
    """Whether an equation operates on many elements, each by itself."""
    primitive = eqn.primitive
    if eqn.effects or len(eqn.outvars) != 1 or registry.get(primitive.name) is not primitive:
        return False
    (out,) = eqn.outvars
    if out.aval.size < _LEAST_ELEMENTS:
        return False
    avals = [a.aval for a in (*eqn.invars, out)]
    if not all(a.dtype in _DTYPES for a in avals):
        return False
    if primitive.name == "broadcast_in_dim":
        return avals[0].size == 1
    same = all(a.shape in (out.aval.shape, ()) for a in avals)
    return same and primitive.family in ELEMENTWISE_FAMILIES
