"""Functions that have derivative or batching rules of their own, and barriers to differentiation.

A call of such a function is an equation that holds its program and its rules. Transformations use
the rules; lowering and evaluation use the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.jaxpr import ClosedJaxpr, as_function, eval_closed
from xpr.core.manual import of_programs
from xpr.core.primitive import NotLinear, Primitive, define, invalid_argument
from xpr.core.trace import get_aval, is_valid_value
from xpr.interpreters.batching import (
    BatchAxis,
    BatchTrace,
    Dim,
    at_front,
    broadcast_batch,
)
from xpr.interpreters.jvp import jvp_flat, jvp_jaxpr
from xpr.interpreters.transpose import backward_pass
from xpr.interpreters.zeros import Zero, instantiate, is_float0, tangent_aval, zero_tangent
from xpr.primitives import _custom_linear as _custom_linear
from xpr.primitives._custom_batching import BatchedCall, BwdRule, FwdRule, JvpRule
from xpr.primitives.rules import ElementwiseBatch, LinearJVP, NoTangent

__all__ = ["stop_gradient"]

_FAMILY = "custom"


def _call_abstract(*avals: ShapedArray, call_jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    if len(avals) != len(call_jaxpr.in_avals):
        raise TypeError(
            f"a custom call takes {len(call_jaxpr.in_avals)} operands, got {len(avals)}"
        )
    return list(call_jaxpr.out_avals)


def _call_reference(*args: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_closed(call_jaxpr, args)


def _by_the_trace(*_: Any, **__: Any) -> Any:
    raise AssertionError("traces apply the rules of custom calls themselves")


# ---- functions with a JVP rule


class CustomJVPCall(Primitive):
    """Its `bind` hands the function and its rule to the current trace."""

    __slots__ = ()

    def bind(
        self, *args: Any, call_jaxpr: ClosedJaxpr, jvp: JvpRule, num_consts: int, **params: Any
    ) -> Any:
        @functools.wraps(jvp)
        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            return jvp(primals[num_consts:], tangents[num_consts:])

        return context.trace.process_custom_jvp_call(
            self, as_function(call_jaxpr), rule, args, params
        )

    def batched(self, trace: BatchTrace, dims: Sequence[Dim], name: str) -> BatchedCall:
        """The call on operands whose batch axes are at `dims`."""
        return BatchedCall(trace, dims, name)


def _call_transpose(cts: Sequence[Any], *args: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> list[Any]:
    """Of a call with linear operands: its function is linear in them, whatever its rule says."""
    return backward_pass(call_jaxpr.jaxpr, call_jaxpr.consts, args, cts)


custom_jvp_call_p = define(
    "custom_jvp_call",
    family=_FAMILY,
    doc="Calls a function that has a JVP rule of its own.",
    calls="call_jaxpr",
    abstract=_call_abstract,
    reference=_call_reference,
    jvp=_by_the_trace,
    transpose=_call_transpose,
    batch=_by_the_trace,
    multiple_results=True,
    pp_params=lambda params: {
        "name": params["name"],
        "call_jaxpr": params["call_jaxpr"],
        "jvp": _rule_name(params["jvp"]),
        "symbolic_zeros": params["symbolic_zeros"],
    },
    kind=CustomJVPCall,
    vma=of_programs,
)


def _rule_name(rule: Any) -> str:
    return getattr(rule, "__name__", type(rule).__name__)


# ---- functions with a VJP rule


class CustomVJPCall(Primitive):
    """Its `bind` hands the function and its rules to the current trace.

    Its function and rules may read and write references: the rules get them as they are.
    """

    __slots__ = ()
    takes_references = True

    def bind(
        self,
        *args: Any,
        call_jaxpr: ClosedJaxpr,
        fwd: FwdRule,
        bwd: BwdRule,
        num_consts: int,
        **params: Any,
    ) -> Any:
        @functools.wraps(fwd)
        def inner_fwd(primals: Sequence[Any], perturbed: Sequence[bool]) -> Any:
            return fwd(primals[num_consts:], perturbed[num_consts:])

        @functools.wraps(bwd)
        def inner_bwd(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            return [*[None] * num_consts, *bwd(residuals, cts)]

        return context.trace.process_custom_vjp_call(
            self, as_function(call_jaxpr), inner_fwd, inner_bwd, args, params
        )

    def batched(self, trace: BatchTrace, dims: Sequence[Dim], name: str) -> BatchedCall:
        """The call on operands whose batch axes are at `dims`."""
        return BatchedCall(trace, dims, name)

    def linear_call(
        self,
        fwd: FwdRule,
        bwd: BwdRule,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        params: dict[str, Any],
    ) -> tuple[list[Any], list[Any]]:
        """Results by `fwd`, and their tangents as a linear call that is transposed to `bwd`."""
        perturbed = tuple(type(t) is not Zero for t in tangents)
        residuals, out = fwd(primals, perturbed)
        given = [t for t in tangents if type(t) is not Zero]
        inexact = [not is_float0(tangent_aval(get_aval(x))) for x in out]
        moved = iter(
            custom_lin_p.bind(
                *residuals,
                *given,
                num_res=len(residuals),
                bwd=bwd,
                perturbed=perturbed,
                inexact=tuple(inexact),
                out_avals=tuple(tangent_aval(get_aval(x)).strip_weak_type() for x in out),
                symbolic_zeros=params["symbolic_zeros"],
            )
        )
        return list(out), [
            next(moved) if wide else zero_tangent(x) for x, wide in zip(out, inexact, strict=True)
        ]


custom_vjp_call_p = define(
    "custom_vjp_call",
    family=_FAMILY,
    doc="Calls a function that has a VJP rule of its own.",
    calls="call_jaxpr",
    abstract=_call_abstract,
    reference=_call_reference,
    jvp=_by_the_trace,
    transpose=NotLinear("differentiation puts its rule in its place"),
    batch=_by_the_trace,
    multiple_results=True,
    pp_params=lambda params: {
        "name": params["name"],
        "bwd": _rule_name(params["bwd"]),
        "call_jaxpr": params["call_jaxpr"],
        "fwd": _rule_name(params["fwd"]),
        "symbolic_zeros": params["symbolic_zeros"],
    },
    kind=CustomVJPCall,
    vma=of_programs,
)


# ---- the linear part of a function with a VJP rule

_FORWARD_ERROR = "can't apply forward-mode autodiff (jvp) to a custom_vjp function."


def _lin_abstract(
    *_: ShapedArray, out_avals: Sequence[ShapedArray], inexact: Sequence[bool], **__: Any
) -> list[ShapedArray]:
    return [a for a, wide in zip(out_avals, inexact, strict=True) if wide]


def _refuse_forward_mode(*_: Any, **__: Any) -> Any:
    raise TypeError(_FORWARD_ERROR)


def _lin_transpose(
    cts: Sequence[Any],
    *args: Any,
    num_res: int,
    bwd: BwdRule,
    perturbed: Sequence[bool],
    inexact: Sequence[bool],
    out_avals: Sequence[ShapedArray],
    symbolic_zeros: bool,
) -> list[Any]:
    given = iter(cts)
    whole = [next(given) if wide else Zero(a) for a, wide in zip(out_avals, inexact, strict=True)]
    if not symbolic_zeros:
        whole = [instantiate(ct) for ct in whole]
    found = bwd(args[:num_res], whole)
    wanted = [ct for ct, p in zip(found, perturbed, strict=True) if p]
    return [*[None] * num_res, *wanted]


class CustomLin(Primitive):
    """Its residuals may be references, into which a backward rule writes."""

    __slots__ = ()
    takes_references = True


custom_lin_p = define(
    "custom_lin",
    family=_FAMILY,
    doc="The derivative of a function that has a VJP rule: it can only be transposed.",
    abstract=_lin_abstract,
    reference=_refuse_forward_mode,
    eager="inline",
    jvp=_refuse_forward_mode,
    transpose=_lin_transpose,
    batch=_refuse_forward_mode,
    multiple_results=True,
    vma=lambda avals, found, params: list(found),
    kind=CustomLin,
)


# ---- functions with a batching rule


VmapRule = Callable[[int, Sequence[bool], Sequence[Any]], tuple[Sequence[Any], Sequence[bool]]]


def _vmap_call_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    call_jaxpr: ClosedJaxpr,
    rule: VmapRule,
    num_consts: int,
    name: str,
) -> Any:
    """The call of the derivative: batched by the derivative of the rule."""
    moved = tuple(type(t) is not Zero for t in tangents)
    if any(moved[:num_consts]):
        # The rule does not see what the function closes over.
        return jvp_flat(as_function(call_jaxpr), primals, tangents)
    program, nonzero = jvp_jaxpr(call_jaxpr, moved, False)
    given = [t for t, m in zip(tangents, moved, strict=True) if m]
    found = custom_vmap_call_p.bind(
        *primals,
        *given,
        call_jaxpr=program,
        rule=_derivative_rule(rule, moved[num_consts:], nonzero),
        num_consts=num_consts,
        name=f"jvp({name})",
    )
    count = len(nonzero)
    rest = iter(found[count:])
    out_tangents = [
        next(rest) if nz else zero_tangent(x) for x, nz in zip(found[:count], nonzero, strict=True)
    ]
    return found[:count], out_tangents


def _derivative_rule(rule: VmapRule, moved: Sequence[bool], nonzero: Sequence[bool]) -> VmapRule:
    """The batching rule of the derivative: of `*arguments, *tangents` of those that have one."""

    def batch(
        size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        given = iter(zip(args[len(moved) :], batched[len(moved) :], strict=True))
        primals: list[Any] = []
        tangents: list[Any] = []
        flags: list[bool] = []
        for x, own, has in zip(args, batched, moved, strict=False):
            t, too = next(given) if has else (None, own)
            axis = own or too
            x = broadcast_batch(x, size) if axis and not own else x
            t = broadcast_batch(t, size) if axis and not too else t
            primals.append(x)
            tangents.append(zero_tangent(x) if t is None else t)
            flags.append(axis)
        marks: list[bool] = []

        def values(*xs: Any) -> Sequence[Any]:
            out, marks[:] = rule(size, flags, xs)
            return out

        out, out_tangents = jvp_flat(values, primals, tangents)
        wanted = [
            (instantiate(t), m) for t, m, nz in zip(out_tangents, marks, nonzero, strict=True) if nz
        ]
        return [*out, *(t for t, _ in wanted)], [*marks, *(m for _, m in wanted)]

    return batch


def _vmap_call_linear(
    primals: Sequence[Any], tangents: Sequence[Any], *, call_jaxpr: ClosedJaxpr, **_: Any
) -> Any:
    return jvp_flat(as_function(call_jaxpr), primals, tangents)


def _vmap_call_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    rule: VmapRule,
    num_consts: int,
    **_: Any,
) -> tuple[list[Any], list[Dim]]:
    if any(d is not None for d in dims[:num_consts]):
        raise NotImplementedError(
            "custom_vmap: a value that the function closes over is mapped; pass it as an argument"
        )
    moved = [x if d is None else at_front(axis, x, d) for x, d in zip(args, dims, strict=True)]
    batched = [d is not None for d in dims]
    out, out_batched = rule(axis.size, batched[num_consts:], moved[num_consts:])
    return list(out), [0 if b else None for b in out_batched]


def _inline(trace: Any, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    del trace
    return _call_reference(*args, **params)


def _inline_linearize(
    trace: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    del trace
    return _vmap_call_linear(primals, tangents, **params)


custom_vmap_call_p = define(
    "custom_vmap_call",
    family=_FAMILY,
    doc="Calls a function that has a batching rule of its own.",
    calls="call_jaxpr",
    abstract=_call_abstract,
    reference=_call_reference,
    jvp=_vmap_call_jvp,
    transpose=NotLinear("its program is differentiated in its place"),
    batch=_vmap_call_batch,
    multiple_results=True,
    eager="inline",
    linearize=_inline_linearize,
    partial_eval=_inline,
    vma=of_programs,
)


# ---- barriers and names


def _same(x: Any, **_: Any) -> Any:
    return x


stop_gradient_p = define(
    "stop_gradient",
    family=_FAMILY,
    doc="x, as a constant to differentiation.",
    abstract=_same,
    reference=_same,
    jvp=NoTangent(),
    transpose=NotLinear("its derivative is zero"),
    batch=ElementwiseBatch(),
)

name_p = define(
    "name",
    family=_FAMILY,
    doc="x, under a name that the policies of checkpoint know.",
    abstract=_same,
    reference=_same,
    jvp=LinearJVP(),
    transpose=lambda ct, x, *, name: [ct],
    batch=ElementwiseBatch(),
)


def stop_gradient(x: Any) -> Any:
    """The array `x` (or each array of a pytree) as a constant: derivatives do not pass it.

    >>> import xpr
    >>> xpr.grad(lambda x: x * xpr.lax.stop_gradient(x))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    from xpr.tree_util import tree_map  # noqa: PLC0415

    return tree_map(_stop, x)


def _stop(x: Any) -> Any:
    if not is_valid_value(x):
        raise invalid_argument(x, "stop_gradient")
    aval = get_aval(x)
    return x if is_float0(tangent_aval(aval)) else stop_gradient_p.bind(x)
