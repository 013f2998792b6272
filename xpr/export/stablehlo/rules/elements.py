"""Regions of scalars applied to whole arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr import lax
from xpr.export.stablehlo.importer import shape_of
from xpr.transforms.vmap import vmap


def over_elements(region: Callable[..., list[Any]], arrays: Sequence[Any]) -> list[Any]:
    """What a region gives for the elements of arrays of one shape, as arrays of that shape."""
    shape = shape_of(arrays[0])
    if not shape:
        return region(*arrays)
    count = math.prod(shape)
    flat = [lax.reshape(x, (count,)) for x in arrays]
    found = vmap(lambda *xs: tuple(region(*xs)))(*flat)
    return [lax.reshape(x, shape) for x in found]
