"""What iterative solvers share: operators and trees as functions of vectors, and norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xpr.numpy as jnp
from xpr import tree_util
from xpr.core.array import Array
from xpr.flatten_util import ravel_pytree
from xpr.numpy._promote import one_inexact
from xpr.primitives.dot_general import Precision

Operator = Callable[[Any], Any]


def as_operator(a: Any) -> Operator:
    """The product with `a`: itself if it is a function, else `a @ x`.

    Raises ValueError for arrays that are no square matrices, TypeError for what has no product.
    """
    if callable(a):
        return a
    if not (isinstance(a, (Array, np.ndarray)) or hasattr(a, "__matmul__")):
        raise TypeError(f"linear operator must be either a function or ndarray, got {a!r}")
    shape = getattr(a, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
        raise ValueError(f"linear operator must be a square matrix, but has shape: {shape}")
    if isinstance(a, (Array, np.ndarray)):
        return lambda x: jnp.matmul(a, x, precision=Precision.HIGHEST)
    return lambda x: a @ x


class System(NamedTuple):
    """Equations A x = b as ones of vectors; `tree` gives a vector the structure of b again."""

    matvec: Operator
    precondition: Operator
    b: Array
    x0: Array
    tree: Operator
    plain: bool  # whether there is no preconditioner


def system(name: str, a: Any, b: Any, x0: Any, m: Any) -> System:
    """The equations that `a`, `b`, `x0` and the preconditioner `m` mean.

    Raises ValueError for an `x0`, or values of `a` or `m`, of another structure or other shapes
    than `b`.
    """
    b = tree_util.tree_map(_floating, b)
    x0 = tree_util.tree_map(jnp.zeros_like, b) if x0 is None else x0
    _check_like(f"{name}: x0 and b", x0, b)
    flat, tree = ravel_pytree(b)

    def of_vectors(what: str, operator: Any) -> Operator:
        product = as_operator(operator)

        def apply(vector: Array) -> Array:
            found = product(tree(vector))
            _check_like(f"{name}: {what}(x) and x", found, b)
            return ravel_pytree(found)[0]

        return apply

    start = ravel_pytree(x0)[0].astype(flat.dtype)
    prepared = (lambda vector: vector) if m is None else of_vectors("M", m)
    return System(of_vectors("A", a), prepared, flat, start, tree, m is None)


def _floating(x: Any) -> Array:
    # Weak types would change in a loop.
    found = jnp.asarray(one_inexact("b", x))
    return found.astype(found.dtype)


def _check_like(what: str, x: Any, b: Any) -> None:
    trees = tree_util.tree_structure(x), tree_util.tree_structure(b)
    if trees[0] != trees[1]:
        raise ValueError(f"{what} must have matching tree structure: {trees[0]} vs {trees[1]}")
    shapes = [[jnp.shape(leaf) for leaf in tree_util.tree_leaves(t)] for t in (x, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{what} must have matching shapes: {shapes[0]} vs {shapes[1]}")


def vdot(x: Array, y: Array) -> Array:
    """x^H y in full precision."""
    return jnp.vdot(x, y, precision=Precision.HIGHEST)


def real_vdot(x: Array, y: Array) -> Array:
    """The real part of x^H y."""
    return jnp.real(vdot(x, y))


def norm(x: Array) -> Array:
    """The Euclidean norm of a vector."""
    return jnp.sqrt(real_vdot(x, x))


def allowed_residual(b: Array, tol: Any, atol: Any) -> Array:
    """The norm of the residual at which a system counts as solved."""
    size = norm(b)
    return jnp.maximum(tol * size, atol).astype(size.dtype)
