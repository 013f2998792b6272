"""Linearization: the value of a function, and its derivative there as a linear program.

The function runs once, in forward mode, under partial evaluation: primal values are known and
computed by the parent trace, tangents are unknown and recorded. What is recorded is the linear
program that maps tangents of inputs to tangents of results; reverse mode transposes it. The method
is that of A. Radul, A. Paszke, R. Frostig, M. Johnson and D. Maclaurin, "You only linearize once:
tangents transpose to gradients", POPL 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.config import state
from xpr.core.context import current_stack, named
from xpr.core.jaxpr import ClosedJaxpr, eval_closed
from xpr.core.jaxpr_trace import JaxprTrace
from xpr.core.primitive import Primitive
from xpr.core.trace import Trace, check_leaks, context, get_aval, set_current_trace
from xpr.interpreters.caching import weak_jaxpr_cache
from xpr.interpreters.jvp import DualTracer, JVPTrace, split_pairs
from xpr.interpreters.partial_eval import (
    PartialEvalTrace,
    Split,
    split_programs,
    without_dead_code,
)
from xpr.interpreters.zeros import Zero, instantiate, tangent_aval


class LinearizeTracer(DualTracer):
    """A value with its tangent, which is a variable of the linear program."""

    __slots__ = ()

    def __repr__(self) -> str:
        return (
            f"GradTracer(primal={self._primal}, typeof(tangent)="
            f"{get_aval(self._tangent).str_short()})"
        )


class LinearizeTrace(JVPTrace):
    """Computes primal values under the parent trace and records tangents."""

    tracer = LinearizeTracer

    def __init__(self, parent: Trace, tangents: JaxprTrace) -> None:
        super().__init__(parent, PartialEvalTrace(parent, tangents))
        self.tangents = tangents

    def apply_rule(
        self,
        primitive: Primitive,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[Any, Any]:
        if primitive.linearize is not None:
            return primitive.linearize(self, primals, tangents, params)
        return super().apply_rule(primitive, primals, tangents, params)


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    differentiate: Sequence[bool] | None = None,
) -> tuple[list[Any], ClosedJaxpr, list[bool]]:
    """Values of a function of flat arguments at `primals` and its derivative there.

    Returns the results; the linear program from the tangents of the inputs that `differentiate`
    names (all whose tangents are not of type float0, by default) to the nonzero tangents; and
    which results have one.
    """
    parent = context.trace
    if differentiate is None:
        differentiate = [True] * len(primals)
    tangents = JaxprTrace()
    tangents.outer_names = len(current_stack())
    tangents.open_consts = True
    trace = LinearizeTrace(parent, tangents)
    try:
        args = []
        for p, wanted in zip(primals, differentiate, strict=True):
            args.append(trace.dual(p, tangents.new_arg(tangent_aval(get_aval(p)))) if wanted else p)
        with set_current_trace(trace), named("jvp("):
            out = fun(*args)
        values, out_tangents = split_pairs(trace.pair(x) for x in out)
        nonzero = [type(t) is not Zero for t in out_tangents]
        linear = tangents.to_jaxpr([t for t in out_tangents if type(t) is not Zero])
    finally:
        trace.alive = False
        tangents.finish()
    if state.check_tracer_leaks:
        del args, out
        check_leaks(trace)
    return values, without_dead_code(linear), nonzero


class LinearizedJaxpr:
    """A program and its derivative: see `linearize_jaxpr`."""

    __slots__ = ("nonzeros_out", "split")

    def __init__(self, split: Split, nonzeros_out: tuple[bool, ...]) -> None:
        self.split = split
        self.nonzeros_out = nonzeros_out


@weak_jaxpr_cache
def linearize_jaxpr(
    closed: ClosedJaxpr, nonzeros: tuple[bool, ...], forced: tuple[bool, ...] | None = None
) -> LinearizedJaxpr:
    """A program's results with residuals, and the linear program on residuals and tangents.

    `nonzeros` tells which inputs have tangents, `forced` which results get one even if it is zero.
    `split.known` maps all inputs to all results and
    the residuals; `split.unknown` maps the residuals and the tangents to the nonzero tangents.
    """
    closed = without_dead_code(closed)
    primal_trace = JaxprTrace(closed.jaxpr.debug_info)
    tangents = JaxprTrace(closed.jaxpr.debug_info)
    trace = LinearizeTrace(primal_trace, tangents)
    try:
        primals = [primal_trace.new_arg(a) for a in closed.in_avals]
        args = [
            trace.dual(p, tangents.new_arg(tangent_aval(get_aval(p)))) if nz else p
            for p, nz in zip(primals, nonzeros, strict=True)
        ]
        with set_current_trace(trace):
            out = eval_closed(closed, args)
        values, out_tangents = split_pairs(trace.pair(x) for x in out)
        if forced is not None:
            with set_current_trace(tangents):
                out_tangents = [
                    instantiate(t) if want else t
                    for t, want in zip(out_tangents, forced, strict=True)
                ]
        nonzeros_out = tuple(type(t) is not Zero for t in out_tangents)
        linear = tangents.to_jaxpr([t for t in out_tangents if type(t) is not Zero])
        split = split_programs(primal_trace, values, linear, nonzeros_out)
    finally:
        trace.alive = False
        primal_trace.finish()
        tangents.finish()
    return LinearizedJaxpr(split, nonzeros_out)
