"""Which operation of a compiled program made the first NaN, for `debug_nans` and `debug_infs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, bind_equation, eval_jaxpr
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.nonfinite import each_operation


def find_first_nonfinite(closed: ClosedJaxpr, leaves: Sequence[Any]) -> None:
    """Runs the program again, one operation after the other, each of which checks its results.

    Raises FloatingPointError at the first one whose results hold what is looked for. Returns where
    none does, because the compiler had ordered a sum in another way, say, and where the operands
    were donated and are gone.
    """
    if not any(isinstance(x, ArrayImpl) and x.is_deleted() for x in leaves):
        with each_operation():
            _run(closed, leaves)


def _run(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    return eval_jaxpr(closed.jaxpr, closed.consts, *operands, bind=_bind)


def _bind(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    called = eqn.params.get(eqn.primitive.calls) if eqn.primitive.calls else None
    if isinstance(called, ClosedJaxpr) and len(called.jaxpr.invars) == len(operands):
        # Operations inside have lines of their own.
        return _run(called, operands)
    return bind_equation(eqn, operands)
