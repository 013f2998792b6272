"""The call primitive of `jit`: a program inside a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, DropVar, JaxprEqn, Var, dce_jaxpr, eval_jaxpr
from xpr.core.primitive import define
from xpr.core.trace import JaxprTrace, set_current_trace
from xpr.interpreters.batching import BatchAxis, Dim, batch_jaxpr
from xpr.interpreters.jvp import jvp_jaxpr
from xpr.interpreters.linearize import LinearizeTrace, linearize_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from xpr.interpreters.transpose import is_linear, transpose_jaxpr
from xpr.interpreters.zeros import Zero, tangent_aval, zero_tangent


def _jit_abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, name: str, **_: Any
) -> list[ShapedArray]:
    expected = jaxpr.in_avals
    if len(avals) != len(expected):
        raise TypeError(f"jit of {name} takes {len(expected)} operands, got {len(avals)}")
    for i, (found, want) in enumerate(zip(avals, expected, strict=True)):
        if found.shape != want.shape or found.dtype != want.dtype:
            raise TypeError(
                f"jit of {name}: operand {i} should be {want.str_short()}, got {found.str_short()}"
            )
    return list(jaxpr.out_avals)


def _jit_reference(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    return eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)


def _jit_dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops the results nobody reads, and the operands only they needed."""
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    smaller, used_inputs = dce_jaxpr(closed.jaxpr, used_outputs)
    outvars: list[Var] = [v for v, used in zip(eqn.outvars, used_outputs, strict=True) if used]
    invars = [a for a, used in zip(eqn.invars, used_inputs, strict=True) if used]
    donated = tuple(
        d for d, used in zip(eqn.params["donated_invars"], used_inputs, strict=True) if used
    )
    if not smaller.eqns and not eqn.effects and all(isinstance(v, DropVar) for v in outvars):
        return None
    params = eqn.params | {"jaxpr": ClosedJaxpr(smaller, closed.consts), "donated_invars": donated}
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
        return eval_jaxpr(closed.jaxpr, closed.consts, *operands)
    donated = (False,) * len(operands)
    return list(jit_p.bind(*operands, **params | {"jaxpr": closed, "donated_invars": donated}))


def _record(
    trace: JaxprTrace, closed: ClosedJaxpr, operands: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """Records a call of `closed` in the program that `trace` makes."""
    donated = (False,) * len(operands)
    params = params | {"jaxpr": closed, "donated_invars": donated}
    return list(trace.process_primitive(jit_p, operands, params))


def _jit_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    program, out_nonzero = jvp_jaxpr(params["jaxpr"], nonzero, False)
    given = [t for t in tangents if type(t) is not Zero]
    found = _bind(program, [*primals, *given], params)
    count = len(out_nonzero)
    out, rest = found[:count], iter(found[count:])
    return out, [
        next(rest) if nz else zero_tangent(x) for x, nz in zip(out, out_nonzero, strict=True)
    ]


def _jit_linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    linearized = linearize_jaxpr(params["jaxpr"], nonzero)
    split, out_nonzero = linearized.split, linearized.nonzeros_out
    with set_current_trace(trace.parent):
        found = _bind(split.known, primals, params)
    count = len(out_nonzero)
    out, residuals = found[:count], split.residuals(primals, found[count:])
    given = [t for t in tangents if type(t) is not Zero]
    moved = iter(_record(trace.tangents, split.unknown, [*residuals, *given], params))
    return out, [
        next(moved) if nz else zero_tangent(x) for x, nz in zip(out, out_nonzero, strict=True)
    ]


def _jit_partial_eval(
    trace: PartialEvalTrace, args: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    unknown = tuple(trace.is_unknown(x) for x in args)
    split = partial_eval_jaxpr(params["jaxpr"], unknown)
    known_args = [x for x, u in zip(args, unknown, strict=True) if not u]
    with set_current_trace(trace.parent):
        found = _bind(split.known, known_args, params)
    count = len(split.out_unknown) - sum(split.out_unknown)
    results, residuals = iter(found[:count]), split.residuals(known_args, found[count:])
    rest = [x for x, u in zip(args, unknown, strict=True) if u]
    recorded = iter(_record(trace.unknown, split.unknown, [*residuals, *rest], params))
    return [next(recorded) if u else next(results) for u in split.out_unknown]


def _jit_transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    linear = tuple(is_linear(x) for x in args)
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    program, out_nonzero = transpose_jaxpr(params["jaxpr"], linear, nonzero)
    operands = [
        *(x for x, lin in zip(args, linear, strict=True) if not lin),
        *(ct for ct, nz in zip(cts, nonzero, strict=True) if nz),
    ]
    found, kinds = iter(_bind(program, operands, params)), iter(out_nonzero)
    return [
        (next(found) if next(kinds) else Zero(tangent_aval(x.aval))) if lin else None
        for x, lin in zip(args, linear, strict=True)
    ]


def _jit_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], tuple[Dim, ...]]:
    batched = batch_jaxpr(params["jaxpr"], axis, tuple(dims))
    return _bind(batched.closed, args, params), batched.out_dims


jit_p = define(
    "jit",
    family="call",
    doc="Calls a program that was traced by jit.",
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
)
