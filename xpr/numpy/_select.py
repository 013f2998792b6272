"""The choice between two arrays that the functions of xpr.numpy make inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.numpy._promote import as_operand, broadcast_to
from xpr.numpy._typing import Array
from xpr.primitives.compare import select_n_p


def checked_where(name: str, where: Any) -> Any:
    """The mask `where` of the function `name`; ValueError for one that is not boolean."""
    mask = as_operand(name, where)
    if get_aval(mask).dtype != np.bool_:
        raise ValueError(
            f"jnp.{name}: where must be None or a boolean array; got "
            f"where.dtype={get_aval(mask).dtype!r}."
        )
    return mask


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
        x, y = broadcast_to(x, shape), broadcast_to(y, shape)
        if shapes[0]:
            condition = broadcast_to(condition, shape)
    return select_n_p.bind(condition, y, x)
