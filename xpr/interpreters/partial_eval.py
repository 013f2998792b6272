"""Partial evaluation: what is known is computed now, what depends on unknown values is recorded.

A program is run once. Equations on known values are bound under the parent trace; an equation with
an unknown operand is recorded as it stands in a second jaxpr, whose constants are the known values
that it needs, the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, Var, dce_jaxpr, eval_closed
from xpr.core.jaxpr_trace import JaxprTrace, JaxprTracer
from xpr.core.primitive import Primitive
from xpr.core.trace import Trace, Tracer, set_current_trace
from xpr.interpreters.caching import weak_jaxpr_cache


class PartialEvalTrace(Trace):
    """Binds what is known under `parent` and records the rest in `unknown`."""

    def __init__(self, parent: Trace, unknown: JaxprTrace) -> None:
        self.parent = parent
        self.unknown = unknown
        self.alive = True

    def runs_eagerly(self) -> bool:
        return self.parent.runs_eagerly()

    def is_unknown(self, x: Any) -> bool:
        return isinstance(x, JaxprTracer) and x._trace is self.unknown

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        unknown = self.unknown
        for a in args:
            if isinstance(a, JaxprTracer) and a._trace is unknown:
                break
        else:
            with set_current_trace(self.parent):
                return primitive.bind(*args, **params)
        if primitive.partial_eval is not None:
            return primitive.partial_eval(self, args, params)
        return unknown.process_primitive(primitive, args, params)

    def state_of(self, x: Any) -> Any:
        """The state of a value of a mutable high type."""
        return (self.unknown if self.is_unknown(x) else self.parent).state_of(x)

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, args: Sequence[Any], params: dict[str, Any]
    ) -> Sequence[Any]:
        if any(self.is_unknown(a) for a in args):
            # What is recorded here is linear and will only be transposed, so the function's own
            # derivative has done its work.
            return fun(*args)
        with set_current_trace(self.parent):
            return self.parent.process_custom_jvp_call(primitive, fun, jvp, args, params)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Sequence[Any], params: Any
    ) -> Sequence[Any]:
        if any(self.is_unknown(a) for a in args):
            return fun(*args)
        with set_current_trace(self.parent):
            return self.parent.process_custom_vjp_call(primitive, fun, fwd, bwd, args, params)


class Split:
    """A program cut in two by `partial_eval_jaxpr`.

    `known` maps the known inputs to the known results and the residuals; `unknown` maps the
    residuals and the unknown inputs to the other results. `forwarded` says of each residual which
    known input it is, if it is one (then `known` does not return it), else None.
    """

    __slots__ = ("forwarded", "known", "out_unknown", "unknown")

    def __init__(
        self,
        known: ClosedJaxpr,
        unknown: ClosedJaxpr,
        out_unknown: tuple[bool, ...],
        forwarded: tuple[int | None, ...],
    ) -> None:
        self.known = known
        self.unknown = unknown
        self.out_unknown = out_unknown
        self.forwarded = forwarded

    def residuals(self, known_args: Sequence[Any], returned: Sequence[Any]) -> list[Any]:
        """All residuals in order, from the known inputs and what else `known` returned."""
        rest = iter(returned)
        return [next(rest) if i is None else known_args[i] for i in self.forwarded]


@weak_jaxpr_cache
def partial_eval_jaxpr(
    closed: ClosedJaxpr, in_unknown: tuple[bool, ...], forced: tuple[bool, ...] | None = None
) -> Split:
    """Cuts a program into a part that needs known inputs only, and the rest.

    Results that `forced` names belong to the rest in any case.
    """
    known_trace = JaxprTrace(closed.jaxpr.debug_info)
    unknown_trace = JaxprTrace(closed.jaxpr.debug_info)
    try:
        args = [
            (unknown_trace if u else known_trace).new_arg(a)
            for a, u in zip(closed.in_avals, in_unknown, strict=True)
        ]
        with set_current_trace(PartialEvalTrace(known_trace, unknown_trace)):
            out = eval_closed(closed, args)
        out_unknown = tuple(
            want or (isinstance(x, JaxprTracer) and x._trace is unknown_trace)
            for x, want in zip(out, forced or (False,) * len(out), strict=True)
        )
        rest = unknown_trace.to_jaxpr([x for x, u in zip(out, out_unknown, strict=True) if u])
        results = [x for x, u in zip(out, out_unknown, strict=True) if not u]
        return split_programs(known_trace, results, rest, out_unknown)
    finally:
        known_trace.finish()
        unknown_trace.finish()


def split_programs(
    known_trace: JaxprTrace,
    results: Sequence[Any],
    rest: ClosedJaxpr,
    out_unknown: tuple[bool, ...],
) -> Split:
    """The two parts; `rest` was recorded beside `known_trace` and has its values as constants."""
    smaller, _ = dce_jaxpr(rest.jaxpr, instantiate=True)
    used = variables_read(smaller)
    pairs = [(v, c) for v, c in zip(smaller.constvars, rest.consts, strict=True) if v in used]
    residuals = [(v, c) for v, c in pairs if isinstance(c, Tracer)]
    constants = [(v, c) for v, c in pairs if not isinstance(c, Tracer)]
    position = {v: i for i, v in enumerate(known_trace.invars)}
    forwarded: list[int | None] = []
    returned: list[Any] = []
    for _, c in residuals:
        index = None
        if isinstance(c, JaxprTracer) and c._trace is known_trace:
            index = position.get(c._var)
        forwarded.append(index)
        if index is None:
            returned.append(c)
    known = known_trace.to_jaxpr([*results, *returned])
    small_known, _ = dce_jaxpr(known.jaxpr, instantiate=True)
    unknown = smaller.replace(
        constvars=[v for v, _ in constants],
        invars=[*(v for v, _ in residuals), *smaller.invars],
    )
    return Split(
        ClosedJaxpr(small_known, known.consts),
        ClosedJaxpr(unknown, [c for _, c in constants]),
        out_unknown,
        tuple(forwarded),
    )


def variables_read(jaxpr: Jaxpr) -> set[Var]:
    """The variables that equations or results of `jaxpr` read."""
    read = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for eqn in jaxpr.eqns:
        read.update(v for v in eqn.invars if isinstance(v, Var))
    return read


def without_dead_code(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without equations and constants that nothing needs; its inputs stay."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, instantiate=True)
    used = variables_read(jaxpr)
    pairs = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts, strict=True) if v in used]
    return ClosedJaxpr(jaxpr.replace(constvars=[v for v, _ in pairs]), [c for _, c in pairs])
