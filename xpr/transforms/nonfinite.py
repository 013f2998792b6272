"""Which operation of a compiled program made the first NaN, for `debug_nans` and `debug_infs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, Var, literal_operand
from xpr.core.trace import context
from xpr.dispatch.array import ArrayImpl


def find_first_nonfinite(closed: ClosedJaxpr, leaves: Sequence[Any]) -> None:
    """Runs the program again, one operation after the other, each of which checks its results.

    Raises FloatingPointError at the first one whose results hold what is looked for. Returns where
    none does, because the compiler had ordered a sum in another way, say, and where the operands
    were donated and are gone.
    """
    if not any(isinstance(x, ArrayImpl) and x.is_deleted() for x in leaves):
        _run(closed, leaves)


def _run(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, operands, strict=True))

    def value(atom: Any) -> Any:
        return env[atom] if isinstance(atom, Var) else literal_operand(atom)

    outer_source = context.source
    try:
        for eqn in jaxpr.eqns:
            given = [value(v) for v in eqn.invars]
            called = eqn.params.get(eqn.primitive.calls) if eqn.primitive.calls else None
            context.source = eqn.source_info
            if isinstance(called, ClosedJaxpr) and len(called.jaxpr.invars) == len(given):
                # Operations inside have lines of their own.
                found = _run(called, given)
            else:
                found = eqn.primitive.bind(*given, **eqn.params)
            results = found if eqn.primitive.multiple_results else [found]
            env.update(zip(eqn.outvars, results, strict=True))
    finally:
        context.source = outer_source
    return [value(v) for v in jaxpr.outvars]
