"""The primitive of `lax.while_loop`: a program repeated while a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray, same_type
from xpr.core.effects import refuse_exact
from xpr.core.jaxpr import ClosedJaxpr, as_function, eval_closed
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.manual import of_programs, with_vma
from xpr.core.primitive import define
from xpr.core.trace import get_aval, set_current_trace
from xpr.interpreters.batching import (
    BatchAxis,
    Dim,
    at_front,
    batch_flat,
    batch_jaxpr,
    require_arrays,
    require_choice,
)
from xpr.interpreters.jvp import jvp_jaxpr
from xpr.interpreters.linearize import LinearizeTrace
from xpr.interpreters.references import ProgramPrimitive
from xpr.interpreters.zeros import Zero, instantiate, zero_tangent
from xpr.primitives import _ops as ops
from xpr.primitives._scan_split import least_marks, permuted
from xpr.primitives.rules import broadcast_to, expand_dims

Params = dict[str, Any]


def _abstract(
    *avals: ShapedArray,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> list[ShapedArray]:
    del cond_jaxpr
    held = cond_nconsts + body_nconsts
    for i, (found, want) in enumerate(zip(avals[held:], body_jaxpr.out_avals, strict=True)):
        if not same_type(found, want):
            raise TypeError(
                f"while: carried value {i} should be {want.str_short()}, got {found.str_short()}"
            )
    return list(body_jaxpr.out_avals)


def _vma(avals: Sequence[ShapedArray], found: Any, params: Params) -> list[ShapedArray]:
    """Devices that repeat the body a different number of times have different results."""
    turns = params["cond_jaxpr"].out_avals[0].vma
    return [with_vma(a, a.vma | turns) for a in of_programs(avals, found, params)]


def _reference(
    *args: Any,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    interpret: Callable[..., list[Any]] | None = None,
) -> list[Any]:
    run = interpret or eval_closed
    held = cond_nconsts + body_nconsts
    carry = list(args[held:])
    while np.asarray(run(cond_jaxpr, [*args[:cond_nconsts], *carry])[0]):
        carry = run(body_jaxpr, [*args[cond_nconsts:held], *carry])
    return carry


def _cut(items: Sequence[Any], params: Params) -> tuple[list[Any], list[Any], list[Any]]:
    """The condition's constants, the body's, and the carried values."""
    a = params["cond_nconsts"]
    b = a + params["body_nconsts"]
    return list(items[:a]), list(items[a:b]), list(items[b:])


# ---- derivatives


class _Differentiated:
    """The loop that carries tangents along with the values that have them."""

    def __init__(self, tangents: Sequence[Any], params: Params) -> None:
        body: ClosedJaxpr = params["body_jaxpr"]
        _, consts, carry = _cut([type(t) is not Zero for t in tangents], params)

        def new_marks(marks: tuple[bool, ...]) -> Sequence[bool]:
            return jvp_jaxpr(body, (*consts, *marks), False)[1]

        marks = least_marks(carry, new_marks)
        nonzero = (*consts, *marks)
        program, _ = jvp_jaxpr(body, nonzero, marks)
        n_consts, n_carry = len(consts), len(carry)
        n, moved = n_consts + n_carry, sum(consts)
        # All primals, then all tangents, become constants and their tangents, then what is carried.
        order = [
            *range(n_consts),
            *range(n, n + moved),
            *range(n_consts, n),
            *range(n + moved, n + sum(nonzero)),
        ]
        self.body = permuted(program, order, range(n_carry + sum(marks)))
        condition: ClosedJaxpr = params["cond_jaxpr"]
        self.condition = _with_more_inputs(
            condition,
            [program.in_avals[i] for i in order[len(order) - sum(marks) :]] if any(marks) else [],
        )
        self.marks = marks
        self.const_marks = consts
        self.params = params | {
            "cond_jaxpr": self.condition,
            "body_jaxpr": self.body,
            "body_nconsts": n_consts + moved,
        }

    def operands(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        p_cond, p_consts, p_carry = _cut(primals, self._original)
        _, t_consts, t_carry = _cut(tangents, self._original)
        return [
            *p_cond,
            *p_consts,
            *(t for t, m in zip(t_consts, self.const_marks, strict=True) if m),
            *p_carry,
            *(instantiate(t) for t, m in zip(t_carry, self.marks, strict=True) if m),
        ]

    @property
    def _original(self) -> Params:
        moved = sum(self.const_marks)
        return self.params | {"body_nconsts": self.params["body_nconsts"] - moved}

    def results(self, found: Sequence[Any], out: Sequence[Any]) -> list[Any]:
        """The tangents of `out`, from what the loop carried beside it."""
        moved = iter(found)
        return [next(moved) if m else zero_tangent(x) for x, m in zip(out, self.marks, strict=True)]


def _with_more_inputs(closed: ClosedJaxpr, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The program with inputs at the end that it does not read."""
    return trace_to_jaxpr(
        lambda *xs: eval_closed(closed, xs[: len(closed.in_avals)]),
        [*closed.in_avals, *avals],
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    loop = _Differentiated(tangents, params)
    found = while_p.bind(*loop.operands(primals, tangents), **loop.params)
    out = list(found[: len(loop.marks)])
    return out, loop.results(found[len(loop.marks) :], out)


def _linearize(
    trace: LinearizeTrace, primals: Sequence[Any], tangents: Sequence[Any], params: Params
) -> Any:
    """Values by the loop itself; tangents by one that computes the values again.

    How often it runs is known only when it has, so there are no residuals to keep: the loop of
    the tangents serves forward mode and cannot be transposed.
    """
    effects = params["cond_jaxpr"].effects | params["body_jaxpr"].effects
    refuse_exact(effects, "linearization of while_loop, which runs the loop twice")
    loop = _Differentiated(tangents, params)
    with set_current_trace(trace.parent):
        out = list(while_p.bind(*primals, **params))
    operands = loop.operands(primals, tangents)
    found = trace.tangents.process_primitive(while_p, operands, loop.params)
    return out, loop.results(found[len(loop.marks) :], out)


def _transpose(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with "
        "dynamic start/stop values. Try using lax.scan, or using fori_loop with static start/stop."
    )


# ---- batching


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], list[Dim]]:
    condition: ClosedJaxpr = params["cond_jaxpr"]
    body: ClosedJaxpr = params["body_jaxpr"]
    cond_consts, body_consts, carry = _cut(list(zip(args, dims, strict=True)), params)
    require_arrays("while_loop", [*condition.in_avals[: len(cond_consts)], *body.in_avals], dims)
    # Moved to the front, so that programs are batched in one way only.
    cond_values = [x if d is None else at_front(axis, x, d) for x, d in cond_consts]
    body_values = [x if d is None else at_front(axis, x, d) for x, d in body_consts]
    cond_dims = [None if d is None else 0 for _, d in cond_consts]
    body_dims = [None if d is None else 0 for _, d in body_consts]

    def place(marks: Sequence[bool]) -> list[Dim]:
        return [0 if m else None for m in marks]

    def new_marks(marks: tuple[bool, ...]) -> Sequence[bool]:
        out = batch_jaxpr(body, axis, (*body_dims, *place(marks))).out_dims
        require_arrays("while_loop", body.out_avals, out)
        return [d is not None for d in out]

    marks = least_marks([d is not None for _, d in carry], new_marks)
    tested = batch_jaxpr(condition, axis, (*cond_dims, *place(marks)))
    if tested.out_dims[0] is None:
        stepped = batch_jaxpr(body, axis, (*body_dims, *place(marks)), marks)
        changed = params | {"cond_jaxpr": tested.closed, "body_jaxpr": stepped.closed}
        start = [at_front(axis, x, d) if m else x for (x, d), m in zip(carry, marks, strict=True)]
        out = while_p.bind(*cond_values, *body_values, *start, **changed)
        return list(out), place(marks)
    return _batch_with_own_ends(
        axis, params, (cond_values, cond_dims), (body_values, body_dims), carry
    )


def _batch_with_own_ends(
    axis: BatchAxis,
    params: Params,
    cond_consts: tuple[list[Any], list[Dim]],
    body_consts: tuple[list[Any], list[Dim]],
    carry: Sequence[tuple[Any, Dim]],
) -> tuple[list[Any], list[Dim]]:
    """Examples that end at different steps: the loop runs while any does, others stay as they are.

    Whether each runs on is carried along, so that the condition is tested once a step.
    """
    condition: ClosedJaxpr = params["cond_jaxpr"]
    body: ClosedJaxpr = params["body_jaxpr"]
    where = "while_loop with batched predicate, whose examples end at different steps"
    refuse_exact(condition.effects | body.effects, where)
    require_choice(where, body.out_avals)
    n_cond, n_body = len(cond_consts[0]), len(body_consts[0])
    start = [at_front(axis, x, d) for x, d in carry]

    def test(values: Sequence[Any], carried: Sequence[Any]) -> Any:
        found, dims = batch_flat(
            as_function(condition),
            axis,
            [*values, *carried],
            [*cond_consts[1], *(0 for _ in carried)],
        )
        return at_front(axis, found[0], dims[0])

    def step(*flat: Any) -> list[Any]:
        values, own = flat[:n_cond], flat[n_cond : n_cond + n_body]
        running, carried = flat[n_cond + n_body], flat[n_cond + n_body + 1 :]
        found, dims = batch_flat(
            as_function(body),
            axis,
            [*own, *carried],
            [*body_consts[1], *(0 for _ in carried)],
        )
        new = [
            _choose(running, at_front(axis, x, d), old)
            for x, d, old in zip(found, dims, carried, strict=True)
        ]
        return [ops.bind("and", running, test(values, new)), *new]

    def any_runs(running: Any, *_: Any) -> list[Any]:
        return [ops.bind("reduce_or", running, axes=(0,))]

    running = test(cond_consts[0], start)
    carried = [running, *start]
    avals = [get_aval(x) for x in carried]
    consts = [*cond_consts[0], *body_consts[0]]
    out = while_p.bind(
        *consts,
        *carried,
        cond_jaxpr=trace_to_jaxpr(any_runs, avals),
        body_jaxpr=trace_to_jaxpr(step, [*(get_aval(x) for x in consts), *avals]),
        cond_nconsts=0,
        body_nconsts=len(consts),
    )
    return list(out[1:]), [0 for _ in start]


def _choose(which: Any, new: Any, old: Any) -> Any:
    """`new` for the examples that `which` marks, `old` for the others."""
    rank = len(get_aval(new).shape)
    mask = expand_dims(which, range(1, rank)) if rank > 1 else which
    return ops.select(broadcast_to(mask, get_aval(new).shape), new, old)


while_p = define(
    "while",
    family="while_loop",
    doc="A program repeated while a condition holds.",
    interprets=True,
    abstract=_abstract,
    reference=_reference,
    jvp=_jvp,
    linearize=_linearize,
    transpose=_transpose,
    batch=_batch,
    multiple_results=True,
    eager="compile",
    vma=_vma,
    kind=ProgramPrimitive,
)
