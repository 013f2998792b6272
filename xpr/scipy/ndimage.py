"""Values between the elements of arrays, under the name of `jax.scipy.ndimage`."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.elementwise import RoundingMethod
from xpr.primitives.elementwise import round as _round

# A place on an axis: where it lies inside the array, whether it really does, and its weight.
_Node = tuple[Array, Array | None, Array | None]


# ---- what lies beyond the edges


def _folded(index: Array, period: int, top: int) -> Array:
    """A triangular wave of that period: `index` up to the middle, then `top` minus it."""
    place = index % period
    return jnp.minimum(place, top - place)


def _mirror(index: Array, size: int) -> Array:
    period = 2 * (size - 1)
    # A single element has no neighbours to mirror.
    return _folded(index, period, period) if period else jnp.zeros_like(index)


_INSIDE: dict[str, Callable[[Array, int], Array]] = {
    "constant": lambda index, size: jnp.clip(index, 0, size - 1),
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": lambda index, size: _folded(index, 2 * size, 2 * size - 1),
}


# ---- interpolation


def _nearest_nodes(place: Array) -> list[tuple[Array, Array | None]]:
    """The index nearest to `place`, halves away from zero; its weight is 1."""
    return [(_rounded(place).astype(jnp.int32), None)]


def _linear_nodes(place: Array) -> list[tuple[Array, Array | None]]:
    """The indices below and above `place`, with their weights."""
    below = jnp.floor(place)
    weight = place - below
    index = below.astype(jnp.int32)
    return [(index, 1 - weight), (index + 1, weight)]


_NODES = {0: _nearest_nodes, 1: _linear_nodes}


def _rounded(x: Array) -> Array:
    if not dtypes.is_float(x.dtype):
        return x
    return _round(x, RoundingMethod.AWAY_FROM_ZERO)


def _nodes_of_axis(place: Array, size: int, order: int, mode: str) -> list[_Node]:
    nodes = []
    for index, weight in _NODES[order](place):
        present = (index >= 0) & (index < size) if mode == "constant" else None
        nodes.append((_INSIDE[mode](index, size), present, weight))
    return nodes


def _weighted(x: Array, nodes: Sequence[_Node], cval: Array) -> Array:
    """The elements of `x` at one node of every axis, times the product of their weights."""
    found = x[tuple(index for index, _, _ in nodes)]
    present = [p for _, p, _ in nodes if p is not None]
    if present:
        found = jnp.where(functools.reduce(operator.and_, present), found, cval)
    for _, _, weight in nodes:
        found = found if weight is None else found * weight
    return found


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """The values of `input` at places between its elements, in its dtype.

    `coordinates` has one array for every axis of `input`, of shapes that broadcast to that of the
    result: places along the axis, where 0 is the first element. `order` 0 takes the nearest
    element, 1 interpolates linearly along each axis; integers are rounded, halves away from zero.
    `mode` says what lies beyond the edges: "constant" (`cval`), "nearest" (the last element),
    "wrap" (the array again), "mirror" (the array backwards from the last element) or "reflect" (the
    array backwards from its edge). SciPy calls the modes "constant" and "wrap" "grid-constant" and
    "grid-wrap".

    Raises ValueError for a wrong number of coordinates and empty inputs, NotImplementedError for
    other modes and orders.

    >>> import xpr.numpy as jnp
    >>> x = jnp.array([[0.0, 1.0], [4.0, 9.0]])
    >>> map_coordinates(x, [jnp.array([0.5, 1.0]), jnp.array([0.0, 0.5])], order=1)
    Array([2. , 6.5], dtype=float32)
    """
    name = "map_coordinates"
    x = jnp.asarray(as_operand(name, input))
    places: list[Any] = [jnp.asarray(as_operand(name, c, 1)) for c in coordinates]
    if len(places) != x.ndim:
        raise ValueError(
            f"{name}: coordinates must be a sequence of length input.ndim, got {len(places)} for "
            f"an input of {x.ndim} axes"
        )
    if not x.size or not x.ndim:
        raise ValueError(f"{name} requires an input with axes and elements, got shape {x.shape}")
    if mode not in _INSIDE:
        raise NotImplementedError(f"{name} does not support mode {mode!r}, only {list(_INSIDE)}")
    if order not in _NODES:
        raise NotImplementedError(f"{name} requires order 0 or 1, got {order}")
    outside = jnp.asarray(cval, x.dtype)
    nodes = [_nodes_of_axis(p, n, order, mode) for p, n in zip(places, x.shape, strict=True)]
    found = [_weighted(x, corner, outside) for corner in itertools.product(*nodes)]
    total = functools.reduce(operator.add, found)
    if dtypes.is_integer(x.dtype):
        total = _rounded(total)
    return total.astype(x.dtype)
