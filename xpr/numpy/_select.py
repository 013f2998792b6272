"""The choice between two arrays that the functions of xpr.numpy make inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.numpy._promote import as_operand, broadcast_to
from xpr.numpy._typing import Array, Shape
from xpr.primitives.compare import select_n_p
from xpr.primitives.shape import broadcast_in_dim_p


def checked_where(name: str, where: Any) -> Any:
    """The mask `where` of the function `name`; ValueError for one that is not boolean."""
    mask = as_operand(name, where)
    if get_aval(mask).dtype != np.bool_:
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got "
            f"where.dtype={get_aval(mask).dtype!r}."
        )
    return mask


def _sharding_of(shape: Shape, *operands: Any) -> Any:
    """How the operands that have the shape of the result are sharded, if types say it."""
    found = (a.sharding for a in map(get_aval, operands) if a.shape == shape)
    return next((s for s in found if s is not None), None)


def _spread(x: Any, shape: Shape, place: Any) -> Any:
    """`x` broadcast to `shape`; a number goes where the arrays beside it are."""
    if place is None or get_aval(x).shape or not shape:
        return broadcast_to(x, shape)
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=(), sharding=place)


def select_where(condition: Any, x: Any, y: Any) -> Array:
    """`x` where the boolean `condition` holds, else `y`: operands of one dtype, broadcast.

    Raises ValueError when the three shapes have no common shape.
    """
    shapes = (get_aval(condition).shape, get_aval(x).shape, get_aval(y).shape)
    if shapes[1] != shapes[2] or shapes[0] not in ((), shapes[1]):
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            raise ValueError(
                f"Incompatible shapes for broadcasting: shapes={list(shapes)}"
            ) from None
        place = _sharding_of(shape, condition, x, y)
        x, y = _spread(x, shape, place), _spread(y, shape, place)
        if shapes[0]:
            condition = broadcast_to(condition, shape)
    return select_n_p.bind(condition, y, x)
