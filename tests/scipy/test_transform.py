"""Rotations against scipy.spatial.transform, in all the forms they have."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Theirs
from scipy.spatial.transform import Slerp as TheirSlerp

import xpr
from tests.numpy.cases import jnp
from xpr.scipy.spatial.transform import Rotation, Slerp
from xpr.test_util import check_grads

RNG = np.random.default_rng(21)
TINY = np.array([[1e-9, 0, 0], [2e-4, -1e-4, 3e-4], [0, 6.3e-3, 1e-3], [np.pi, 0, 0], [0, 0, 0]])
VECTORS = np.concatenate([RNG.normal(size=(9, 3)) * 1.7, TINY])
QUATS = np.concatenate(
    [RNG.normal(size=(9, 4)), np.eye(4), -np.eye(4)[3:], Theirs.from_rotvec(TINY).as_quat()]
)
SEQUENCES = [
    "".join(s)
    for s in itertools.product("xyz", repeat=3)
    if s[0] != s[1] and s[1] != s[2]
]  # fmt: skip


def same_rotations(ours: Rotation, theirs: Any, atol: float = 1e-12) -> None:
    q, e = np.asarray(ours.quat), theirs.as_quat()
    assert q.shape == e.shape
    np.testing.assert_allclose(np.abs((q * e).sum(-1)), np.ones(e.shape[:-1]), atol=atol)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_conversions(dtype: str) -> None:
    tolerance = 1e-12 if dtype == "f8" else 1e-6
    with xpr.enable_x64(dtype == "f8"):
        for quats in (QUATS, QUATS[0]):
            ours, theirs = Rotation.from_quat(quats.astype(dtype)), Theirs.from_quat(quats)
            assert ours.quat.dtype == dtype
            found = {
                "quat": (ours.as_quat(), theirs.as_quat()),
                "canonical": (ours.as_quat(canonical=True), theirs.as_quat(canonical=True)),
                "scalar first": (
                    ours.as_quat(scalar_first=True),
                    theirs.as_quat(scalar_first=True),
                ),
                "matrix": (ours.as_matrix(), theirs.as_matrix()),
                "mrp": (ours.as_mrp(), theirs.as_mrp()),
                "rotvec": (ours.as_rotvec(), theirs.as_rotvec()),
                "magnitude": (ours.magnitude(), theirs.magnitude()),
            }
            for name, (value, expected) in found.items():
                np.testing.assert_allclose(value, expected, atol=3 * tolerance, err_msg=name)
            degrees = ours.as_rotvec(degrees=True)
            np.testing.assert_allclose(
                degrees, theirs.as_rotvec(degrees=True), atol=200 * tolerance
            )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_constructors(dtype: str) -> None:
    tolerance = 1e-12 if dtype == "f8" else 1e-6
    with xpr.enable_x64(dtype == "f8"):
        for v in (VECTORS, VECTORS[2], VECTORS[-1]):
            theirs = Theirs.from_rotvec(v)
            same_rotations(Rotation.from_rotvec(v.astype(dtype)), theirs, tolerance)
            matrix = theirs.as_matrix().astype(dtype)
            same_rotations(Rotation.from_matrix(matrix), theirs, tolerance)
            same_rotations(Rotation.from_mrp(theirs.as_mrp().astype(dtype)), theirs, tolerance)
            degrees = Rotation.from_rotvec(v.astype(dtype), degrees=True)
            same_rotations(degrees, Theirs.from_rotvec(v, degrees=True), tolerance)


def test_small_angles_keep_their_digits() -> None:
    with xpr.enable_x64(True):
        for size in np.logspace(-9, 0, 40):
            v = np.array([0.6, -0.48, 0.64]) * size
            back = Rotation.from_rotvec(v).as_rotvec()
            np.testing.assert_allclose(back, v, rtol=1e-15 * 8)
            np.testing.assert_allclose(
                Rotation.from_rotvec(v).as_quat(), Theirs.from_rotvec(v).as_quat(), rtol=2e-15
            )


@pytest.mark.parametrize("capital", [False, True])
def test_euler_angles(capital: bool) -> None:
    with xpr.enable_x64(True):
        angles = RNG.uniform(-3, 3, (6, 3))
        theirs = Theirs.from_quat(QUATS[:9])
        for lower in SEQUENCES:
            seq = lower.upper() if capital else lower
            same_rotations(Rotation.from_euler(seq, angles), Theirs.from_euler(seq, angles))
            ours = Rotation.from_quat(QUATS[:9])
            np.testing.assert_allclose(ours.as_euler(seq), theirs.as_euler(seq), atol=1e-12)
            one = ours[3].as_euler(seq, degrees=True)
            np.testing.assert_allclose(one, theirs[3].as_euler(seq, degrees=True), atol=1e-10)
        for seq, given in (("z", 0.3), ("x", [0.2]), ("yx", [0.1, 2.0]), ("xyx", [1, 2, 3])):
            seq = seq.upper() if capital else seq
            expected = Theirs.from_euler(seq, given)
            expected = expected if expected.single or len(seq) > 1 else expected[0]
            same_rotations(Rotation.from_euler(seq, given), expected)
        many = Rotation.from_euler("z", np.array([[10.0], [20.0], [30.0]]), degrees=True)
        same_rotations(many, Theirs.from_euler("z", [[10.0], [20.0], [30.0]], degrees=True))


@pytest.mark.filterwarnings("ignore:Gimbal lock detected")
@pytest.mark.parametrize("seq", ["xyz", "XYZ", "zyz", "ZXZ", "yxz", "YZX"])
def test_gimbal_lock(seq: str) -> None:
    with xpr.enable_x64(True):
        proper = seq[0] == seq[2]
        for middle in (0.0, np.pi) if proper else (np.pi / 2, -np.pi / 2):
            angles = [0.4, middle, -1.1]
            ours, theirs = Rotation.from_euler(seq, angles), Theirs.from_euler(seq, angles)
            found = ours.as_euler(seq)
            assert float(found[2]) == 0
            same_rotations(Rotation.from_euler(seq, found), theirs)


def test_arithmetic() -> None:
    with xpr.enable_x64(True):
        p, q = Rotation.from_quat(QUATS[:5]), Rotation.from_quat(QUATS[4:9])
        theirs_p, theirs_q = Theirs.from_quat(QUATS[:5]), Theirs.from_quat(QUATS[4:9])
        same_rotations(p * q, theirs_p * theirs_q)
        same_rotations(p * q[0], theirs_p * theirs_q[0])
        same_rotations(p.inv(), theirs_p.inv())
        v = RNG.normal(size=(5, 3))
        for inverse in (False, True):
            for vectors in (v, v[0]):
                expected = theirs_p.apply(vectors, inverse=inverse)
                np.testing.assert_allclose(p.apply(vectors, inverse), expected, atol=1e-12)
            expected = theirs_p[1].apply(v, inverse=inverse)
            np.testing.assert_allclose(p[1].apply(v, inverse), expected, atol=1e-12)
        same_rotations(p.mean(), theirs_p.mean())
        same_rotations(p.mean(np.arange(1.0, 6)), theirs_p.mean(np.arange(1.0, 6)))
        same_rotations(p[2].mean(), theirs_p[2].mean())
        both = Rotation.concatenate([p, q, p[0]])
        same_rotations(both, Theirs.concatenate([theirs_p, theirs_q, theirs_p[0]]))
        assert (len(both), both.single, both[0].single) == (11, False, True)
        same_rotations(both[1:3], theirs_p[1:3])
        same_rotations(both[np.array([4, 0])], theirs_p[[4, 0]])


def test_identity_and_random() -> None:
    np.testing.assert_array_equal(Rotation.identity().quat, [0, 0, 0, 1])
    np.testing.assert_array_equal(Rotation.identity(2).as_matrix(), np.stack([np.eye(3)] * 2))
    assert Rotation.identity(dtype="float16").quat.dtype == np.float16
    key = xpr.random.key(3)
    assert Rotation.random(key).single
    turns = Rotation.random(key, 4000)
    np.testing.assert_allclose(jnp.linalg.norm(turns.quat, axis=-1), np.ones(4000), rtol=1e-6)
    # Uniform: directions come out everywhere alike, and angles have density (1 - cos a) / pi.
    np.testing.assert_allclose(turns.apply(jnp.eye(3)[0]).mean(0), np.zeros(3), atol=0.04)
    expected = np.pi / 2 + 2 / np.pi
    np.testing.assert_allclose(turns.magnitude().mean(), expected, atol=0.04)


def test_slerp() -> None:
    with xpr.enable_x64(True):
        times = np.array([0.0, 1.0, 2.5, 4.0])
        ours = Slerp.init(times, Rotation.from_quat(QUATS[:4]))
        theirs = TheirSlerp(times, Theirs.from_quat(QUATS[:4]))
        at = np.array([0.0, 0.2, 1.0, 1.7, 2.5, 3.9, 4.0])
        same_rotations(ours(at), theirs(at))
        same_rotations(ours(3.3), theirs(3.3))
        assert ours([0, 1]).quat.shape == (2, 4)
        found = xpr.jit(lambda s, t: s(t).quat)(ours, jnp.asarray(at))
        np.testing.assert_allclose(found, ours(at).quat, atol=1e-12)


def test_transformations() -> None:
    vectors = jnp.asarray(VECTORS[:4], "float32")

    def turned(v: Any, x: Any) -> Any:
        r = Rotation.from_rotvec(v)
        return (r * r).apply(x), r.inv(), r.as_euler("xyz"), Rotation.from_matrix(r.as_matrix())

    x = jnp.array([1.0, 2.0, 3.0])
    found = xpr.jit(xpr.vmap(turned, in_axes=(0, None)))(vectors, x)
    assert isinstance(found[1], Rotation)
    theirs = Theirs.from_rotvec(VECTORS[:4])
    np.testing.assert_allclose(found[0], (theirs * theirs).apply([1, 2, 3]), atol=1e-5)
    same_rotations(found[1], theirs.inv(), 1e-6)
    np.testing.assert_allclose(found[2], theirs.as_euler("xyz"), atol=1e-5)
    same_rotations(found[3], theirs, 1e-6)
    leaves = xpr.tree_util.tree_leaves(Slerp.init([0, 1], Rotation.identity(2)))
    assert len(leaves) == 4


@pytest.mark.parametrize("v", [[0.3, -0.9, 0.4], [0.0, 0.0, 0.0], [0.0, 1e-4, 0.0]])
def test_derivatives(v: Any) -> None:
    with xpr.enable_x64(True):
        v = jnp.array(v)
        x = jnp.array([1.0, -2.0, 0.5])
        check_grads(lambda v, x: Rotation.from_rotvec(v).apply(x), (v, x), order=2, atol=1e-4)
        check_grads(lambda v: Rotation.from_rotvec(v).as_rotvec(), (v,), order=1)
        check_grads(lambda v: Rotation.from_mrp(v).as_mrp(), (v,), order=1)
        matrix = Rotation.from_rotvec(v).as_matrix()
        check_grads(lambda m: Rotation.from_matrix(m).quat, (matrix,), order=1)
        check_grads(lambda v: Rotation.from_euler("xyz", v).as_euler("zyx"), (v + 0.1,), order=1)


def test_errors() -> None:
    one = Rotation.identity()
    wrong: Any = None
    with pytest.raises(TypeError, match="Single rotation is not subscriptable"):
        one[0]
    with pytest.raises(TypeError, match=r"Single rotation has no len\(\)"):
        len(one)
    with pytest.raises(ValueError, match="Expected 1 or 2 or 3 axes, got 'xyzx'"):
        Rotation.from_euler("xyzx", jnp.zeros(4))
    with pytest.raises(ValueError, match="Expected 3 axes, got 'xy'"):
        one.as_euler("xy")
    with pytest.raises(ValueError, match="Expected axes from `seq`"):
        Rotation.from_euler("xYz", jnp.zeros(3))
    with pytest.raises(ValueError, match="consecutive axes to be different, got xxy"):
        one.as_euler("xxy")
    with pytest.raises(ValueError, match=r"angles requires shape \(..., 3\), got \(2,\)"):
        Rotation.from_euler("xyz", jnp.zeros(2))
    with pytest.raises(ValueError, match=r"quat requires shape \(..., 4\), got \(3,\)"):
        Rotation.from_quat(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"matrix requires shape \(..., 3, 3\), got \(2, 3\)"):
        Rotation.from_matrix(jnp.zeros((2, 3)))
    two = Rotation.identity(2)
    with pytest.raises(ValueError, match="3 values and 2 rotations"):
        two.mean(jnp.ones(3))
    with pytest.raises(ValueError, match=r"1 dimensional, got shape \(1, 2\)"):
        two.mean(jnp.ones((1, 2)))
    with pytest.raises(TypeError, match="must be a `Rotation` instance"):
        Slerp.init(jnp.arange(2), wrong)
    with pytest.raises(ValueError, match="at least 2 rotations"):
        Slerp.init(jnp.arange(2), one)
    with pytest.raises(ValueError, match="2 rotations and 3 timestamps"):
        Slerp.init(jnp.arange(3), two)
    with pytest.raises(ValueError, match="1 dimensional array, got 2"):
        Slerp.init(jnp.ones((2, 1)), two)
    with pytest.raises(ValueError, match="at most 1-dimensional"):
        Slerp.init(jnp.arange(2), two)(jnp.zeros((1, 1)))
