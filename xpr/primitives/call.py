"""The call primitive of `jit`: a program inside a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray, same_type
from xpr.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, eval_closed
from xpr.core.jaxpr_trace import JaxprTrace, hoist_consts
from xpr.core.manual import of_programs
from xpr.core.primitive import define
from xpr.core.trace import set_current_trace
from xpr.interpreters.batching import BatchAxis, Dim, batch_jaxpr
from xpr.interpreters.linearize import LinearizeTrace, linearize_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace
from xpr.interpreters.references import ProgramPrimitive
from xpr.interpreters.zeros import Zero
from xpr.primitives._call_rules import (
    Call,
    call_dce,
    call_jvp,
    call_partial_eval,
    call_transpose,
    with_tangents,
)


def _jit_abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> list[ShapedArray]:
    expected = jaxpr.in_avals
    if len(avals) != len(expected):
        raise TypeError(f"jit of {name} takes {len(expected)} operands, got {len(avals)}")
    for i, (found, want) in enumerate(zip(avals, expected, strict=True)):
        if not same_type(found, want):
            raise TypeError(
                f"jit of {name}: operand {i} should be {want.str_short()}, got {found.str_short()}"
            )
    return list(jaxpr.out_avals)


def _jit_reference(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    return eval_closed(jaxpr, args)


def _jit_dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops the results nobody reads, and the operands only they needed."""
    smaller, used_inputs, outvars = call_dce(used_outputs, eqn)
    if not smaller.eqns and not eqn.effects and all(isinstance(v, DropVar) for v in outvars):
        return None
    invars = [a for a, used in zip(eqn.invars, used_inputs, strict=True) if used]
    donated = tuple(
        d for d, used in zip(eqn.params["donated_invars"], used_inputs, strict=True) if used
    )
    closed = ClosedJaxpr(smaller, eqn.params["jaxpr"].consts)
    params = eqn.params | {"jaxpr": closed, "donated_invars": donated}
    return eqn.replace(invars=invars, outvars=outvars, params=params)


def _jit_printed(params: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": params["name"], "jaxpr": params["jaxpr"]}
    if any(params["donated_invars"]):
        shown["donated_invars"] = params["donated_invars"]
    if params["inline"]:
        shown["inline"] = True
    if params["keep_unused"]:
        shown["keep_unused"] = True
    return shown


def _bind(closed: ClosedJaxpr, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Calls another program in place of the one that `params` belongs to."""
    if not closed.eqns:
        return eval_closed(closed, operands)
    closed, outer = hoist_consts(closed, tracers_only=True)
    operands = [*outer, *operands]
    donated = (False,) * len(operands)
    return list(jit_p.bind(*operands, **params | {"jaxpr": closed, "donated_invars": donated}))


def _record(
    trace: JaxprTrace, closed: ClosedJaxpr, operands: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """Records a call of `closed` in the program that `trace` makes."""
    closed, outer = hoist_consts(closed, tracers_only=True)
    operands = [*outer, *operands]
    donated = (False,) * len(operands)
    params = params | {"jaxpr": closed, "donated_invars": donated}
    return list(trace.process_primitive(jit_p, operands, params))


def _caller(params: dict[str, Any]) -> Call:
    return lambda closed, operands: _bind(closed, operands, params)


def _jit_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return call_jvp(_caller(params), params["jaxpr"], primals, tangents)


def _jit_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    linearized = linearize_jaxpr(params["jaxpr"], nonzero)
    split, marks = linearized.split, linearized.nonzeros_out
    with set_current_trace(trace.parent):
        found = _bind(split.known, primals, params)
    out, residuals = found[: len(marks)], split.residuals(primals, found[len(marks) :])
    given = [t for t in tangents if type(t) is not Zero]
    moved = _record(trace.tangents, split.unknown, [*residuals, *given], params)
    return out, with_tangents(out, marks, moved)


def _jit_partial_eval(
    trace: PartialEvalTrace, args: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    return call_partial_eval(
        _caller(params),
        lambda unknown, closed, operands: _record(unknown, closed, operands, params),
        trace,
        params["jaxpr"],
        args,
    )


def _jit_transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    return call_transpose(_caller(params), params["jaxpr"], cts, args)


def _jit_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], tuple[Dim, ...]]:
    batched = batch_jaxpr(params["jaxpr"], axis, tuple(dims))
    return _bind(batched.closed, args, params), batched.out_dims


jit_p = define(
    "jit",
    family="call",
    doc="Calls a program that was traced by jit.",
    calls="jaxpr",
    abstract=_jit_abstract,
    reference=_jit_reference,
    multiple_results=True,
    eager="compile",
    pp_params=_jit_printed,
    dce=_jit_dce,
    jvp=_jit_jvp,
    linearize=_jit_linearize,
    partial_eval=_jit_partial_eval,
    transpose=_jit_transpose,
    batch=_jit_batch,
    vma=of_programs,
    kind=ProgramPrimitive,
)
