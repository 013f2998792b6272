"""The polar decomposition of matrices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.trace import get_aval
from xpr.primitives import _linalg_rules as matrices
from xpr.primitives import _ops as ops
from xpr.primitives import elementwise as el
from xpr.primitives._linalg_checks import check_matrices, real_type, strong
from xpr.primitives.linalg import cholesky, qr, triangular_solve
from xpr.primitives.power import sqrt
from xpr.primitives.reduce import reduce_max
from xpr.primitives.rules import full_like, shape_of

# More than this many steps are never needed in double precision, by the bound of the paper.
_STEPS = 10
# Above this weight the step by Cholesky factors is not stable.
_GREAT_WEIGHT = 100.0
_ROUNDING = 1e-15


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """U with orthonormal columns and Hermitian positive semidefinite H with U H = `x` [m, n].

    m is at least n. The results are U [m, n], H [n, n], the number of steps and whether they
    converged within `max_iterations` (10): U changes by less than (4 `eps`)^(1/3) of its norm,
    where `eps` is by default the spacing of the dtype's numbers at 1. `dynamic_shape` is the shape
    of the upper left part that counts, the rest being taken for zeros. `is_hermitian` is not used.
    By the dynamically weighted Halley iteration: Y. Nakatsukasa, Z. Bai, F. Gygi, "Optimizing
    Halley's iteration for computing the matrix polar decomposition", SIAM J. Matrix Anal. Appl. 31
    (2010). Raises TypeError for other dtypes than float32, float64, complex64 and complex128,
    ValueError for anything but one matrix with at least as many rows as columns.

    >>> import xpr.numpy as jnp
    >>> u, h, steps, converged = qdwh(jnp.array([[0.0, -2.0], [3.0, 0.0]]))
    >>> jnp.diagonal(h).round(3), bool(converged)
    (Array([3., 2.], dtype=float32), True)
    """
    del is_hermitian
    x = strong(x)
    aval = get_aval(x)
    check_matrices("qdwh", aval)
    if aval.ndim != 2 or aval.shape[0] < aval.shape[1]:
        raise ValueError(f"qdwh requires one matrix with m >= n, got shape {aval.shape}")
    if dynamic_shape is not None:
        x = matrices.kept(x, _inside(*dynamic_shape))
    real = real_type(aval)
    eps = float(np.finfo(real).eps) if eps is None else float(eps)
    limit = _STEPS if max_iterations is None else operator.index(max_iterations)
    u, steps, converged = _unitary(x, real, eps, limit)
    product = matrices.matmul(matrices.adjoint(u), x)
    h = ops.mul(ops.add(product, matrices.adjoint(product)), full_like(product, 0.5))
    return u, h, steps, converged


def _inside(m: Any, n: Any) -> Callable[[Any, Any], Any]:
    def test(row: Any, column: Any) -> Any:
        limits = (ops.broadcast_in_dim(ops.convert(k, np.int32), shape_of(row), ()) for k in (m, n))
        return ops.bind("and", *(ops.lt(i, k) for i, k in zip((row, column), limits, strict=True)))

    return test


def _unitary(x: Any, real: np.dtype[Any], eps: float, limit: int) -> tuple[Any, Any, Any]:
    """The unitary factor, the number of steps, and whether they converged."""
    tolerance = real.type((4 * eps) ** (1 / 3))
    # The greatest sums of columns and of rows bound the greatest singular value.
    sizes = el.abs(x)
    bound = sqrt(ops.mul(_greatest_sum(sizes, 0), _greatest_sum(sizes, 1)))
    bound = ops.select(ops.gt(bound, real.type(0)), bound, real.type(1))
    u = _scaled(ops.div(real.type(1), bound), x)
    steps, done = np.int32(0), np.False_
    for (a, b, c), converged in _weights(eps, limit):
        moved = (_step_by_qr if c > _GREAT_WEIGHT else _step_by_cholesky)(u, a, b, c)
        change, size = _frobenius(ops.sub(moved, u)), _frobenius(moved)
        # Steps after the last one that was needed change nothing.
        u = ops.select(ops.broadcast_in_dim(done, shape_of(u), ()), u, moved)
        steps = ops.add(steps, ops.select(done, np.int32(0), np.int32(1)))
        if converged:
            done = ops.bind("or", done, ops.lt(change, ops.mul(tolerance, size)))
    return u, steps, done


def _weights(low: float, limit: int) -> Iterator[tuple[tuple[float, float, float], bool]]:
    """The weights of each step, for singular values of at least `low`: (3.3) of the paper.

    They are known before the matrix is. With them, whether singular values of at least the first
    `low` are 1 after the step, to rounding: before, a small change means nothing. Two steps more
    than that are for smaller ones.
    """
    more = 2
    for _ in range(limit):
        square = low * low
        root = math.sqrt(1 + (d := (4 * (1 - square) / square**2) ** (1 / 3)))
        a = root + 0.5 * math.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        # Rounding may take the bound past 1, where the weights are not defined.
        low = min(1.0, low * (a + b * square) / (1 + c * square))
        converged = low > 1 - _ROUNDING
        yield (a, b, c), converged
        more -= converged
        if not more:
            return


def _step_by_qr(u: Any, a: float, b: float, c: float) -> Any:
    """b/c U + (a - b/c)/sqrt(c) Q1 Q2^H, with the blocks of Q of [sqrt(c) U; I] = Q R."""
    m, n = shape_of(u)
    identity = matrices.on_diagonal(full_like(matrices.rows(u, 0, n), 1))
    q, _ = qr(
        ops.bind("concatenate", _scaled(math.sqrt(c), u), identity, dimension=0),
        full_matrices=False,
    )
    product = matrices.matmul(matrices.rows(q, 0, m), matrices.adjoint(matrices.rows(q, m, m + n)))
    return ops.add(_scaled(b / c, u), _scaled((a - b / c) / math.sqrt(c), product))


def _step_by_cholesky(u: Any, a: float, b: float, c: float) -> Any:
    """b/c U + (a - b/c) U (I + c U^H U)^-1."""
    gram = _scaled(c, matrices.matmul(matrices.adjoint(u), u))
    factor = cholesky(ops.add(gram, matrices.on_diagonal(full_like(gram, 1))))
    solved = triangular_solve(factor, u, lower=True, transpose_a=True, conjugate_a=True)
    solved = triangular_solve(factor, solved, lower=True)
    return ops.add(_scaled(b / c, u), _scaled(a - b / c, solved))


def _scaled(factor: Any, x: Any) -> Any:
    """The matrix `x` times a real number."""
    if isinstance(factor, float):
        return ops.mul(full_like(x, factor), x)
    factor = ops.convert(factor, get_aval(x).dtype)
    return ops.mul(ops.broadcast_in_dim(factor, shape_of(x), ()), x)


def _frobenius(x: Any) -> Any:
    sizes = el.abs(x)
    return sqrt(ops.reduce_sum(ops.mul(sizes, sizes), (0, 1)))


def _greatest_sum(sizes: Any, axis: int) -> Any:
    return reduce_max(ops.reduce_sum(sizes, (axis,)), (0,))
