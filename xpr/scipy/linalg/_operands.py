"""Operands of the functions of matrices, as SciPy has them."""

from __future__ import annotations

from typing import Any

import xpr.numpy as jnp
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, one_inexact, promote_dtypes_inexact
from xpr.numpy._typing import Array
from xpr.numpy.linalg._operands import check_square
from xpr.transforms.vmap import vmap

# What says which memory may be overwritten and what is checked beforehand is there for programs
# that give it: arrays are immutable, and values cannot be checked while a function is traced.


def matrices(name: str, a: Any) -> Array:
    """The operand `a`, floating; TypeError unless it has two axes or more."""
    x = as_array(one_inexact(name, a))
    if x.ndim < 2:
        raise TypeError(f"Input 0 to {name} must have rank at least 2, but got shape={x.shape}")
    return x


def square_matrices(name: str, a: Any) -> Array:
    """The operand `a`, floating; ValueError unless it is of shape [..., n, n]."""
    x = as_array(one_inexact(name, a))
    check_square(name, x)
    return x


def promoted(name: str, *args: Any) -> list[Array]:
    """The operands in one floating dtype; shapes stay as they are."""
    given = [as_operand(name, x, i) for i, x in enumerate(args)]
    return [as_array(x) for x in promote_dtypes_inexact(*given)]


def equations(name: str, a: Array, b: Array) -> tuple[Array, Array, bool]:
    """Both sides of equations with equal leading axes, and whether `b` is vectors.

    `b` is vectors [..., n] if it has one axis, or one less than `a` [..., n, n]; else it is
    matrices [..., n, k]. Leading axes are broadcast. Raises ValueError for other shapes.
    """
    check_square(name, a)
    vectors = b.ndim == 1 or b.ndim == a.ndim - 1
    right = b[..., None] if vectors else b
    if right.ndim < 2 or right.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"{name}: incompatible shapes {a.shape} (the matrix) and {b.shape} (the right-hand "
            "side)"
        )
    batch = jnp.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    left, right = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, right))
    return left, right, vectors


def stacked(function: Any, axes: int) -> Any:
    """`function`, of matrices, for stacks of them with so many leading axes."""
    for _ in range(axes):
        function = vmap(function)
    return function
