"""Products of matrices, and their diagonals, as the array API standard has them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from xpr.core.trace import get_aval
from xpr.numpy import products as _products
from xpr.numpy import triangular as _triangular
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.linalg._operands import check_square, identities, product
from xpr.numpy.linalg.solvers import inv


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return _triangular.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Array:
    """The sums of the diagonals of matrices.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.trace(jnp.array([[1, 2], [3, 4]]))
    Array(5, dtype=int32)
    """
    return _products.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of each element of one vector with each of another.

    Raises ValueError for arrays that are no vectors.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    shapes = [get_aval(as_operand("jnp.linalg.outer", x, i)).shape for i, x in enumerate((x1, x2))]
    if any(len(s) != 1 for s in shapes):
        raise ValueError(
            "Input arrays must be one-dimensional, but they are "
            f"x1.ndim={len(shapes[0])} x2.ndim={len(shapes[1])} (jnp.linalg.outer)"
        )
    return _products.outer(x1, x2)


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The vector products of vectors of 3 elements along `axis`.

    Raises ValueError for other sizes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    a, b = (
        as_array(as_operand("jnp.linalg.cross", x1)),
        as_array(as_operand("jnp.linalg.cross", x2, 1)),
    )
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={a.shape[axis]} and x2.shape[axis]={b.shape[axis]}: jnp.linalg.cross "
            f"of shapes {a.shape} and {b.shape} with axis={axis}"
        )
    return _products.cross(a, b, axis=axis)


# ---- several matrices


def matrix_power(a: ArrayLike, n: int) -> Array:
    """The product of `n` matrices `a` [..., m, m], by repeated squares.

    For `n` = 0 it is the identity, for negative `n` the product of inverses, which is floating.
    Raises TypeError for another `n` than an integer, ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 5)
    Array([[1, 5],
           [0, 1]], dtype=int32)
    """
    x = as_array(as_operand("jnp.linalg.matrix_power", a))
    check_square("matrix_power", x)
    try:
        exponent = operator.index(n)
    except TypeError:
        raise TypeError(f"exponent must be an integer, got {n}") from None
    if not exponent:
        return identities(x, x.shape[-1])
    if exponent < 0:
        x, exponent = inv(x), -exponent
    found = None
    while True:
        if exponent & 1:
            found = x if found is None else product(found, x)
        exponent >>= 1
        if not exponent:
            return found if found is not None else x
        x = product(x, x)


def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """The product of several matrices, in the order of least work.

    The first and the last may be vectors. The order is found by dynamic programming. Raises
    ValueError for no array, for other numbers of axes and for sizes that do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    given = [as_operand("jnp.linalg.multi_dot", x, i) for i, x in enumerate(arrays)]
    if not given:
        raise ValueError("multi_dot requires at least one array")
    factors: list[Any] = list(promote_dtypes(*given))
    shapes = [get_aval(x).shape for x in factors]
    last = len(shapes) - 1
    if any(len(s) not in ((1, 2) if i in (0, last) else (2,)) for i, s in enumerate(shapes)):
        raise ValueError(
            "multi_dot requires matrices; the first and the last may be vectors. Got shapes "
            f"{shapes}"
        )
    if any(s[-1] != t[0] for s, t in itertools.pairwise(shapes)):
        raise ValueError(
            "multi_dot: the last axis of each array must be as long as the first one of the next, "
            f"got shapes {shapes}"
        )
    rows = shapes[0][0] if len(shapes[0]) == 2 else 1
    columns = shapes[last][1] if len(shapes[last]) == 2 else 1
    split = _best_splits([rows, *(s[0] for s in shapes[1:]), columns] if last else [1, 1])

    def between(i: int, j: int) -> Any:
        if i == j:
            return factors[i]
        k = split[i, j]
        return _products.matmul(between(i, k), between(k + 1, j), precision=precision)

    return as_array(between(0, last))


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For factors i to j, of `sizes[i]` rows and `sizes[i + 1]` columns, where to split first.

    T. H. Cormen and others, "Introduction to Algorithms", on the multiplication of chains.
    """
    count = len(sizes) - 1
    work = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            work[i, j], split[i, j] = min(
                (work[i, k] + work[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split
