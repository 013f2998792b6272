"""Functions that apply a function of the caller along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.shape import expand_dims


def apply_over_axes(
    func: Callable[[Any, int], Any], a: ArrayLike, axes: int | Sequence[int]
) -> Array:
    """`func(a, axis)` for one of `axes` after the other; axes that it removes come back as size 1.

    Raises ValueError when the result has other numbers of axes.

    >>> import xpr.numpy as jnp
    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), [0, 1])
    Array([[6.]], dtype=float32)
    """
    x = as_array(as_operand("apply_over_axes", a, 1))
    for axis in (axes,) if isinstance(axes, int) else axes:
        place = canonicalize_axis(axis, x.ndim)
        found = as_array(func(x, place))
        if found.ndim == x.ndim - 1:
            found = expand_dims(found, (place,))
        if get_aval(found).ndim != x.ndim:
            raise ValueError(
                "function is not returning an array of the correct shape: "
                f"got {found.shape} for {x.shape} and axis {place}"
            )
        x = found
    return x
