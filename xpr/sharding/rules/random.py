"""Random bits: each element is a function of its key and its place, wherever it is computed.

So the bits are the same whatever the sharding: a device computes the blocks of its own places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.sharding.place import elements
from xpr.sharding.rule import FactorRule, LocalShapes, Place, ShardedWhole, register
from xpr.sharding.rules._forms import (
    NONE,
    Avals,
    AxisFactors,
    Builder,
    Params,
    axes_over,
    elementwise,
)
from xpr.sharding.rules._local import counted, filled, offset, spread

_UINT32 = np.dtype(np.uint32)
_MANY = 1 << 32

register("threefry2x32", elementwise)
for _name in ("random_clone", "random_seed", "random_unwrap", "random_wrap"):
    register(_name, ShardedWhole("it is gone before programs are partitioned"))


def _places(
    place: Place,
    whole: Sequence[int],
    shape: Sequence[int],
    factors: Sequence[AxisFactors],
    local: LocalShapes,
) -> Any:
    """The row-major place of each element of the device's part in an array of shape `whole`."""
    found = filled(shape, 0, _UINT32)
    step = 1
    for axis in reversed(range(len(shape))):
        count = counted(shape, axis)
        over = axes_over(factors[axis], local)
        if over:
            count = ops.add(count, spread(offset(place, over, shape[axis]), shape))
        own = ops.convert(count, _UINT32)
        found = ops.add(found, ops.mul(own, filled(shape, step, _UINT32)))
        step *= whole[axis]
    return found


def _blocks(key: Any, counters: Any) -> Sequence[Any]:
    """The two halves of the block of each key and counter, [*keys, *counters]."""
    keys, shape = get_aval(key).shape[:-1], get_aval(counters).shape
    whole = (*keys, *shape)

    def half(i: int) -> Any:
        one = ops.reshape(elements(key, len(keys), i, i + 1), keys)
        return ops.broadcast_in_dim(one, whole, range(len(keys)))

    places = ops.broadcast_in_dim(counters, whole, range(len(keys), len(whole)))
    blank = filled(whole, 0, _UINT32)
    return get_primitive("threefry2x32").bind(half(0), half(1), blank, places)


def _axes(build: Builder, key: Sequence[int], shape: Sequence[int]) -> list[list[AxisFactors]]:
    """The factors of the axes of keys and of the array that each gives."""
    # Places are counted in 32 bits.
    whole = range(len(shape)) if math.prod(shape) > _MANY else ()
    return [build.axes(key[:-1]), build.axes(shape, but=whole)]


def _random_bits(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    keys, made = _axes(build, operands[0].shape, params["shape"])

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        if not any(axes_over(f, local) for f in made):
            return [get_primitive("random_bits").bind(*args, **params)]
        shape, width = local.results[0][len(keys) :], params["bit_width"]
        counters = _places(place, params["shape"], shape, made, local)
        first, second = _blocks(args[0], counters)
        if width < 64:
            found = get_primitive("xor").bind(first, second)
            return [ops.convert(found, f"u{width // 8}") if width < 32 else found]
        high = ops.convert(first, np.uint64)
        shift = filled(local.results[0], 32, np.dtype(np.uint64))
        high = get_primitive("shift_left").bind(high, shift)
        return [get_primitive("or").bind(high, ops.convert(second, np.uint64))]

    return build.rule([[*keys, NONE]], [[*keys, *made]], apply=apply)


register("random_bits", _random_bits)


def _random_split(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    keys, made = _axes(build, operands[0].shape, params["shape"])

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        if not any(axes_over(f, local) for f in made):
            return [get_primitive("random_split").bind(*args, **params)]
        shape = local.results[0][len(keys) : -1]
        halves = _blocks(args[0], _places(place, params["shape"], shape, made, local))
        return [get_primitive("stack").bind(*halves, axis=len(keys) + len(shape))]

    return build.rule([[*keys, NONE]], [[*keys, *made, NONE]], apply=apply)


register("random_split", _random_split)


def _random_fold_in(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results, params
    build = Builder()
    keys = build.axes(operands[0].shape[:-1])
    return build.rule([[*keys, NONE], keys], [[*keys, NONE]])


register("random_fold_in", _random_fold_in)
