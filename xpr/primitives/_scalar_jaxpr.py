"""Evaluation of a jaxpr over scalars on whole arrays: what general reductions are defined with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Var, sub_jaxprs
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.trace import Tracer
from xpr.primitives import ELEMENTWISE_FAMILIES
from xpr.primitives.shape import broadcast_in_dim

NDArray = np.ndarray[Any, Any]


def trace_scalars(
    name: str, function: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """The jaxpr of a reduction's `function` on two groups of scalars of types `avals`.

    Raises TypeError unless it returns scalars of the same types, and NotImplementedError when it
    closes over a traced value.
    """
    scalars = [ShapedArray((), a.dtype, a.weak_type) for a in avals]
    closed = trace_to_jaxpr(function, [*scalars, *scalars])
    if any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(
            f"{name} computations cannot close over traced values; pass them as operands instead"
        )
    found = [(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.outvars]
    wanted = [((), a.dtype) for a in scalars]
    if found != wanted:
        raise TypeError(
            f"{name} requires a computation that returns scalars of the operands' types "
            f"{', '.join(a.str_short() for a in scalars)}, got "
            f"{', '.join(a.str_short() for a in closed.out_avals) or 'nothing'}"
        )
    return closed


def single_primitive(closed: ClosedJaxpr) -> Primitive | None:
    """The primitive when the jaxpr only applies one to its two inputs, in order; else None."""
    jaxpr = closed.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    eqn = jaxpr.eqns[0]
    direct = eqn.invars == jaxpr.invars and list(jaxpr.outvars) == eqn.outvars
    return eqn.primitive if direct and not eqn.params else None


def evaluate(closed: ClosedJaxpr, *arrays: NDArray) -> list[NDArray]:
    """`closed` applied to each element of `arrays`, which have one shape."""
    consts = [np.asarray(c) for c in closed.consts]
    if is_elementwise(closed.jaxpr):
        shape = arrays[0].shape
        return [np.broadcast_to(r, shape) for r in _run(closed.jaxpr, consts, arrays)]
    results = [np.empty(arrays[0].shape, v.aval.dtype) for v in closed.jaxpr.outvars]
    for index in np.ndindex(arrays[0].shape):
        scalars = _run(closed.jaxpr, consts, [np.asarray(a[index]) for a in arrays])
        for result, value in zip(results, scalars, strict=True):
            result[index] = value
    return results


def is_elementwise(jaxpr: Jaxpr) -> bool:
    """Whether the program over scalars applies elementwise primitives only."""
    return all(
        not any(v.aval.shape for v in (*eqn.invars, *eqn.outvars))
        and (
            eqn.primitive.family in ELEMENTWISE_FAMILIES
            or (eqn.primitive.name == "jit" and all(map(is_elementwise, sub_jaxprs(eqn.params))))
        )
        for eqn in jaxpr.eqns
    )


def _run(jaxpr: Jaxpr, consts: Sequence[NDArray], args: Sequence[NDArray]) -> list[NDArray]:
    env: dict[Var, NDArray] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> NDArray:
        return env[atom] if isinstance(atom, Var) else np.asarray(atom.val, atom.aval.dtype)

    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        if eqn.primitive.name == "jit":
            inner: ClosedJaxpr = eqn.params["jaxpr"]
            found: Any = _run(inner.jaxpr, [np.asarray(c) for c in inner.consts], operands)
        else:
            found = eqn.primitive.reference(*operands, **eqn.params)
        results = found if eqn.primitive.multiple_results else [found]
        for var, value in zip(eqn.outvars, results, strict=True):
            env[var] = np.asarray(value, dtype=var.aval.dtype)
    return [read(v) for v in jaxpr.outvars]


def apply_elementwise(jaxpr: Jaxpr, consts: Sequence[Any], *arrays: Any) -> list[Any]:
    """An elementwise program over scalars bound on whole arrays of one shape.

    It is for lowering rules, which trace it; constants are broadcast to the arrays' shape.
    """
    shape = arrays[0].shape
    env: dict[Var, Any] = {}

    def spread(value: Any, aval: ShapedArray) -> Any:
        return broadcast_in_dim(np.asarray(value, aval.dtype), shape, ())

    env.update(zip(jaxpr.invars, arrays, strict=True))
    for var, const in zip(jaxpr.constvars, consts, strict=True):
        env[var] = spread(const, var.aval)

    def read(atom: Any) -> Any:
        return env[atom] if isinstance(atom, Var) else spread(atom.val, atom.aval)

    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        if eqn.primitive.name == "jit":
            inner: ClosedJaxpr = eqn.params["jaxpr"]
            found: Any = apply_elementwise(inner.jaxpr, inner.consts, *operands)
        else:
            found = eqn.primitive.bind(*operands, **eqn.params)
        results = (
            found if eqn.primitive.multiple_results or eqn.primitive.name == "jit" else [found]
        )
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]
