"""Names that `xpr.core` has for users, as `jax.core` does: types, tracers, evaluation of jaxprs."""

from __future__ import annotations

from typing import Any

from xpr.core.aval import ShapedArray as ShapedArray
from xpr.core.compile_time_eval import ensure_compile_time_eval as ensure_compile_time_eval
from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr as ClosedJaxpr
from xpr.core.jaxpr import DebugInfo as DebugInfo
from xpr.core.jaxpr import DropVar as DropVar
from xpr.core.jaxpr import Literal as Literal
from xpr.core.jaxpr import Var as Var
from xpr.core.jaxpr import eval_jaxpr as eval_jaxpr
from xpr.core.symbolic import greater as max_dim
from xpr.core.symbolic import lesser as min_dim
from xpr.core.token import abstract_token as abstract_token
from xpr.core.trace import Trace as Trace
from xpr.core.trace import Tracer as Tracer
from xpr.core.trace import get_aval as get_aval
from xpr.core.trace import outside_programs as eval_context

AbstractValue = ShapedArray
Atom = Var | Literal
ParamDict = dict[str, Any]
Value = Any


def is_constant_dim(d: Any) -> bool:
    """Whether a size is a number."""
    return isinstance(d, int)


def get_opaque_trace_state(convention: Any = None) -> OpaqueTraceState:
    """What is current when tracing: two states are equal if the same traces are current."""
    del convention
    return OpaqueTraceState()


def trace_state_clean() -> bool:
    """Whether nothing is being traced."""
    return context.trace is context.eager


class OpaqueTraceState:
    """The traces and mapped axes that are current when it is made, to be compared later."""

    def __init__(self) -> None:
        self._trace = context.trace
        self._axes = context.axis_env

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpaqueTraceState):
            return NotImplemented
        return self._trace is other._trace and self._axes == other._axes

    __hash__ = None  # type: ignore[assignment]


def is_concrete(x: Any) -> bool:
    """Whether a value is known now."""
    return not isinstance(x, Tracer)


__all__ = [
    "AbstractValue",
    "Atom",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Literal",
    "OpaqueTraceState",
    "ParamDict",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Value",
    "Var",
    "abstract_token",
    "ensure_compile_time_eval",
    "eval_context",
    "eval_jaxpr",
    "get_aval",
    "get_opaque_trace_state",
    "is_concrete",
    "is_constant_dim",
    "max_dim",
    "min_dim",
    "trace_state_clean",
]
