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

from xpr.core.jaxpr import ClosedJaxpr, eval_closed
from xpr.core.primitive import Primitive
from xpr.core.trace import JaxprTrace, Trace, Tracer, context, get_aval, set_current_trace
from xpr.interpreters.caching import weak_jaxpr_cache
from xpr.interpreters.jvp import jvp_rule, split_pairs
from xpr.interpreters.partial_eval import (
    PartialEvalTrace,
    Split,
    split_programs,
    without_dead_code,
)
from xpr.interpreters.zeros import Zero, instantiate, tangent_aval, zero_of_anything


class LinearizeTracer(Tracer):
    """A value with its tangent, which is a variable of the linear program."""

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = get_aval(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        """The value itself, whose Python value may be known."""
        return self.primal

    def __repr__(self) -> str:
        return (
            f"GradTracer(primal={self.primal}, typeof(tangent)="
            f"{get_aval(self.tangent).str_short()})"
        )


class LinearizeTrace(Trace):
    """Computes primal values under the parent trace and records tangents."""

    def __init__(self, parent: Trace, tangents: JaxprTrace) -> None:
        self.parent = parent
        self.tangents = tangents
        self.rules = PartialEvalTrace(parent, tangents)
        self.alive = True

    def pair(self, x: Any) -> tuple[Any, Any]:
        if type(x) is LinearizeTracer and x._trace is self:
            return x.primal, x.tangent
        return x, zero_of_anything(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        return primal if type(tangent) is Zero else LinearizeTracer(self, primal, tangent)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        for x in args:
            if type(x) is LinearizeTracer and x._trace is self:
                break
        else:
            with set_current_trace(self.parent):
                return primitive.bind(*args, **params)
        primals, tangents = split_pairs(self.pair(x) for x in args)
        with set_current_trace(self.rules):
            if primitive.linearize is not None:
                out, tangent = primitive.linearize(self, primals, tangents, params)
            else:
                out, tangent = jvp_rule(primitive)(primals, tangents, **params)
        if primitive.multiple_results:
            return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], params: dict[str, Any]
    ) -> Sequence[Any]:
        primals, tangents = split_pairs(self.pair(x) for x in args)
        if all(type(t) is Zero for t in tangents):
            with set_current_trace(self.parent):
                return self.parent.process_custom_jvp_call(primitive, fun, jvp, primals, params)
        with set_current_trace(self.rules):
            if not params["symbolic_zeros"]:
                tangents = [instantiate(t) for t in tangents]
            out, out_tangents = jvp(primals, tangents)
        return [self.wrap(p, t) for p, t in zip(out, out_tangents, strict=True)]

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], params: Any
    ) -> Sequence[Any]:
        primals, tangents = split_pairs(self.pair(x) for x in args)
        if all(type(t) is Zero for t in tangents):
            with set_current_trace(self.parent):
                return self.parent.process_custom_vjp_call(
                    primitive, fun, fwd, bwd, primals, params
                )
        with set_current_trace(self.rules):
            out, out_tangents = primitive.linear_call(fwd, bwd, primals, tangents, params)
        return [self.wrap(p, t) for p, t in zip(out, out_tangents, strict=True)]


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
    trace = LinearizeTrace(parent, tangents)
    try:
        args = []
        for p, wanted in zip(primals, differentiate, strict=True):
            args.append(
                LinearizeTracer(trace, p, tangents.new_arg(tangent_aval(get_aval(p))))
                if wanted
                else p
            )
        with set_current_trace(trace):
            out = fun(*args)
        values, out_tangents = split_pairs(trace.pair(x) for x in out)
        nonzero = [type(t) is not Zero for t in out_tangents]
        linear = tangents.to_jaxpr([t for t in out_tangents if type(t) is not Zero])
    finally:
        trace.alive = False
        tangents.finish()
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
    primal_trace = JaxprTrace(closed.jaxpr.debug_info)
    tangents = JaxprTrace(closed.jaxpr.debug_info)
    trace = LinearizeTrace(primal_trace, tangents)
    try:
        primals = [primal_trace.new_arg(a) for a in closed.in_avals]
        args = [
            LinearizeTracer(trace, p, tangents.new_arg(tangent_aval(p.aval))) if nz else p
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
