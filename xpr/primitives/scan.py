"""The primitive of `lax.scan`: a program applied to one slice after another, with carried values.

Its program takes constants, carried values and one slice of each sequence; it gives new carried
values and one slice of each stacked result. Reverse mode runs the program's transpose over the
slices in the opposite order, on residuals that the forward run stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray, same_type, with_dim, without_dim
from xpr.core.jaxpr import (
    ClosedJaxpr,
    JaxprEqn,
    dce_jaxpr,
    eval_closed,
)
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.manual import of_programs
from xpr.core.primitive import define
from xpr.core.references import AbstractRef
from xpr.core.trace import get_aval, set_current_trace
from xpr.interpreters.batching import (
    BatchAxis,
    Dim,
    at_front,
    batch_jaxpr,
    move_axis,
    require_arrays,
)
from xpr.interpreters.jvp import jvp_jaxpr
from xpr.interpreters.linearize import LinearizeTrace, linearize_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace, partial_eval_jaxpr
from xpr.interpreters.references import ProgramPrimitive
from xpr.interpreters.transpose import Linear, backward_pass, is_linear
from xpr.interpreters.zeros import (
    Zero,
    add_tangents,
    cotangent_aval,
    instantiate,
    zero_tangent,
    zeros,
)
from xpr.primitives._scan_split import SplitScan, cut, least_marks, permuted

_FAMILY = "scan"
Params = dict[str, Any]


# ---- types and values


def stacked(aval: ShapedArray, length: int) -> ShapedArray:
    """The type of `length` slices of type `aval`."""
    if aval.is_high:
        return aval.inc_rank(length, aval.leading_axis_spec())  # type: ignore[attr-defined]
    return with_dim(aval, 0, length)


def _slice_of(aval: ShapedArray, length: int) -> ShapedArray:
    if aval.is_high:
        return aval.dec_rank(length, aval.leading_axis_spec())  # type: ignore[attr-defined]
    return without_dim(aval, 0)


def _abstract(
    *avals: ShapedArray, jaxpr: ClosedJaxpr, length: int, num_carry: int, num_consts: int, **_: Any
) -> list[ShapedArray]:
    wanted = jaxpr.in_avals
    if len(avals) != len(wanted):
        raise TypeError(f"scan takes {len(wanted)} operands, got {len(avals)}")
    held = num_consts + num_carry
    for i, (found, want) in enumerate(zip(avals, wanted, strict=True)):
        if isinstance(want, AbstractRef):
            continue
        expected = want if i < held else stacked(want, length)
        if not same_type(found, expected):
            raise TypeError(
                f"scan: operand {i} should be {expected.str_short()}, got {found.str_short()}"
            )
    out = jaxpr.out_avals
    return [*out[:num_carry], *(stacked(a, length) for a in out[num_carry:])]


def _reference(
    *args: Any,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    num_carry: int,
    num_consts: int,
    interpret: Callable[..., list[Any]] | None = None,
    **_: Any,
) -> list[Any]:
    run = interpret or eval_closed
    held = num_consts + num_carry
    consts, carry, xs = args[:num_consts], list(args[num_consts:held]), args[held:]
    slices = [np.zeros((length, *a.shape), a.dtype) for a in jaxpr.out_avals[num_carry:]]
    for i in range(length - 1, -1, -1) if reverse else range(length):
        out = run(jaxpr, [*consts, *carry, *(x[i] for x in xs)])
        carry = out[:num_carry]
        for ys, y in zip(slices, out[num_carry:], strict=True):
            ys[i] = y
    return [*carry, *slices]


def _bind(jaxpr: ClosedJaxpr, operands: Sequence[Any], params: Params, **changes: Any) -> list[Any]:
    return list(scan_p.bind(*operands, **params | {"jaxpr": jaxpr} | changes))


# ---- forward mode


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    n_carry = params["num_carry"]
    n_out = len(jaxpr.out_avals)
    t_consts, t_carry, t_xs = (
        [type(t) is not Zero for t in part] for part in cut(tangents, params)
    )

    def new_marks(carry: tuple[bool, ...]) -> Sequence[bool]:
        return jvp_jaxpr(jaxpr, (*t_consts, *carry, *t_xs), False)[1][:n_carry]

    carry_marks = least_marks(t_carry, new_marks)
    nonzero = (*t_consts, *carry_marks, *t_xs)
    forced = (*carry_marks, *(False for _ in range(n_out - n_carry)))
    program, out_nonzero = jvp_jaxpr(jaxpr, nonzero, forced)
    # The program takes all primals, then all tangents; scan wants each kind of operand together.
    p_consts, p_carry, p_xs = cut(range(len(primals)), params)
    places = _places(nonzero, len(primals))
    order = [
        *p_consts,
        *(places[i] for i in p_consts if nonzero[i]),
        *p_carry,
        *(places[i] for i in p_carry if nonzero[i]),
        *p_xs,
        *(places[i] for i in p_xs if nonzero[i]),
    ]
    out_places = _places(out_nonzero, n_out)
    out_order = [
        *range(n_carry),
        *(out_places[i] for i in range(n_carry) if out_nonzero[i]),
        *range(n_carry, n_out),
        *(out_places[i] for i in range(n_carry, n_out) if out_nonzero[i]),
    ]
    body = permuted(program, order, out_order)
    values = [*primals, *(instantiate(t) for t, nz in zip(tangents, nonzero, strict=True) if nz)]
    found = _bind(
        body,
        [values[i] for i in order],
        params,
        num_consts=len(p_consts) + sum(t_consts),
        num_carry=n_carry + sum(carry_marks),
    )
    results: list[Any] = [None] * len(out_order)
    for place, x in zip(out_order, found, strict=True):
        results[place] = x
    out = results[:n_out]
    return out, [
        results[out_places[i]] if nz else zero_tangent(x)
        for i, (x, nz) in enumerate(zip(out, out_nonzero, strict=True))
    ]


def _places(marks: Sequence[bool], start: int) -> dict[int, int]:
    """Where the tangents of marked values are, when they follow `start` primals."""
    marked = [i for i, m in enumerate(marks) if m]
    return {i: start + k for k, i in enumerate(marked)}


# ---- known and unknown parts


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: Params
) -> Any:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    n_carry, n_out = params["num_carry"], len(jaxpr.out_avals)
    t_consts, t_carry, t_xs = (
        [type(t) is not Zero for t in part] for part in cut(tangents, params)
    )

    def new_marks(carry: tuple[bool, ...]) -> Sequence[bool]:
        return linearize_jaxpr(jaxpr, (*t_consts, *carry, *t_xs)).nonzeros_out[:n_carry]

    carry_marks = least_marks(t_carry, new_marks)
    marks = (*t_consts, *carry_marks, *t_xs)
    forced = (*carry_marks, *(False for _ in range(n_out - n_carry)))
    linearized = linearize_jaxpr(jaxpr, marks, forced)
    nonzero = linearized.nonzeros_out
    parts = SplitScan(
        linearized.split,
        marks,
        range(len(primals)),
        range(n_out),
        [i for i, nz in enumerate(nonzero) if nz],
        params,
    )
    with set_current_trace(trace.parent):
        out, residuals = parts.run_known(_bind, primals)
    given = [instantiate(t) for t, m in zip(tangents, marks, strict=True) if m]
    _, order, linear_params = parts.unknown_program()
    operands = [[*residuals, *given][k] for k in order]
    moved = iter(trace.tangents.process_primitive(scan_p, operands, linear_params))
    return out, [next(moved) if nz else zero_tangent(x) for x, nz in zip(out, nonzero, strict=True)]


def _split_by_known(params: Params, unknown: Sequence[bool]) -> tuple[SplitScan, list[bool]]:
    """The scan cut by which operands are unknown; and which results are."""
    jaxpr: ClosedJaxpr = params["jaxpr"]
    n_carry, n_out = params["num_carry"], len(jaxpr.out_avals)
    consts, carry, xs = cut(unknown, params)

    def new_marks(current: tuple[bool, ...]) -> Sequence[bool]:
        return partial_eval_jaxpr(jaxpr, (*consts, *current, *xs)).out_unknown[:n_carry]

    carry_marks = least_marks(carry, new_marks)
    marks = (*consts, *carry_marks, *xs)
    forced = (*carry_marks, *(False for _ in range(n_out - n_carry)))
    split = partial_eval_jaxpr(jaxpr, marks, forced)
    out_unknown = list(split.out_unknown)
    parts = SplitScan(
        split,
        marks,
        [i for i, m in enumerate(marks) if not m],
        [i for i, u in enumerate(out_unknown) if not u],
        [i for i, u in enumerate(out_unknown) if u],
        params,
    )
    return parts, out_unknown


def _partial_eval(trace: PartialEvalTrace, args: Sequence[Any], params: Params) -> list[Any]:
    parts, out_unknown = _split_by_known(params, [trace.is_unknown(x) for x in args])
    with set_current_trace(trace.parent):
        known, residuals = parts.run_known(_bind, [args[i] for i in parts.known_inputs])
    rest = [x for x, m in zip(args, parts.marks, strict=True) if m]
    _, order, unknown_params = parts.unknown_program()
    operands = [[*residuals, *rest][k] for k in order]
    recorded = iter(trace.unknown.process_primitive(scan_p, operands, unknown_params))
    values = iter(known)
    return [next(recorded) if u else next(values) for u in out_unknown]


# ---- reverse mode


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    linear = [is_linear(x) for x in args]
    _, carry, _ = cut(linear, params)
    if not all(carry):
        return _transpose_with_known_carry(cts, args, params)
    jaxpr: ClosedJaxpr = params["jaxpr"]
    consts, carries, xs = cut(args, params)
    n_carry, length = params["num_carry"], params["length"]
    held = [x for x in consts if not is_linear(x)]
    sequences = [x for x in xs if not is_linear(x)]
    # Cotangents of constants are summed up in values carried along.
    sums = [cotangent_aval(x.aval) for x in consts if is_linear(x)]
    ct_carry = [instantiate(ct) for ct in cts[:n_carry]]
    ct_ys = cts[n_carry:]
    given = [ct for ct in ct_ys if type(ct) is not Zero]

    def body(*flat: Any) -> list[Any]:
        a, b = len(held), len(held) + n_carry
        c = b + len(sums)
        d = c + len(given)
        known_consts, own, totals = iter(flat[:a]), flat[a:b], flat[b:c]
        slices, known_xs = iter(flat[c:d]), iter(flat[d:])
        operands = [
            *(Linear(x.aval) if is_linear(x) else next(known_consts) for x in consts),
            *(Linear(x.aval) for x in carries),
            *(Linear(_slice_of(x.aval, length)) if is_linear(x) else next(known_xs) for x in xs),
        ]
        out_cts = [
            *own,
            *(
                Zero(_slice_of(ct.aval, length)) if type(ct) is Zero else next(slices)
                for ct in ct_ys
            ),
        ]
        found = backward_pass(jaxpr.jaxpr, jaxpr.consts, operands, out_cts)
        f_consts, f_carry, f_xs = cut(found, params)
        parts = [ct for ct, x in zip(f_consts, consts, strict=True) if is_linear(x)]
        return [
            *(instantiate(ct) for ct in f_carry),
            *(add_tangents(t, ct) for t, ct in zip(totals, parts, strict=True)),
            *(instantiate(ct) for ct, x in zip(f_xs, xs, strict=True) if is_linear(x)),
        ]

    operands = [*held, *ct_carry, *(zeros(a) for a in sums), *given, *sequences]
    avals = [get_aval(x) for x in operands]
    first = len(held) + n_carry + len(sums)
    program = trace_to_jaxpr(
        body,
        [
            *(a.strip_weak_type() for a in avals[:first]),
            *(_slice_of(a, length) for a in avals[first:]),
        ],
        jaxpr.jaxpr.debug_info,
    )
    found = _bind(
        program,
        operands,
        params,
        num_consts=len(held),
        num_carry=n_carry + len(sums),
        reverse=not params["reverse"],
    )
    own = found[:n_carry]
    totals, slices = iter(found[n_carry : n_carry + len(sums)]), iter(found[n_carry + len(sums) :])
    return [
        *(next(totals) if is_linear(x) else None for x in consts),
        *own,
        *(next(slices) if is_linear(x) else None for x in xs),
    ]


def _transpose_with_known_carry(
    cts: Sequence[Any], args: Sequence[Any], params: Params
) -> list[Any]:
    """A scan that carries known values too, a counter say: these are computed first."""
    parts, out_unknown = _split_by_known(params, [is_linear(x) for x in args])
    if any(m and not is_linear(x) for x, m in zip(args, parts.marks, strict=True)):
        # A carried value starts known and becomes linear: its start has no cotangent to give.
        args = [
            Linear(get_aval(x)) if m and not is_linear(x) else x
            for x, m in zip(args, parts.marks, strict=True)
        ]
    _, residuals = parts.run_known(_bind, [args[i] for i in parts.known_inputs])
    _, order, unknown_params = parts.unknown_program()
    marked = [i for i, m in enumerate(parts.marks) if m]
    operands = [[*residuals, *(args[i] for i in marked)][k] for k in order]
    found = _transpose(
        [ct for ct, u in zip(cts, out_unknown, strict=True) if u], *operands, **unknown_params
    )
    back = dict(zip(order, found, strict=True))
    n_res = len(residuals)
    places = {i: n_res + k for k, i in enumerate(marked)}
    return [back[places[i]] if i in places else None for i in range(len(args))]


# ---- batching


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], list[Dim]]:
    jaxpr: ClosedJaxpr = params["jaxpr"]
    n_carry, n_out = params["num_carry"], len(jaxpr.out_avals)
    consts, carry, xs = cut(list(zip(args, dims, strict=True)), params)
    n_consts = params["num_consts"]
    require_arrays("scan", jaxpr.in_avals[n_consts:], dims[n_consts:])
    const_dims = [d for _, d in consts]
    x_dims = [None if d is None else 0 for _, d in xs]

    def all_dims(marks: Sequence[bool]) -> tuple[Dim, ...]:
        return (*const_dims, *(0 if m else None for m in marks), *x_dims)

    def new_marks(marks: tuple[bool, ...]) -> Sequence[bool]:
        out = batch_jaxpr(jaxpr, axis, all_dims(marks)).out_dims
        require_arrays("scan", jaxpr.out_avals, out)
        return [d is not None for d in out[:n_carry]]

    marks = least_marks([d is not None for _, d in carry], new_marks)
    forced = (*marks, *(False for _ in range(n_out - n_carry)))
    batched = batch_jaxpr(jaxpr, axis, all_dims(marks), forced)
    operands = [
        *(x for x, _ in consts),
        *(at_front(axis, x, d) if m else x for (x, d), m in zip(carry, marks, strict=True)),
        # The axis of the steps comes first, then that of the examples.
        *(x if d is None else move_axis(x, d, 1) for x, d in xs),
    ]
    out = _bind(batched.closed, operands, params)
    return out, [
        *(0 if m else None for m in marks),
        *(None if d is None else d + 1 for d in batched.out_dims[n_carry:]),
    ]


# ---- dead code


def _dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops stacked results nobody reads, and carried values that matter to nothing else."""
    params = eqn.params
    closed: ClosedJaxpr = params["jaxpr"]
    n_carry = params["num_carry"]
    consts, _, xs = cut(eqn.invars, params)

    def needed(marks: tuple[bool, ...]) -> Sequence[bool]:
        _, used_in = dce_jaxpr(closed.jaxpr, [*marks, *used_outputs[n_carry:]])
        return used_in[len(consts) : len(consts) + n_carry]

    marks = least_marks(used_outputs[:n_carry], needed)
    if all(marks) and all(used_outputs[n_carry:]):
        return eqn
    used = [*marks, *used_outputs[n_carry:]]
    if not any(used) and not eqn.effects:
        return None
    keep = [*(False for _ in consts), *marks, *(False for _ in xs)]
    jaxpr, used_in = dce_jaxpr(closed.jaxpr, used, keep)
    # A carried value that is read only to make itself is kept only if its result is.
    used_in = [
        u and (marks[i - len(consts)] if len(consts) <= i < len(consts) + n_carry else True)
        for i, u in enumerate(used_in)
    ]
    invars = [v for v, u in zip(eqn.invars, used_in, strict=True) if u]
    changed = params | {
        "jaxpr": ClosedJaxpr(jaxpr, closed.consts),
        "num_consts": sum(used_in[: len(consts)]),
        "num_carry": sum(marks),
    }
    return eqn.replace(
        invars=invars,
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        params=changed,
    )


def _printed(params: Params) -> Params:
    names = ("jaxpr", "length", "num_carry", "num_consts", "reverse", "unroll")
    return {name: params[name] for name in names}


scan_p = define(
    "scan",
    family=_FAMILY,
    doc="A program applied to one slice after another, with carried values.",
    interprets=True,
    abstract=_abstract,
    reference=_reference,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    multiple_results=True,
    eager="compile",
    pp_params=_printed,
    dce=_dce,
    vma=of_programs,
    kind=ProgramPrimitive,
)
