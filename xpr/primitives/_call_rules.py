"""What primitives that call one program share: `jit` and `checkpoint`.

`call(closed, operands)` binds the primitive with another program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var, dce_jaxpr
from xpr.core.jaxpr_trace import JaxprTrace, hoist_consts
from xpr.core.trace import set_current_trace
from xpr.interpreters.jvp import jvp_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from xpr.interpreters.transpose import is_linear, transpose_jaxpr
from xpr.interpreters.zeros import Zero, cotangent_aval, zero_tangent

Call = Callable[[ClosedJaxpr, Sequence[Any]], Sequence[Any]]


def with_tangents(out: Sequence[Any], marks: Sequence[bool], moved: Sequence[Any]) -> list[Any]:
    """A tangent for each result: the next of `moved` where it is marked, else zero."""
    given = iter(moved)
    return [next(given) if m else zero_tangent(x) for x, m in zip(out, marks, strict=True)]


def call_jvp(
    call: Call, closed: ClosedJaxpr, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Results and tangents of a call, by a call of the differentiated program."""
    nonzero = tuple(type(t) is not Zero for t in tangents)
    program, marks = jvp_jaxpr(closed, nonzero, False)
    # Rules of functions in the program may close over values of the traces around.
    program, outer = hoist_consts(program, tracers_only=True)
    found = call(program, [*outer, *primals, *(t for t in tangents if type(t) is not Zero)])
    out = list(found[: len(marks)])
    return out, with_tangents(out, marks, found[len(marks) :])


def call_transpose(
    call: Call, closed: ClosedJaxpr, cts: Sequence[Any], args: Sequence[Any]
) -> list[Any]:
    """Cotangents of a call's linear operands, by a call of the transposed program."""
    linear = tuple(is_linear(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    program, marks = transpose_jaxpr(closed, linear, nonzero)
    program, outer = hoist_consts(program, tracers_only=True)
    operands = [
        *outer,
        *(x for x, lin in zip(args, linear, strict=True) if not lin),
        *(ct for ct, nz in zip(cts, nonzero, strict=True) if nz),
    ]
    found, kinds = iter(call(program, operands)), iter(marks)
    return [
        (next(found) if next(kinds) else Zero(cotangent_aval(x.aval))) if lin else None
        for x, lin in zip(args, linear, strict=True)
    ]


def call_partial_eval(
    call: Call,
    record: Callable[[JaxprTrace, ClosedJaxpr, Sequence[Any]], Sequence[Any]],
    trace: PartialEvalTrace,
    closed: ClosedJaxpr,
    args: Sequence[Any],
) -> list[Any]:
    """A call cut in two: what is known is called now, the rest recorded with its residuals."""
    unknown = tuple(trace.is_unknown(x) for x in args)
    split = partial_eval_jaxpr(closed, unknown)
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
    with set_current_trace(trace.parent):
        found = call(split.known, known_args)
    count = len(split.out_unknown) - sum(split.out_unknown)
    results, residuals = iter(found[:count]), split.residuals(known_args, found[count:])
    rest = [x for x, u in zip(args, unknown, strict=True) if u]
    recorded = iter(record(trace.unknown, split.unknown, [*residuals, *rest]))
    return [next(recorded) if u else next(results) for u in split.out_unknown]


def call_dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[Jaxpr, list[bool], list[Var]]:
    """A call's program without the results nobody reads: it, the operands it uses, its results."""
    smaller, used_inputs = dce_jaxpr(eqn.params["jaxpr"].jaxpr, used_outputs)
    outvars = [v for v, used in zip(eqn.outvars, used_outputs, strict=True) if used]
    return smaller, used_inputs, outvars
