"""Derivative and batching rules of the cumulative operations.

Their tangents are scans of pairs (value, tangent) with an associative operation that is linear in
the tangents, so that no division or difference of prefixes is needed: zeros, infinities and
cancellation do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xpr.core.primitive import DerivedRule, Primitive, Rule
from xpr.primitives import _ops as ops
from xpr.primitives.rules import (
    BatchAxis,
    Dim,
    add_tangents,
    const_like,
    full_like,
    shape_of,
)

Arrays = Sequence[Any]
Combine = Callable[[Arrays, Arrays], list[Any]]

# Axes longer than this are scanned in blocks, which costs the same for each element.
_BLOCK = 64


class CumulativeBatch(DerivedRule):
    """Operations on one operand along the axis that the parameter `axis` names."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def batch(
            mapped: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axis: int, reverse: bool
        ) -> Any:
            dim = dims[0]
            assert dim is not None
            return primitive.bind(args[0], axis=axis + (axis >= dim), reverse=reverse), dim

        return batch


def cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    return [ops.bind("cumsum", ct, axis=axis, reverse=not reverse)]


# ---- scans


def scan(
    combine: Combine, xs: Arrays, identities: Sequence[float], axis: int, reverse: bool
) -> list[Any]:
    """Reductions of all prefixes along `axis` (suffixes, in reverse) with an associative operation.

    `combine(earlier, later)` works on lists of arrays. Prefixes of 1, 2, 4, ... elements are made
    from each other: W. D. Hillis and G. L. Steele, "Data parallel algorithms", Communications of
    the ACM 29 (1986).
    """
    size = shape_of(xs[0])[axis]
    if size > 2 * _BLOCK:
        return _scan_blocks(combine, xs, identities, axis, reverse)
    found = list(xs)
    apart = 1
    while apart < size:
        earlier = [
            _shifted(x, v, axis, apart, reverse) for x, v in zip(found, identities, strict=True)
        ]
        found = combine(earlier, found)
        apart *= 2
    return found


def _scan_blocks(
    combine: Combine, xs: Arrays, identities: Sequence[float], axis: int, reverse: bool
) -> list[Any]:
    """A scan in blocks, a scan of their totals, and one step that puts these together."""
    shape = shape_of(xs[0])
    size = shape[axis]
    blocks = -(-size // _BLOCK)
    rest = blocks * _BLOCK - size
    split = (*shape[:axis], blocks, _BLOCK, *shape[axis + 1 :])
    parts = [
        ops.reshape(_padded(x, v, axis, *((rest, 0) if reverse else (0, rest))), split)
        for x, v in zip(xs, identities, strict=True)
    ]
    inner = scan(combine, parts, identities, axis + 1, reverse)
    last = 0 if reverse else _BLOCK - 1
    heads = (*shape[:axis], blocks, *shape[axis + 1 :])
    totals = [ops.reshape(_part(x, axis + 1, last, last + 1), heads) for x in inner]
    totals = scan(combine, totals, identities, axis, reverse)
    before = [
        ops.broadcast_in_dim(
            _shifted(x, v, axis, 1, reverse),
            split,
            [i for i in range(len(split)) if i != axis + 1],
        )
        for x, v in zip(totals, identities, strict=True)
    ]
    whole = (*shape[:axis], blocks * _BLOCK, *shape[axis + 1 :])
    first = rest if reverse else 0
    return [_part(ops.reshape(x, whole), axis, first, first + size) for x in combine(before, inner)]


def _padded(x: Any, value: float, axis: int, low: int, high: int) -> Any:
    """`x` with elements equal to `value` before and after those of `axis`."""
    if low == high == 0:
        return x
    config = [(0, 0, 0)] * len(shape_of(x))
    config[axis] = (low, high, 0)
    return ops.bind("pad", x, const_like(x, value), padding_config=tuple(config))


def _shifted(x: Any, value: float, axis: int, by: int, reverse: bool) -> Any:
    """The elements that come `by` places before those of `x` in the direction of the scan."""
    return _padded(x, value, axis, *((-by, by) if reverse else (by, -by)))


def _part(x: Any, axis: int, start: int, stop: int) -> Any:
    """The elements from `start` to `stop` of `axis`."""
    shape = shape_of(x)
    if (start, stop) == (0, shape[axis]):
        return x
    starts, limits = [0] * len(shape), list(shape)
    starts[axis], limits[axis] = start, stop
    return ops.bind(
        "slice", x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None
    )


# ---- tangents


def cumprod_tangent(t: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    def combine(a: Arrays, b: Arrays) -> list[Any]:
        product = ops.mul(a[0], b[0])
        return [product, add_tangents(ops.mul(a[1], b[0]), ops.mul(a[0], b[1]))]

    return scan(combine, [x, t], [1, 0], axis, reverse)[1]


def extremum_tangent(t: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    """The mean of the tangents of all elements so far that are the extremum.

    Extrema only change in one direction, so runs of equal ones are summed apart.
    """
    chosen = ops.eq(x, out)
    tangents = ops.select(chosen, t, full_like(t, 0))
    counts = ops.select(chosen, full_like(t, 1), full_like(t, 0))

    def combine(a: Arrays, b: Arrays) -> list[Any]:
        same = ops.eq(a[0], b[0])
        sums = [
            add_tangents(ops.select(same, u, full_like(u, 0)), v)
            for u, v in zip(a[1:], b[1:], strict=True)
        ]
        return [b[0], *sums]

    _, total, count = scan(combine, [out, tangents, counts], [0, 0, 0], axis, reverse)
    return ops.div(total, count)


def cumlogsumexp_tangent(t: Any, out: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    """Element i is w d + v, where d is the element before it, of weights that are at most 1.

    With the result y these are w = exp(y[i-1] - y[i]) and v = t[i] exp(x[i] - y[i]).
    """
    change = _weight(_shifted(out, -math.inf, axis, 1, reverse), out)

    def combine(a: Arrays, b: Arrays) -> list[Any]:
        return [ops.mul(a[0], b[0]), add_tangents(ops.mul(a[1], b[0]), b[1])]

    return scan(combine, [change, ops.mul(t, _weight(x, out))], [1, 0], axis, reverse)[1]


def _weight(x: Any, total: Any) -> Any:
    """exp(x - total), and 1 where these are equal, infinities too."""
    difference = ops.select(ops.eq(x, total), full_like(x, 0), ops.sub(x, total))
    return ops.bind("exp", difference, accuracy=None)
