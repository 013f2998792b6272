"""Names of JAX's module of that name."""

from __future__ import annotations

from typing import Any

from xpr.core.trace import get_aval
from xpr.sharding.layouts import Format as Format
from xpr.sharding.layouts import Layout as Layout
from xpr.sharding.layouts import check_row_major


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """The array `x`, which must have that layout: xpr's arrays are row-major.

    Raises TypeError for what is no layout, ValueError for one of another rank, NotImplementedError
    for another order of axes.

    >>> import xpr.numpy as jnp
    >>> with_layout_constraint(jnp.ones((1, 2)), Layout((0, 1)))
    Array([[1., 1.]], dtype=float32)
    """
    if not isinstance(layout, Layout):
        raise TypeError(f"with_layout_constraint takes a Layout, got {layout!r}")
    check_row_major(layout, get_aval(x))
    return x
