"""Orders of axes, as users say them and as XLA numbers them: from the fastest to the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.physical import physical_aval
from xpr.core.token import AbstractToken
from xpr.sharding.layouts import Layout

MinorToMajor = tuple[int, ...]


def rank_of(aval: ShapedArray | AbstractToken) -> int:
    """How many axes the memory of such a value has."""
    return 0 if isinstance(aval, AbstractToken) else physical_aval(aval).ndim


def minor_to_major(
    what: str, aval: ShapedArray | AbstractToken, layout: Any, *, major_first: bool
) -> MinorToMajor:
    """XLA's numbers for a layout: None for row-major, a Layout, or a permutation of the axes.

    Raises ValueError for what is none, with `what` for the name of the value.
    """
    rank = rank_of(aval)
    if layout is None:
        return tuple(reversed(range(rank)))
    if isinstance(layout, Layout):
        if layout.tiling is not None:
            raise ValueError(f"The FFI does not support layouts with tiling, got {layout}")
        layout, major_first = layout.major_to_minor, True
    if not isinstance(layout, Sequence):
        raise TypeError(
            f"the layout of {what} is None, a Layout or a sequence of its axes, got {layout!r}"
        )
    order = tuple(int(i) for i in layout)
    if sorted(order) != list(range(rank)):
        raise ValueError(
            f"incorrect layout {order} of {what}: layout must be a permutation of [0, {rank}), "
            f"for {aval}"
        )
    return order[::-1] if major_first else order
