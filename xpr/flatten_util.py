"""Trees of arrays as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.trace import get_aval
from xpr.numpy import asarray, concatenate, ravel, result_type, zeros
from xpr.primitives import _ops as ops
from xpr.transforms.arguments import check_leaf

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The elements of all leaves as one vector, and the function that makes the tree of a vector.

    The vector has the dtype that the leaves' dtypes promote to; a tree without leaves gives an
    empty vector. The function gives each leaf its shape again, and its dtype where the leaves have
    several; leaves of one dtype get that of the vector. Both work under transformations.

    The function raises ValueError for a vector of another size, and TypeError for one of another
    dtype where the leaves have several.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"b": jnp.zeros(2), "w": jnp.ones((1, 2))})
    >>> flat
    Array([0., 0., 1., 1.], dtype=float32)
    >>> unravel(flat + 1)
    {'b': Array([1., 1.], dtype=float32), 'w': Array([[2., 2.]], dtype=float32)}
    """
    leaves, tree = tree_util.tree_flatten(pytree)
    for x in leaves:
        check_leaf(x, "ravel_pytree")
    avals = [get_aval(x) for x in leaves]
    kinds = {a.dtype for a in avals}
    size = sum(a.size for a in avals)
    flat: Any = zeros(0)
    if leaves:
        wide = result_type(*(a.dtype for a in avals))
        flat = concatenate([_converted(ravel(x), wide) for x in leaves])
    wanted = None if len(kinds) <= 1 else get_aval(flat).dtype
    return flat, _Unravel(tree, tuple((a.shape, a.dtype) for a in avals), size, wanted)


class _Unravel:
    """The function that `ravel_pytree` returns; equal for equal trees, so that `jit` is reused."""

    __slots__ = ("dtype", "leaves", "size", "tree")

    def __init__(
        self,
        tree: tree_util.PyTreeDef,
        leaves: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
        size: int,
        dtype: np.dtype[Any] | None,
    ) -> None:
        self.tree = tree
        self.leaves = leaves  # shapes and dtypes
        self.size = size
        self.dtype = dtype  # of the vector, where the leaves have several

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Unravel):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.tree, self.leaves, self.dtype

    def __call__(self, vector: Any) -> Any:
        vector = asarray(vector)
        found = get_aval(vector)
        if found.shape != (self.size,):
            raise ValueError(
                f"unravel: the vector should have shape {(self.size,)}, as that of ravel_pytree, "
                f"got {found.shape}"
            )
        if self.dtype is not None and found.dtype != self.dtype:
            raise TypeError(
                f"unravel function given array of dtype {found.dtype.name}, but expected dtype "
                f"{self.dtype.name}"
            )
        out, start = [], 0
        for shape, dtype in self.leaves:
            stop = start + math.prod(shape)
            part = vector[start:stop].reshape(shape)
            out.append(part if self.dtype is None else _converted(part, dtype))
            start = stop
        return tree_util.tree_unflatten(self.tree, out)


def _converted(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if get_aval(x).dtype == dtype else ops.convert(x, dtype)
