"""The arithmetic of collectives on arrays in the memory of one process.

Every collective is a list of moves: combine some arrays and write the result to some others. Moves
are cut into pieces that stay in a core's cache, which several threads can work on; the result does
not depend on who does what, because each element is combined by one thread in the order of the
ranks. Floats of 16 bits and fewer are combined in float32 and rounded once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from xpr.runtimes.collectives.base import (
    Array,
    Collective,
    Group,
)

PIECE_BYTES = 1 << 18
"""Bytes of each array in a piece. Smaller ones would stay in a core's own cache, but were measured
to take longer: 1.06 ms instead of 0.87 with 64 KiB, for the sum of 1 MB of float32 of 8 ranks."""

Combine = Callable[[Sequence[Array], Sequence[Array]], None]
"""Combines the arrays of the first list, in order, and writes the result to all of the second."""

Move = tuple[Combine, list[Array], list[Array]]

_UFUNCS: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

_WIDE: dict[Any, Any] = {
    np.dtype(ml_dtypes.int2): np.int8,
    np.dtype(ml_dtypes.int4): np.int8,
    np.dtype(ml_dtypes.uint2): np.uint8,
    np.dtype(ml_dtypes.uint4): np.uint8,
    np.dtype(np.float16): np.float32,
}
"""What elements of a narrow type are combined as; other types of ml_dtypes are floats."""


def moves(
    collective: Collective,
    group: Group,
    operands: Sequence[Sequence[Array]],
    results: Sequence[Sequence[Array]],
) -> list[Move]:
    """What is to be done for one group: `operands[i]` and `results[i]` are those of `group[i]`.

    All arrays are C-contiguous. The moves write to all of `results`, and no two to the same place.
    """
    found: list[Move] = []
    for i, first in enumerate(operands[0]):
        xs = [x[i] for x in operands]
        outs = [x[i] for x in results]
        if outs[0].size:
            found += _MOVES[collective.kind](collective, group, xs, outs, first.dtype)
    return found


def cost(found: Sequence[Move]) -> int:
    """Bytes that the moves read and write."""
    return sum(t[0].nbytes * (len(s) + len(t)) for _, s, t in found)


def pieces(found: Sequence[Move]) -> Iterator[Move]:
    """The same moves, cut into small ones."""
    for combine, sources, targets in found:
        if targets[0].nbytes <= PIECE_BYTES:
            yield combine, sources, targets
            continue
        if targets[0].ndim > 1 and all(x.flags.c_contiguous for x in (*sources, *targets)):
            sources = [x.reshape(-1) for x in sources]
            targets = [x.reshape(-1) for x in targets]
        for at in cuts(targets[0].shape, targets[0].itemsize):
            yield combine, [s[at] for s in sources], [t[at] for t in targets]


def cuts(
    shape: tuple[int, ...], itemsize: int, limit: int = PIECE_BYTES
) -> Iterator[tuple[slice | int, ...]]:
    """Indices that cut an array of this shape, which has elements, into pieces of some bytes."""
    row = math.prod(shape[1:]) * itemsize
    if row > limit:
        for i in range(shape[0]):
            for rest in cuts(shape[1:], itemsize, limit):
                yield i, *rest
        return
    step = max(1, limit // row)
    for start in range(0, shape[0], step):
        yield (slice(start, start + step),)


# ---- the moves of each kind


def _all_reduce(
    collective: Collective, group: Group, xs: list[Array], outs: list[Array], dtype: np.dtype[Any]
) -> list[Move]:
    return [(combiner(collective.op, dtype), xs, outs)]


def _reduce_scatter(
    collective: Collective, group: Group, xs: list[Array], outs: list[Array], dtype: np.dtype[Any]
) -> list[Move]:
    combine = combiner(collective.op, dtype)
    parts = [in_parts(x, collective.axis, len(group)) for x in xs]
    return [
        (combine, [p[:, d] for p in parts], [out.reshape(parts[0][:, d].shape)])
        for d, out in enumerate(outs)
    ]


def _all_gather(
    collective: Collective, group: Group, xs: list[Array], outs: list[Array], dtype: np.dtype[Any]
) -> list[Move]:
    parts = [in_parts(as_raw(x), collective.axis, len(group)) for x in outs]
    return [
        (copy, [as_raw(x).reshape(parts[0][:, s].shape)], [p[:, s] for p in parts])
        for s, x in enumerate(xs)
    ]


def _all_to_all(
    collective: Collective, group: Group, xs: list[Array], outs: list[Array], dtype: np.dtype[Any]
) -> list[Move]:
    n = len(group)
    split, concat = collective.axis, collective.concat_axis
    found: list[Move] = []
    step = xs[0].shape[split] // n
    raw = [as_raw(x) for x in xs]
    for d, out in enumerate(outs):
        at = (slice(None),) * split + (slice(d * step, (d + 1) * step),)
        if out.nbytes <= PIECE_BYTES:
            found.append((_joined(concat), [x[at] for x in raw], [as_raw(out)]))
            continue
        to = np.split(as_raw(out), n, concat)
        found += [(copy, [x[at]], [to[s]]) for s, x in enumerate(raw)]
    return found


def _permute(
    collective: Collective, group: Group, xs: list[Array], outs: list[Array], dtype: np.dtype[Any]
) -> list[Move]:
    sender = {d: s for s, d in collective.pairs}
    place = {rank: i for i, rank in enumerate(group)}
    found: list[Move] = []
    for rank, out in zip(group, outs, strict=True):
        to = [as_raw(out)]
        if rank in sender:
            found.append((copy, [as_raw(xs[place[sender[rank]]])], to))
        else:
            found.append((zeros, [], to))
    return found


_MOVES = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "permute": _permute,
}


def in_parts(x: Array, axis: int, count: int) -> Array:
    """`x[outer, count * inner]`, split along `axis`, as `[outer, count, inner]`."""
    outer = math.prod(x.shape[:axis])
    return x.reshape(outer, count, x.size // (outer * count))


_RAW = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}


def as_raw(x: Array) -> Array:
    """The same memory as integers where NumPy would copy the elements one by one."""
    return x if x.dtype.isbuiltin == 1 else x.view(_RAW[x.dtype.itemsize])


# ---- how arrays are combined


def copy(sources: Sequence[Array], targets: Sequence[Array]) -> None:
    """Writes the one source to all targets."""
    for target in targets:
        np.copyto(target, sources[0])


@cache
def _joined(axis: int) -> Combine:
    """Writes the sources one after the other along `axis`: only for what is not cut into pieces."""

    def join(sources: Sequence[Array], targets: Sequence[Array]) -> None:
        np.concatenate(sources, axis, out=targets[0])

    return join


def zeros(sources: Sequence[Array], targets: Sequence[Array]) -> None:
    """Writes zeros to all targets."""
    for target in targets:
        target.fill(0)


def is_short_float(dtype: np.dtype[Any]) -> bool:
    """Whether elements are combined as float32."""
    return (dtype in _WIDE or dtype.isbuiltin != 1) and _wide(dtype) is np.float32


def wide_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of sums that are not rounded yet."""
    return np.dtype(np.float32) if is_short_float(dtype) else dtype


def _wide(dtype: np.dtype[Any]) -> Any:
    return _WIDE.get(dtype, np.float32)


@cache
def combiner(op: str, dtype: np.dtype[Any]) -> Combine:
    """Combines arrays of `dtype`; where that is short, sources and targets may be wider, too."""
    ufunc = _UFUNCS[op]
    if dtype in _WIDE or dtype.isbuiltin != 1:
        return _combine_widened(ufunc, _wide(dtype))

    def combine(sources: Sequence[Array], targets: Sequence[Array]) -> None:
        total = targets[0]
        if len(sources) == 1:
            np.copyto(total, sources[0])
        else:
            ufunc(sources[0], sources[1], out=total)
            for source in sources[2:]:
                ufunc(total, source, out=total)
        if len(targets) > 1:
            copy([total], targets[1:])

    return combine


def _combine_widened(ufunc: Any, wide: Any) -> Combine:
    def combine(sources: Sequence[Array], targets: Sequence[Array]) -> None:
        total = sources[0].astype(wide)
        for source in sources[1:]:
            ufunc(total, source.astype(wide), out=total)
        # Rounds floats; of integers that are too large it takes the lower bits.
        narrow = total.astype(targets[0].dtype)
        copy([as_raw(narrow)], [as_raw(t) for t in targets])

    return combine
