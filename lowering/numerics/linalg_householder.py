"""QR by Householder reflections, in blocks of columns, without a host.

Reflections I - tau v v^H are kept as LAPACK keeps them: v below the diagonal, its leading 1 not
stored. A block of them is I - V T V^H: R. Schreiber, C. Van Loan, "A storage-efficient WY
representation for products of Householder transformations", 1989.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.trace import get_aval
from xpr.lowering.numerics import linalg_parts as parts
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._linalg_rules import adjoint, conjugate, swapped, triangle
from xpr.primitives.rules import broadcast_to, full_like, shape_of


def _reflection(column: Any, i: Any) -> tuple[Any, Any, Any]:
    """v (zeros above row `i`), tau and the new leading element, for a column [..., m, 1].

    tau and the sign are those of LAPACK's larfg: the leading element becomes real, of the sign
    opposite to that of its real part.
    """
    dtype = get_aval(column).dtype
    first, tail = parts.row(column, i), parts.from_row(column, i, strict=True)
    rest = parts.total(parts.squared(tail), (-2,))
    lead = parts.real(first)
    norm = parts.sqrt(ops.add(parts.squared(first), rest))
    beta = ops.select(ops.bind("ge", lead, full_like(lead, 0)), ops.neg(norm), norm)
    done = ops.eq(rest, full_like(rest, 0))
    if is_complex(dtype):
        imaginary = el.imag(first)
        done = ops.bind("and", done, ops.eq(imaginary, full_like(imaginary, 0)))
    one = full_like(first, 1)
    beta = ops.convert(beta, dtype)
    safe = ops.select(done, one, beta)
    tau = ops.select(done, full_like(first, 0), ops.div(ops.sub(beta, first), safe))
    scale = ops.select(done, one, ops.sub(first, beta))
    vector = parts.over(tail, scale)
    here = ops.eq(parts.places(shape_of(column), -2), broadcast_to(i, shape_of(column)))
    vector = ops.select(here, full_like(vector, 1), vector)
    return vector, tau, ops.select(done, first, beta)


def _panel(x: Any, offset: Any) -> list[Any]:
    """Columns as R and reflections, and tau [..., 1, b]; row `offset` is the first of R's."""
    shape = shape_of(x)

    def body(j: Any, offset: Any, x: Any, taus: Any) -> list[Any]:
        i = ops.add(offset, j)
        old = parts.column(x, j)
        vector, tau, lead = _reflection(old, i)
        wide = broadcast_to(vector, shape)
        projected = parts.inner(wide, x, -2)
        change = ops.mul(wide, broadcast_to(parts.times(projected, conjugate(tau)), shape))
        row = parts.places(shape_of(old), -2)
        here = broadcast_to(i, shape_of(old))
        column = ops.select(ops.gt(row, here), vector, old)
        column = ops.select(ops.eq(row, here), broadcast_to(lead, shape_of(old)), column)
        number = parts.places(shape, -1)
        here = broadcast_to(j, shape)
        updated = ops.select(ops.gt(number, here), ops.sub(x, change), x)
        x = ops.select(ops.eq(number, here), broadcast_to(column, shape), updated)
        return [x, parts.with_column(taus, tau, j)]

    taus = full_like(parts.rows(x, 0, 1), 0)
    return parts.repeated(shape[-1], body, [offset], [x, taus])


def _vectors(panel: Any, offset: Any) -> Any:
    """V of factored columns: zeros, ones on a diagonal that starts at row `offset`, v below."""
    shape = shape_of(panel)
    diagonal = ops.add(parts.places(shape, -1), broadcast_to(offset, shape))
    row = parts.places(shape, -2)
    below = parts.where(ops.gt(row, diagonal), panel)
    return parts.materialized(ops.select(ops.eq(row, diagonal), full_like(below, 1), below))


def _kernel(vectors: Any, taus: Any) -> Any:
    """T with H_1 H_2 ... = I - V T V^H: (I + D S) T = D, D = diag(tau), S strictly upper V^H V."""
    width = shape_of(vectors)[-1]
    taus = swapped(taus)
    upper = triangle(parts.product(adjoint(vectors), vectors), lower=False, strict=True)
    upper = parts.materialized(parts.times(upper, taus))
    start = parts.materialized(parts.times(parts.identity(vectors, width), taus))

    def body(i: Any, upper: Any, t: Any) -> list[Any]:
        j = ops.sub(np.int32(width - 1), i)
        column = broadcast_to(parts.column(upper, j), shape_of(t))
        return [ops.sub(t, ops.mul(column, broadcast_to(parts.row(t, j), shape_of(t))))]

    (t,) = parts.repeated(width, body, [upper], [start])
    return t


def geqrf(x: Any) -> list[Any]:
    """R with the reflections below it, and their tau."""
    *batch, m, n = shape_of(x)
    k = min(m, n)
    block = parts.block_size(k)
    count = -(-k // block)
    height, width = max(m, count * block), -(-n // block) * block
    x = parts.padded(x, height, width)
    if count == 1 and width == block:
        x, taus = _panel(x, np.int32(0))
    else:

        def body(i: Any, x: Any, taus: Any) -> list[Any]:
            offset = ops.mul(i, np.int32(block))
            panel, found = _panel(parts.column_block(x, i, block), offset)
            v = _vectors(panel, offset)
            t = _kernel(v, found)
            change = parts.product(v, parts.product(adjoint(t), parts.product(adjoint(v), x)))
            column = parts.places(shape_of(x), -1)
            end = broadcast_to(ops.add(offset, np.int32(block)), shape_of(x))
            x = ops.select(ops.bind("ge", column, end), ops.sub(x, change), x)
            x = parts.with_column_block(x, panel, i)
            return [x, parts.with_column_block(taus, found, i)]

        taus = parts.columns(full_like(parts.rows(x, 0, 1), 0), 0, count * block)
        x, taus = parts.repeated(count, body, [], [x, taus])
    x = parts.columns(parts.rows(x, 0, m), 0, n)
    return [x, ops.reshape(parts.columns(taus, 0, k), (*batch, k))]


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of the reflections that `geqrf` left in `a`."""
    *batch, m, n = shape_of(a)
    k = shape_of(taus)[-1]
    identity = broadcast_to(np.eye(m, n, dtype=get_aval(a).dtype), (*batch, m, n))
    if k == 0:
        return identity
    block = parts.block_size(k)
    count = -(-k // block)
    a = parts.padded(parts.columns(a, 0, k), m, count * block)
    taus = parts.padded(ops.reshape(taus, (*batch, 1, k)), 1, count * block)

    def body(i: Any, a: Any, taus: Any, q: Any) -> list[Any]:
        i = ops.sub(np.int32(count - 1), i)
        v = _vectors(parts.column_block(a, i, block), ops.mul(i, np.int32(block)))
        t = _kernel(v, parts.column_block(taus, i, block))
        change = parts.product(v, parts.product(t, parts.product(adjoint(v), q)))
        return [ops.sub(q, change)]

    if count == 1:
        return body(np.int32(0), a, taus, identity)[0]
    (q,) = parts.repeated(count, body, [a, taus], [identity])
    return q


def qr(x: Any, *, full_matrices: bool) -> list[Any]:
    """Q with orthonormal columns and R, with the signs of LAPACK's geqrf."""
    *_, m, n = shape_of(x)
    k = min(m, n)
    width = m if full_matrices else k
    factors, taus = geqrf(x)
    factors = parts.materialized(factors)
    vectors = parts.padded(parts.columns(factors, 0, k), m, width)
    r = triangle(parts.rows(factors, 0, width), lower=False)
    return [householder_product(vectors, parts.materialized(taus)), r]
