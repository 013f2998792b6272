"""Whether arrays may be stored while what they are computed from is being overwritten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto

from xpr.lowering.loops.memory.affine import Place, Symbol
from xpr.lowering.loops.memory.arrays import Array, Index, View
from xpr.lowering.loops.memory.nest import Reads


class Verdict(Enum):
    """What becomes of a store."""

    FREE = auto()
    """It goes, in any order of the elements."""
    IN_ORDER = auto()
    """It goes in row-major order."""
    NO = auto()
    """Something would be read after it was overwritten."""


def verdict(targets: Sequence[View], values: Sequence[Array]) -> Verdict:
    """Whether arrays of one shape may be stored to their targets in one nest of loops."""
    reads = Reads(targets[0].shape)
    for v in values:
        reads.add(v)
    return _worst(reads, targets, reads.index)


def reads_what_is_written(x: Array, at: Index, reads: Reads, targets: Sequence[View]) -> bool:
    """Whether `x` at an index of the nest of `reads` is read after it was overwritten."""
    inner = Reads(())
    inner.symbols = reads.symbols
    inner.add(x, at)
    return _worst(inner, targets, reads.index) is not Verdict.FREE


def _worst(reads: Reads, targets: Sequence[View], index: Index) -> Verdict:
    found = Verdict.FREE
    for target in targets:
        write = target.place(index)
        for buffer, place in reads.places:
            if buffer is not target.buffer:
                continue
            if place is None:
                return Verdict.NO
            one = _one(place, write, reads.symbols, target)
            if one is Verdict.NO:
                return one
            found = one if one is Verdict.IN_ORDER else found
    return found


def _one(read: Place, write: Place, symbols: Sequence[Symbol], target: View) -> Verdict:
    if read == write and _covers_once(target):
        return Verdict.FREE
    if _apart(read, write, symbols):
        return Verdict.FREE
    ahead = (read - write).known
    if ahead is not None and ahead > 0 and _goes_up(target):
        return Verdict.IN_ORDER
    return Verdict.NO


def _covers_once(target: View) -> bool:
    """Whether no element of the target is written twice."""
    return all(s or n == 1 for s, n in zip(target.strides, target.shape, strict=True))


def _goes_up(target: View) -> bool:
    """Whether each element lies behind those before it, in row-major order."""
    end = 0
    for n, stride in zip(reversed(target.shape), reversed(target.strides), strict=True):
        if n == 1:
            continue
        if stride <= end:
            return False
        end += stride * (n - 1)
    return True


def _apart(read: Place, write: Place, symbols: Sequence[Symbol]) -> bool:
    """Whether no element that is read in any round is written in any round."""
    others = {s: Symbol(None, s.low, s.high) for s in symbols}
    moved = Place(write.constant, {others.get(s, s): f for s, f in write.terms.items()})
    distance = read - moved
    low, high = distance.bounds
    if low > 0 or high < 0:
        return True
    step = math.gcd(*distance.terms.values()) if distance.terms else 0
    return step > 1 and distance.constant % step != 0
