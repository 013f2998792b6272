"""Operations on sizes that are known only when the program is called.

A program is made for the shapes of a call's arguments, so that these are known here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo.importer import Rule, Site, is_known, shape_of
from xpr.export.stablehlo.rules.arrays import iota
from xpr.export.stablehlo.rules.indexing import gather
from xpr.export.stablehlo.rules.products import convolution


def _dimension_size(site: Site) -> Any:
    axis, shape = site.int("dimension"), shape_of(site.operand(0))
    if not 0 <= axis < len(shape):
        raise site.error(f"dimension {axis} of an operand of rank {len(shape)}")
    return np.asarray(shape[axis], site.tensor().dtype)


def _set_dimension_size(site: Site) -> Any:
    size = site.known(site.operand(1))[0]
    x, axis = site.operand(0), site.int("dimension")
    if size == shape_of(x)[axis]:
        return x
    return lax.slice_in_dim(x, 0, size, axis=axis)


def _reshape(site: Site) -> Any:
    return lax.reshape(site.operand(0), site.known(site.operand(1)))


def _broadcast(site: Site) -> Any:
    """Sizes of one grow, whether or not they are declared to."""
    return lax.broadcast_in_dim(
        site.operand(0), site.known(site.operand(1)), site.ints("broadcast_dimensions")
    )


def _iota(site: Site) -> Any:
    sizes = site.known(site.operand(0))
    return iota(site.tensor().dtype, sizes, site.int("iota_dimension"))


def _pad(site: Site) -> Any:
    low, high, interior = (site.known(site.operand(i)) for i in (2, 3, 4))
    return lax.pad(site.operand(0), site.operand(1), list(zip(low, high, interior, strict=True)))


def _slice(site: Site) -> Any:
    if not is_known(site.operand(1)):
        return _slice_anywhere(site)
    starts, limits, strides = (site.known(site.operand(i)) for i in (1, 2, 3))
    return lax.slice(site.operand(0), starts, limits, strides)


def _slice_anywhere(site: Site) -> Any:
    """A part whose start is a value, where the limit is the start and known sizes."""
    start, limit = site.op.operands[1:3]
    added = limit.owner
    if added is not None and added.name == "stablehlo.add" and start in added.operands:
        other = added.operands[1 - added.operands.index(start)]
        sizes = site.known(site.scope.get(other))
        if all(step == 1 for step in site.known(site.operand(3))):
            places = site.operand(1)
            starts = [lax.index_in_dim(places, i, keepdims=False) for i in range(len(sizes))]
            return lax.dynamic_slice(site.operand(0), starts, sizes)
    raise site.error("the limits of a part must be its starts and known sizes")


def _convolution(site: Site) -> Any:
    pairs = np.asarray(site.known(site.operand(2))).reshape(-1, 2)
    return convolution(site, [(int(a), int(b)) for a, b in pairs])


RULES: dict[str, Rule] = {
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.dynamic_gather": lambda site: gather(site, site.known(site.operand(2))),
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_pad": _pad,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.real_dynamic_slice": _slice,
    "stablehlo.set_dimension_size": _set_dimension_size,
}
