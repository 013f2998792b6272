"""Interpolation on grids, under the name of `jax.scipy.interpolate`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.tree_util import register_pytree_node

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function known on a grid, which need not be even, and interpolated between its points.

    `points` has one array of strictly increasing coordinates [m_k], m_k > 1, for each of the first
    K axes of `values` [m_1, ..., m_K, ...]. `method` is "linear" (along each axis) or "nearest"
    (halves downwards). Points outside the grid get `fill_value`, or are extrapolated if that is
    None. An interpolator is a pytree, so it may be an argument of compiled functions.

    Raises ValueError for another method, for grids that do not fit `values` and for a `fill_value`
    that its dtype cannot hold; NotImplementedError for `bounds_error`, since compiled programs
    raise no errors.

    >>> import xpr.numpy as jnp
    >>> points = (jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0, 3.0]))
    >>> f = RegularGridInterpolator(points, jnp.array([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]))
    >>> f(jnp.array([[0.5, 2.0], [1.0, 4.0]]))
    Array([6.5, nan], dtype=float32)
    """

    grid: tuple[Array, ...]
    values: Any
    method: str
    bounds_error: bool
    fill_value: Any

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = np.nan,
    ) -> None:
        name = "RegularGridInterpolator"
        self.method = _checked_method(method)
        if bounds_error:
            raise NotImplementedError(f"{name}: bounds_error takes no effect in compiled programs")
        self.bounds_error = bounds_error
        [found] = promote_dtypes_inexact(as_operand(name, values))
        self.values = jnp.asarray(found)
        self.grid = tuple(jnp.asarray(as_operand(name, p)) for p in points)
        _check_grid(name, self.grid, self.values.shape)
        self.fill_value = None
        if fill_value is not None:
            self.fill_value = jnp.asarray(as_operand(name, fill_value))
            if not jnp.can_cast(self.fill_value.dtype, self.values.dtype, casting="same_kind"):
                raise ValueError(
                    f"{name}: fill_value must be None or of a type compatible with values, got "
                    f"{self.fill_value.dtype} for {self.values.dtype}"
                )

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at the points `xi` [..., K], or at a tuple of K arrays of coordinates.

        A vector is taken for points in a row. `method` replaces that of the interpolator. Raises
        ValueError for another method and points of another dimension.
        """
        method = self.method if method is None else _checked_method(method)
        dimension = len(self.grid)
        points = _as_points(xi, dimension)
        if points.shape[-1] != dimension:
            raise ValueError(
                f"the requested sample points xi have dimension {points.shape[-1]}, but this "
                f"RegularGridInterpolator has dimension {dimension}"
            )
        flat = points.reshape(-1, dimension)
        cells = [_cell(g, flat[:, k]) for k, g in enumerate(self.grid)]
        found = self._linear(cells) if method == "linear" else self._nearest(cells)
        if self.fill_value is not None:
            outside = jnp.zeros(flat.shape[:1], bool)
            for k, g in enumerate(self.grid):
                outside |= (flat[:, k] < g[0]) | (flat[:, k] > g[-1])
            outside = outside.reshape(outside.shape + (1,) * (found.ndim - 1))
            found = jnp.where(outside, self.fill_value, found)
        return found.reshape(points.shape[:-1] + self.values.shape[dimension:])

    def _linear(self, cells: list[tuple[Array, Array]]) -> Any:
        """The values at the corners of the cells, weighted."""
        trailing = (1,) * (self.values.ndim - len(cells))
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(cells)):
            weight: Any = 1.0
            for side, (_, distance) in zip(corner, cells, strict=True):
                weight = weight * (distance if side else 1 - distance)
            index = tuple(i + side for side, (i, _) in zip(corner, cells, strict=True))
            total = total + self.values[index] * weight.reshape(weight.shape + trailing)
        return total

    def _nearest(self, cells: list[tuple[Array, Array]]) -> Any:
        return self.values[tuple(jnp.where(d <= 0.5, i, i + 1) for i, d in cells)]


def _checked_method(method: str) -> str:
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined: it is one of {_METHODS}")
    return method


def _check_grid(name: str, grid: Sequence[Array], shape: tuple[int, ...]) -> None:
    if len(grid) > len(shape):
        raise ValueError(
            f"there are {len(grid)} point arrays, but values has {len(shape)} dimensions"
        )
    for axis, points in enumerate(grid):
        if points.ndim != 1 or points.size < 2 or points.size != shape[axis]:
            raise ValueError(
                f"{name} requires at least 2 points in a vector for each axis, and as many as "
                f"there are values: axis {axis} has points of shape {points.shape} and "
                f"{shape[axis]} values"
            )


def _as_points(xi: Any, dimension: int) -> Array:
    """Points [..., K] from those, from a vector, or from a tuple of coordinates."""
    if isinstance(xi, tuple) and len(xi) == 1:
        xi = xi[0]
    if isinstance(xi, tuple):
        promoted = promote_dtypes_inexact(*(as_operand("xi", x, k) for k, x in enumerate(xi)))
        return jnp.stack(jnp.broadcast_arrays(*promoted), axis=-1)
    points = jnp.asarray(as_operand("RegularGridInterpolator", xi))
    return points.reshape(-1, dimension) if points.ndim == 1 else points


def _cell(grid: Array, x: Array) -> tuple[Array, Array]:
    """The grid point below each of `x`, the last but one at most, and the distance in cells."""
    index = jnp.clip(jnp.searchsorted(grid, x) - 1, 0, grid.shape[0] - 2)
    below = grid[index]
    return index, (x - below) / (grid[index + 1] - below)


def _flatten(f: RegularGridInterpolator) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (f.grid, f.values, f.fill_value), (f.method, f.bounds_error)


def _unflatten(aux: tuple[Any, ...], children: Any) -> RegularGridInterpolator:
    # Leaves may be anything here, so nothing is checked.
    f = object.__new__(RegularGridInterpolator)
    f.grid, f.values, f.fill_value = children
    f.method, f.bounds_error = aux
    return f


register_pytree_node(RegularGridInterpolator, _flatten, _unflatten)
