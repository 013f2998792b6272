"""Factorizations as the custom calls that JAX writes for LAPACK's routines.

XLA has functions of these names for processors. Where a program is for other devices, too, those
that are loops elsewhere stay loops (`Target.lapack_calls`). A matrix for which a routine reports a
failure becomes NaN, as in the reference rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir.attributes import Integer32
from xpr.lowering.numerics import linalg_parts as parts
from xpr.lowering.registry import register_plain, rules
from xpr.primitives import _ops as ops
from xpr.primitives import linalg, linalg_general, linalg_householder, linalg_tridiagonal
from xpr.primitives._complex import real_dtype
from xpr.primitives.rules import broadcast_to, shape_of

_INT32 = np.dtype(np.int32)
_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
_TYPED_FFI = 4
_NO, _YES = ord("N"), ord("V")

Types = Sequence[tuple[tuple[int, ...], Any]]
Call = Callable[..., Value | Sequence[Value]]


def _layout(shape: Sequence[int], *, is_matrix: bool) -> str:
    """The order of axes in memory, the fastest first: LAPACK's matrices lie by columns."""
    axes = list(range(len(shape)))[::-1]
    if is_matrix:
        axes[:2] = axes[1::-1]
    found = f"[{', '.join(map(str, axes))}]" if axes else ""
    return f"dense<{found}> : tensor<{len(axes)}xindex>"


def _layouts(ranks: int, shapes: Sequence[Sequence[int]]) -> str:
    """Arrays of more axes than a stack of vectors has are matrices."""
    found = [_layout(s, is_matrix=len(s) >= ranks) for s in shapes]
    return f"[{', '.join(found)}]"


def _lapack(
    ctx: LoweringContext, routine: str, operands: Sequence[Value], types: Types, **config: Any
) -> list[Value]:
    """A call of a routine; `config` holds characters by their codes, flags and numbers."""
    ranks = max(len(v.shape) for v in operands)
    texts = [f"{key} = {_config(value)}" for key, value in sorted(config.items())]
    about = {
        "api_version": Integer32(_TYPED_FFI),
        "backend_config": f"{{{', '.join(texts)}}}",
        "call_target_name": f'"lapack_{_LETTERS[operands[0].dtype.name]}{routine}_ffi"',
        "operand_layouts": _layouts(ranks, [v.shape for v in operands]),
        "result_layouts": _layouts(ranks, [shape for shape, _ in types]),
    }
    return ctx.op("stablehlo.custom_call", list(operands), list(types), about)


def _config(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, Integer32) else f"{value} : ui8"


def _checked(
    ctx: LoweringContext, status: Value, found: Sequence[Value], nan: complex = np.nan
) -> list[Value]:
    """The results, NaN for the matrices that a routine could not do."""
    ok = ctx.compare("EQ", status, ctx.full_like(status, 0))
    out = []
    for x in found:
        mask = ctx.broadcast_in_dim(ok, x.shape, range(len(ok.shape)))
        out.append(ctx.select(mask, x, ctx.full_like(x, nan)))
    return out


def _not_finite(ctx: LoweringContext, x: Value) -> Value:
    """Which matrices have an element that is not finite: 1, else 0."""
    size = ctx.abs(x)
    finite = ctx.compare("LT", size, ctx.full_like(size, np.inf))
    axes = (len(x.shape) - 2, len(x.shape) - 1)
    true = ctx.constant(True, np.dtype(np.bool_))
    together = ctx.reduce([finite], [true], axes, lambda c, a, b: [c.and_(a, b)])[0]
    return ctx.convert(ctx.not_(together), _INT32)


def _triangle(ctx: LoweringContext, x: Value) -> Value:
    """What lies on and above the diagonal."""
    rank = len(x.shape)
    rows, columns = (ctx.iota("int32", x.shape, rank - i) for i in (2, 1))
    return ctx.select(ctx.compare("LE", rows, columns), x, ctx.full_like(x, 0))


def _rows(ctx: LoweringContext, x: Value, count: int) -> Value:
    limits = [*x.shape[:-2], count, x.shape[-1]]
    return ctx.slice(x, [0] * len(limits), limits)


# ---- LU


def _getrf(ctx: LoweringContext, x: Value) -> Sequence[Value]:
    batch, k = x.shape[:-2], min(x.shape[-2:])
    types = [(x.shape, x.dtype), ((*batch, k), _INT32), (batch, _INT32)]
    factors, pivots, _ = _lapack(ctx, "getrf", [x], types)
    pivots = ctx.sub(pivots, ctx.full_like(pivots, 1))
    order = ctx.inline(functools.partial(_permutation, size=x.shape[-2]), pivots)
    return [factors, pivots, order]


def _permutation(pivots: Any, *, size: int) -> Any:
    """The permutation that exchanges row i with row `pivots`[..., i], in order of i."""
    *batch, k = shape_of(pivots)
    which, rows = parts.places((*batch, k), -1), parts.places((*batch, size), -1)

    def chosen(is_it: Any, x: Any) -> Any:
        """The one element of each row that is chosen, for all places."""
        found = ops.bind("reduce_sum", parts.where(is_it, x), axes=(len(batch),))
        return broadcast_to(ops.reshape(found, (*batch, 1)), (*batch, size))

    def body(i: Any, pivots: Any, which: Any, rows: Any, order: Any) -> list[Any]:
        is_here = ops.eq(rows, broadcast_to(i, (*batch, size)))
        is_there = ops.eq(rows, chosen(ops.eq(which, broadcast_to(i, (*batch, k))), pivots))
        here, there = chosen(is_here, order), chosen(is_there, order)
        return [ops.select(is_here, there, ops.select(is_there, here, order))]

    return parts.repeated(k, body, [pivots, which, rows], [rows])[0]


# ---- QR


def _geqrf(ctx: LoweringContext, x: Value) -> Sequence[Value]:
    scales = (*x.shape[:-2], min(x.shape[-2:]))
    return _lapack(ctx, "geqrf", [x], [(x.shape, x.dtype), (scales, x.dtype)])


def _orgqr(ctx: LoweringContext, x: Value, scales: Value) -> Value:
    routine = "ungqr" if dtypes.is_complex(x.dtype) else "orgqr"
    return _lapack(ctx, routine, [x, scales], [(x.shape, x.dtype)])[0]


def _q_and_r(ctx: LoweringContext, packed: Value, scales: Value) -> list[Value]:
    """The factors of the sizes of the results."""
    q, r = ctx.out_avals[:2]
    m, n = packed.shape[-2:]
    columns = q.shape[-1]
    if columns > n:
        beside = [0] * (len(packed.shape) - 1)
        zero = ctx.constant(0, packed.dtype)
        reflections = ctx.pad(packed, zero, [*beside, 0], [*beside, columns - n])
    else:
        limits = [*packed.shape[:-1], columns]
        reflections = ctx.slice(packed, [0] * len(limits), limits)
    upper = _rows(ctx, packed, r.shape[-2]) if r.shape[-2] < m else packed
    return [_orgqr(ctx, reflections, scales), _triangle(ctx, upper)]


def _qr(ctx: LoweringContext, x: Value, *, full_matrices: bool) -> Sequence[Value]:
    return _q_and_r(ctx, *_geqrf(ctx, x))


def _geqp3(ctx: LoweringContext, x: Value) -> Sequence[Value]:
    batch, n = x.shape[:-2], x.shape[-1]
    places = ((*batch, n), _INT32)
    free = ctx.constant(0, _INT32, places[0])
    types = [(x.shape, x.dtype), places, ((*batch, min(x.shape[-2:])), x.dtype)]
    packed, order, scales = _lapack(ctx, "geqp3", [x, free], types)
    packed, scales = _checked(ctx, _not_finite(ctx, x), [packed, scales])
    return [packed, ctx.sub(order, ctx.full_like(order, 1)), scales]


def _qr_pivoted(ctx: LoweringContext, x: Value, *, full_matrices: bool) -> Sequence[Value]:
    packed, order, scales = _geqp3(ctx, x)
    return [*_q_and_r(ctx, packed, scales), order]


# ---- eigenvalues and singular values


def _syevd(ctx: LoweringContext, x: Value, *, lower: bool) -> Sequence[Value]:
    routine = "heevd" if dtypes.is_complex(x.dtype) else "syevd"
    types = [*((a.shape, a.dtype) for a in ctx.out_avals), (x.shape[:-2], _INT32)]
    uplo = ord("L" if lower else "U")
    *found, status = _lapack(ctx, routine, [x], types, mode=_YES, uplo=uplo)
    return _checked(ctx, status, found)


def _gesdd(
    ctx: LoweringContext, x: Value, *, full_matrices: bool, compute_uv: bool
) -> Sequence[Value]:
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    k = min(m, n)
    square = full_matrices or not compute_uv
    left, right = ((m, m), (n, n)) if square else ((m, k), (k, n))
    mode = "N" if not compute_uv else "A" if full_matrices else "S"
    types = [
        (x.shape, x.dtype),
        ((*batch, k), real_dtype(x.dtype)),
        ((*batch, *left), x.dtype),
        ((*batch, *right), x.dtype),
        (batch, _INT32),
    ]
    _, *found, status = _lapack(ctx, "gesdd", [x], types, mode=ord(mode))
    return _checked(ctx, status, found if compute_uv else found[:1])


def _geev(
    ctx: LoweringContext, x: Value, *, left: bool, right: bool, derivatives: bool
) -> Sequence[Value]:
    batch, vectors = x.shape[:-2], (x.shape, ctx.out_avals[0].dtype)
    values = [(x.shape[:-1], x.dtype)] * (1 if dtypes.is_complex(x.dtype) else 2)
    types = [*values, vectors, vectors, (batch, _INT32)]
    asked = {"compute_left": _YES if left else _NO, "compute_right": _YES if right else _NO}
    *real_and_imaginary, lefts, rights, status = _lapack(ctx, "geev", [x], types, **asked)
    pair = real_and_imaginary
    first = pair[0] if len(pair) == 1 else ctx.complex(*pair)
    found = [first, *[lefts] * left, *[rights] * right]
    return _checked(ctx, status, found, complex(np.nan, np.nan))


def _gees(ctx: LoweringContext, x: Value, *, vectors: bool) -> Sequence[Value]:
    batch, matrix = x.shape[:-2], (x.shape, x.dtype)
    values = [(x.shape[:-1], x.dtype)] * (1 if dtypes.is_complex(x.dtype) else 2)
    types = [matrix, matrix, *values, (batch, _INT32), (batch, _INT32)]
    mode = _YES if vectors else _NO
    found = _lapack(ctx, "gees", [x], types, mode=mode, sort=_NO)
    failed = ctx.or_(found[-1], _not_finite(ctx, x))
    return _checked(ctx, failed, found[: 1 + vectors])


# ---- similar matrices, and equations


def _gehrd(ctx: LoweringContext, x: Value) -> Sequence[Value]:
    types = [*((a.shape, a.dtype) for a in ctx.out_avals), (x.shape[:-2], _INT32)]
    ends = {"low": Integer32(1), "high": Integer32(x.shape[-1])}
    *found, status = _lapack(ctx, "gehrd", [x], types, **ends)
    return _checked(ctx, status, found)


def _sytrd(ctx: LoweringContext, x: Value, *, lower: bool) -> Sequence[Value]:
    routine = "hetrd" if dtypes.is_complex(x.dtype) else "sytrd"
    types = [*((a.shape, a.dtype) for a in ctx.out_avals), (x.shape[:-2], _INT32)]
    *found, status = _lapack(ctx, routine, [x], types, uplo=ord("L" if lower else "U"))
    return _checked(ctx, status, found)


def _gtsv(
    ctx: LoweringContext, lower: Value, diagonal: Value, upper: Value, b: Value
) -> Sequence[Value]:
    operands = [lower, diagonal, upper, b]
    types = [*((v.shape, v.dtype) for v in operands), (b.shape[:-2], _INT32)]
    *_, found, status = _lapack(ctx, "gtsv", operands, types)
    return _checked(ctx, status, [found])


def _register(primitive: Primitive, call: Call, *, has_loop: bool) -> None:
    """`call`; for empty matrices, and where there is no LAPACK but a loop, the common rule."""

    def lower(ctx: LoweringContext, *operands: Value, **params: Any) -> Any:
        is_common = has_loop and not ctx.target.lapack_calls
        if is_common or any(v.aval.size == 0 for v in operands) or params.get("perturb_singular"):
            return rules[primitive.name](ctx, *operands, **params)
        params.pop("perturb_singular", None)
        return call(ctx, *operands, **params)

    register_plain(primitive, lower)


_register(linalg.lu_p, _getrf, has_loop=True)
_register(linalg.qr_p, _qr, has_loop=True)
_register(linalg.qr_pivoted_p, _qr_pivoted, has_loop=False)
_register(linalg.eigh_p, _syevd, has_loop=True)
_register(linalg.svd_p, _gesdd, has_loop=True)
_register(linalg_general.eig_p, _geev, has_loop=False)
_register(linalg_general.schur_p, _gees, has_loop=False)
_register(linalg_householder.geqrf_p, _geqrf, has_loop=True)
_register(linalg_householder.geqp3_p, _geqp3, has_loop=False)
_register(
    linalg_householder.householder_product_p,
    lambda ctx, x, scales: _orgqr(ctx, x, scales),
    has_loop=True,
)
_register(linalg_householder.hessenberg_p, _gehrd, has_loop=False)
_register(linalg_householder.tridiagonal_p, _sytrd, has_loop=False)
_register(linalg_tridiagonal.tridiagonal_solve_p, _gtsv, has_loop=True)
