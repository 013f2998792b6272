"""Grids of coordinates: `meshgrid`, `indices`, and the objects that are indexed to make arrays."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval, is_valid_value
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, broadcast_to, convert, promote_dtypes
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.creation import array
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.joining import concatenate, stack
from xpr.numpy.manipulation import moveaxis
from xpr.numpy.ranges import arange
from xpr.numpy.spacings import linspace
from xpr.primitives._index_dims import canonicalize_shape
from xpr.primitives.creation import broadcasted_iota
from xpr.primitives.shape import broadcast_in_dim, expand_dims, reshape


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """One array of coordinates for each of the vectors `xi`, over the grid they span.

    With indexing "ij" vector i runs along axis i; with "xy" the first two axes are swapped.
    `sparse` keeps the other axes at size 1. Raises ValueError for arrays of more than one axis and
    another indexing.

    >>> import xpr.numpy as jnp
    >>> jnp.meshgrid(jnp.array([1, 2]), jnp.array([3, 4]))
    [Array([[1, 2],
           [1, 2]], dtype=int32), Array([[3, 3],
           [4, 4]], dtype=int32)]
    """
    vectors = [as_operand("meshgrid", x, i) for i, x in enumerate(xi)]
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    shapes = [get_aval(v).shape for v in vectors]
    if any(len(s) > 1 for s in shapes):
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {shapes}")
    sizes = [s[0] if s else 1 for s in shapes]
    axes = list(range(len(sizes)))
    if indexing == "xy" and len(axes) >= 2:
        axes[:2] = [1, 0]
    grid = [0] * len(sizes)
    for axis, size in zip(axes, sizes, strict=True):
        grid[axis] = size
    found = []
    for vector, axis, size in zip(vectors, axes, sizes, strict=True):
        shape = [1] * len(grid) if sparse else list(grid)
        shape[axis] = size
        column = reshape(vector, (size,))
        found.append(as_array(broadcast_in_dim(column, tuple(shape), (axis,))))
    return found


def indices(dimensions: Any, dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The coordinates of each place of an array of shape `dimensions`, stacked in front.

    `sparse` gives a tuple instead, each with size 1 in the other axes.

    >>> import xpr.numpy as jnp
    >>> jnp.indices((2, 2))[1]
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    shape = canonicalize_shape("indices", tuple(dimensions))
    wanted = requested_dtype(int if dtype is None else dtype, "indices")
    if sparse:
        return tuple(
            broadcasted_iota(wanted, tuple(n if j == i else 1 for j, n in enumerate(shape)), i)
            for i in range(len(shape))
        )
    if not shape:
        return array([], dtype=wanted)
    return stack([broadcasted_iota(wanted, shape, i) for i in range(len(shape))])


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any
) -> Any:
    """The array whose element at (i, j, ...) is `function(i, j, ...)`, an elementwise function.

    It is called once, with arrays of coordinates of the given dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.fromfunction(lambda i, j: i + 10 * j, (2, 2), dtype=int)
    Array([[ 0, 10],
           [ 1, 11]], dtype=int32)
    """
    sizes = canonicalize_shape("fromfunction", shape)
    wanted = requested_dtype(dtype, "fromfunction")
    found = function(*(broadcasted_iota(wanted, sizes, i) for i in range(len(sizes))), **kwargs)
    if is_valid_value(found) and not get_aval(found).shape:
        return broadcast_to(as_array(found), sizes)
    return found


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index vectors reshaped so that `x[ix_(a, b)]` picks rows `a` and, of these, columns `b`.

    Raises ValueError for arrays of other than one axis, NotImplementedError for booleans.

    >>> import xpr.numpy as jnp
    >>> [v.shape for v in jnp.ix_(jnp.array([0, 2]), jnp.array([1]))]
    [(2, 1), (1, 1)]
    """
    vectors = [as_array(as_operand("ix_", a, i)) for i, a in enumerate(args)]
    found = []
    for i, v in enumerate(vectors):
        if v.ndim != 1:
            raise ValueError(
                f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {v.shape}"
            )
        if v.dtype == dtypes.BOOL:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_ are not implemented")
        v = v if v.size else convert(v, dtypes.default_dtype("i"))
        found.append(reshape(v, (*(1,) * i, v.size, *(1,) * (len(vectors) - i - 1))))
    return tuple(found)


# ---- objects to be indexed


def _points(part: slice) -> Array:
    """The numbers that a slice stands for: a complex step gives their count, the stop included."""
    if part.stop is None:
        raise ValueError(f"the slice {part} needs a stop")
    start = 0 if part.start is None else part.start
    if isinstance(part.step, (complex, np.complexfloating)):
        count = operator.index(int(abs(part.step)))
        return linspace(start, part.stop, count)
    return arange(start, part.stop, part.step)


class _Mgrid:
    """Dense grids: `mgrid[0:2, 0:3]` stacks the coordinates along each axis.

    >>> import xpr.numpy as jnp
    >>> jnp.mgrid[0:2, 0:3][0]
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, slice):
            return _points(key)
        vectors = promote_dtypes(*(_points(k) for k in key))
        return stack(meshgrid(*vectors, indexing="ij"))

    def __repr__(self) -> str:
        return "<xpr.numpy.mgrid>"


class _Ogrid:
    """Open grids: `ogrid[0:2, 0:3]` has the coordinates along each axis, with size 1 elsewhere."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _points(key)
        vectors = promote_dtypes(*(_points(k) for k in key))
        return meshgrid(*vectors, indexing="ij", sparse=True)

    def __repr__(self) -> str:
        return "<xpr.numpy.ogrid>"


class _Joiner:
    """Joins what it is indexed with: numbers, arrays, and slices that stand for ranges.

    A leading string "axis,ndim,place" says along which axis, to how many axes the parts are brought
    at least, and where their own axes stand among these (-1: at the end).
    """

    def __init__(self, name: str, summary: str, axis: int, ndmin: int, place: int) -> None:
        self.__doc__ = f"{summary}\n\n{inspect.cleandoc(type(self).__doc__ or '')}"
        self._name = name
        self._default = (axis, ndmin, place)

    def __getitem__(self, key: Any) -> Array:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place = self._default
        matrix = ""
        if parts and isinstance(parts[0], str):
            directive = parts.pop(0)
            if directive in ("r", "c"):
                matrix = directive
            else:
                axis, ndmin, place = self._read(directive)
        if not parts:
            raise ValueError(f"{self._name} needs something to join")
        arrays = [self._part(p, ndmin, place) for p in parts]
        joined = concatenate(arrays, axis=axis)
        if matrix and joined.ndim == 1:
            return expand_dims(joined, (0,) if matrix == "r" else (1,))
        return joined

    def _read(self, directive: str) -> tuple[int, int, int]:
        try:
            numbers = [int(part) for part in directive.split(",")]
        except ValueError:
            raise ValueError(f"could not understand directive {directive!r}") from None
        if len(numbers) > 3:
            raise ValueError(f"could not understand directive {directive!r}")
        defaults = self._default
        return (*numbers, *defaults[len(numbers) :])  # type: ignore[return-value]

    def _part(self, part: Any, ndmin: int, place: int) -> Array:
        own = _points(part) if isinstance(part, slice) else array(part)
        own = reshape(own, (1,)) if not own.ndim else own
        missing = ndmin - own.ndim
        if missing <= 0:
            return own
        count = own.ndim
        wide = expand_dims(own, range(missing))
        # `place` is where the part's first axis goes; -1 leaves its axes at the end.
        first = place if place >= 0 else missing + 1 + place
        return moveaxis(wide, tuple(range(missing, ndmin)), tuple(range(first, first + count)))

    def __repr__(self) -> str:
        return f"<xpr.numpy.{self._name}>"


mgrid = _Mgrid()
ogrid = _Ogrid()
r_ = _Joiner("r_", "Joins along the first axis.", 0, 1, -1)
c_ = _Joiner("c_", "Joins columns, along the last axis.", -1, 2, 0)
s_ = np.s_
index_exp = np.index_exp
