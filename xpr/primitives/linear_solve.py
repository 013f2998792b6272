"""The primitive of `lax.custom_linear_solve`: the solution of a linear system by a given program.

The system is `matvec(x) == b`. Derivatives are those of the solution, whatever the program does to
find it: with A the matrix of the system, A x = b gives A dx = db - dA x, and the cotangent of b is
the solution of the transposed system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, eval_jaxpr
from xpr.core.manual import of_operands
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import BatchAxis, Dim, at_front, batch_jaxpr
from xpr.interpreters.jvp import jvp_flat
from xpr.interpreters.transpose import is_linear
from xpr.interpreters.zeros import (
    Zero,
    add_tangents,
    is_float0,
    tangent_aval,
    zero_tangent,
    zeros,
)
from xpr.primitives import _ops as ops

# Parameters: `matvec` and `solve`, and `vecmat` and `transpose_solve` for the transposed system, or
# None. All take the same `num_consts` constants, then a vector; `solve` and `transpose_solve` may
# return auxiliary values after their solution.
Params = dict[str, Any]


def _abstract(
    *avals: ShapedArray, solve: ClosedJaxpr, num_consts: int, **_: Any
) -> list[ShapedArray]:
    for i, (found, want) in enumerate(zip(avals, solve.in_avals, strict=True)):
        if found.shape != want.shape or found.dtype != want.dtype:
            what = f"constant {i}" if i < num_consts else f"right-hand side {i - num_consts}"
            raise TypeError(
                f"custom_linear_solve: {what} should be {want.str_short()}, got {found.str_short()}"
            )
    return list(solve.out_avals)


def _reference(*args: Any, solve: ClosedJaxpr, **_: Any) -> list[Any]:
    return eval_jaxpr(solve.jaxpr, solve.consts, *args)


def _like(x: Any, wanted: ShapedArray) -> Any:
    """`x` in the dtype of the type `wanted`."""
    return x if get_aval(x).dtype == wanted.dtype else ops.convert(x, wanted.dtype)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    n: int = params["num_consts"]
    consts, b = primals[:n], primals[n:]
    matvec: ClosedJaxpr = params["matvec"]
    out = list(linear_solve_p.bind(*primals, **params))
    x = out[: len(b)]
    right = list(tangents[n:])
    if any(type(t) is not Zero for t in tangents[:n]):
        _, moved = jvp_flat(
            lambda *cs: eval_jaxpr(matvec.jaxpr, matvec.consts, *cs, *x), consts, tangents[:n]
        )
        for i, t in enumerate(moved):
            if type(t) is not Zero:
                right[i] = add_tangents(right[i], _like(ops.neg(t), get_aval(b[i])))
    if all(type(t) is Zero for t in right):
        return out, [zero_tangent(v) for v in out]
    # A right-hand side without a tangent may be an integer, so zeros have its type, not float0.
    filled = [zeros(get_aval(v)) if type(t) is Zero else t for t, v in zip(right, b, strict=True)]
    solved = linear_solve_p.bind(*consts, *filled, **params)[: len(b)]
    return out, [
        *(
            zero_tangent(v) if is_float0(tangent_aval(get_aval(v))) else t
            for v, t in zip(x, solved, strict=True)
        ),
        *(zero_tangent(v) for v in out[len(b) :]),
    ]


def _transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
    n: int = params["num_consts"]
    consts, b = args[:n], args[n:]
    if any(is_linear(c) for c in consts):
        raise NotImplementedError(
            "custom_linear_solve is linear in its right-hand side only, not in what matvec and "
            "solve close over"
        )
    if params["transpose_solve"] is None:
        raise TypeError(
            "transpose_solve required for backwards mode automatic differentiation of "
            "custom_linear_solve"
        )
    given = cts[: len(b)]
    if all(type(ct) is Zero for ct in given):
        return [None] * len(args)
    types = params["solve"].in_avals[n:]
    right = [
        zeros(a) if type(ct) is Zero else _like(ct, a) for ct, a in zip(given, types, strict=True)
    ]
    turned = params | {
        "matvec": params["vecmat"],
        "vecmat": params["matvec"],
        "solve": params["transpose_solve"],
        "transpose_solve": params["solve"],
    }
    found = linear_solve_p.bind(*consts, *right, **turned)[: len(b)]
    return [
        *(None for _ in consts),
        *(_like(ct, v.aval) if is_linear(v) else None for ct, v in zip(found, b, strict=True)),
    ]


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[list[Any], list[Dim]]:
    """Each example has a system of its own; solutions and right-hand sides have the axis first."""
    n: int = params["num_consts"]
    right = [at_front(axis, x, d) for x, d in zip(args[n:], dims[n:], strict=True)]
    count = len(right)
    places = (*dims[:n], *(0 for _ in right))

    def batched(name: str) -> Any:
        closed: ClosedJaxpr | None = params[name]
        if closed is None:
            return None
        aux = len(closed.out_avals) - count
        return batch_jaxpr(closed, axis, places, (True,) * count + (False,) * aux)

    found = {name: batched(name) for name in ("matvec", "vecmat", "solve", "transpose_solve")}
    programs = {name: None if b is None else b.closed for name, b in found.items()}
    out = linear_solve_p.bind(*args[:n], *right, **params | programs)
    return list(out), list(found["solve"].out_dims)


linear_solve_p = define(
    "custom_linear_solve",
    family="linear_solve",
    doc="The solution of a linear system, by a given program.",
    abstract=_abstract,
    reference=_reference,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    multiple_results=True,
    eager="inline",
    vma=of_operands,
)
