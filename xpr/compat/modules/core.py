"""`jax.core`: types, tracers and the evaluation of jaxprs."""

from __future__ import annotations

import importlib
from typing import Any

from xpr.compat.value_types import pytype_aval_mappings as pytype_aval_mappings
from xpr.core.public_names import AbstractValue as AbstractValue
from xpr.core.public_names import Atom as Atom
from xpr.core.public_names import OpaqueTraceState as OpaqueTraceState
from xpr.core.public_names import ParamDict as ParamDict
from xpr.core.public_names import ShapedArray as ShapedArray
from xpr.core.public_names import Trace as Trace
from xpr.core.public_names import Tracer as Tracer
from xpr.core.public_names import Value as Value
from xpr.core.public_names import abstract_token as abstract_token
from xpr.core.public_names import ensure_compile_time_eval as ensure_compile_time_eval
from xpr.core.public_names import eval_context as eval_context
from xpr.core.public_names import eval_jaxpr as eval_jaxpr
from xpr.core.public_names import get_aval as get_aval
from xpr.core.public_names import get_opaque_trace_state as get_opaque_trace_state
from xpr.core.public_names import is_concrete as is_concrete
from xpr.core.public_names import is_constant_dim as is_constant_dim
from xpr.core.public_names import max_dim as max_dim
from xpr.core.public_names import min_dim as min_dim
from xpr.core.public_names import trace_state_clean as trace_state_clean

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
