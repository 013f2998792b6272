"""Hermitian eigenvalues and singular values by one-sided Jacobi rotations, without a host.

Vectors (rows of an array here, so that they are contiguous) are made orthogonal by rotations of
pairs: M. R. Hestenes, "Inversion of matrices by biorthogonalization and related results", 1958. All
n/2 pairs of a round are rotated at once; a tournament in which one vector stays and the others move
on by one place lets all pairs meet in n - 1 rounds: R. P. Brent, F. T. Luk, "The solution of
singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.dtypes import is_complex
from xpr.core.trace import get_aval
from xpr.lowering.numerics import linalg_parts as parts
from xpr.lowering.numerics.linalg_householder import qr
from xpr.lowering.numerics.linalg_loops import cholesky
from xpr.primitives import _ops as ops
from xpr.primitives._linalg_rules import (
    adjoint,
    along_columns,
    along_rows,
    conjugate,
    diagonal_of,
    on_diagonal,
    swapped,
    triangle,
)
from xpr.primitives.rules import broadcast_to, full_like, shape_of

# Sweeps after which the loop ends, converged or not. About 6 to 10 are needed.
_SWEEPS = 40


def _rotated(top: Any, bottom: Any, length: int, least: Any) -> tuple[Any, Any, Any]:
    """The pairs of rows made orthogonal in their first `length` columns, and the greatest cosine.

    Products of norms below `least` count as `least`: such rows are zero but for rounding. The
    angles are those of Golub and Van Loan, "Matrix Computations", 4th edition, 8.5.2.
    """
    x, y = parts.columns(top, 0, length), parts.columns(bottom, 0, length)
    product = parts.inner(x, y, -1)
    xx, yy = parts.total(parts.squared(x), (-1,)), parts.total(parts.squared(y), (-1,))
    size = parts.sqrt(parts.squared(product))
    norms = parts.sqrt(ops.mul(xx, yy))
    cosine = ops.div(size, ops.bind("max", norms, parts.broadcast_like(least, norms)))
    rotates = ops.gt(cosine, full_like(cosine, _tolerance(top)))
    one = full_like(size, 1)
    if is_complex(get_aval(top).dtype):
        size = ops.select(rotates, size, one)
        phase = parts.over(conjugate(product), size)
        bottom = parts.times(bottom, ops.select(rotates, phase, full_like(phase, 1)))
    else:
        size = ops.select(rotates, product, one)
    zeta = ops.div(ops.sub(yy, xx), ops.add(size, size))
    root = parts.sqrt(ops.add(one, ops.mul(zeta, zeta)))
    tangent = ops.div(one, ops.add(ops.bind("abs", zeta), root))
    tangent = ops.select(ops.lt(zeta, full_like(zeta, 0)), ops.neg(tangent), tangent)
    tangent = parts.where(rotates, tangent)
    c = ops.div(one, parts.sqrt(ops.add(one, ops.mul(tangent, tangent))))
    s = ops.mul(c, tangent)
    # c x - s y as x - s (y + x s / (1 + c)): small rotations make small errors. H. Rutishauser,
    # "The Jacobi method for real symmetric matrices", 1966.
    half = ops.div(s, ops.add(one, c))
    first = ops.sub(top, parts.times(ops.add(bottom, parts.times(top, half)), s))
    second = ops.add(bottom, parts.times(ops.sub(top, parts.times(bottom, half)), s))
    return first, second, cosine


def _tolerance(x: Any) -> float:
    """The cosine up to which vectors count as orthogonal."""
    return float(np.finfo(parts.real_type(x)).eps)


def _moved(top: Any, bottom: Any) -> tuple[Any, Any]:
    """The next round of the tournament."""
    h = shape_of(top)[-2]
    first = parts.joined(
        [parts.rows(top, 0, 1), parts.rows(bottom, 0, 1), parts.rows(top, 1, h - 1)], -2
    )
    second = parts.joined([parts.rows(bottom, 1, h), parts.rows(top, h - 1, h)], -2)
    return first, second


def orthogonalized(x: Any, length: int) -> Any:
    """The rows of `x` [..., n, k], rotated until they are orthogonal in their first columns.

    Its elements must be finite.
    """
    n, width = shape_of(x)[-2:]
    if n == 1:
        return x
    half = (n + 1) // 2
    rounds = 2 * half - 1
    x = parts.padded(x, 2 * half, width)
    top, bottom = parts.rows(x, 0, half), parts.rows(x, half, 2 * half)
    start = parts.columns(x, 0, length)
    eps = _tolerance(x)
    least = parts.total(parts.squared(start), (-2, -1))
    least = ops.mul(least, full_like(least, eps))
    tiny = full_like(least, np.finfo(get_aval(least).dtype).tiny)
    least = ops.bind("max", least, tiny)
    rank = len(shape_of(x))

    def body(i: Any, least: Any, worst: Any, top: Any, bottom: Any) -> list[Any]:
        top, bottom, cosine = _rotated(top, bottom, length, least)
        found = ops.bind("reduce_max", cosine, axes=tuple(range(rank)), out_sharding=None)
        fresh = ops.eq(ops.bind("rem", i, np.int32(rounds)), np.int32(0))
        worst = ops.select(fresh, found, ops.bind("max", worst, found))
        if half > 1:
            top, bottom = _moved(top, bottom)
        return [worst, top, bottom]

    def done(i: Any, worst: Any, *_: Any) -> Any:
        ended = ops.eq(ops.bind("rem", i, np.int32(rounds)), np.int32(0))
        enough = np.asarray(eps * max(length, 1) ** 0.5, get_aval(least).dtype)[()]
        return ops.bind("and", ended, ops.bind("le", worst, enough))

    worst = np.asarray(np.inf, get_aval(least).dtype)[()]
    _, top, bottom = parts.repeated(_SWEEPS * rounds, body, [least], [worst, top, bottom], done)
    return parts.materialized(parts.rows(parts.joined([top, bottom], -2), 0, n))


def _order(keys: Any, *, descending: bool) -> Any:
    """Permutation matrices of `keys` [..., n]: element [i, j] says that i comes at place j.

    The place of an element is the number of those that come before it.
    """
    *batch, n = shape_of(keys)
    shape = (*batch, n, n)
    keys = ops.neg(keys) if descending else keys
    mine = ops.broadcast_in_dim(keys, shape, tuple(range(len(shape) - 1)))
    other = along_columns(keys, shape)
    earlier = ops.lt(parts.places(shape, -1), parts.places(shape, -2))
    tie = ops.bind("and", ops.eq(other, mine), earlier)
    before = ops.convert(ops.bind("or", ops.lt(other, mine), tie), parts.INT32)
    place = broadcast_to(parts.total(before, (-1,)), shape)
    return parts.materialized(ops.eq(place, parts.places(shape, -1)))


def _sorted(keys: Any, order: Any) -> Any:
    """`keys` [..., n] in the order that `_order` found."""
    shape = shape_of(order)
    repeated_keys = ops.broadcast_in_dim(keys, shape, tuple(range(len(shape) - 1)))
    return ops.reduce_sum(parts.where(order, repeated_keys), (len(shape) - 2,))


def _vector(x: Any) -> Any:
    """[..., n, 1] as [..., n]."""
    return ops.reshape(x, shape_of(x)[:-1])


def _scaled(x: Any) -> tuple[Any, Any]:
    """Matrices divided by their greatest element, and this, [..., 1, 1]; zero matrices as they are.

    Squares of elements then neither overflow nor vanish together.
    """
    parted = ops.bind("abs", x)
    most = parts.greatest(parted, (-2, -1))
    most = ops.select(ops.eq(most, full_like(most, 0)), full_like(most, 1), most)
    return parts.over(x, most), most


def eigh(x: Any, *, lower: bool) -> list[Any]:
    """Eigenvectors and ascending eigenvalues.

    The factor L of A + b I = L L^H, which is definite, has the eigenvectors of A as left singular
    vectors: K. Veselic, V. Hari, "A note on a one-sided Jacobi algorithm", 1989. Eigenvalues are
    Rayleigh quotients of A itself, whose errors are the squares of those of the vectors.
    """
    n = shape_of(x)[-1]
    x = triangle(x, lower=lower)
    fine = parts.finite_matrices(x)
    x = parts.where(broadcast_to(fine, shape_of(x)), x)
    strict = triangle(x, lower=lower, strict=True)
    real_diagonal = parts.broadcast_like(parts.real(on_diagonal(x)), x)
    x = ops.add(ops.add(strict, adjoint(strict)), real_diagonal)
    if n == 1:
        w = parts.nan_unless(fine, _vector(parts.real(x)))
        return [parts.nan_unless(fine, full_like(x, 1)), w]
    x, scale = _scaled(x)
    shift = _greatest_eigenvalue(x)
    factor = cholesky(ops.add(x, parts.times(parts.identity(x, n), shift)))
    rotated = orthogonalized(swapped(factor), n)
    v = swapped(parts.over(rotated, parts.sqrt(parts.total(parts.squared(rotated), (-1,)))))
    v, w = _refined(x, v)
    v = _orthonormal(v)
    order = _order(w, descending=False)
    v = parts.product(v, ops.convert(order, get_aval(v).dtype))
    w = _sorted(w, order)
    w = ops.mul(w, broadcast_to(_vector(scale), shape_of(w)))
    return [parts.nan_unless(fine, v), parts.nan_unless(fine, w)]


def _greatest_eigenvalue(x: Any) -> Any:
    """A bound of the absolute eigenvalues, [..., 1, 1], at most n^(1/16) + 1/8 times too large.

    It is the eighth root of the Frobenius norm of x^8.
    """
    bound: Any = None
    for i in range(4):
        x = parts.product(x, x) if i else x
        norm = parts.sqrt(parts.total(parts.squared(x), (-2, -1)))
        norm = ops.select(ops.eq(norm, full_like(norm, 0)), full_like(norm, 1), norm)
        x = parts.materialized(parts.over(x, norm))
        for _ in range(i):
            norm = parts.sqrt(norm)
        bound = norm if bound is None else ops.mul(bound, norm)
    return ops.mul(bound, full_like(bound, 1.125))


def _refined(x: Any, v: Any) -> tuple[Any, Any]:
    """Approximate eigenvectors `v` after a step of a Newton iteration, and eigenvalues.

    T. Ogita, K. Aishima, "Iterative refinement for symmetric eigenvalue decomposition", 2018. It
    removes what many rotations and the shift have added to the errors.
    """
    shape = shape_of(x)
    residual = parts.materialized(
        ops.sub(parts.identity(x, shape[-1]), parts.product(adjoint(v), v))
    )
    image = parts.product(adjoint(v), parts.product(x, v))
    lengths = parts.real(diagonal_of(residual))
    w = ops.div(parts.real(diagonal_of(image)), ops.sub(full_like(lengths, 1), lengths))
    w = parts.materialized(w)
    mine, other = along_columns(w, shape), along_rows(w, shape)
    gap = ops.sub(mine, other)
    rest = ops.sub(image, on_diagonal(image))
    error = parts.sqrt(parts.total(parts.squared(rest), (-2, -1)))
    slack = parts.sqrt(parts.total(parts.squared(residual), (-2, -1)))
    most = parts.greatest(ops.bind("abs", w), (-1,))
    slack = ops.mul(slack, ops.reshape(most, shape_of(slack)))
    close = ops.add(error, slack)
    apart = ops.gt(ops.bind("abs", gap), broadcast_to(ops.add(close, close), shape))
    top = ops.add(image, ops.mul(residual, parts.broadcast_like(mine, residual)))
    change = parts.over(top, ops.select(apart, gap, full_like(gap, 1)))
    change = ops.select(apart, change, ops.mul(residual, full_like(residual, 0.5)))
    return ops.add(v, parts.product(v, parts.materialized(change))), w


def svd(x: Any, *, full_matrices: bool, compute_uv: bool) -> list[Any]:
    """Descending singular values, U and V^H.

    Rotations W make the columns of R^H orthogonal, R from A = Q R: R^H W = V S, U = Q W. V comes
    from the QR factorisation of R^H W, so that it is orthonormal where singular values vanish.
    Z. Drmac, K. Veselic, "New fast and accurate Jacobi SVD algorithm", 2008.
    """
    m, n = shape_of(x)[-2:]
    if m < n:
        found = svd(adjoint(x), full_matrices=full_matrices, compute_uv=compute_uv)
        return found if not compute_uv else [found[0], adjoint(found[2]), adjoint(found[1])]
    fine = parts.finite_matrices(x)
    x = parts.where(broadcast_to(fine, shape_of(x)), x)
    x, scale = _scaled(x)
    q, r = qr(x, full_matrices=full_matrices)
    r = parts.rows(r, 0, n)
    rotated = conjugate(r)
    if compute_uv:
        rotated = parts.joined([rotated, parts.identity(r, n)], -1)
    rotated = orthogonalized(rotated, n)
    found = parts.columns(rotated, 0, n)
    s = _vector(parts.sqrt(parts.total(parts.squared(found), (-1,))))
    order = _order(s, descending=True)
    s = ops.mul(_sorted(s, order), broadcast_to(_vector(scale), shape_of(s)))
    s = parts.nan_unless(fine, s)
    if not compute_uv:
        return [s]
    permutation = ops.convert(order, get_aval(x).dtype)
    w = parts.product(swapped(parts.columns(rotated, n, 2 * n)), permutation)
    w = parts.materialized(_orthonormal(parts.materialized(w)))
    v, signs = qr(parts.product(swapped(found), permutation), full_matrices=False)
    v = parts.times(v, _phases(signs))
    if full_matrices:
        w = parts.with_identity(w, m)
    return [s, parts.nan_unless(fine, parts.product(q, w)), parts.nan_unless(fine, adjoint(v))]


def _orthonormal(w: Any) -> Any:
    """The nearest unitary matrices, but for the square of the distance: a step of Newton's."""
    residual = ops.sub(parts.identity(w, shape_of(w)[-1]), parts.product(adjoint(w), w))
    return ops.add(w, parts.product(w, ops.mul(residual, full_like(residual, 0.5))))


def _phases(r: Any) -> Any:
    """The diagonal of `r` divided by its absolute values, [..., 1, n]; ones for zeros."""
    diagonal = diagonal_of(r)
    size = ops.bind("abs", diagonal)
    zero = ops.eq(size, full_like(size, 0))
    phase = parts.over(diagonal, ops.select(zero, full_like(size, 1), size))
    phase = ops.select(zero, full_like(phase, 1), phase)
    *batch, n = shape_of(phase)
    return ops.reshape(phase, (*batch, 1, n))
