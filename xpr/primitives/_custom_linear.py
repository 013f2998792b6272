"""Calls that are replaced when something is known: of linear functions with a transpose of their
own, and of forward rules whose residuals nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray, same_type
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, as_function, eval_closed
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.manual import of_programs
from xpr.core.primitive import NotLinear, define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import BatchAxis, Dim, at_front, batch_flat, batch_jaxpr
from xpr.interpreters.jvp import jvp_flat
from xpr.interpreters.transpose import is_linear
from xpr.interpreters.zeros import Zero, instantiate, zero_tangent
from xpr.primitives.call import jit_p

_FAMILY = "custom"

# From residuals and cotangents of the results to cotangents of the linear operands.
Transpose = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def _abstract(*_: ShapedArray, call_jaxpr: ClosedJaxpr, **__: Any) -> list[ShapedArray]:
    return list(call_jaxpr.out_avals)


def _reference(*args: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_closed(call_jaxpr, args)


# ---- linear functions with a transpose of their own


def linear_call(
    fun: Callable[..., Sequence[Any]],
    transpose: Transpose,
    residuals: Sequence[Any],
    operands: Sequence[Any],
) -> list[Any]:
    """Calls `fun(*residuals, *operands)`, which is linear in the operands."""
    avals = [get_aval(x) for x in (*residuals, *operands)]
    closed, outer = hoist_consts(trace_to_jaxpr(fun, avals))
    count = len(outer)
    return list(
        linear_call_p.bind(
            *outer,
            *residuals,
            *operands,
            call_jaxpr=closed,
            num_res=count + len(residuals),
            transpose=lambda res, cts: transpose(res[count:], cts),
        )
    )


def _linear_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    count = params["num_res"]
    if any(type(t) is not Zero for t in tangents[:count]):
        raise NotImplementedError(
            "linear_call has no derivative with respect to its residual arguments, nor to what its "
            "function closes over"
        )
    out = list(linear_call_p.bind(*primals, **params))
    if all(type(t) is Zero for t in tangents):
        return out, [zero_tangent(x) for x in out]
    given = [instantiate(t) for t in tangents[count:]]
    return out, list(linear_call_p.bind(*primals[:count], *given, **params))


def _linear_transpose(
    cts: Sequence[Any],
    *args: Any,
    call_jaxpr: ClosedJaxpr,
    num_res: int,
    transpose: Transpose,
) -> list[Any]:
    residuals, operands = args[:num_res], args[num_res:]
    if any(map(is_linear, residuals)):
        raise NotImplementedError("linear_call is not linear in its residual arguments")
    found = linear_call(
        lambda *xs: transpose(xs[:num_res], xs[num_res:]),
        lambda res, moved: eval_closed(call_jaxpr, [*res, *moved]),
        residuals,
        [instantiate(ct) for ct in cts],
    )
    for ct, wanted in zip(found, call_jaxpr.in_avals[num_res:], strict=True):
        if not same_type(get_aval(ct), wanted):
            raise ValueError(
                "linear_call: the transpose must give cotangents of the types of the linear "
                f"arguments: expected {wanted.str_short()}, got {get_aval(ct).str_short()}"
            )
    return [
        *(None for _ in residuals),
        *(ct if is_linear(x) else None for ct, x in zip(found, operands, strict=True)),
    ]


def _linear_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    call_jaxpr: ClosedJaxpr,
    num_res: int,
    transpose: Transpose,
) -> tuple[list[Any], list[Dim]]:
    # All linear operands get the axis, so that all cotangents have it.
    operands = [at_front(axis, x, d) for x, d in zip(args[num_res:], dims[num_res:], strict=True)]
    res_dims = tuple(dims[:num_res])
    force = (True,) * len(call_jaxpr.out_avals)
    batched = batch_jaxpr(call_jaxpr, axis, (*res_dims, *(0 for _ in operands)), force)

    def batched_transpose(res: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        found, found_dims = batch_flat(
            lambda *xs: transpose(xs[:num_res], xs[num_res:]),
            axis,
            [*res, *cts],
            [*res_dims, *(0 for _ in cts)],
        )
        return [at_front(axis, x, d) for x, d in zip(found, found_dims, strict=True)]

    out = linear_call_p.bind(
        *args[:num_res],
        *operands,
        call_jaxpr=batched.closed,
        num_res=num_res,
        transpose=batched_transpose,
    )
    return list(out), [0 for _ in out]


linear_call_p = define(
    "linear_call",
    family=_FAMILY,
    doc="Calls a linear function that has a transpose of its own.",
    calls="call_jaxpr",
    abstract=_abstract,
    reference=_reference,
    jvp=_linear_jvp,
    transpose=_linear_transpose,
    batch=_linear_batch,
    multiple_results=True,
    eager="inline",
    pp_params=lambda params: {"call_jaxpr": params["call_jaxpr"], "num_res": params["num_res"]},
    vma=of_programs,
)


# ---- forward rules whose residuals may not be needed


def remat_opt_call(
    fwd: Callable[..., Sequence[Any]], fun: Callable[..., Sequence[Any]], operands: Sequence[Any]
) -> list[Any]:
    """Calls `fwd`, which gives residuals and then the results of `fun`.

    Where the residuals turn out not to be needed, `fun` is called in its place.
    """
    avals = [get_aval(x) for x in operands]
    forward, fwd_consts = hoist_consts(trace_to_jaxpr(fwd, avals))
    plain, fun_consts = hoist_consts(trace_to_jaxpr(fun, avals))
    a, b = len(fwd_consts), len(fwd_consts) + len(fun_consts)
    whole = [*fwd_consts, *fun_consts, *operands]
    types = [get_aval(x) for x in whole]
    return list(
        remat_opt_p.bind(
            *whole,
            call_jaxpr=trace_to_jaxpr(lambda *xs: eval_closed(forward, [*xs[:a], *xs[b:]]), types),
            fun_jaxpr=trace_to_jaxpr(lambda *xs: eval_closed(plain, xs[a:]), types),
        )
    )


def _remat_opt_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: ClosedJaxpr, **_: Any
) -> Any:
    return jvp_flat(as_function(call_jaxpr), primals, tangents)


def _remat_opt_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    call_jaxpr: ClosedJaxpr,
    fun_jaxpr: ClosedJaxpr,
) -> tuple[list[Any], list[Dim]]:
    programs = [
        batch_jaxpr(p, axis, tuple(dims), (True,) * len(p.out_avals)).closed
        for p in (call_jaxpr, fun_jaxpr)
    ]
    out = remat_opt_p.bind(*args, call_jaxpr=programs[0], fun_jaxpr=programs[1])
    return list(out), [0 for _ in out]


def _remat_opt_dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn:
    """Calls the function itself if no residual is read."""
    fun: ClosedJaxpr = eqn.params["fun_jaxpr"]
    count = len(eqn.outvars) - len(fun.out_avals)
    results = eqn.outvars[count:]
    if any(used_outputs[:count]) or not all(
        same_type(v.aval, a) for v, a in zip(results, fun.out_avals, strict=True)
    ):
        return eqn
    params = {
        "jaxpr": fun,
        "name": fun.jaxpr.debug_info.func_name,
        "donated_invars": (False,) * len(eqn.invars),
        "inline": False,
        "keep_unused": False,
    }
    call = eqn.replace(primitive=jit_p, params=params, outvars=results)
    shrink = jit_p.dce_rule
    assert shrink is not None
    return shrink(used_outputs[count:], call)


remat_opt_p = define(
    "remat_opt",
    family=_FAMILY,
    doc="Calls a forward rule, or its function if the residuals are not needed.",
    calls="call_jaxpr",
    abstract=_abstract,
    reference=_reference,
    jvp=_remat_opt_jvp,
    transpose=NotLinear("differentiation puts its program in its place"),
    batch=_remat_opt_batch,
    multiple_results=True,
    eager="inline",
    dce=_remat_opt_dce,
    vma=of_programs,
)
