"""Which operation of a compiled program made the first NaN, for `debug_nans` and `debug_infs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.errors import explained
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, bind_equation, eval_jaxpr
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.host_values import HOST_OPERATION
from xpr.dispatch.nonfinite import check_finite, each_operation


def find_first_nonfinite(closed: ClosedJaxpr, leaves: Sequence[Any]) -> None:
    """Runs the program again, one operation after the other, each of which checks its results.

    Raises FloatingPointError at the first one whose results hold what is looked for. Returns where
    none does, because the compiler had ordered a sum in another way, say, and where the operands
    were donated and are gone.
    """
    if any(isinstance(x, ArrayImpl) and x.is_deleted() for x in leaves):
        return
    for x in leaves:
        _check(x, "an argument: the de-optimized function did not make it, it is in an input")
    with each_operation():
        _run(closed, leaves)
    for v in closed.jaxpr.outvars:
        if isinstance(v, Literal):
            _check(v.val, "a result: the de-optimized function did not make it, it is a literal")


def _check(x: Any, where: str) -> None:
    if isinstance(x, (ArrayImpl, np.ndarray, np.generic, float, complex)):
        check_finite(np.asarray(x), where)


def _run(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    return eval_jaxpr(closed.jaxpr, closed.consts, *operands, bind=_bind)


def _bind(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    called = eqn.params.get(eqn.primitive.calls) if eqn.primitive.calls else None
    if isinstance(called, ClosedJaxpr) and len(called.jaxpr.invars) == len(operands):
        # Operations inside have lines of their own.
        return _run(called, operands)
    try:
        return bind_equation(eqn, operands)
    except FloatingPointError as error:
        # What a loop or a branch returns is made by no operation that has a name.
        if HOST_OPERATION not in str(error):
            raise
        text = str(error).replace(HOST_OPERATION, eqn.primitive.name)
    raise explained(FloatingPointError(text), "FloatingPointError")
