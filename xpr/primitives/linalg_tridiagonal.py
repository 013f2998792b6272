"""Equations with tridiagonal matrices, on stacks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.primitives import _linalg_tridiagonal_host as host
from xpr.primitives import _ops as ops
from xpr.primitives._linalg_checks import check_alike, check_matrices, strong
from xpr.primitives._linalg_rules import along_rows
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    Zero,
    add_tangents,
    at_front,
    const_like,
    is_linear,
    move_axis,
    shape_of,
    zero_tangent,
)

_NAME = "tridiagonal_solve"


def _abstract(
    dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *, perturb_singular: bool
) -> ShapedArray:
    check_matrices(_NAME, b)
    if dl.shape != d.shape or du.shape != d.shape:
        raise TypeError(
            f"{_NAME} requires diagonals of one shape, got {dl.shape}, {d.shape} and {du.shape}"
        )
    check_alike(_NAME, b, d, dl, du, ranks=(2, 1, 1, 1))
    if d.shape != b.shape[:-1]:
        raise TypeError(
            f"{_NAME} requires as many rows of b as elements of the diagonals, got shapes "
            f"{b.shape} and {d.shape}"
        )
    return ShapedArray(b.shape, b.dtype)


def _moved(x: Any, by: int) -> Any:
    """The rows of matrices one place down or up (by 1 or -1), with zeros in their place."""
    config = [(0, 0, 0)] * len(shape_of(x))
    config[-2] = (by, -by, 0)
    return ops.bind("pad", x, const_like(x, 0), padding_config=tuple(config))


def _product(diagonals: Sequence[Any], x: Any) -> Any:
    """The products of tridiagonal matrices and matrices; a diagonal may be a `Zero`."""
    total: Any = None
    for diagonal, by in zip(diagonals, (1, 0, -1), strict=True):
        if type(diagonal) is Zero:
            continue
        term = ops.mul(along_rows(diagonal, shape_of(x)), _moved(x, by) if by else x)
        total = term if total is None else ops.add(total, term)
    return total


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """dX = A^-1 (dB - dA X)."""
    *diagonals, _ = primals
    *moves, right = tangents
    x = ops.bind(_NAME, *primals, **params)
    product = _product(moves, x)
    if product is not None:
        right = add_tangents(right, ops.neg(product))
    if type(right) is Zero:
        return x, zero_tangent(x)
    return x, ops.bind(_NAME, *diagonals, right, **params)


def _transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> list[Any]:
    """The equation with the transposed matrix."""
    assert is_linear(b)
    assert not any(is_linear(x) for x in (dl, d, du))
    lower, upper = _shifted(du, 1), _shifted(dl, -1)
    return [None, None, None, ops.bind(_NAME, lower, d, upper, ct, **params)]


def _shifted(x: Any, by: int) -> Any:
    shape = shape_of(x)
    return ops.reshape(_moved(ops.reshape(x, (*shape, 1)), by), shape)


def _batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
) -> tuple[Any, Dim]:
    """Right sides of one matrix become columns of one right side."""
    *diagonals, b = args
    *places, place = dims
    if all(dim is None for dim in places) and place is not None:
        rank = len(shape_of(b))
        b = move_axis(b, place, rank - 1)
        shape = shape_of(b)
        flat = ops.reshape(b, (*shape[:-2], shape[-2] * shape[-1]))
        return ops.reshape(ops.bind(_NAME, *diagonals, flat, **params), shape), rank - 1
    moved = (at_front(axis, x, dim) for x, dim in zip(args, dims, strict=True))
    return ops.bind(_NAME, *moved, **params), 0


tridiagonal_solve_p = define(
    _NAME,
    family="linalg_tridiagonal",
    doc="Solves equations with tridiagonal matrices, given by their diagonals.",
    abstract=_abstract,
    reference=host.tridiagonal_solve,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
)


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Array:
    """X with A X = `b` [..., n, k], for the matrices A with these three diagonals [..., n].

    Row i of A has dl[i], d[i] and du[i] in the columns i - 1, i and i + 1; dl[0] and du[n - 1] are
    not read. Rows are exchanged as needed. A singular matrix gives NaN. With `perturb_singular`
    elements of the triangular factor's diagonal that are below its rounding error are moved away
    from zero, so that the result is great but finite, as inverse iteration wants it. Raises
    TypeError for other dtypes than float32, float64, complex64 and complex128, for several dtypes
    and for shapes that do not fit.

    >>> import xpr.numpy as jnp
    >>> one, two = jnp.ones(3), jnp.full(3, 2.0)
    >>> tridiagonal_solve(one, two, one, jnp.array([[3.0], [4.0], [3.0]]))
    Array([[1.],
           [1.],
           [1.]], dtype=float32)
    """
    operands = (strong(x) for x in (dl, d, du, b))
    return tridiagonal_solve_p.bind(*operands, perturb_singular=bool(perturb_singular))
