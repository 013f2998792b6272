"""Functions of matrices: the exponential, the square root, and any analytic function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core.trace import Tracer
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._operands import adjoint, epsilon, identities, product, real_dtype
from xpr.primitives.custom import stop_gradient
from xpr.primitives.linalg import triangular_solve
from xpr.scipy.linalg._columns import by_columns, column_of, solve_shifted
from xpr.scipy.linalg._operands import promoted, square_matrices, stacked
from xpr.scipy.linalg.eigenvalues import as_complex, schur
from xpr.transforms.derivatives import jvp

# ---- the exponential

# The degree of the Padé approximant and the norm up to which it is exact to rounding, by the size
# of real numbers: N. J. Higham, "The scaling and squaring method for the matrix exponential
# revisited", 2005, tables 2.3 (double precision) and A.1 (single).
_PADE = {8: (13, 5.371920351148152), 4: (7, 3.925724783138660)}


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponentials of matrices `A` [..., n, n]: 1 + A + A²/2 + ...

    The matrix is divided by a power of 2, a Padé approximant is taken, and squared as often; where
    that would be more than `max_squarings` times, the result is NaN. With `upper_triangular` the
    approximant is solved as a triangular equation. N. J. Higham, "The scaling and squaring method
    for the matrix exponential revisited", 2005, with the approximant of highest degree always.
    Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> expm(jnp.array([[0.0, 1.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    x = square_matrices("expm", A)
    if not x.size:
        return x
    degree, limit = _PADE[real_dtype(x).itemsize]
    norm = jnp.max(jnp.sum(jnp.abs(stop_gradient(x)), axis=-2), axis=-1)
    wanted = jnp.maximum(jnp.ceil(jnp.log2(norm / limit)), 0)
    count = jnp.where(wanted <= max_squarings, wanted, 0).astype(np.int32)[..., None, None]
    shrink = jnp.ldexp(jnp.ones_like(norm), -count[..., 0, 0])[..., None, None]
    even, odd = _pade(x * shrink.astype(x.dtype), degree)
    if upper_triangular:
        found = triangular_solve(even - odd, even + odd, left_side=True)
    else:
        found = jnp.linalg.solve(even - odd, even + odd)
    found = _squared(found, count, max_squarings)
    too_many = (wanted > max_squarings)[..., None, None]
    return jnp.where(too_many, np.nan, found)


def _pade(x: Array, degree: int) -> tuple[Array, Array]:
    """The even and the odd part of the numerator of the approximant of exp."""
    coefficients = [
        float(math.comb(degree, k) * math.factorial(2 * degree - k) // math.factorial(degree))
        for k in range(degree + 1)
    ]
    # All are divided by the last one's size for single precision's sake; the ratio is unchanged.
    coefficients = [c / coefficients[0] for c in coefficients]
    one = identities(x, x.shape[-1])
    square = product(x, x)
    powers = [one, square]
    while len(powers) <= min(degree // 2, 3):
        powers.append(product(powers[-1], square))

    def combined(terms: Sequence[float], powers: Sequence[Array]) -> Array:
        found = terms[0] * powers[0]
        for c, p in zip(terms[1:], powers[1:], strict=False):
            found = found + c * p
        return found

    def part(first: int) -> Array:
        terms = coefficients[first::2]
        low, high = terms[: len(powers)], terms[len(powers) :]
        found = combined(low, powers)
        # Degree 13: what is above x^6 is x^6 times a combination of the same powers.
        return found + product(powers[3], combined(high, powers[1:])) if high else found

    return part(0), product(x, part(1))


def _squared(x: Array, count: Array, most: int) -> Array:
    """Each matrix squared `count` [..., 1, 1] times, at most `most`."""
    if not isinstance(count, Tracer):
        for i in range(int(np.max(np.asarray(count)))):
            x = jnp.where(i < count, product(x, x), x)
        return x

    def step(x: Array, i: Array) -> tuple[Array, None]:
        def square(x: Array) -> Array:
            return jnp.where(i < count, product(x, x), x)

        return lax.cond(jnp.any(i < count), square, lambda x: x, x), None

    return lax.scan(step, x, jnp.arange(most))[0]


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """exp(A) and its derivative at `A` in the direction `E`, both [..., n, n].

    `method` "SPS" (the default) differentiates each step of `expm`; "blockEnlarge" takes the
    exponential of [[A, E], [0, A]]. Without `compute_expm` only the derivative is returned. A. H.
    Al-Mohy, N. J. Higham, "Computing the Fréchet derivative of the matrix exponential", 2009.
    Raises ValueError for another `method` and for other shapes.

    >>> import xpr.numpy as jnp
    >>> expm_frechet(jnp.zeros((1, 1)), jnp.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float32)
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"method must be 'SPS' or 'blockEnlarge', got {method!r}")
    x, direction = promoted("expm_frechet", A, E)
    square_matrices("expm_frechet", x)
    if x.shape != direction.shape:
        raise ValueError(
            f"expm_frechet requires A and E of one shape, got {x.shape} and {direction.shape}"
        )
    if method == "blockEnlarge":
        n = x.shape[-1]
        rows = [[x, direction], [jnp.zeros_like(x), x]]
        both = expm(jnp.concatenate([jnp.concatenate(r, axis=-1) for r in rows], axis=-2))
        value, moved = both[..., :n, :n], both[..., :n, n:]
    else:
        value, moved = jvp(expm, (x,), (direction,))
    return (value, moved) if compute_expm else moved


# ---- functions by Schur's form


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square roots of matrices `A` [..., n, n], always complex.

    They are found column by column from Schur's form. N. J. Higham, "Computing real square roots of
    a real matrix", 1987. There are no derivatives. Raises NotImplementedError for `blocksize` above
    1, ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.round(sqrtm(jnp.array([[4.0, 0.0], [5.0, 9.0]])).real, 3)
    Array([[2., 0.],
           [1., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise NotImplementedError("sqrtm works by single columns: blocksize must be 1")
    x = square_matrices("sqrtm", A)
    t, z = schur(x, output="complex")
    root = stacked(_root_of_triangle, x.ndim - 2)(t)
    return product(product(z, root), adjoint(z))


def _root_of_triangle(t: Array) -> Array:
    """The upper triangular R with R R = T: (R + r_jj) r_j = t_j for column j above the diagonal."""
    roots = jnp.sqrt(jnp.diagonal(t))

    def column(j: Array, r: Array) -> Array:
        x = solve_shifted(r, roots[j], column_of(t, j), j)
        # Where 0 x = b has no solution, the matrix has no square root.
        none = (roots + roots[j] == 0) & (x != 0)
        return jnp.where(none, jnp.nan, x).at[j].set(roots[j])

    return by_columns(jnp.diag(roots), column)


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """The function of matrices that `func` is of numbers, for a matrix `A` [n, n]; complex.

    `func` is applied to the vector of eigenvalues. Unless `disp`, the second result estimates the
    relative error, which grows as eigenvalues come close. The recurrence is B. N. Parlett's, "A
    recurrence among the elements of functions of triangular matrices", 1976, on Schur's form, by
    columns. There are no derivatives. Raises ValueError for other shapes.

    >>> import xpr.numpy as jnp
    >>> jnp.round(funm(jnp.array([[4.0, 0.0], [5.0, 9.0]]), jnp.sqrt).real, 3)
    Array([[2., 0.],
           [1., 3.]], dtype=float32)
    """
    x = square_matrices("funm", A)
    if x.ndim != 2:
        raise ValueError(f"funm requires one square matrix, got shape {x.shape}")
    t, z = schur(x, output="complex")
    at = jnp.diagonal(t)
    values = as_complex(func(at))

    def column(j: Array, f: Array) -> Array:
        above = jnp.where(jnp.arange(at.size) < j, column_of(t, j), 0)
        right = product(f, above[:, None])[:, 0] - values[j] * above
        return solve_shifted(t, -at[j], right, j).at[j].set(values[j])

    f = by_columns(jnp.diag(values), column)
    found = product(product(z, f), adjoint(z))
    return found if disp else (found, _parlett_error(t, f))


def _parlett_error(t: Array, f: Array) -> Array:
    """The unit of rounding over the least distance of eigenvalues, times the size of T off them."""
    at, eps = jnp.diagonal(t), epsilon(t)
    n = at.size
    pairs = jnp.triu(jnp.ones((n, n), bool), 1)
    gaps = jnp.where(pairs, jnp.abs(at[:, None] - at), jnp.inf)
    least = jnp.min(gaps, initial=jnp.inf)
    least = jnp.where(least == 0, eps, least)
    size = jnp.max(jnp.sum(jnp.abs(jnp.triu(t, 1)), axis=0), initial=0)
    error = jnp.clip(eps / least * size, eps, 1)
    return jnp.where(jnp.all(jnp.isfinite(f)), error, jnp.inf).astype(real_dtype(t))
