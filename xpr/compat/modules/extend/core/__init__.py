"""`jax.extend.core`: jaxprs, and primitives that programs define."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xpr.compat.modules.core import get_opaque_trace_state as get_opaque_trace_state
from xpr.compat.modules.extend.core import primitives as primitives
from xpr.compat.primitives import ClientPrimitive as Primitive
from xpr.core.aval import ShapedArray
from xpr.core.check import check_jaxpr as check_jaxpr
from xpr.core.context import context
from xpr.core.effects import Effect as Effect
from xpr.core.effects import Effects as Effects
from xpr.core.errors import ConcretizationTypeError
from xpr.core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from xpr.core.errors import JaxprTypeError as JaxprTypeError
from xpr.core.jaxpr import ClosedJaxpr as ClosedJaxpr
from xpr.core.jaxpr import DebugInfo as DebugInfo
from xpr.core.jaxpr import DropVar as DropVar
from xpr.core.jaxpr import Jaxpr as Jaxpr
from xpr.core.jaxpr import JaxprEqn as JaxprEqn
from xpr.core.jaxpr import Literal as Literal
from xpr.core.jaxpr import Var as Var
from xpr.core.jaxpr import as_function as jaxpr_as_fun
from xpr.core.jaxpr import sub_jaxprs
from xpr.core.source_info import current
from xpr.core.token import AbstractToken as AbstractToken
from xpr.core.trace import Trace, Tracer, is_valid_value
from xpr.core.trace import set_current_trace as set_current_trace
from xpr.interpreters.batching import BatchTrace
from xpr.interpreters.zeros import tangent_aval
from xpr.lax.marks import Token as Token

# Libraries annotate with it only; a trace is its own tag here.
TraceTag = Trace
no_effects: Effects = frozenset()

__all__ = [
    "AbstractToken",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "InconclusiveDimensionOperation",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "Token",
    "TraceTag",
    "Var",
    "check_jaxpr",
    "concrete_or_error",
    "find_top_trace",
    "gensym",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype",
    "primitives",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
]


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The programs among the parameters of an equation."""
    return sub_jaxprs(params)


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The programs in the equations of a program."""
    for eqn in jaxpr.eqns:
        yield from sub_jaxprs(eqn.params)


def new_jaxpr_eqn(
    invars: Sequence[Var | Literal],
    outvars: Sequence[Var],
    primitive: Any,
    params: dict[str, Any],
    effects: Effects = no_effects,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation, at the line of the caller unless `source_info` tells another."""
    del ctx  # xpr's equations hold no settings
    source = current() if source_info is None else source_info
    return JaxprEqn(list(invars), list(outvars), primitive, params, source, frozenset(effects))


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of an array without its axis `axis`, whose size must be `size`."""
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(f"axis {axis} of {aval.str_short()} has not the size {size}")
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The type of an array with one more axis of that size at `axis`."""
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def valid_jaxtype(x: Any) -> bool:
    """Whether a value can be an operand of a primitive."""
    return is_valid_value(x)


def concrete_or_error(force: Any, value: Any, context: str = "") -> Any:
    """`force(value)` if the value is known when tracing, else ConcretizationTypeError."""
    if isinstance(value, Tracer):
        raise ConcretizationTypeError(
            f"Abstract tracer value encountered where concrete value is expected: {value}. "
            f"{context}"
        )
    return value if force is None else force(value)


def primal_dtype_to_tangent_dtype(dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype."""
    return tangent_aval(ShapedArray((), dtype)).dtype


def gensym() -> Callable[[ShapedArray], Var]:
    """What makes new variables of given types."""
    return Var


def find_top_trace(operands: Any = ()) -> Any:
    """The current trace."""
    del operands
    return context.trace


@contextmanager
def take_current_trace() -> Iterator[Any]:
    """Gives the current trace, and makes operations outside of it eager meanwhile."""
    trace = context.trace
    with set_current_trace(context.eager):
        yield trace


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether an axis is mapped under a name."""
    return bool(context.axis_env)


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a program is being traced."""
    trace = context.trace
    while trace is not context.eager:
        parent = getattr(trace, "parent", None)
        if parent is None:
            return True
        trace = parent
    return False


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether a function is being vectorised."""
    trace = context.trace
    while trace is not None and trace is not context.eager:
        if isinstance(trace, BatchTrace):
            return True
        trace = getattr(trace, "parent", None)
    return False


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the mapped axes."""
    return [name for name, _ in context.axis_env]
