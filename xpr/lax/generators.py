"""Random bits from an explicit state, by the generator that is asked for.

Both generators are those of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as
easy as 1, 2, 3" (SC11). The layout of state and bits is that of the RngBitGenerator operation
as XLA's CPU backend computes it, bit by bit.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.primitive import check_operands
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._index_dims import canonicalize_shape
from xpr.primitives.creation import iota
from xpr.primitives.integer import mulhi
from xpr.primitives.joining import stack
from xpr.primitives.random import threefry2x32
from xpr.primitives.slicing import index_in_dim, slice_in_dim

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]

_UINT32, _UINT64 = np.dtype(np.uint32), np.dtype(np.uint64)
# The multipliers of Philox4x32 and the increments of its key, from the paper.
_MULTIPLIERS = (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))
_INCREMENTS = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_ROUNDS = 10
_Shape = tuple[int, ...]


class RandomAlgorithm(enum.IntEnum):
    """The generators of `rng_bit_generator`; the default one is Philox.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> key = jnp.zeros(4, jnp.uint32)
    >>> _, bits = lax.rng_bit_generator(key, (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)
    >>> bits.shape, bits.dtype
    ((3,), dtype('uint32'))
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def rng_bit_generator(
    key: Any,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Random bits of `shape` and `dtype`, and the state after them: `(new_key, bits)`.

    `key` is the state, uint32[4]: two words of key, then two of the counter, the low one first;
    or uint64[2] of the same. `dtype` is an unsigned type of 8 to 64 bits. The counter goes on by
    the number of blocks used: of 4 words for Philox4x32-10, of 2 for Threefry-2x32-20.

    `vmap` gives each key its own bits, those that it gives alone.

    Raises TypeError for another key or `dtype`, ValueError for a negative size.

    >>> new, bits = rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (2,))
    >>> print(new, bits)
    [1 2 4 4] [ 512747620 1298009047]
    """
    del out_sharding
    sizes = canonicalize_shape("rng_bit_generator", shape)
    state = _words(key)
    wanted = dtypes.canonicalize(dtype)
    if dtypes.kind(wanted) != "u" or wanted in dtypes.SMALL_INT_TYPES:
        raise TypeError(f"rng_bit_generator: unsupported dtype {wanted}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"rng_bit_generator requires sizes of 0 or more, got shape {sizes}")
    threefry = RandomAlgorithm(algorithm) is RandomAlgorithm.RNG_THREE_FRY
    bits, blocks = (_threefry if threefry else _philox)(state, sizes, wanted)
    low, high = _advanced(state[2], state[3], np.uint32(blocks))
    return _like_key(key, [*state[:2], low, high]), bits


# ---- the state


def _words(key: Any) -> list[Any]:
    """The four words of the state: key and counter, each the low one first."""
    aval = get_aval(key)
    if aval.shape == (4,) and aval.dtype == _UINT32:
        return [_element(key, i) for i in range(4)]
    if aval.shape == (2,) and aval.dtype == _UINT64:
        halves = []
        for number in (_element(key, 0), _element(key, 1)):
            upper = ops.bind("shift_right_logical", number, np.uint64(32))
            halves += [ops.convert(number, _UINT32), ops.convert(upper, _UINT32)]
        return halves
    raise TypeError(
        f"rng_bit_generator requires key: uint32[4] or uint64[2], got {aval.str_short()}"
    )


def _element(x: Any, i: int) -> Any:
    return index_in_dim(x, i, 0, keepdims=False)


def _like_key(key: Any, words: Sequence[Any]) -> Any:
    """The words of a state in the form that the key has."""
    if get_aval(key).dtype == _UINT32:
        return stack(words)
    return stack([_joined(words[0], words[1]), _joined(words[2], words[3])])


def _joined(low: Any, high: Any) -> Any:
    """Two uint32 as one uint64."""
    upper = ops.bind("shift_left", ops.convert(high, _UINT64), np.uint64(32))
    return ops.bind("or", upper, ops.convert(low, _UINT64))


def _advanced(low: Any, high: Any, steps: Any) -> tuple[Any, Any]:
    """The 64-bit counter `(low, high)` plus `steps`, elementwise."""
    moved = ops.add(low, steps)
    return moved, ops.add(high, ops.convert(ops.lt(moved, low), _UINT32))


def _wrapped(low: Any, high: Any, first_low: Any, first_high: Any) -> Any:
    """Where a counter that started at `(first_low, first_high)` has passed 2^64."""
    equal = ops.bind("and", ops.eq(high, first_high), ops.lt(low, first_low))
    return ops.bind("or", ops.lt(high, first_high), equal)


def _places(count: int) -> Any:
    if count > np.iinfo(_UINT32).max:
        raise ValueError(f"rng_bit_generator makes at most 2**32 - 1 blocks at once, got {count}")
    return iota(_UINT32, count)


def _narrowed(bits: Any, dtype: np.dtype[Any]) -> Any:
    return bits if dtype == get_aval(bits).dtype else ops.convert(bits, dtype)


# ---- Philox


def _philox(state: Sequence[Any], shape: _Shape, dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Bits, one block after the other, and how many blocks they took."""
    wide = dtype == _UINT64
    size = math.prod(shape)
    blocks = -(-size // (2 if wide else 4))
    places = _places(blocks)
    low, high = _advanced(state[2], state[3], places)
    # The upper half of the counter of 128 bits starts at the key; the lower half carries into it.
    carry = ops.convert(_wrapped(low, high, state[2], state[3]), _UINT32)
    upper = _advanced(state[0], state[1], carry)
    lanes = _philox_block([low, high, *upper], state[:2])
    if wide:
        lanes = [_joined(lanes[0], lanes[1]), _joined(lanes[2], lanes[3])]
    flat = ops.reshape(stack(lanes, axis=1), (blocks * len(lanes),))
    bits = ops.reshape(slice_in_dim(flat, 0, size), shape)
    return _narrowed(bits, dtype), blocks


def _philox_block(counter: Sequence[Any], key: Sequence[Any]) -> list[Any]:
    """Philox4x32 with ten rounds."""
    a, b, c, d = counter
    key = list(key)
    for _ in range(_ROUNDS):
        one, two = _MULTIPLIERS
        a, b, c, d = (
            _xor(mulhi(c, two), b, key[0]),
            ops.mul(c, two),
            _xor(mulhi(a, one), d, key[1]),
            ops.mul(a, one),
        )
        key = [ops.add(k, step) for k, step in zip(key, _INCREMENTS, strict=True)]
    return [a, b, c, d]


def _xor(x: Any, y: Any, z: Any) -> Any:
    return ops.bind("xor", ops.bind("xor", x, y), z)


# ---- Threefry


def _threefry(state: Sequence[Any], shape: _Shape, dtype: np.dtype[Any]) -> tuple[Any, int]:
    """Bits, whose words alternate along one axis, and how many blocks they took."""
    if dtype == _UINT64:
        blocks = math.prod(shape)
        first, second = _threefry_blocks(state, blocks)
        return ops.reshape(_joined(first, second), shape), blocks
    sizes = shape or (1,)
    axis = _paired_axis(sizes)
    half = (*sizes[:axis], -(-sizes[axis] // 2), *sizes[axis + 1 :])
    blocks = math.prod(half)
    words = [ops.reshape(x, half) for x in _threefry_blocks(state, blocks)]
    pairs = stack(words, axis=axis + 1)
    merged = ops.reshape(pairs, (*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    bits = ops.reshape(slice_in_dim(merged, 0, sizes[axis], axis=axis), shape)
    return _narrowed(bits, dtype), blocks


def _threefry_blocks(state: Sequence[Any], blocks: int) -> list[Any]:
    low, high = _advanced(state[2], state[3], _places(blocks))
    return threefry2x32(state[0], state[1], low, high)


def _paired_axis(shape: _Shape) -> int:
    """The axis along which the two words of a block are neighbours: even, or else the longest."""
    for axis, size in enumerate(shape):
        if size % 2 == 0:
            return axis
    return shape.index(max(shape))


# ---- numbers from a hidden state

_calls = itertools.count(1)


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Array:
    """Uniform random numbers in [a, b), from a state that the process keeps.

    `a` and `b` are scalars of one dtype, integers or floats, which is that of the result too. Each
    call gives other numbers; in a program that is compiled they are drawn once, when it is traced.
    `xpr.random` has what is better for nearly all purposes.

    Raises TypeError for other dtypes, ValueError for operands that are no scalars or differ.

    >>> bool(rng_uniform(2.0, 3.0, (4,)).min() >= 2)
    True
    """
    check_operands("rng_uniform", a, b)
    low, high = get_aval(a), get_aval(b)
    if low.dtype != high.dtype:
        raise ValueError(
            "Arguments to rng_uniform must have identical dtypes, "
            f"got {low.dtype} and {high.dtype}."
        )
    if low.shape or high.shape:
        raise ValueError(
            f"Arguments to rng_uniform must be scalars; got shapes {low.shape} and {high.shape}."
        )
    dtype, kind = low.dtype, dtypes.kind(low.dtype)
    if kind not in "iuf" or dtype in (*dtypes.SMALL_FLOAT_TYPES, *dtypes.SMALL_INT_TYPES):
        raise TypeError(f"rng_uniform requires integers or floats, got dtype {dtype}")
    word = _UINT64 if dtype.itemsize == 8 else _UINT32
    key = np.array([next(_calls), 0, 0, 0], np.uint32)
    _, bits = rng_bit_generator(key, shape, word)
    if kind == "f":
        weak = low.weak_type and high.weak_type
        return ops.convert(_uniform_floats(a, b, bits, dtype), dtype, weak)
    # The upper word of bits times span is uniform below span, up to a bias of span / 2^bits.
    span = ops.convert(ops.sub(b, a), word)
    return ops.add(ops.convert(a, dtype), ops.convert(mulhi(bits, span), dtype))


def _uniform_floats(a: Any, b: Any, bits: Any, dtype: np.dtype[Any]) -> Any:
    digits = dtypes.finfo(dtype).nmant + 1
    word = get_aval(bits).dtype
    kept = ops.bind("shift_right_logical", bits, word.type(8 * word.itemsize - digits))
    unit = ops.mul(ops.convert(kept, dtype), np.asarray(0.5**digits, dtype)[()])
    scaled = ops.add(ops.mul(unit, ops.convert(ops.sub(b, a), dtype)), ops.convert(a, dtype))
    # Rounding may reach b itself.
    below = ops.bind("nextafter", ops.convert(b, dtype), ops.convert(a, dtype))
    return ops.bind("min", scaled, ops.broadcast_in_dim(below, get_aval(scaled).shape, ()))
