"""Rearranging one array's elements: reshapes share sub-factors, other axes pass through."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xpr.core.primitive import get_primitive
from xpr.sharding.rule import FactorRule, LocalShapes, Place, register
from xpr.sharding.rules._forms import (
    NONE,
    Avals,
    AxisFactors,
    Builder,
    Params,
    axes_over,
    no_sharding,
    nothing,
    result_shape,
    setting,
)
from xpr.sharding.rules._halo import shifted


def _broadcast_in_dim(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    (x, *_), shape = operands, results[0].shape
    made = build.axes(shape)
    own = [
        made[d] if n == shape[d] else NONE
        for n, d in zip(x.shape, params["broadcast_dimensions"], strict=True)
    ]
    return build.rule([own], [made], localize=setting(shape=result_shape, sharding=no_sharding))


register("broadcast_in_dim", _broadcast_in_dim)


def shared_factors(
    build: Builder, old: Sequence[int], new: Sequence[int]
) -> tuple[list[AxisFactors], list[AxisFactors]]:
    """The factors of the axes `old` and `new` that hold the same elements in row-major order.

    From the major end, the greatest common divisor of what is left of an axis of each is a factor
    of both. Where it uses up neither, as in [4, 3] and [6, 2] after the factor 2, the rest up to
    where the products are equal again is whole.
    """
    left: list[AxisFactors] = [NONE] * len(old)
    right: list[AxisFactors] = [NONE] * len(new)
    if 0 in old:
        return left, right
    rest_old, rest_new = list(old), list(new)
    i = j = 0
    while True:
        while i < len(old) and rest_old[i] == 1:
            i += 1
        while j < len(new) and rest_new[j] == 1:
            j += 1
        if i == len(old):
            return left, right
        common = math.gcd(rest_old[i], rest_new[j])
        made = build.through(common)
        left[i], right[j] = left[i] + made, right[j] + made
        a, b = rest_old[i] // common, rest_new[j] // common
        rest_old[i], rest_new[j] = a, b
        if a == 1 or b == 1:
            continue
        left[i], right[j] = left[i] + build.whole(a), right[j] + build.whole(b)
        while a != b:
            if a < b:
                i += 1
                a *= old[i]
                left[i] = build.whole(old[i])
            else:
                j += 1
                b *= new[j]
                right[j] = build.whole(new[j])
        rest_old[i] = rest_new[j] = 1


def _reshape(operands: Avals, results: Avals, params: Params) -> FactorRule:
    build = Builder()
    shape = operands[0].shape
    order = params["dimensions"] or range(len(shape))
    permuted, made = shared_factors(build, [shape[d] for d in order], results[0].shape)
    own = [NONE] * len(shape)
    for d, f in zip(order, permuted, strict=True):
        own[d] = f
    return build.rule([own], [made], localize=setting(new_sizes=result_shape, sharding=no_sharding))


register("reshape", _reshape)


def _transpose(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    own = build.axes(operands[0].shape)
    return build.rule([own], [[own[d] for d in params["permutation"]]])


register("transpose", _transpose)


def _squeeze(operands: Avals, results: Avals, params: Params) -> FactorRule:
    del results
    build = Builder()
    own = build.axes(operands[0].shape)
    return build.rule([own], [[f for i, f in enumerate(own) if i not in params["dimensions"]]])


register("squeeze", _squeeze)


def _rev(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Along reversed axes the devices exchange their parts, the first with the last."""
    del results
    build = Builder()
    own = build.axes(operands[0].shape)

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        found = get_primitive("rev").bind(*args, **params)
        for d in params["dimensions"]:
            over = axes_over(own[d], local)
            if over:
                found = place.exchange_places(found, over, range(place.count(over))[::-1])
        return [found]

    return build.rule([own], [own], apply=apply)


register("rev", _rev)


def _pad(operands: Avals, results: Avals, params: Params) -> FactorRule:
    """Axes that are not padded pass through, and so do those where each element gets a block.

    Where as many elements go as come the elements move along, also those of other devices.
    """
    del results
    build = Builder()
    x, value = operands
    own: list[AxisFactors] = []
    made: list[AxisFactors] = []
    moved: dict[int, int] = {}
    for i, (n, (low, high, interior)) in enumerate(
        zip(x.shape, params["padding_config"], strict=True)
    ):
        if low >= 0 and high >= 0 and low + high == interior:
            # Element i is alone in block i of interior + 1 elements.
            own.append(build.through(n))
            made.append(own[-1] + build.whole(interior + 1))
        elif low + high == interior == 0 and n:
            moved[i] = low
            own.append(build.through(n))
            made.append(own[-1])
        else:
            own.append(NONE)
            made.append(NONE)

    def apply(
        place: Place, args: Sequence[Any], params: Params, local: LocalShapes
    ) -> Sequence[Any]:
        part, blank = args
        config = list(params["padding_config"])
        for i, by in moved.items():
            over = axes_over(own[i], local)
            if over:
                part = shifted(place, over, part, i, by, blank)
                config[i] = (0, 0, 0)
        return [get_primitive("pad").bind(part, blank, padding_config=tuple(config))]

    return build.rule([own, nothing(value.shape)], [made], apply=apply)


register("pad", _pad)
