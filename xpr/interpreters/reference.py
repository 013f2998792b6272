"""Jaxprs evaluated on NumPy arrays, equation by equation, by the primitives' reference rules."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, Var

Array = np.ndarray[Any, Any]

_own = threading.local()


@contextlib.contextmanager
def interrupted_by(check: Callable[[], None]) -> Iterator[None]:
    """Inside the block this thread calls `check` before each equation; it may raise."""
    _own.check = check
    try:
        yield
    finally:
        del _own.check


def interpret(closed: ClosedJaxpr, consts: Sequence[Any], args: Sequence[Array]) -> list[Array]:
    """Evaluates a jaxpr on NumPy arrays by the reference rules."""
    jaxpr = closed.jaxpr
    env: dict[Var, Array] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Array:
        if isinstance(atom, Literal):
            return np.asarray(atom.val, atom.aval.dtype)
        return env[atom]

    check = getattr(_own, "check", None)
    for eqn in jaxpr.eqns:
        if check is not None:
            check()
        found = interpret_equation(eqn, [read(a) for a in eqn.invars])
        env.update(zip(eqn.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def interpret_equation(eqn: JaxprEqn, operands: Sequence[Array]) -> list[Array]:
    """The results of one equation."""
    inner = called_program(eqn)
    if eqn.primitive.interprets:
        found: Any = eqn.primitive.reference(*operands, **eqn.params, interpret=_interpret_inner)
    elif inner is not None:
        found = interpret(inner, [np.asarray(c) for c in inner.consts], operands)
    else:
        with np.errstate(all="ignore"):
            found = eqn.primitive.reference(*operands, **eqn.params)
        found = list(found) if eqn.primitive.multiple_results else [found]
    return [np.asarray(r, dtype=v.aval.dtype) for v, r in zip(eqn.outvars, found, strict=True)]


def called_program(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The program that an equation calls and does nothing else with."""
    return None if eqn.primitive.calls is None else eqn.params[eqn.primitive.calls]


def _interpret_inner(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Array]:
    """A program of a loop or a branch, on NumPy arrays."""
    return interpret(closed, [np.asarray(c) for c in closed.consts], list(map(np.asarray, args)))
