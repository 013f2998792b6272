"""The primitive of `lax.cond` and `lax.switch`: one of several programs, by an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray, same_type
from xpr.core.context import context
from xpr.core.effects import refuse_exact
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, as_function, dce_jaxpr, eval_closed
from xpr.core.jaxpr_trace import JaxprTracer, trace_to_jaxpr
from xpr.core.manual import of_programs, with_vma
from xpr.core.primitive import define
from xpr.core.trace import Tracer, get_aval, set_current_trace
from xpr.interpreters.batching import (
    BatchAxis,
    Dim,
    at_front,
    batch_flat,
    batch_jaxpr,
    require_arrays,
    require_choice,
)
from xpr.interpreters.jvp import jvp_flat, jvp_jaxpr
from xpr.interpreters.linearize import LinearizeTrace, linearize_jaxpr
from xpr.interpreters.partial_eval import PartialEvalTrace, Split, partial_eval_jaxpr
from xpr.interpreters.references import ProgramPrimitive
from xpr.interpreters.transpose import Linear, backward_pass, is_linear
from xpr.interpreters.zeros import (
    Zero,
    cotangent_aval,
    instantiate,
    is_float0,
    tangent_aval,
    zero_tangent,
    zeros,
)
from xpr.primitives import _ops as ops
from xpr.primitives.custom import custom_jvp_call_p
from xpr.primitives.rules import broadcast_to, expand_dims

Branches = tuple[ClosedJaxpr, ...]


def _abstract(index: ShapedArray, *avals: ShapedArray, branches: Branches) -> list[ShapedArray]:
    if index.shape or index.dtype != np.int32:
        raise TypeError(f"cond: the index should be i32[], got {index.str_short()}")
    for i, (found, want) in enumerate(zip(avals, branches[0].in_avals, strict=True)):
        if not same_type(found, want):
            raise TypeError(
                f"cond: operand {i} should be {want.str_short()}, got {found.str_short()}"
            )
    return list(branches[0].out_avals)


def _vma(avals: Sequence[ShapedArray], found: Any, params: dict[str, Any]) -> list[ShapedArray]:
    """Devices that choose different branches have different results."""
    return [with_vma(a, a.vma | avals[0].vma) for a in of_programs(avals[1:], found, params)]


def _reference(
    index: Any,
    *args: Any,
    branches: Branches,
    interpret: Callable[..., list[Any]] | None = None,
) -> list[Any]:
    run = interpret or eval_closed
    chosen = min(max(int(np.asarray(index)), 0), len(branches) - 1)
    return run(branches[chosen], list(args))


def _union(marks: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    return tuple(any(column) for column in zip(*marks, strict=True))


# ---- derivatives


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, branches: Branches) -> Any:
    nonzero = tuple(type(t) is not Zero for t in tangents[1:])
    found_nonzero = _union([jvp_jaxpr(b, nonzero, False)[1] for b in branches])
    programs = tuple(jvp_jaxpr(b, nonzero, found_nonzero)[0] for b in branches)
    given = [t for t in tangents[1:] if type(t) is not Zero]
    found = cond_p.bind(*primals, *given, branches=programs)
    count = len(found_nonzero)
    out, moved = list(found[:count]), iter(found[count:])
    return out, [
        next(moved) if nz else zero_tangent(x) for x, nz in zip(out, found_nonzero, strict=True)
    ]


class _SplitCond:
    """Branches cut in two; each branch puts its residuals into slots that they share by type."""

    def __init__(self, splits: Sequence[Split], n_known_out: int) -> None:
        slots: list[ShapedArray] = []
        places: list[list[int]] = []
        for split in splits:
            n_res = len(split.forwarded)
            avals = [v.aval.strip_weak_type() for v in split.unknown.jaxpr.invars[:n_res]]
            free = list(range(len(slots)))
            mine: list[int] = []
            for aval in avals:
                place = next((k for k in free if slots[k] == aval), None)
                if place is None:
                    place = len(slots)
                    slots.append(aval)
                else:
                    free.remove(place)
                mine.append(place)
            places.append(mine)
        self.slots = slots
        self.known = tuple(
            self._known(split, mine, n_known_out)
            for split, mine in zip(splits, places, strict=True)
        )
        self.unknown = tuple(
            self._unknown(split, mine) for split, mine in zip(splits, places, strict=True)
        )

    def _known(self, split: Split, places: Sequence[int], n_out: int) -> ClosedJaxpr:
        def flat(*args: Any) -> list[Any]:
            found = as_function(split.known)(*args)
            residuals = split.residuals(args, found[n_out:])
            filled = dict(zip(places, residuals, strict=True))
            return [
                *found[:n_out],
                *(
                    _strong(filled[k]) if k in filled else zeros(a)
                    for k, a in enumerate(self.slots)
                ),
            ]

        return trace_to_jaxpr(flat, split.known.in_avals)

    def _unknown(self, split: Split, places: Sequence[int]) -> ClosedJaxpr:
        n_res, n_slots = len(split.forwarded), len(self.slots)

        def flat(*args: Any) -> list[Any]:
            residuals = [args[k] for k in places]
            return as_function(split.unknown)(*residuals, *args[n_slots:])

        return trace_to_jaxpr(flat, [*self.slots, *split.unknown.in_avals[n_res:]])


def _strong(x: Any) -> Any:
    """`x` without its weak type, so that all branches give the same type."""
    aval = get_aval(x)
    return ops.convert(x, aval.dtype) if aval.weak_type else x


def _linearize(
    trace: LinearizeTrace,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    params: dict[str, Any],
) -> Any:
    branches: Branches = params["branches"]
    nonzero = tuple(type(t) is not Zero for t in tangents[1:])
    found_nonzero = _union([linearize_jaxpr(b, nonzero).nonzeros_out for b in branches])
    splits = [linearize_jaxpr(b, nonzero, found_nonzero).split for b in branches]
    count = len(found_nonzero)
    parts = _SplitCond(splits, count)
    index = primals[0]
    with set_current_trace(trace.parent):
        found = cond_p.bind(*primals, branches=parts.known)
    out, residuals = list(found[:count]), found[count:]
    given = [t for t in tangents[1:] if type(t) is not Zero]
    operands = [index, *residuals, *given]
    moved = iter(trace.tangents.process_primitive(cond_p, operands, {"branches": parts.unknown}))
    return out, [
        next(moved) if nz else zero_tangent(x) for x, nz in zip(out, found_nonzero, strict=True)
    ]


def _partial_eval(
    trace: PartialEvalTrace, args: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    branches: Branches = params["branches"]
    index, *operands = args
    if trace.is_unknown(index):
        return list(trace.unknown.process_primitive(cond_p, args, params))
    unknown = tuple(trace.is_unknown(x) for x in operands)
    out_unknown = _union([partial_eval_jaxpr(b, unknown).out_unknown for b in branches])
    splits = [partial_eval_jaxpr(b, unknown, out_unknown) for b in branches]
    count = len(out_unknown) - sum(out_unknown)
    parts = _SplitCond(splits, count)
    known_args = [x for x, u in zip(operands, unknown, strict=True) if not u]
    with set_current_trace(trace.parent):
        found = cond_p.bind(index, *known_args, branches=parts.known)
    rest = [x for x, u in zip(operands, unknown, strict=True) if u]
    recorded = iter(
        trace.unknown.process_primitive(
            cond_p, [index, *found[count:], *rest], {"branches": parts.unknown}
        )
    )
    values = iter(found[:count])
    return [next(recorded) if u else next(values) for u in out_unknown]


def _transpose(cts: Sequence[Any], index: Any, *args: Any, branches: Branches) -> list[Any]:
    linear = [is_linear(x) for x in args]
    known = [x for x, lin in zip(args, linear, strict=True) if not lin]
    given = [ct for ct in cts if type(ct) is not Zero]
    marks: list[list[bool]] = []

    def flat_for(
        closed: ClosedJaxpr, wanted: Sequence[bool] | None, weak: Sequence[bool] | None = None
    ) -> Callable[..., list[Any]]:
        def flat(*values: Any) -> list[Any]:
            held, some = iter(values[: len(known)]), iter(values[len(known) :])
            operands = [
                Linear(a) if lin else next(held)
                for a, lin in zip(closed.in_avals, linear, strict=True)
            ]
            own = [ct if type(ct) is Zero else next(some) for ct in cts]
            found = backward_pass(closed.jaxpr, closed.consts, operands, own)
            found = [ct for ct, lin in zip(found, linear, strict=True) if lin]
            if wanted is None:
                marks.append([type(ct) is not Zero for ct in found])
                return [instantiate(ct) for ct in found]
            some = [instantiate(ct) for ct, w in zip(found, wanted, strict=True) if w]
            if weak is None:
                return some
            return [x if w else _strong(x) for x, w in zip(some, weak, strict=True)]

        return flat

    avals = [get_aval(x) for x in (*known, *given)]
    for closed in branches:  # which cotangents any branch gives
        trace_to_jaxpr(flat_for(closed, None), avals)
    wanted = _union(marks)
    # A cotangent is weakly typed where that of every branch is.
    types = [trace_to_jaxpr(flat_for(closed, wanted), avals).out_avals for closed in branches]
    weak = [all(a.weak_type for a in column) for column in zip(*types, strict=True)]
    programs = tuple(trace_to_jaxpr(flat_for(closed, wanted, weak), avals) for closed in branches)
    found = iter(cond_p.bind(index, *known, *given, branches=programs))
    kinds = iter(wanted)
    return [
        None,
        *(
            (next(found) if next(kinds) else Zero(cotangent_aval(x.aval))) if lin else None
            for x, lin in zip(args, linear, strict=True)
        ),
    ]


# ---- batching


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, branches: Branches
) -> tuple[list[Any], list[Dim]]:
    index, *operands = args
    index_dim, *operand_dims = dims
    if index_dim is not None:
        return _batch_by_selection(
            axis, at_front(axis, index, index_dim), operands, operand_dims, branches
        )
    found = [batch_jaxpr(b, axis, tuple(operand_dims)) for b in branches]
    for b in found:
        require_arrays("cond", branches[0].out_avals, b.out_dims)
    marks = _union([[d is not None for d in b.out_dims] for b in found])
    programs = tuple(batch_jaxpr(b, axis, tuple(operand_dims), marks).closed for b in branches)
    out = cond_p.bind(index, *operands, branches=programs)
    return list(out), [0 if m else None for m in marks]


def _batch_by_selection(
    axis: BatchAxis,
    index: Any,
    operands: Sequence[Any],
    dims: Sequence[Dim],
    branches: Branches,
) -> tuple[list[Any], list[Dim]]:
    """Examples that take different branches: all are computed, and each takes its own.

    The selection has a derivative of its own, see `_Selection.jvp`.
    """
    where = "vmap of cond with an index for each example"
    require_choice(where, branches[0].out_avals)
    for closed in branches:
        refuse_exact(closed.effects, where)
    selection = _Selection(axis, dims, branches)
    params = {"name": "cond", "symbolic_zeros": True}
    out = context.trace.process_custom_jvp_call(
        custom_jvp_call_p, selection, selection.jvp, [index, *operands], params
    )
    return list(out), [0 for _ in out]


class _Selection:
    """The results of each example's branch, from an index for each and operands batched at `dims`.

    Results have their batch axes in front, as has the index.
    """

    def __init__(self, axis: BatchAxis, dims: Sequence[Dim], branches: Branches) -> None:
        self.axis, self.dims, self.branches = axis, dims, branches

    def __call__(self, index: Any, *operands: Any) -> list[Any]:
        return self._selected(index, lambda *_: (operands, self.dims))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Differentiates branches whose operands are constants for examples that do not take them.

        Otherwise an infinite derivative in a branch that is not taken, times the cotangent 0 of its
        result, would be NaN.
        """
        index, *operands = primals
        moves = [type(t) is not Zero for t in tangents[1:]]

        def guarded(*given: Any) -> list[Any]:
            def own(index: Any, branch: int) -> tuple[list[Any], list[Dim]]:
                taken = ops.eq(index, np.int32(branch))
                pairs = [
                    self._constant_unless(taken, x, d) if m or _may_move_later(x, d) else (x, d)
                    for x, d, m in zip(given, self.dims, moves, strict=True)
                ]
                return [x for x, _ in pairs], [d for _, d in pairs]

            return self._selected(index, own)

        return jvp_flat(guarded, operands, tangents[1:])

    def _selected(
        self, index: Any, operands: Callable[[Any, int], tuple[Sequence[Any], Sequence[Dim]]]
    ) -> list[Any]:
        index = ops.bind("clamp", np.int32(0), index, np.int32(len(self.branches) - 1))
        columns: list[list[Any]] = []
        for i, closed in enumerate(self.branches):
            given, dims = operands(index, i)
            found, places = batch_flat(as_function(closed), self.axis, given, dims)
            columns.append([at_front(self.axis, x, d) for x, d in zip(found, places, strict=True)])
        which = ops.bind("ne", index, np.int32(0)) if len(self.branches) == 2 else index
        return [
            ops.bind("select_n", _over_axes(which, get_aval(cases[0]).shape), *map(_strong, cases))
            for cases in zip(*columns, strict=True)
        ]

    def _constant_unless(self, taken: Any, x: Any, dim: Dim) -> tuple[Any, Dim]:
        """The operand `x`, constant to differentiation for examples where `taken` is false."""
        if is_float0(tangent_aval(get_aval(x))):
            return x, dim
        x = at_front(self.axis, x, dim)
        mask = _over_axes(taken, get_aval(x).shape)
        return ops.select(mask, x, ops.bind("stop_gradient", x)), 0


def _may_move_later(x: Any, dim: Dim) -> bool:
    """Whether to guard an operand without tangent for derivatives of the derivative.

    Not an array that all examples share and a program is being traced for: it would be repeated for
    each example, and be differentiated with the program at most.
    """
    if not isinstance(x, Tracer):
        return False
    return dim is not None or not get_aval(x).shape or not isinstance(x, JaxprTracer)


def _over_axes(which: Any, shape: Sequence[int]) -> Any:
    """`which`, with the batch axis alone, repeated over the further axes of `shape`."""
    mask = expand_dims(which, range(1, len(shape))) if len(shape) > 1 else which
    return broadcast_to(mask, shape)


# ---- dead code


def _dce(used_outputs: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
    """Drops results nobody reads, and the operands that no branch needs for the others."""
    if not any(used_outputs) and not eqn.effects:
        return None
    branches: Branches = eqn.params["branches"]
    used = _union([dce_jaxpr(b.jaxpr, used_outputs)[1] for b in branches])
    smaller = tuple(
        ClosedJaxpr(dce_jaxpr(b.jaxpr, used_outputs, used)[0], b.consts) for b in branches
    )
    return eqn.replace(
        invars=[eqn.invars[0], *(v for v, u in zip(eqn.invars[1:], used, strict=True) if u)],
        outvars=[v for v, u in zip(eqn.outvars, used_outputs, strict=True) if u],
        params={"branches": smaller},
    )


cond_p = define(
    "cond",
    family="cond",
    doc="One of several programs, by an index.",
    interprets=True,
    abstract=_abstract,
    reference=_reference,
    jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    transpose=_transpose,
    batch=_batch,
    multiple_results=True,
    eager="inline",
    dce=_dce,
    vma=_vma,
    kind=ProgramPrimitive,
)
