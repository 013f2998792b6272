"""Forward mode: each value carries its tangent along.

The method is that of dual numbers: R. E. Wengert, "A simple automatic derivative evaluation
program", Communications of the ACM 7 (1964). A primitive's rule maps primals and tangents to the
primal result and its tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.config import state
from xpr.core.jaxpr import ClosedJaxpr, as_function
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.manual import varying_alike, varying_cast
from xpr.core.primitive import Absent, Primitive, get_primitive
from xpr.core.references import Ref, read, write
from xpr.core.trace import Trace, Tracer, check_leaks, context, get_aval, set_current_trace
from xpr.interpreters.caching import weak_jaxpr_cache
from xpr.interpreters.zeros import FLOAT0, Zero, instantiate, tangent_aval, zero_of_anything


class DualTracer(Tracer):
    """A value with its tangent."""

    __slots__ = ("_primal", "_tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self._trace = trace
        self.aval = get_aval(primal)
        self._primal = primal
        self._tangent = tangent

    @property
    def primal(self) -> Any:
        """The value."""
        return self._primal

    @property
    def tangent(self) -> Any:
        """Its tangent."""
        return self._tangent

    def _concrete(self) -> Any:
        """The value itself, whose Python value may be known."""
        return self._primal


class JVPTracer(DualTracer):
    """A value with its tangent, both known to the trace around."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"JVPTracer(primal={self._primal}, tangent={self._tangent})"


class JVPTrace(Trace):
    """Applies the JVP rule of each primitive.

    Values without tangents are left to `parent`, the trace that was current before. Rules run under
    `rules`, which here is the same; linearization tells values and tangents apart there.
    """

    tracer: type[DualTracer] = JVPTracer

    def __init__(self, parent: Trace, rules: Trace | None = None) -> None:
        self.parent = parent
        self.rules = parent if rules is None else rules
        self.alive = True

    def runs_eagerly(self) -> bool:
        return self.parent.runs_eagerly()

    def pair(self, x: Any) -> tuple[Any, Any]:
        if isinstance(x, DualTracer) and x._trace is self:
            return x._primal, x._tangent
        return x, zero_of_anything(x)

    def wrap(self, primal: Any, tangent: Any) -> Any:
        # A tangent of type float0, which a rule of the user's may give, is zero, too: what takes
        # integers, such as a primitive without a derivative, is not asked for one.
        if type(tangent) is Zero or getattr(tangent, "dtype", None) == FLOAT0:
            return primal
        return self.dual(primal, tangent)

    def dual(self, primal: Any, tangent: Any) -> DualTracer:
        """A value of this trace with its tangent."""
        if Trace.any_high and get_aval(primal).is_high:
            from xpr.core.high import made_high  # noqa: PLC0415  only for high types

            return made_high(self.tracer, self, primal, tangent)
        return self.tracer(self, primal, tangent)

    def state_of(self, x: Any) -> Any:
        """The state of a value of a mutable high type: that of the primal value."""
        own = isinstance(x, DualTracer) and x._trace is self
        return self.parent.state_of(x._primal if own else x)

    def has_tangent(self, args: Sequence[Any]) -> bool:
        """Whether one of the operands carries a tangent of this trace."""
        return any(isinstance(x, DualTracer) and x._trace is self for x in args)

    def apply_rule(
        self,
        primitive: Primitive,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[Any, Any]:
        """The primitive's result and its tangent."""
        return jvp_rule(primitive)(primals, tangents, **params)

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if not self.has_tangent(args):
            with set_current_trace(self.parent):
                return primitive.bind(*args, **params)
        if context.manual_axes:
            # Here, and not only where equations are recorded: what makes an operand vary has a
            # derivative, too.
            args = varying_alike(primitive, args, self._vary)
        primals, tangents = split_pairs(self.pair(x) for x in args)
        with set_current_trace(self.rules):
            out, tangent = self.apply_rule(primitive, primals, tangents, params)
        if primitive.multiple_results:
            return [self.wrap(p, t) for p, t in zip(out, tangent, strict=True)]
        return self.wrap(out, tangent)

    def _vary(self, x: Any, axes: tuple[str, ...]) -> Any:
        cast = get_primitive(varying_cast(get_aval(x), axes))
        return self.process_primitive(cast, [x], {"axes": axes})

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], params: dict[str, Any]
    ) -> Sequence[Any]:
        if not self.has_tangent(args):
            with set_current_trace(self.parent):
                return self.parent.process_custom_jvp_call(primitive, fun, jvp, args, params)
        primals, tangents = split_pairs(self.pair(x) for x in args)
        with set_current_trace(self.rules):
            if not params["symbolic_zeros"]:
                tangents = [instantiate(t) for t in tangents]
            out, out_tangents = jvp(primals, tangents)
        return [self.wrap(p, t) for p, t in zip(out, out_tangents, strict=True)]

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], params: Any
    ) -> Sequence[Any]:
        if not self.has_tangent(args):
            with set_current_trace(self.parent):
                return self.parent.process_custom_vjp_call(primitive, fun, fwd, bwd, args, params)
        primals, tangents = split_pairs(self.pair(x) for x in args)
        with set_current_trace(self.rules):
            out, out_tangents = primitive.linear_call(fwd, bwd, primals, tangents, params)
        return [self.wrap(p, t) for p, t in zip(out, out_tangents, strict=True)]


def split_pairs(pairs: Any) -> tuple[list[Any], list[Any]]:
    """Two lists from an iterable of pairs."""
    first: list[Any] = []
    second: list[Any] = []
    for a, b in pairs:
        first.append(a)
        second.append(b)
    return first, second


def jvp_rule(primitive: Primitive) -> Callable[..., Any]:
    """The JVP rule of `primitive`; NotImplementedError, with the reason, when it has none."""
    rule = primitive.jvp
    if isinstance(rule, Absent):
        raise NotImplementedError(
            f"Differentiation rule for '{primitive.name}' not implemented: {rule.reason}"
        )
    return rule


def _write_references(
    trace: JVPTrace, args: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> None:
    """Writes what a function wrote to its references to those that these were made of."""
    for x, p, t in zip(args, primals, tangents, strict=True):
        if isinstance(x, Ref) and x.written:
            value, tangent = trace.pair(x.value)
            write(p, value)
            write(t, instantiate(tangent))


def jvp_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Results and tangents of a function of flat arguments; tangents may be `Zero`."""
    trace = JVPTrace(context.trace)
    args = [
        Ref(p.aval, trace, trace.wrap(read(p), read(t) if isinstance(t, Ref) else t))
        if isinstance(p, Ref)
        else trace.wrap(p, t)
        for p, t in zip(primals, tangents, strict=True)
    ]
    try:
        with set_current_trace(trace):
            out = fun(*args)
        pairs = split_pairs(trace.pair(x) for x in out)
        _write_references(trace, args, primals, tangents)
    finally:
        trace.alive = False
    if state.check_tracer_leaks:
        del args, out
        check_leaks(trace)
    return pairs


@weak_jaxpr_cache
def jvp_jaxpr(
    closed: ClosedJaxpr, nonzeros: tuple[bool, ...], instantiated: bool | tuple[bool, ...]
) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The program `(*primals, *nonzero tangents) -> (*results, *nonzero tangents)`.

    `nonzeros` tells which inputs have tangents. `instantiated` asks for tangents of results even
    where they are zero. Returns the program and which results have tangents.
    """
    in_avals = closed.in_avals
    tangent_avals = [tangent_aval(a) for a, nz in zip(in_avals, nonzeros, strict=True) if nz]
    wanted = _flags(instantiated, len(closed.out_avals))
    out_nonzeros: list[bool] = []

    def flat(*args: Any) -> Sequence[Any]:
        primals, given = args[: len(in_avals)], iter(args[len(in_avals) :])
        tangents = [
            next(given) if nz else Zero(tangent_aval(a))
            for a, nz in zip(in_avals, nonzeros, strict=True)
        ]
        out, out_tangents = jvp_flat(as_function(closed), primals, tangents)
        out_tangents = [
            instantiate(t) if want else t for t, want in zip(out_tangents, wanted, strict=True)
        ]
        out_nonzeros.extend(type(t) is not Zero for t in out_tangents)
        return [*out, *(t for t in out_tangents if type(t) is not Zero)]

    program = trace_to_jaxpr(flat, [*in_avals, *tangent_avals], closed.jaxpr.debug_info)
    return program, tuple(out_nonzeros)


def _flags(value: bool | Sequence[bool], count: int) -> Sequence[bool]:
    return [value] * count if isinstance(value, bool) else value
