"""`jax.core`: types, tracers and the evaluation of jaxprs."""

from __future__ import annotations

import importlib
from typing import Any

from xpr.compat.value_types import pytype_aval_mappings as pytype_aval_mappings
from xpr.contexts import ensure_compile_time_eval
from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.jaxpr import Literal, Var, eval_jaxpr
from xpr.core.symbolic import greater as max_dim
from xpr.core.symbolic import lesser as min_dim
from xpr.core.token import abstract_token as abstract_token
from xpr.core.trace import Trace, Tracer, get_aval, outside_programs

AbstractValue = ShapedArray
Atom = Var | Literal
ParamDict = dict[str, Any]
Value = Any
eval_context = outside_programs


_IN_EXTEND = (
    *("CallPrimitive", "ClosedJaxpr", "DebugInfo", "DropVar", "Effect", "Effects", "Jaxpr"),
    *("InconclusiveDimensionOperation", "JaxprEqn", "JaxprTypeError", "Literal", "Primitive"),
    *("Token", "Var", "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym"),
    *("jaxpr_as_fun", "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects"),
    *("nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype", "set_current_trace"),
    *("subjaxprs", "take_current_trace", "unmapped_aval", "unsafe_am_i_under_a_jit_DO_NOT_USE"),
    *("unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype"),
)
"""Names that JAX has in `jax.extend.core` now, and had here."""


def __getattr__(name: str) -> Any:
    if name in _IN_EXTEND:
        # It imports this module.
        extend = importlib.import_module("xpr.compat.modules.extend.core")
        return getattr(extend, name)
    raise AttributeError(f"module 'jax.core' has no attribute {name!r} in xpr")


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
    "OpaqueTraceState",
    "ParamDict",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Value",
    "abstract_token",
    "ensure_compile_time_eval",
    "eval_context",
    "eval_jaxpr",
    "get_aval",
    "get_opaque_trace_state",
    "is_concrete",
    "max_dim",
    "min_dim",
    "pytype_aval_mappings",
    "trace_state_clean",
]
