"""Linear equations and inverses."""

from __future__ import annotations

import math
import operator

from xpr.numpy._concrete import as_array
from xpr.numpy._promote import one_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.linalg._lu import solve_general
from xpr.numpy.linalg._operands import check_square, identities, square_matrices, two_inexact
from xpr.numpy.manipulation import broadcast_shapes, moveaxis, ravel, reshape


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """x with `a` x = `b`, by LU factors with exchanges of rows.

    `a` is [..., n, n]; `b` is a vector [n], or matrices [..., n, k] with as many or broadcast
    leading axes, as in NumPy 2. A singular matrix gives infinities and NaN. Raises ValueError for
    other shapes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.array([2.0, 9.0]))
    Array([1., 2.], dtype=float32)
    """
    x, y = two_inexact("solve", a, b)
    return solve_checked("jnp.linalg.solve", x, y)


def solve_checked(name: str, a: Array, b: Array, trans: int = 0) -> Array:
    """`solve` for operands of one floating dtype; `trans` is that of `solve_general`."""
    check_square(name, a)
    vector = b.ndim == 1
    if b.ndim < 1 or b.shape[-1 if vector else -2] != a.shape[-1]:
        raise ValueError(
            f"{name}: b must be a vector [n] or matrices [..., n, k] for a of shape [..., n, n], "
            f"got shapes {a.shape} (a) and {b.shape} (b)"
        )
    if vector:
        return solve_general(a, b[:, None], trans)[..., 0]
    broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return solve_general(a, b, trans)


def inv(a: ArrayLike) -> Array:
    """The inverses of matrices [..., n, n]: the solution of `a` x = 1.

    A singular matrix gives infinities and NaN. Raises ValueError for matrices that are not square.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [1.0, 4.0]]))
    Array([[ 0.5  , -0.   ],
           [-0.125,  0.25 ]], dtype=float32)
    """
    x = square_matrices("inv", a)
    return solve_general(x, identities(x, x.shape[-1]))


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of `a` as a map to its first `ind` axes from the others.

    For `a` of shape (*s, *t) with as many elements in s (`ind` axes) as in t the result has shape
    (*t, *s), and `tensordot(inverse, a, ind)` is the identity. Raises ValueError for other sizes
    and for `ind` below 1.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensorinv(jnp.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    x = as_array(one_inexact("jnp.linalg.tensorinv", a))
    ind = operator.index(ind)
    if ind < 1:
        raise ValueError(f"ind must be a positive integer; got ind={ind}")
    first, last = x.shape[:ind], x.shape[ind:]
    n = math.prod(first)
    if n != math.prod(last):
        raise ValueError(
            "tensorinv is only possible when the product of the first `ind` dimensions equals that "
            f"of the remaining dimensions. got arr.shape={x.shape} with ind={ind}."
        )
    return reshape(inv(reshape(x, (n, n))), (*last, *first))


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """x with `tensordot(a, x, x.ndim) == b`.

    The first axes of `a` are those of `b`, after `axes` have been moved to the end; the others are
    those of x, with as many elements. Raises ValueError for other shapes.

    >>> import xpr.numpy as jnp
    >>> jnp.linalg.tensorsolve(2 * jnp.eye(4).reshape(2, 2, 4), jnp.ones((2, 2)))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    x, y = two_inexact("tensorsolve", a, b)
    if axes is not None:
        x = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    rest = x.shape[y.ndim :]
    if x.shape[: y.ndim] != y.shape or math.prod(rest) != y.size:
        raise ValueError(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={x.shape}, b.ndim={y.ndim}: the first axes of a, after axes were moved, "
            f"must be those of b, {y.shape}"
        )
    found = solve_checked("jnp.linalg.tensorsolve", reshape(x, (y.size, y.size)), ravel(y))
    return reshape(found, rest)
