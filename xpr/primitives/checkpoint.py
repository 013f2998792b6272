"""The call primitive of `checkpoint`: intermediate values are computed again, not kept.

Linearizing such a call keeps its operands (and what its policy names) instead of residuals; the
derivative's equation holds the program that computes the residuals from them. This is the
recomputation scheme of A. Griewank and A. Walther, "Algorithm 799: Revolve", ACM TOMS 26 (2000),
with one checkpoint: the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.effects import refuse_exact
from xpr.core.events import log_step
from xpr.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Var,
    dce_jaxpr,
    eval_closed,
)
from xpr.core.jaxpr_trace import JaxprTrace, hoist_consts
from xpr.core.manual import of_programs
from xpr.core.primitive import define
from xpr.core.trace import get_aval, set_current_trace
from xpr.interpreters.batching import BatchAxis, Dim, batch_jaxpr
from xpr.interpreters.linearize import LinearizeTrace, linearize_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace, Split
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
from xpr.primitives._kept_values import Policy, divided

Params = dict[str, Any]


def _abstract(*avals: ShapedArray, jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    if len(avals) != len(jaxpr.in_avals):
        raise TypeError(f"checkpoint takes {len(jaxpr.in_avals)} operands, got {len(avals)}")
    return list(jaxpr.out_avals)


def _evaluate(*args: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_closed(jaxpr, args)


def _caller(params: Params, **changes: Any) -> Call:
    return lambda closed, operands: list(
        remat_p.bind(*operands, **params | {"jaxpr": closed} | changes)
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    return call_jvp(_caller(params), params["jaxpr"], primals, tangents)


# ---- what is kept and what is computed again


class _Recomputation:
    """The two programs of a linearized checkpoint.

    `forward` maps the operands to the results and the kept values; `backward` maps operands, kept
    values and tangents to the nonzero tangents of the results.
    """

    def __init__(self, split: Split, count: int, policy: Policy | None) -> None:
        known, unknown = split.known.jaxpr, split.unknown.jaxpr
        first, again, kept = divided(known, policy)
        outvars = [*known.outvars[:count], *kept]
        self.forward = ClosedJaxpr(
            dce_jaxpr(known.replace(outvars=outvars, eqns=first), instantiate=True)[0],
            split.known.consts,
        )
        renamed = _residual_atoms(split, known, count)
        n = len(split.forwarded)
        rename = dict(zip(unknown.invars[:n], renamed, strict=True))

        def new(atom: Atom) -> Atom:
            return rename.get(atom, atom) if isinstance(atom, Var) else atom

        linear = [e.replace(invars=[new(v) for v in e.invars]) for e in unknown.eqns]
        whole = Jaxpr(
            [*known.constvars, *unknown.constvars],
            [*known.invars, *kept, *unknown.invars[n:]],
            [new(v) for v in unknown.outvars],
            [*again, *linear],
            debug_info=known.debug_info,
        )
        smaller, self.used = dce_jaxpr(whole)
        consts = dict(
            zip(whole.constvars, [*split.known.consts, *split.unknown.consts], strict=True)
        )
        self.backward = ClosedJaxpr(smaller, [consts[v] for v in smaller.constvars])
        # With the operations that made them; of those that the derivative depends on.
        places = {v: eqn for eqn in first for v in eqn.outvars}
        reads = zip(kept, self.used[len(known.invars) :], strict=False)
        self.kept = [(v, places[v]) for v, used in reads if used]


def _residual_atoms(split: Split, known: Jaxpr, count: int) -> list[Atom]:
    """What each residual is in the known program."""
    returned = iter(known.outvars[count:])
    return [next(returned) if i is None else known.invars[i] for i in split.forwarded]


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: Params
) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    refuse_exact(params["jaxpr"].effects, "differentiation of checkpoint, which computes again")
    policy = params["policy"]
    linearized = linearize_jaxpr(params["jaxpr"], nonzero)
    out_nonzero = linearized.nonzeros_out
    programs = _Recomputation(linearized.split, len(out_nonzero), policy)
    forward, backward = programs.forward, programs.backward
    with set_current_trace(trace.parent):
        found = eval_closed(forward, primals)
    count = len(out_nonzero)
    out, kept = found[:count], found[count:]
    given = [t for t in tangents if type(t) is not Zero]
    operands = [x for x, u in zip([*primals, *kept, *given], programs.used, strict=True) if u]
    _log_residuals(programs, primals)
    return out, with_tangents(out, out_nonzero, _record(trace.tangents, backward, operands, params))


def _log_residuals(programs: _Recomputation, primals: Sequence[Any]) -> None:
    inputs = [get_aval(x).str_short() for x, u in zip(primals, programs.used, strict=False) if u]
    values = [
        f"{v.aval.str_short()} of {eqn.primitive.name} at {eqn.source_info}"
        for v, eqn in programs.kept
    ]
    parts = []
    if inputs:
        parts.append("inputs with shapes:\n  " + "\n  ".join(inputs))
    if values:
        parts.append("these intermediates:\n  " + "\n  ".join(values))
    if parts:
        log_step("remat-decorated function saving %s", "\nand saving ".join(parts))


def _record(
    trace: JaxprTrace, closed: ClosedJaxpr, operands: Sequence[Any], params: Params
) -> list[Any]:
    closed, outer = hoist_consts(closed, tracers_only=True)
    params = params | {"jaxpr": closed, "differentiated": True}
    return list(trace.process_primitive(remat_p, [*outer, *operands], params))


def _partial_eval(trace: PartialEvalTrace, args: Sequence[Any], params: Params) -> list[Any]:
    return call_partial_eval(
        eval_closed,
        lambda unknown, closed, operands: _record(unknown, closed, operands, params),
        trace,
        params["jaxpr"],
        args,
    )


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    return call_transpose(_caller(params, differentiated=True), params["jaxpr"], cts, args)


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], tuple[Dim, ...]]:
    batched = batch_jaxpr(params["jaxpr"], axis, tuple(dims))
    return list(remat_p.bind(*args, **params | {"jaxpr": batched.closed})), batched.out_dims


def _dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops the results nobody reads, and the operands only they needed."""
    smaller, used_inputs, outvars = call_dce(used_outputs, eqn)
    if not outvars and not eqn.effects:
        return None
    invars = [a for a, used in zip(eqn.invars, used_inputs, strict=True) if used]
    params = eqn.params | {"jaxpr": ClosedJaxpr(smaller, eqn.params["jaxpr"].consts)}
    return eqn.replace(invars=invars, outvars=outvars, params=params)


remat_p = define(
    "remat2",
    family="checkpoint",
    doc="Calls a program whose intermediate values reverse mode computes again.",
    calls="jaxpr",
    abstract=_abstract,
    reference=_evaluate,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    multiple_results=True,
    eager="inline",
    dce=_dce,
    vma=of_programs,
    kind=ProgramPrimitive,
)
