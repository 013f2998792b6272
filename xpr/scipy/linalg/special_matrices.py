"""Matrices with a structure: Toeplitz, companion, Hilbert, Hadamard and the like.

Those that are made of given elements take stacks of vectors, the last axis, and give stacks of
matrices. Those that a size alone determines are constants, rounded once from exact numbers.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, one_inexact, promote_dtypes
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.primitives._linalg_checks import strong
from xpr.primitives.convert import convert_type

Host = np.ndarray[Any, Any]


def _vectors(name: str, x: Any) -> Array:
    return jnp.atleast_1d(strong(as_array(as_operand(name, x))))


def _as_weak_as(found: Array, *given: Any) -> Array:
    """The result, weakly typed if all operands are."""
    weak = all(get_aval(x).weak_type for x in given)
    return convert_type(found, found.dtype, weak)


def _filled(elements: Array, places: Host) -> Array:
    """Matrices whose elements are those of `elements` [..., k] at `places` [m, n]."""
    if not places.size:
        return jnp.zeros((*elements.shape[:-1], *places.shape), elements.dtype)
    return jnp.take(elements, places, axis=-1)


def _after_zero_and_one(x: Array) -> Array:
    """`x` with 0 and 1 before its last axis: places 0 and 1, then the elements."""
    lead = jnp.broadcast_to(jnp.array([0, 1], x.dtype), (*x.shape[:-1], 2))
    return jnp.concatenate([lead, x], axis=-1)


def _places(rows: int, columns: int) -> tuple[Host, Host]:
    return np.arange(rows)[:, None], np.arange(columns)


def _size(name: str, n: Any) -> int:
    size = operator.index(n)
    if size < 1:
        raise ValueError(f"{name}: n must be a positive integer; got {n}.")
    return size


def _float_constant(x: Any) -> Array:
    return jnp.asarray(np.asarray(x, np.float64), dtype=dtypes.default_dtype("f"))


# ---- elements along diagonals


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with constant diagonals: element (i, j) is c[i - j], or r[j - i] above the main one.

    `c` [..., m] is the first column, `r` [..., n] the first row, of which the first element is not
    read; by default the conjugate of `c`. The leading axes are broadcast.

    >>> import xpr.numpy as jnp
    >>> toeplitz(jnp.array([1, 2, 3]), jnp.array([0, 4]))
    Array([[1, 4],
           [2, 1],
           [3, 2]], dtype=int32)
    """
    column = _vectors("toeplitz", c)
    row = jnp.conj(column) if r is None else _vectors("toeplitz", r)
    m, n = column.shape[-1], row.shape[-1]
    return _diagonals(jnp.flip(row[..., 1:], -1), column, max(n - 1, 0), m, n, sign=-1)


def _diagonals(before: Array, after: Array, first: int, m: int, n: int, *, sign: int) -> Array:
    """Matrices whose element (i, j) is number first + i + sign j of both vectors' elements."""
    before, after = promote_dtypes(before, after)
    batch = jnp.broadcast_shapes(before.shape[:-1], after.shape[:-1])
    parts = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (before, after)]
    i, j = _places(m, n)
    return _filled(jnp.concatenate(parts, axis=-1), first + i + sign * j)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with constant antidiagonals: `c` [..., m] is the first column, `r` the last row.

    The first element of `r` [..., n] is not read; without `r` the last row holds zeros, m - 1 of
    them. The leading axes are broadcast. Raises ValueError for a number `c` or `r`.

    >>> import xpr.numpy as jnp
    >>> hankel(jnp.array([1, 2, 3]), jnp.array([0, 8, 9]))
    Array([[1, 2, 3],
           [2, 3, 8],
           [3, 8, 9]], dtype=int32)
    """
    given = [
        strong(as_array(as_operand("hankel", x, i))) for i, x in enumerate((c, r)) if x is not None
    ]
    for name, x in zip("cr", given, strict=False):
        if not x.ndim:
            raise ValueError(f"hankel: {name} must be at least 1-dimensional, got a scalar.")
    column = given[0]
    row = jnp.zeros_like(column) if r is None else given[1]
    return _diagonals(column, row[..., 1:], 0, column.shape[-1], row.shape[-1], sign=1)


def circulant(c: ArrayLike) -> Array:
    """Matrices with first column `c` [..., n] whose other columns are the one before, turned down.

    >>> import xpr.numpy as jnp
    >>> circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    x = _vectors("circulant", c)
    n = x.shape[-1]
    i, j = _places(n, n)
    return _as_weak_as(_filled(x, (i - j) % max(n, 1)), c)


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector of `n` elements is its convolution with `a` [..., m].

    `mode` is that of `xpr.numpy.convolve`: "full" (m + n - 1 rows), "same" (max(m, n)) or "valid"
    (max(m, n) - min(m, n) + 1). Raises ValueError for another one, an empty `a` or `n` below 1.

    >>> import xpr.numpy as jnp
    >>> convolution_matrix(jnp.array([1, 2]), 3, "same")
    Array([[1, 0, 0],
           [2, 1, 0],
           [0, 2, 1]], dtype=int32)
    """
    n = _size("convolution_matrix", n)
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    x = _vectors("convolution_matrix", a)
    m = x.shape[-1]
    if not m:
        raise ValueError(f"convolution_matrix: a must not be empty, got shape {x.shape}")
    least, most = min(m, n), max(m, n)
    start, rows = {
        "full": (0, m + n - 1),
        "same": ((least - 1) // 2, most),
        "valid": (least - 1, most - least + 1),
    }[mode]
    i, j = _places(rows, n)
    lag = i + start - j
    inside = (lag >= 0) & (lag < m)
    return _filled(_after_zero_and_one(x), np.where(inside, lag + 2, 0))


# ---- of polynomials and populations


def companion(a: ArrayLike) -> Array:
    """The matrices whose eigenvalues are the zeros of polynomials with coefficients `a` [..., n].

    Coefficients start from the highest power. The result is [..., n - 1, n - 1]. Raises ValueError
    for fewer than 2 coefficients.

    >>> import xpr.numpy as jnp
    >>> companion(jnp.array([1, -3, 2]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    x = _vectors("companion", one_inexact("companion", a))
    if x.shape[-1] < 2:
        raise ValueError(
            f"The length of `a` along the last axis must be at least 2; got shape {x.shape}."
        )
    n = x.shape[-1] - 1
    i, j = _places(n, n)
    places = np.where(i == 0, j + 2, (i == j + 1).astype(int))
    return _filled(_after_zero_and_one(-x[..., 1:] / x[..., :1]), places)


def fiedler_companion(a: ArrayLike) -> Array:
    """Companion matrices of five diagonals, of polynomials with coefficients `a` [..., n].

    Their eigenvalues are the zeros, as those of `companion`. M. Fiedler, "A note on companion
    matrices", 2003. Raises ValueError for an empty `a`.

    >>> import xpr.numpy as jnp
    >>> fiedler_companion(jnp.array([1, -6, 11, -6]))
    Array([[  6., -11.,   1.],
           [  1.,   0.,   0.],
           [  0.,   6.,   0.]], dtype=float32)
    """
    x = _vectors("fiedler_companion", one_inexact("fiedler_companion", a))
    if not x.shape[-1]:
        raise ValueError(
            "fiedler_companion requires the last axis of 'a' to have nonzero length, but got an "
            f"array of shape {x.shape}."
        )
    n = x.shape[-1] - 1
    i, j = _places(n, n)
    even = i % 2 == 0
    places = np.zeros((n, n), int)
    places[even & (j == i + 2) | ~even & (j == i - 2) | (i == 1) & (j == 0)] = 1
    # Coefficient k stands at place k + 1, behind 0 and 1.
    places = np.where(even & (j == i + 1), i + 3, places)
    places = np.where(even & (j == i - 1), i + 2, places)
    places = np.where((i == 0) & (j == 0), 2, places)
    return _filled(_after_zero_and_one(-x[..., 1:] / x[..., :1]), places)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The matrices that move populations by one age: first row `f` [..., n], below it `s`.

    `s` [..., n - 1] are the chances to survive, on the subdiagonal. Leading axes are broadcast.
    Raises ValueError for other sizes, and for n below 2.

    >>> import xpr.numpy as jnp
    >>> leslie(jnp.array([0.0, 2.0, 1.0]), jnp.array([0.5, 0.25]))
    Array([[0.  , 2.  , 1.  ],
           [0.5 , 0.  , 0.  ],
           [0.  , 0.25, 0.  ]], dtype=float32)
    """
    rates, chances = promote_dtypes(_vectors("leslie", f), _vectors("leslie", s))
    n = rates.shape[-1]
    if chances.shape[-1] != n - 1:
        raise ValueError(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less "
            f"than the length of f; got f shape {rates.shape} and s shape {chances.shape}. (leslie)"
        )
    if n < 2:
        raise ValueError(
            "leslie: the length of f along the last axis must be at least 2 elements, got shape "
            f"{rates.shape}"
        )
    batch = jnp.broadcast_shapes(rates.shape[:-1], chances.shape[:-1])
    parts = [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in (rates, chances)]
    i, j = _places(n, n)
    places = np.where(i == 0, j + 2, np.where(i == j + 1, n + 2 + j, 0))
    found = _filled(_after_zero_and_one(jnp.concatenate(parts, axis=-1)), places)
    return _as_weak_as(found, f, s)


def fiedler(a: ArrayLike) -> Array:
    """Symmetric matrices |a_i - a_j| of vectors `a` [..., n].

    >>> import xpr.numpy as jnp
    >>> fiedler(jnp.array([1, 4, 6]))
    Array([[0, 3, 5],
           [3, 0, 2],
           [5, 2, 0]], dtype=int32)
    """
    x = _vectors("fiedler", a)
    return _as_weak_as(jnp.abs(x[..., :, None] - x[..., None, :]), a)


def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix with the given ones along its diagonal, and zeros elsewhere.

    A vector is a matrix of one row, a number one of one element; no argument at all is one row of
    no elements. Raises ValueError for arrays of more axes.

    >>> import xpr.numpy as jnp
    >>> block_diag(jnp.array([[1, 2]]), 3)
    Array([[1, 2, 0],
           [0, 0, 3]], dtype=int32)
    """
    if not arrs:
        return jnp.zeros((1, 0))
    given = [as_operand("block_diag", x, i) for i, x in enumerate(arrs)]
    for i, x in enumerate(given):
        if len(get_aval(x).shape) > 2:
            raise ValueError(
                "block_diag requires arrays of at most 2 axes, got shape "
                f"{get_aval(x).shape} at argument {i}"
            )
    blocks = [jnp.atleast_2d(strong(x)) for x in promote_dtypes(*given)]
    width = sum(b.shape[1] for b in blocks)
    rows, start = [], 0
    for b in blocks:
        stop = start + b.shape[1]
        rows.append(jnp.pad(b, ((0, 0), (start, width - stop))))
        start = stop
    return jnp.concatenate(rows, axis=0)


# ---- constants


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike = None) -> Array:
    """The matrix [n, n] of the discrete Fourier transform, exp(-2 pi i jk / n).

    `scale` divides by "sqrtn" (a unitary matrix) or "n". `dtype` is complex64 by default
    (complex128 with 64 bits). Raises ValueError for another `scale`.

    >>> dft(2)
    Array([[ 1.+0.j,  1.+0.j],
           [ 1.+0.j, -1.+0.j]], dtype=complex64)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    if dtype is not None and not dtypes.is_complex(dtypes.canonicalize(dtype)):
        raise ValueError(f"dft: dtype must be a complex floating-point type, got {dtype}")
    n = operator.index(n)
    j, k = _places(n, n)
    # Angles are reduced exactly, to eighths of a turn, and the rest is at most pi / 4.
    turns = (j * k) % max(n, 1)
    found = _unit_roots(turns, max(n, 1))
    found = found / {None: 1, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    return jnp.asarray(found, dtype=dtypes.default_dtype("c") if dtype is None else dtype)


def _unit_roots(turns: Host, n: int) -> Host:
    """exp(-2 pi i turns / n), with exact zeros and ones at quarters of a turn."""
    quarter = (4 * turns + n // 2) // n
    rest = (2 * np.pi / (4 * n)) * (4 * turns - quarter * n)
    return (np.cos(rest) - 1j * np.sin(rest)) * np.array([1, -1j, -1, 1j])[quarter % 4]


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's matrix [n, n] of 1 and -1 with orthogonal rows, for powers of two.

    Raises ValueError for other `n`.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    i, j = _places(n, n)
    ones = np.bitwise_count((i & j).astype(np.int64)) % 2
    return jnp.asarray(1 - 2 * ones.astype(np.int32), dtype=dtype)


def helmert(n: int, full: bool = False) -> Array:
    """The orthogonal matrix of Helmert [n - 1, n]; with `full` [n, n], its first row constant.

    Row k has k equal elements, one that makes their sum 0, and zeros. Raises ValueError for `n`
    below 1.

    >>> helmert(3)
    Array([[ 0.70710677, -0.70710677,  0.        ],
           [ 0.4082483 ,  0.4082483 , -0.8164966 ]], dtype=float32)
    """
    n = _size("helmert", n)
    k, j = np.arange(1, n)[:, None], np.arange(n)
    rows = np.where(j < k, 1.0, np.where(j == k, -k, 0.0)) / np.sqrt(k * (k + 1.0))
    if full:
        rows = np.concatenate([np.full((1, n), 1 / math.sqrt(n)), rows])
    return _float_constant(rows)


def hilbert(n: int) -> Array:
    """The matrix [n, n] of 1 / (i + j + 1), a standard example of bad condition.

    Raises TypeError for a negative size.

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    size = operator.index(n)
    if size < 0:
        raise TypeError(
            f"iota shape must have every element be nonnegative, got ({size}, 1): hilbert"
        )
    i, j = _places(size, size)
    return _float_constant(1.0 / (i + j + 1.0))


def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, rounded from its exact integers.

    M.-D. Choi, "Tricks or treats with the Hilbert matrix", 1983.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = operator.index(n)

    def element(i: int, j: int) -> int:
        binomials = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
        return (-1) ** (i + j) * (i + j + 1) * binomials * math.comb(i + j, i) ** 2

    return _integers(n, element)


def _integers(n: int, element: Any) -> Array:
    rows = [[float(element(i, j)) for j in range(n)] for i in range(n)]
    return _float_constant(np.array(rows, np.float64).reshape(n, n))


def _check_kind(kind: str | None) -> str:
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ValueError(f"Expected kind to be one of 'symmetric', 'lower', 'upper'; got {kind!r}")
    return kind or "symmetric"


def pascal(n: int, kind: str | None = None) -> Array:
    """The matrix [n, n] of binomial coefficients, as floats.

    "symmetric" (the default) has C(i + j, i), "lower" C(i, j), "upper" the transpose of that.
    Raises ValueError for another `kind`.

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    n, kind = operator.index(n), _check_kind(kind)
    if kind == "symmetric":
        return _integers(n, lambda i, j: math.comb(i + j, i))
    return _integers(n, lambda i, j: math.comb(*((i, j) if kind == "lower" else (j, i))))


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, rounded from its exact integers.

    >>> invpascal(3)
    Array([[ 3., -3.,  1.],
           [-3.,  5., -2.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    n, kind = operator.index(n), _check_kind(kind)

    def lower(i: int, j: int) -> int:
        return (-1) ** (i + j) * math.comb(i, j)

    if kind == "lower":
        return _integers(n, lower)
    if kind == "upper":
        return _integers(n, lambda i, j: lower(j, i))
    # The inverse of L L^T is L^-T L^-1.
    return _integers(n, lambda i, j: sum(lower(k, i) * lower(k, j) for k in range(max(i, j), n)))
