"""`ensure_compile_time_eval`, and its trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from xpr.core.context import context
from xpr.core.trace import Trace, Tracer, set_current_trace

if TYPE_CHECKING:
    from xpr.core.primitive import Primitive


class KnownValuesTrace(Trace):
    """Computes operations on concrete values at once; others belong to the trace around."""

    def __init__(self, parent: Trace) -> None:
        self.parent = parent

    def _trace_for(self, args: Sequence[Any]) -> Trace:
        return self.parent if any(isinstance(x, Tracer) for x in args) else context.eager

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        with set_current_trace(self._trace_for(args)):
            return primitive.bind(*args, **params)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], params: dict[str, Any]
    ) -> Sequence[Any]:
        with set_current_trace(trace := self._trace_for(args)):
            return trace.process_custom_jvp_call(primitive, fun, jvp, args, params)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], params: Any
    ) -> Sequence[Any]:
        with set_current_trace(trace := self._trace_for(args)):
            return trace.process_custom_vjp_call(primitive, fun, fwd, bwd, args, params)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Inside a traced function, operations on known values are computed at once in the block.

    What depends on traced values is traced as everywhere.

    >>> import xpr, xpr.numpy as jnp
    >>> @xpr.jit
    ... def f(x):
    ...     with xpr.ensure_compile_time_eval():
    ...         n = int(jnp.arange(4).sum())
    ...     return x * n
    >>> f(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    outer = context.trace
    trace = KnownValuesTrace(outer)
    try:
        with set_current_trace(trace):
            yield
    finally:
        trace.alive = False
