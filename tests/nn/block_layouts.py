"""Blocks of GGUF's layouts, decoded number by number: the oracle, written from the format."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

SIZES = {"q8_0": (32, 34), "q4_0": (32, 18), "q4_k": (256, 144), "q6_k": (256, 210)}
"""Numbers and bytes of a block."""

SCALES = {"q8_0": (0,), "q4_0": (0,), "q4_k": (0, 2), "q6_k": (208,)}
"""Where the float16 scales of a block lie."""


def random_blocks(
    rng: np.random.Generator, layout: str, shape: tuple[int, ...]
) -> np.ndarray[Any, Any]:
    """Blocks for numbers of that shape, all bits random but for the scales, which are small."""
    *lead, k = shape
    numbers, size = SIZES[layout]
    blocks = rng.integers(0, 256, (*lead, k // numbers, size), dtype=np.uint8)
    for place in SCALES[layout]:
        scales = (rng.random(blocks.shape[:-1]) * 0.02).astype("<f2")
        blocks[..., place : place + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(*lead, -1)


def _half(block: bytes, at: int) -> float:
    return struct.unpack_from("<e", block, at)[0]


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _q4_k_scales(block: bytes, i: int) -> tuple[int, int]:
    s = block[4:16]
    if i < 4:
        return s[i] & 63, s[i + 4] & 63
    return (s[i + 4] & 15) | (s[i - 4] >> 6) << 4, (s[i + 4] >> 4) | (s[i] >> 6) << 4


def _number(layout: str, block: bytes, i: int) -> float:
    if layout == "q8_0":
        return _half(block, 0) * _signed(block[2 + i])
    if layout == "q4_0":
        byte = block[2 + i % 16]
        return _half(block, 0) * ((byte >> 4 if i >= 16 else byte & 15) - 8)
    if layout == "q4_k":
        scale, least = _q4_k_scales(block, i // 32)
        byte = block[16 + i // 64 * 32 + i % 32]
        q = byte >> 4 if i % 64 >= 32 else byte & 15
        return _half(block, 0) * scale * q - _half(block, 2) * least
    part, place = divmod(i, 128)
    low = block[64 * part + place % 64]
    low = low >> 4 if place >= 64 else low & 15
    high = block[128 + 32 * part + place % 32] >> 2 * (place // 32) & 3
    return _half(block, 208) * _signed(block[192 + i // 16]) * ((low | high << 4) - 32)


def decoded(layout: str, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers of blocks, in float64."""
    numbers, size = SIZES[layout]
    blocks = data.reshape(-1, size)
    found = [[_number(layout, bytes(b), i) for i in range(numbers)] for b in blocks]
    return np.array(found, np.float64).reshape(*data.shape[:-1], data.shape[-1] // size * numbers)


def rounded(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows rounded to int8 with a scale for each 32 numbers, in float64."""
    blocks = x.astype(np.float64).reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(-1, keepdims=True) / 127
    whole = np.rint(blocks / np.where(scale == 0, 1, scale))
    return (whole * scale).reshape(x.shape)
