"""`jax.interpreters.partial_eval`: functions traced to jaxprs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.jaxpr import Jaxpr
from xpr.core.jaxpr import dce_jaxpr as dce_jaxpr
from xpr.core.jaxpr_trace import JaxprTrace, trace_to_jaxpr
from xpr.core.jaxpr_trace import JaxprTracer as DynamicJaxprTracer
from xpr.core.jaxpr_trace import JaxprTracer as JaxprTracer
from xpr.core.trace import get_aval, set_current_trace
from xpr.interpreters.partial_eval import PartialEvalTrace

__all__ = [
    "DynamicJaxprTracer",
    "JaxprTracer",
    "PartialVal",
    "dce_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]


class PartialVal(tuple[Any, Any]):
    """A value that is known, as `(None, value)`, or the type of an unknown one, `(aval, None)`."""

    def __new__(cls, pair: tuple[ShapedArray | None, Any]) -> PartialVal:
        return super().__new__(cls, pair)

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        """A known value."""
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """An unknown value of a type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value, or None if it is unknown."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> ShapedArray:
        """The type of the value."""
        return get_aval(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_dynamic(
    fun: Any, in_avals: Sequence[ShapedArray], **_: Any
) -> tuple[Jaxpr, list[ShapedArray], list[Any]]:
    """The jaxpr of a flat wrapped function, the types of its results, its constants."""
    closed = trace_to_jaxpr(fun.call_wrapped, list(in_avals))
    return closed.jaxpr, closed.jaxpr.out_avals, list(closed.consts)


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluates a wrapped function where its values are known, and traces the rest.

    The jaxpr takes the unknown values, and gives the results that are unknown or that are to be
    instantiated; the partial values of all results say which these are.
    """
    unknown = JaxprTrace()
    trace = PartialEvalTrace(context.trace, unknown)
    try:
        args = [unknown.new_arg(p[0]) if p[0] is not None else p[1] for p in pvals]
        with set_current_trace(trace):
            results = list(fun.call_wrapped(*args))
        asked = [instantiate] * len(results) if isinstance(instantiate, bool) else instantiate
        traced = [trace.is_unknown(x) or wanted for x, wanted in zip(results, asked, strict=True)]
        closed = unknown.to_jaxpr([x for x, t in zip(results, traced, strict=True) if t])
    finally:
        trace.alive = False
        unknown.finish()
    out = [
        PartialVal.unknown(get_aval(x)) if t else PartialVal.known(x)
        for x, t in zip(results, traced, strict=True)
    ]
    return closed.jaxpr, out, list(closed.consts)
