"""Loops whose rounds read a matrix that no cache of one core holds.

A loop as one dispatch runs in one thread, which waits for memory in each round if a round reads
megabytes. In the plain form products of such matrices with a few vectors are dispatches of their
own, which several threads share. What a round computes between them stays together: each part
becomes one equation, `in_one_dispatch`, that is compiled as loops in memory are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from xpr.core.primitive import Primitive
from xpr.lowering.loops.calls import CALLS
from xpr.primitives.dot_general import dot_general_p
from xpr.runtimes.cores import cores

in_one_dispatch_p: Final = Primitive("in_one_dispatch", "loops", multiple_results=True)
"""Its parameter `jaxpr` is the program; only the lowering makes equations of it."""

shared_product_p: Final = Primitive("shared_product", "loops", multiple_results=True)
"""A large product, of whose result several threads compute parts; `jaxpr` is it alone."""

# The bytes of a matrix from which on two threads read it faster than one.
_LARGE = 2 << 20
# By so many vectors at once it is multiplied while it is read.
_MAX_VECTORS = 16
_DTYPES = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def has_large_products(jaxpr: Jaxpr, num_consts: int) -> bool:
    """Whether a program, or a loop inside of it, multiplies a large matrix by a few vectors.

    The matrix is the same in each round: one of the first `num_consts` operands. What is cut from
    an array, or computed, would have to be stored before another dispatch reads it.
    """
    fixed = {*jaxpr.constvars, *jaxpr.invars[:num_consts]}
    return any(_stands_apart(e, fixed) for e in jaxpr.eqns)


def _stands_apart(eqn: JaxprEqn, fixed: Collection[Atom]) -> bool:
    if _is_large_product(eqn, fixed):
        return True
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        inner, consts = params["jaxpr"].jaxpr, eqn.invars[: params["num_consts"]]
    elif name == "while":
        inner, first = params["body_jaxpr"].jaxpr, params["cond_nconsts"]
        consts = eqn.invars[first : first + params["body_nconsts"]]
    elif name in CALLS:
        inner, consts = params[CALLS[name]].jaxpr, eqn.invars
    else:
        return False
    known = {v for v, a in zip(inner.invars, consts, strict=False) if a in fixed}
    return any(_stands_apart(e, known) for e in inner.eqns)


def _is_large_product(eqn: JaxprEqn, fixed: Collection[Atom]) -> bool:
    if eqn.primitive is not dot_general_p or cores() == 1:
        return False
    x, y = (a.aval for a in eqn.invars)
    (left, _), (batch, _) = eqn.params["dimension_numbers"]
    if batch or len(left) != 1 or x.dtype not in _DTYPES:
        return False
    if y.dtype != x.dtype or eqn.outvars[0].aval.dtype != x.dtype:
        return False
    matrix = eqn.invars[x.size <= y.size]
    large, small = (x, y) if x.size > y.size else (y, x)
    return (
        matrix in fixed
        and len(large.shape) == 2
        and len(small.shape) <= 2
        and large.nbytes >= _LARGE
        and small.size <= _MAX_VECTORS * x.shape[left[0]]
    )


def products_apart(closed: ClosedJaxpr, num_consts: int) -> ClosedJaxpr:
    """The program of a round with what lies between its large products in one equation each."""
    jaxpr = closed.jaxpr
    if jaxpr.effects:
        return closed
    fixed = {*jaxpr.constvars, *jaxpr.invars[:num_consts]}
    apart = {id(e) for e in jaxpr.eqns if _stands_apart(e, fixed)}
    # How many large products lead to a variable, and so before which of them others are computed.
    before: dict[Var, int] = {}
    for eqn in jaxpr.eqns:
        part = max((before.get(v, 0) for v in eqn.invars if isinstance(v, Var)), default=0)
        before.update(dict.fromkeys(eqn.outvars, part + (id(eqn) in apart)))
    last = max(before.values(), default=0)
    # Everything else is computed as late as it may be: what no product needs is in the last part.
    wanted: dict[Var, int] = {}
    parts: list[tuple[list[JaxprEqn], list[JaxprEqn]]] = [([], []) for _ in range(last + 1)]
    for eqn in reversed(jaxpr.eqns):
        if id(eqn) in apart:
            part = before[eqn.outvars[0]] - 1
        else:
            part = min((wanted.get(v, last) for v in eqn.outvars), default=last)
        parts[part][id(eqn) in apart].append(eqn)
        for v in eqn.invars:
            if isinstance(v, Var):
                wanted[v] = min(part, wanted.get(v, last))
    eqns: list[JaxprEqn] = []
    needed = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for between, products in reversed(parts):
        eqns += [_shared(e) if _is_large_product(e, fixed) else e for e in products]
        needed.update(v for e in products for v in e.invars if isinstance(v, Var))
        if between:
            one = _as_one(between[::-1], needed)
            eqns.append(one)
            needed.update(v for v in one.invars if isinstance(v, Var))
    return ClosedJaxpr(jaxpr.replace(eqns=eqns[::-1]), closed.consts)


def _shared(eqn: JaxprEqn) -> JaxprEqn:
    read = list(dict.fromkeys(v for v in eqn.invars if isinstance(v, Var)))
    inner = ClosedJaxpr(Jaxpr([], read, list(eqn.outvars), [eqn]), ())
    return eqn.replace(primitive=shared_product_p, invars=list(read), params={"jaxpr": inner})


def _as_one(eqns: list[JaxprEqn], needed: set[Var]) -> JaxprEqn:
    """The equation that computes by those equations what is needed of them."""
    made = dict.fromkeys(v for e in eqns for v in e.outvars)
    read = dict.fromkeys(v for e in eqns for v in e.invars if isinstance(v, Var) and v not in made)
    results = [v for v in made if v in needed]
    inner = Jaxpr([], list(read), list(results), eqns)
    return eqns[-1].replace(
        primitive=in_one_dispatch_p,
        invars=list(read),
        outvars=results,
        params={"jaxpr": ClosedJaxpr(inner, ())},
    )
