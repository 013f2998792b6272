"""Formats of arrays in low precision: how numbers become parts, and parts numbers again."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

import xpr.numpy as jnp
from xpr.numpy._typing import Array
from xpr.primitives import blocks
from xpr.primitives.convert import bitcast_convert_type

_F32 = np.float32
# GGUF's numbers of a format are names with a capital letter; both spellings are taken.
_INTEGERS = {"int8": 8, "int4": 4, "int2": 2}


@runtime_checkable
class Format(Protocol):
    """How numbers along the last axis become arrays of parts; what a user's own format has.

    A format is a frozen dataclass, since it is part of a program's key. The parts have the leading
    axes of the array.

    >>> import xpr.numpy as jnp
    >>> from dataclasses import dataclass
    >>> from xpr.nn.quantize import Format, quantize
    >>> @dataclass(frozen=True)
    ... class Rounded:
    ...     def quantize(self, x):
    ...         return (x.astype(jnp.bfloat16),)
    ...     def dequantize(self, parts):
    ...         return parts[0].astype(jnp.float32)
    >>> isinstance(Rounded(), Format)
    True
    >>> quantize(jnp.ones((2, 8)), Rounded()).nbytes
    32
    """

    def quantize(self, x: Array) -> tuple[Array, ...]:
        """The parts of a float32 array."""
        ...

    def dequantize(self, parts: Sequence[Array]) -> Array:
        """The float32 array that parts stand for."""
        ...


def format_named(name: str) -> Format:
    """The format of that name: a layout of GGUF, or "int8", "int4", "int2" in blocks of 32."""
    lower = name.lower()
    if lower in blocks.LAYOUTS:
        return Gguf(lower)
    if lower in _INTEGERS:
        return Affine(_INTEGERS[lower])
    known = ", ".join((*blocks.LAYOUTS, *_INTEGERS))
    raise ValueError(f"quantize requires a format of these: {known}, or a Format, got {name!r}")


def in_blocks(x: Array, size: int) -> Array:
    """The last axis cut into blocks; ValueError unless they come out even."""
    if x.ndim == 0 or x.shape[-1] % size:
        raise ValueError(
            f"quantize requires a last axis of whole blocks, {size} numbers each, got shape "
            f"{x.shape}: choose another block size, or pad the array"
        )
    return x.reshape(*x.shape[:-1], x.shape[-1] // size, size)


@dataclass(frozen=True)
class Affine:
    """Integers of 8, 4 or 2 bits with a float32 scale for each block, and a zero if asked for.

    A number is `scale * q`, or `scale * (q - zero)` with unsigned q. Those of less than a byte lie
    together in bytes, lower bits first. Parts: the bytes, the scales, and the zeros in float32.
    Raises ValueError for other numbers of bits and blocks that do not fill bytes.

    >>> import xpr.numpy as jnp
    >>> from xpr.nn.quantize import Affine, quantize, dequantize
    >>> w = quantize(jnp.arange(64.0), Affine(bits=4, block=64, zero=True))
    >>> w.nbytes, dequantize(w)[-1].item()
    (40, 63.0)
    """

    bits: int = 8
    block: int = 32
    zero: bool = False

    def __post_init__(self) -> None:
        if self.bits not in (2, 4, 8):
            raise ValueError(f"Affine requires 2, 4 or 8 bits, got {self.bits}")
        if self.block < 1 or self.block % (8 // self.bits):
            raise ValueError(f"Affine requires blocks that fill bytes, got {self.block} numbers")

    def __str__(self) -> str:
        return f"int{self.bits}/{self.block}{' with zeros' if self.zero else ''}"

    def quantize(self, x: Array) -> tuple[Array, ...]:
        """The parts of a float32 array; each block is rounded to what its ends allow."""
        x = in_blocks(x, self.block)
        most = (1 << self.bits) - 1
        half = 1 << (self.bits - 1)
        if not self.zero:
            scale = jnp.max(jnp.abs(x), axis=-1) / (half - 1)
            q = jnp.clip(jnp.round(x / _divisor(scale)), -half, half - 1) + half
            return (self._packed(q), scale)
        # Zero is among the numbers, so that it stays zero.
        least, greatest = (jnp.minimum(x.min(-1), 0), jnp.maximum(x.max(-1), 0))
        scale = (greatest - least) / most
        zero = jnp.round(-least / _divisor(scale)[..., 0])
        q = jnp.clip(jnp.round(x / _divisor(scale)) + zero[..., None], 0, most)
        return (self._packed(q), scale, zero)

    def _packed(self, q: Array) -> Array:
        together = 8 // self.bits
        q = q.astype(np.uint8).reshape(*q.shape[:-2], -1, together)
        return jnp.sum(q << self._shifts(q), axis=-1, dtype=np.uint8)

    def _shifts(self, q: Array) -> Array:
        """Where the numbers of a byte begin, along the last axis of as many as `q` has."""
        shifts = jnp.arange(0, 8, self.bits, dtype=np.uint8)
        return shifts.reshape((1,) * (q.ndim - 1) + shifts.shape)

    def dequantize(self, parts: Sequence[Array]) -> Array:
        """The float32 array that parts stand for."""
        packed, scale = parts[:2]
        packed = packed[..., None]
        q = (packed >> self._shifts(packed)) & np.uint8((1 << self.bits) - 1)
        q = q.astype(_F32).reshape(*scale.shape, self.block)
        zero = parts[2][..., None] if self.zero else _F32(1 << (self.bits - 1))
        out = (q - zero) * scale[..., None]
        return out.reshape(*scale.shape[:-1], -1)


def _divisor(scale: Array) -> Array:
    """What divides the numbers of blocks; a block of zeros has the scale 0."""
    return jnp.where(scale == 0, 1, scale)[..., None]


@dataclass(frozen=True)
class Gguf:
    """A layout of GGUF files, read as it is: "q8_0", "q4_0", "q4_k" or "q6_k".

    The one part is uint8, of whole blocks along the last axis. Compiled products on a CPU read it
    directly, and with `activations` "int8" round the other operand to int8 in blocks of 32, as
    llama.cpp does; with "float32" products are exact. Raises ValueError for other names.

    >>> import xpr.numpy as jnp
    >>> from xpr.nn.quantize import Gguf, quantize
    >>> quantize(jnp.ones((2, 32)), Gguf("q4_0", activations="float32")).nbytes
    36
    """

    layout: str
    activations: str = "int8"

    def __post_init__(self) -> None:
        if self.layout not in blocks.LAYOUTS:
            known = ", ".join(blocks.LAYOUTS)
            raise ValueError(f"Gguf requires a layout of these: {known}, got {self.layout!r}")
        if self.activations not in blocks.ACTIVATIONS:
            known = " or ".join(blocks.ACTIVATIONS)
            raise ValueError(f"Gguf requires activations {known}, got {self.activations!r}")

    def __str__(self) -> str:
        return self.layout

    def quantize(self, x: Array) -> tuple[Array, ...]:
        """The blocks of a float32 array."""
        form = blocks.LAYOUTS[self.layout]
        encode = {"q8_0": _q8_0, "q4_0": _q4_0, "q4_k": _q4_k, "q6_k": _q6_k}[self.layout]
        found = encode(in_blocks(x, form.numbers))
        return (found.reshape(*x.shape[:-1], form.bytes_of(x.shape[-1])),)

    def dequantize(self, parts: Sequence[Array]) -> Array:
        """The float32 array that blocks stand for."""
        return blocks.dequantize(parts[0], self.layout, self.activations)


def _half(x: Array) -> tuple[Array, Array]:
    """Float16 nearest to `x`: its two bytes along a last axis, and its value in float32."""
    half = x.astype(np.float16)
    bits = bitcast_convert_type(half, np.uint16)
    pair = jnp.stack([bits & 255, bits >> 8], axis=-1).astype(np.uint8)
    return pair, half.astype(_F32)


def _joined(*parts: Array) -> Array:
    return jnp.concatenate(parts, axis=-1)


def _pairs(q: Array) -> Array:
    """The first half of the last axis in the lower bits, the second one in the upper bits."""
    low, high = jnp.split(q.astype(np.uint8), 2, axis=-1)
    return low | (high << 4)


def _signed(q: Array) -> Array:
    return bitcast_convert_type(q.astype(np.int8), np.uint8)


def _q8_0(x: Array) -> Array:
    pair, scale = _half(jnp.max(jnp.abs(x), axis=-1) / 127)
    return _joined(pair, _signed(jnp.clip(jnp.round(x / _divisor(scale)), -127, 127)))


def _q4_0(x: Array) -> Array:
    # The number of the greatest size becomes -8, which has no counterpart.
    place = jnp.argmax(jnp.abs(x), axis=-1)[..., None]
    pair, scale = _half(jnp.take_along_axis(x, place, axis=-1)[..., 0] / -8)
    return _joined(pair, _pairs(jnp.clip(jnp.round(x / _divisor(scale)) + 8, 0, 15)))


def _q4_k(x: Array) -> Array:
    x = x.reshape(*x.shape[:-1], 8, 32)
    least = jnp.maximum(-x.min(-1), 0)
    width = (jnp.maximum(x.max(-1), 0) + least) / 15
    pair, scale = _half(width.max(-1) / 63)
    other_pair, other = _half(least.max(-1) / 63)
    steps = jnp.clip(jnp.round(width / _divisor(scale)), 0, 63).astype(np.uint8)
    offsets = jnp.clip(jnp.round(least / _divisor(other)), 0, 63).astype(np.uint8)
    factor = scale[..., None] * steps.astype(_F32)
    offset = other[..., None] * offsets.astype(_F32)
    q = jnp.clip(jnp.round((x + offset[..., None]) / _divisor(factor)), 0, 15)
    first, second = steps[..., :4] | (steps[..., 4:] >> 4) << 6, steps[..., 4:] & 15
    third, fourth = offsets[..., :4] | (offsets[..., 4:] >> 4) << 6, offsets[..., 4:] & 15
    scales = _joined(first, third, second | fourth << 4)
    numbers = _pairs(q.reshape(*q.shape[:-2], 4, 64))
    return _joined(pair, other_pair, scales, numbers.reshape(*numbers.shape[:-2], 128))


def _q6_k(x: Array) -> Array:
    lead = x.shape[:-1]
    x = x.reshape(*lead, 16, 16)
    place = jnp.argmax(jnp.abs(x), axis=-1)[..., None]
    width = jnp.take_along_axis(x, place, axis=-1)[..., 0] / -32
    pair, scale = _half(jnp.max(jnp.abs(width), axis=-1) / 127)
    steps = jnp.clip(jnp.round(width / _divisor(scale)), -127, 127)
    q = jnp.round(x / _divisor(scale[..., None] * steps)) + 32
    q = jnp.clip(q, 0, 63).astype(np.uint8).reshape(*lead, 2, 4, 32)
    low, high = q & 15, q >> 4
    lower = _joined(low[..., 0, :] | low[..., 2, :] << 4, low[..., 1, :] | low[..., 3, :] << 4)
    upper = functools.reduce(lambda a, b: a | b, [high[..., i, :] << 2 * i for i in range(4)])
    flat: Any = lambda a, n: a.reshape(*lead, n)  # noqa: E731
    return _joined(flat(lower, 128), flat(upper, 64), _signed(steps), pair)
