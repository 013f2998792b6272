"""Arithmetic of quaternions [..., 4], whose scalar part comes last, and what else means rotations.

Functions work along the last axis, or the last two for matrices; other axes are broadcast. Near
angle 0, where a formula divides 0 by 0, its series is taken, so that derivatives exist there.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.numpy._promote import promote_dtypes_inexact
from xpr.numpy._typing import Array

# The square of a half angle, or of its sine, below which series of three terms are exact: what they
# leave out is below its third power over 20.
_SMALL_SQUARE = 1e-5


def as_vectors(name: str, x: Any, size: int) -> Array:
    """`x` as floating vectors of that size; ValueError for others."""
    [found] = promote_dtypes_inexact(jnp.asarray(x))
    if not found.ndim or found.shape[-1] != size:
        raise ValueError(f"{name} requires shape (..., {size}), got {found.shape}")
    return found


def _dot(x: Array, y: Array) -> Array:
    return jnp.sum(x * y, axis=-1, keepdims=True)


def norm(x: Array) -> Array:
    """The lengths of vectors, with an axis of size 1."""
    return jnp.sqrt(_dot(x, x))


def normalized(q: Array) -> Array:
    """Unit quaternions; NaN of 0."""
    return q / norm(q)


def inverse(q: Array) -> Array:
    """The inverses of unit quaternions."""
    return q * np.array([-1, -1, -1, 1], q.dtype).reshape((1,) * (q.ndim - 1) + (4,))


def product(p: Array, q: Array) -> Array:
    """Hamilton's product: the rotation q followed by p."""
    u, a, v, b = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = a * v + b * u + jnp.cross(u, v)
    return jnp.concatenate([vector, a * b - _dot(u, v)], axis=-1)


def canonical(q: Array) -> Array:
    """Of q and -q the one whose last part that is not 0, in the order w, x, y, z, is positive."""
    x, y, z, w = (q[..., i : i + 1] for i in range(4))
    sign = jnp.sign(z)
    for part in (y, x, w):
        sign = jnp.where(part == 0, sign, jnp.sign(part))
    return jnp.where(sign < 0, -q, q)


def _upward(q: Array) -> Array:
    """Of q and -q the one whose scalar part is not negative."""
    return jnp.where(q[..., 3:] < 0, -q, q)


# ---- matrices


def to_matrix(q: Array) -> Array:
    """Rotation matrices [..., 3, 3]."""
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def from_matrix(m: Array) -> Array:
    """The unit quaternions of rotation matrices.

    Shepperd, "Quaternion from rotation matrix" (1978): the matrix gives 4 q q^T, of which the row
    with the largest diagonal entry is taken, for no digits are lost there.
    """
    xx, yy, zz = (m[..., i, i] for i in range(3))
    xy, xz, yz = (m[..., i, j] + m[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2)))
    xw, yw, zw = (m[..., i, j] - m[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0)))
    rows = [
        [1 + xx - yy - zz, xy, xz, xw],
        [xy, 1 - xx + yy - zz, yz, yw],
        [xz, yz, 1 - xx - yy + zz, zw],
        [xw, yw, zw, 1 + xx + yy + zz],
    ]
    outer = jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
    best = jnp.argmax(jnp.diagonal(outer, axis1=-2, axis2=-1), axis=-1)
    row = jnp.take_along_axis(outer, best[..., None, None], axis=-2)[..., 0, :]
    return normalized(row)


# ---- vectors


def from_rotvec(v: Array) -> Array:
    """The unit quaternions of rotations about the directions of `v`, by angles of their length."""
    half_square = _dot(v, v) / 4
    small = half_square < _SMALL_SQUARE
    half = jnp.sqrt(jnp.where(small, 1, half_square))
    series = 1 - half_square / 6 + half_square**2 / 120
    sinc = jnp.where(small, series, jnp.sin(half) / half)
    cos = jnp.where(small, 1 - half_square / 2 + half_square**2 / 24, jnp.cos(half))
    return jnp.concatenate([v / 2 * sinc, cos], axis=-1)


def to_rotvec(q: Array) -> Array:
    """The shortest rotation vectors [..., 3] of unit quaternions."""
    q = _upward(q)
    v, w = q[..., :3], q[..., 3:]
    square = _dot(v, v)
    small = square < _SMALL_SQUARE
    sin = jnp.sqrt(jnp.where(small, 1, square))
    series = 2 + square / 3 + square**2 * (3 / 20)
    return v * jnp.where(small, series, 2 * jnp.arctan2(sin, w) / sin)


def from_mrp(m: Array) -> Array:
    """The unit quaternions of modified Rodrigues parameters [..., 3]: axis times tan(angle / 4)."""
    square = _dot(m, m)
    return jnp.concatenate([2 * m, 1 - square], axis=-1) / (1 + square)


def to_mrp(q: Array) -> Array:
    """The modified Rodrigues parameters of unit quaternions, of length at most 1."""
    q = _upward(q)
    return q[..., :3] / (1 + q[..., 3:])


def angle(q: Array) -> Array:
    """The angles of rotations, from 0 to pi."""
    return 2 * jnp.arctan2(norm(q[..., :3]), jnp.abs(q[..., 3:]))[..., 0]


# ---- Euler angles


def euler_axes(seq: str, counts: tuple[int, ...]) -> tuple[list[int], bool]:
    """The axes that `seq` names, and whether they are those of the body ("XYZ").

    Raises ValueError for a wrong number of axes, other letters, and the same axis twice in a row.
    """
    if len(seq) not in counts:
        raise ValueError(f"Expected {' or '.join(map(str, counts))} axes, got {seq!r}")
    intrinsic = set(seq) <= set("XYZ")
    if not (intrinsic or set(seq) <= set("xyz")):
        raise ValueError(
            f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}"
        )
    axes = ["xyz".index(c) for c in seq.lower()]
    if any(a == b for a, b in itertools.pairwise(axes)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return axes, intrinsic


def from_euler(axes: list[int], intrinsic: bool, angles: Array) -> Array:
    """The rotations about the axes by `angles` [..., number of axes], one after the other."""
    found: Any = None
    for i, axis in enumerate(axes):
        half = angles[..., i : i + 1] / 2
        unit = np.eye(3, dtype=angles.dtype)[axis]
        unit = jnp.broadcast_to(unit, (*half.shape[:-1], 3))
        turn = jnp.concatenate([jnp.sin(half) * unit, jnp.cos(half)], axis=-1)
        if found is None:
            found = turn
        else:
            found = product(found, turn) if intrinsic else product(turn, found)
    return found


def to_euler(axes: list[int], intrinsic: bool, q: Array) -> Array:
    """The angles [..., 3] about three axes.

    Bernardes and Viollet, "Quaternion to Euler angles conversion: a direct, general and
    computationally efficient method" (PLoS ONE, 2022). Where the middle angle makes two axes one
    (gimbal lock), the last angle is 0.
    """
    i, j, k = axes[::-1] if intrinsic else axes
    proper = i == k
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) // 2
    x, y, z, w = q[..., i], q[..., j], q[..., k] * sign, q[..., 3]
    a, b, c, d = (w, x, y, z) if proper else (w - y, x + z, y + w, z - x)
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    first, last = half_sum - half_difference, half_sum + half_difference
    if intrinsic:
        first, last = last, first
    at_zero = jnp.abs(middle) <= 1e-7
    locked = at_zero | (jnp.abs(middle - math.pi) <= 1e-7)
    turned = 2 * half_difference if intrinsic else -2 * half_difference
    first = jnp.where(locked, jnp.where(at_zero, 2 * half_sum, turned), first)
    last = jnp.where(locked, 0, last)
    if not proper:
        middle = middle - math.pi / 2
        first, last = (first * sign, last) if intrinsic else (first, last * sign)
    angles = jnp.stack([first, middle, last], axis=-1)
    angles = jnp.where(angles < -math.pi, angles + 2 * math.pi, angles)
    return jnp.where(angles > math.pi, angles - 2 * math.pi, angles)
