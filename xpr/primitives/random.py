"""Random bits: the counter-based generator threefry2x32 and what keys are made with.

Threefry-2x32 with 20 rounds is the one of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel
random numbers: as easy as 1, 2, 3" (SC11). A key is two uint32; the counter is the place of an
element in its array, in row-major order, as 64 bits: the high half first. Every element is computed
on its own, so a batch of keys, or a part of an array, gives the bits that each key gives alone.

Keys are arrays uint32[..., 2], of which the axes before the last are batch axes, or arrays of a key
dtype, of which all axes are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.key_types import KeyType
from xpr.core.primitive import NOT_LINEAR, DerivedRule, Primitive, Rule, define
from xpr.core.trace import get_aval

# The primitives of this family that make keys.
from xpr.primitives import _keys as _keys
from xpr.primitives import _threefry_original as original
from xpr.primitives.families import elementwise_shape, require_same_dtypes
from xpr.primitives.rules import BatchAxis, ElementwiseBatch, NoTangent, at_front

__all__ = ["random_bits", "random_fold_in", "random_split", "threefry2x32"]

_FAMILY = "random"
_UINT32 = np.dtype(np.uint32)
_Host = np.ndarray[Any, Any]
_Shape = tuple[int, ...]

# The constants of the paper: rotations of the rounds, and the parity of the key schedule.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
# Elements that stay in the first-level cache while all rounds pass over them.
_CHUNK = 1 << 12
# Up to so many elements Python's integers are faster than NumPy's calls.
_FEW = 6
_MASK = 0xFFFFFFFF

# What NumPy's arithmetic takes: making a scalar costs as much as using it on a short array.
_SHIFTS = tuple(tuple((np.uint32(r), np.uint32(32 - r)) for r in four) for four in ROTATIONS)
_NUMBERS = tuple(np.uint32(i) for i in range(6))


# ---- the function itself, in NumPy


def _block(k1: int, k2: int, x1: int, x2: int) -> tuple[int, int]:
    """One block in Python's integers."""
    schedule = (k1, k2, k1 ^ k2 ^ PARITY)
    x1, x2 = (x1 + k1) & _MASK, (x2 + k2) & _MASK
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x1 = (x1 + x2) & _MASK
            x2 = ((x2 << r) & _MASK | x2 >> (32 - r)) ^ x1
        x1 = (x1 + schedule[(i + 1) % 3]) & _MASK
        x2 = (x2 + schedule[(i + 2) % 3] + i + 1) & _MASK
    return x1, x2


def _chunk(k1: Any, k2: Any, x1: _Host, x2: _Host) -> None:
    """Replaces the counters x1, x2 by their blocks."""
    schedule = (k1, k2, k1 ^ k2 ^ np.uint32(PARITY))
    high = np.empty_like(x1)
    x1 += k1
    x2 += k2
    for i in range(5):
        for left, right in _SHIFTS[i % 2]:
            x1 += x2
            np.right_shift(x2, right, out=high)
            np.left_shift(x2, left, out=x2)
            x2 |= high
            x2 ^= x1
        x1 += schedule[(i + 1) % 3]
        x2 += schedule[(i + 2) % 3]
        x2 += _NUMBERS[i + 1]


def _blocks(k1: _Host, k2: _Host, x1: _Host, x2: _Host) -> tuple[_Host, _Host]:
    """The blocks of lists of keys and counters; a single key goes with every counter."""
    n = x1.size
    if n <= _FEW:
        keys = zip(k1.tolist() * (n // k1.size), k2.tolist() * (n // k2.size), strict=True)
        counters = zip(x1.tolist(), x2.tolist(), strict=True)
        found = [_block(*k, *x) for k, x in zip(keys, counters, strict=True)]
        pairs = np.array(found, _UINT32).reshape(n, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()
    out1, out2 = np.array(x1), np.array(x2)
    single = k1.size == 1
    for start in range(0, n, _CHUNK):
        part = slice(start, start + _CHUNK)
        key = slice(None) if single else part
        _chunk(k1[key], k2[key], out1[part], out2[part])
    return out1, out2


def _counted(key: _Host, count: int) -> tuple[_Host, _Host]:
    """The blocks of counters 0 .. count-1 for each of the keys, as arrays [keys, count]."""
    keys = key.reshape(-1, 2)
    number = len(keys)
    place = np.arange(count, dtype=np.uint64 if count > _MASK else _UINT32)
    low = place.astype(_UINT32)
    high = (place >> np.uint64(32)).astype(_UINT32) if count > _MASK else np.zeros_like(low)
    if number == 1 or not count:
        k1, k2 = keys[:, 0], keys[:, 1]
    else:
        k1, k2 = np.repeat(keys[:, 0], count), np.repeat(keys[:, 1], count)
        low, high = np.tile(low, number), np.tile(high, number)
    if not number or not count:
        empty = np.zeros((number, count), _UINT32)
        return empty, empty
    first, second = _blocks(k1, k2, high, low)
    return first.reshape(number, count), second.reshape(number, count)


# ---- rules that all of them share


class _KeysInFront(DerivedRule):
    """Batching of functions of keys: a batch axis of the operands is one more axis of keys."""

    def rule_for(self, primitive: Primitive) -> Rule:
        def batch(
            axis: BatchAxis, args: Sequence[Any], dims: Sequence[int | None], **params: Any
        ) -> tuple[Any, int]:
            moved = [at_front(axis, x, d) for x, d in zip(args, dims, strict=True)]
            return primitive.bind(*moved, **params), 0

        return batch


def _require_keys(name: str, key: ShapedArray) -> _Shape:
    """The batch axes of keys; TypeError for what are no keys."""
    if isinstance(key.dtype, KeyType):
        return key.shape
    if key.dtype != _UINT32 or not key.shape or key.shape[-1] != 2:
        raise TypeError(f"{name} requires key: uint32[..., 2], got {key}")
    return key.shape[:-1]


def _require_sizes(name: str, shape: _Shape) -> None:
    if any(d < 0 for d in shape):
        raise ValueError(f"{name} requires shape to have no negative sizes, got {shape}")


# ---- threefry2x32


def _threefry2x32_abstract(*avals: ShapedArray) -> list[ShapedArray]:
    if require_same_dtypes("threefry2x32", *avals) != _UINT32:
        found = ", ".join(str(a.dtype) for a in avals)
        raise TypeError(f"threefry2x32 requires operands of type uint32, got {found}")
    return [ShapedArray(elementwise_shape("threefry2x32", *avals), _UINT32)] * 2


def _threefry2x32_reference(k1: _Host, k2: _Host, x1: _Host, x2: _Host) -> tuple[_Host, _Host]:
    operands = [np.ravel(x) for x in np.broadcast_arrays(k1, k2, x1, x2)]
    shape = np.broadcast_shapes(*(x.shape for x in (k1, k2, x1, x2)))
    first, second = _blocks(*operands) if operands[0].size else (operands[2], operands[3])
    return first.reshape(shape), second.reshape(shape)


class _ElementwiseBatches(DerivedRule):
    """`ElementwiseBatch` for a primitive of two results."""

    def rule_for(self, primitive: Primitive) -> Rule:
        one = ElementwiseBatch().rule_for(primitive)

        def batch(axis: BatchAxis, args: Any, dims: Any, **params: Any) -> Any:
            found, dim = one(axis, args, dims, **params)
            return found, [dim] * len(found)

        return batch


threefry2x32_p = define(
    "threefry2x32",
    family=_FAMILY,
    doc="Blocks of the generator threefry2x32: of key k1, k2 and counter x1, x2.",
    abstract=_threefry2x32_abstract,
    reference=_threefry2x32_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_ElementwiseBatches(),
    multiple_results=True,
)


def threefry2x32(k1: Any, k2: Any, x1: Any, x2: Any) -> list[Any]:
    """The two halves of the block of key (k1, k2) and counter (x1, x2), elementwise.

    Operands are uint32 of one shape; rank-0 operands go with any. Raises TypeError for others.

    >>> zero = np.uint32(0)
    >>> [hex(x) for x in threefry2x32(zero, zero, zero, zero)]
    ['0x6b200159', '0x99ba4efe']
    """
    return threefry2x32_p.bind(k1, k2, x1, x2)


# ---- random_bits


def _random_bits_abstract(key: ShapedArray, *, bit_width: int, shape: _Shape) -> ShapedArray:
    axes = _require_keys("random_bits", key)
    _require_sizes("random_bits", shape)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(f"random_bits requires bit_width to be 8, 16, 32 or 64, got {bit_width}")
    return ShapedArray((*axes, *shape), np.dtype(f"u{bit_width // 8}"))


def _random_bits_reference(key: _Host, *, bit_width: int, shape: _Shape) -> _Host:
    first, second = _counted(key, math.prod(shape))
    if bit_width == 64:
        bits = first.astype(np.uint64) << np.uint64(32) | second
    else:
        bits = (first ^ second).astype(f"u{bit_width // 8}")
    return bits.reshape((*key.shape[:-1], *shape))


random_bits_p = define(
    "random_bits",
    family=_FAMILY,
    doc="An array of random bits for each key.",
    abstract=_random_bits_abstract,
    reference=_random_bits_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_KeysInFront(),
)


def random_bits(key: Any, bit_width: int, shape: _Shape) -> Any:
    """Random bits as unsigned integers of 8, 16, 32 or 64 bits: `[*keys, *shape]`.

    `key` is uint32[*keys, 2]. Element i of each array has the block of counter i: its halves, the
    first one above (64 bits), or their exclusive or, of which the low bits (32 bits and less).
    With the setting `threefry_partitionable=False` the layout is another one: see
    `_threefry_original.py`. Raises TypeError for another key or `bit_width`, ValueError for a
    negative size.

    >>> random_bits(np.zeros(2, np.uint32), 32, (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    if not state.threefry_partitionable:
        data = _threefry_data(key)
        if data is not None and bit_width in (8, 16, 32, 64):
            return original.original_bits(data, bit_width, shape)
    return random_bits_p.bind(key, bit_width=bit_width, shape=shape)


def _threefry_data(key: Any) -> Any:
    """The numbers of keys of threefry2x32, typed or raw; None for keys of another generator."""
    dtype = get_aval(key).dtype
    if not isinstance(dtype, KeyType):
        return key
    return _keys.random_unwrap(key) if dtype.generator.name == "threefry2x32" else None


# ---- random_split


def _random_split_abstract(key: ShapedArray, *, shape: _Shape) -> ShapedArray:
    axes = _require_keys("random_split", key)
    _require_sizes("random_split", shape)
    if isinstance(key.dtype, KeyType):
        return ShapedArray((*axes, *shape), key.dtype)
    return ShapedArray((*axes, *shape, 2), _UINT32)


def _random_split_reference(key: _Host, *, shape: _Shape) -> _Host:
    pairs = np.stack(_counted(key, math.prod(shape)), axis=-1)
    return pairs.reshape((*key.shape[:-1], *shape, 2))


random_split_p = define(
    "random_split",
    family=_FAMILY,
    doc="An array of new keys for each key.",
    abstract=_random_split_abstract,
    reference=_random_split_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_KeysInFront(),
)


def random_split(key: Any, shape: _Shape) -> Any:
    """New keys, uint32[*keys, *shape, 2], from `key`, uint32[*keys, 2].

    Key i of each array is the block of counter i. With the setting `threefry_partitionable=False`
    it has words of two blocks. Raises TypeError for another key, ValueError for a negative size.
    """
    if not state.threefry_partitionable:
        return _original_split(key, shape)
    return random_split_p.bind(key, shape=shape)


def _original_split(key: Any, shape: _Shape) -> Any:
    dtype = get_aval(key).dtype
    if not isinstance(dtype, KeyType):
        return original.original_split(key, shape)
    split = {"threefry2x32": original.original_split, "rbg": original.original_rbg_split}
    found = split.get(dtype.generator.name)
    if found is None:
        return random_split_p.bind(key, shape=shape)
    return _keys.random_wrap(found(_keys.random_unwrap(key), shape), dtype.generator)


# ---- random_fold_in


def _random_fold_in_abstract(key: ShapedArray, data: ShapedArray) -> ShapedArray:
    axes = _require_keys("random_fold_in", key)
    if data.dtype != _UINT32:
        raise TypeError(f"random_fold_in requires data of type uint32, got {data.dtype}")
    if data.shape != axes:
        raise TypeError(
            f"random_fold_in requires one number for each key, got data of shape {data.shape} for "
            f"keys of shape {axes}"
        )
    return key


def _random_fold_in_reference(key: _Host, data: _Host) -> _Host:
    keys, counter = key.reshape(-1, 2), data.reshape(-1)
    if not counter.size:
        return key
    found = _blocks(keys[:, 0], keys[:, 1], np.zeros_like(counter), counter)
    return np.stack(found, axis=-1).reshape(key.shape)


random_fold_in_p = define(
    "random_fold_in",
    family=_FAMILY,
    doc="A new key for each key and number.",
    abstract=_random_fold_in_abstract,
    reference=_random_fold_in_reference,
    jvp=NoTangent(),
    transpose=NOT_LINEAR,
    batch=_KeysInFront(),
)


def random_fold_in(key: Any, data: Any) -> Any:
    """New keys, uint32[*keys, 2], from as many keys and numbers, uint32[*keys].

    A new key is the block of the number as a counter. Raises TypeError for other operands.
    """
    return random_fold_in_p.bind(key, data)
