"""Rotations in space, under the names of `jax.scipy.spatial.transform`.

>>> import xpr.numpy as jnp
>>> turn = Rotation.from_euler("z", 90, degrees=True)
>>> jnp.round(turn.apply(jnp.array([1.0, 0.0, 0.0])), 3)
Array([0., 1., 0.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import xpr.numpy as jnp
from xpr import random
from xpr.numpy._promote import promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.primitives.dot_general import Precision
from xpr.scipy.spatial import _quaternions as qs

__all__ = ["Rotation", "Slerp"]


class Rotation(NamedTuple):
    """One rotation, or several: unit quaternions [4] or [..., 4], the scalar part last.

    A pytree, so it may be an argument or a result of functions that are compiled, vectorised or
    differentiated. Integers given to the constructors become floats. `p * q` rotates by q first.

    >>> import xpr.numpy as jnp
    >>> half = Rotation.from_rotvec(jnp.array([0.0, 0.0, jnp.pi / 4]))
    >>> jnp.round((half * half).as_euler("xyz", degrees=True), 2)
    Array([ 0.,  0., 90.], dtype=float32)
    """

    quat: Array

    # ---- constructors

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """All of the rotations, in a row."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations about the axes that `seq` names, such as "xyz", by `angles` [..., len(seq)].

        Small letters are axes in space, capital ones those of the rotated body. For one axis a
        number will do. Raises ValueError for other sequences and shapes.
        """
        axes, intrinsic = qs.euler_axes(seq, (1, 2, 3))
        [given] = promote_dtypes_inexact(jnp.asarray(angles))
        given = qs.as_vectors("angles", jnp.atleast_1d(given), len(axes))
        return cls(qs.from_euler(axes, intrinsic, jnp.deg2rad(given) if degrees else given))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """The rotations of orthogonal matrices [..., 3, 3] with determinant 1."""
        found = qs.as_vectors("matrix", matrix, 3)
        if found.shape[-2:] != (3, 3):
            raise ValueError(f"matrix requires shape (..., 3, 3), got {found.shape}")
        return cls(qs.from_matrix(found))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Rotations by modified Rodrigues parameters [..., 3], axis times tan(angle / 4)."""
        return cls(qs.from_mrp(qs.as_vectors("mrp", mrp, 3)))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """The rotations of quaternions [..., 4] of any length but 0."""
        return cls(qs.normalized(qs.as_vectors("quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Rotations about the directions of `rotvec` [..., 3], by angles of their lengths."""
        found = qs.as_vectors("rotvec", rotvec, 3)
        return cls(qs.from_rotvec(jnp.deg2rad(found) if degrees else found))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The rotation that changes nothing, or `num` of them."""
        one = jnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(one if num is None else jnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation drawn from the uniform distribution, or `num` of them.

        Four normal numbers have a direction that is uniform (Muller 1959).
        """
        shape = (4,) if num is None else (num, 4)
        return cls.from_quat(random.normal(random_key, shape))

    # ---- several rotations

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not several."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: Any) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Some of the rotations; TypeError if this is one rotation."""
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """How many rotations these are; TypeError if it is one rotation."""
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    # ---- arithmetic

    def __mul__(self, other: Rotation) -> Rotation:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The rotation by `other`, then by this one."""
        return Rotation.from_quat(qs.product(self.quat, other.quat))

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(qs.inverse(self.quat))

    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """The rotated `vectors` [..., 3]; rotated back with `inverse`."""
        matrix, given = promote_dtypes_inexact(
            self.as_matrix(), qs.as_vectors("vectors", vectors, 3)
        )
        matrix = jnp.where(inverse, jnp.matrix_transpose(matrix), matrix)
        return jnp.einsum("...ij,...j->...i", matrix, given, precision=Precision.HIGHEST)

    def magnitude(self) -> Array:
        """The angles, from 0 to pi."""
        return qs.angle(self.quat)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The mean of the rotations, by `weights` [n] if given.

        Markley et al., "Averaging quaternions" (2007): the eigenvector of the largest eigenvalue of
        the weighted sum of q q^T. Raises ValueError for weights of another shape.
        """
        quat = jnp.atleast_2d(self.quat)
        if weights is None:
            w = jnp.ones(quat.shape[:1], quat.dtype)
        else:
            w = jnp.asarray(weights, dtype=quat.dtype)
        if w.ndim != 1:
            raise ValueError(f"Expected `weights` to be 1 dimensional, got shape {w.shape}.")
        if w.shape[0] != quat.shape[0]:
            raise ValueError(
                "Expected `weights` to have number of values equal to number of rotations, got "
                f"{w.shape[0]} values and {quat.shape[0]} rotations."
            )
        outer = jnp.matmul(w[None] * quat.T, quat, precision=Precision.HIGHEST)
        return Rotation(jnp.linalg.eigh(outer).eigenvectors[:, -1])

    # ---- what they are in other words

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles [..., 3] about the three axes that `seq` names, as in `from_euler`.

        The middle one is in [0, pi] if the first axis is the last one as well, else in
        [-pi/2, pi/2]. Raises ValueError for other sequences.
        """
        axes, intrinsic = qs.euler_axes(seq, (3,))
        angles = qs.to_euler(axes, intrinsic, self.quat)
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """The matrices [..., 3, 3]."""
        return qs.to_matrix(self.quat)

    def as_mrp(self) -> Array:
        """The modified Rodrigues parameters [..., 3]."""
        return qs.to_mrp(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """The rotation vectors [..., 3]: axis times angle."""
        vector = qs.to_rotvec(self.quat)
        return jnp.rad2deg(vector) if degrees else vector

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The quaternions [..., 4], the scalar part last, or first with `scalar_first`.

        With `canonical`, of q and -q the one whose scalar part is positive.
        """
        quat = qs.canonical(self.quat) if canonical else self.quat
        return jnp.roll(quat, 1, axis=-1) if scalar_first else quat


class Slerp(NamedTuple):
    """Spherical linear interpolation: between given rotations at constant angular velocity.

    Made by `init`; called with times, it gives rotations. Before the first and after the last time
    the rotation goes on as in the nearest interval.

    Shoemake, "Animating rotation with quaternion curves" (1985).

    >>> import xpr.numpy as jnp
    >>> turns = Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True)
    >>> between = Slerp.init(jnp.array([0.0, 2.0]), turns)(0.5)
    >>> jnp.round(between.as_euler("zyx", degrees=True), 2)
    Array([22.5,  0. ,  0. ], dtype=float32)
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """The interpolation of `rotations` [n, 4] at increasing `times` [n], n > 1.

        Raises TypeError for other objects, ValueError for shapes that do not fit.
        """
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        found = jnp.asarray(times, dtype=rotations.quat.dtype)
        if found.ndim != 1:
            raise ValueError(
                f"Expected times to be specified in a 1 dimensional array, got {found.ndim} "
                "dimensions."
            )
        if found.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {found.shape[0]} timestamps."
            )
        starts, ends = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(found, jnp.diff(found), starts, (starts.inv() * ends).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at `times`, a number or a vector; ValueError for more axes."""
        at = jnp.asarray(times, dtype=self.times.dtype)
        if at.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        last = self.times.shape[0] - 2
        place = jnp.clip(jnp.searchsorted(self.times, at) - 1, 0, last)
        part = (at - self.times[place]) / self.timedelta[place]
        return self.rotations[place] * Rotation.from_rotvec(self.rotvecs[place] * part[..., None])
