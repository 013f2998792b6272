"""Rotations along sharded axes: values as NumPy's, and no more moved than what leaves a device."""

from collections.abc import Callable

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P
from xpr.sharding import Mesh

X = np.arange(16 * 6, dtype=np.float32).reshape(16, 6)


def _on(*spec: object) -> xpr.Array:
    mesh = Mesh(np.array(xpr.devices()[:4]).reshape(2, 2), ("a", "b"))
    return xpr.device_put(X, NamedSharding(mesh, P(*spec)))


def _moved(function: Callable[..., xpr.Array], x: xpr.Array) -> float:
    return xpr.jit(function).lower(x).communication().bytes


def test_rotations_by_any_number_of_elements() -> None:
    shifts = (1, -1, 3, 4, 5, -6, 8, 11, 15, 16)
    found = xpr.jit(lambda x: [jnp.roll(x, s, axis=0) for s in shifts])(_on(("a", "b")))
    for s, y in zip(shifts, found, strict=True):
        np.testing.assert_array_equal(y, np.roll(X, s, axis=0))
        assert y.sharding.shard_shape(y.shape) == (4, 6)


@pytest.mark.parametrize(
    ("shift", "rows"), [(1, 1), (-1, 1), (3, 3), (4, 4), (-5, 4), (8, 4), (16, 0)]
)
def test_each_device_gets_what_it_lacks(shift: int, rows: int) -> None:
    assert _moved(lambda x: jnp.roll(x, shift, axis=0), _on(("a", "b"))) == rows * 6 * 4


def test_two_axes_and_axes_that_are_not_cut_evenly() -> None:
    x = _on("a", "b")
    assert _moved(lambda x: jnp.roll(x, 1, axis=0), x) == 3 * 4
    y = xpr.jit(lambda x: jnp.roll(x, (1, -2), axis=(0, 1)))(x)
    np.testing.assert_array_equal(y, np.roll(X, (1, -2), axis=(0, 1)))

    def padded(x: xpr.Array) -> xpr.Array:
        return jnp.roll(jnp.pad(x, ((0, 1), (0, 0))), 2, axis=0)

    y = xpr.jit(padded)(x)
    np.testing.assert_array_equal(y, np.roll(np.pad(X, ((0, 1), (0, 0))), 2, axis=0))


def test_slices_that_somebody_else_reads_and_joins_that_are_no_rotations() -> None:
    def several(x: xpr.Array) -> list[xpr.Array]:
        first, last = x[:3], x[3:]
        turned = jnp.concatenate([last, first])
        return [turned, first, jnp.concatenate([first, last]), jnp.concatenate([x[4:], x[:3]])]

    found = xpr.jit(several)(_on("a"))
    wanted = [np.roll(X, -3, axis=0), X[:3], X, np.concatenate([X[4:], X[:3]])]
    for y, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(y, w)


def test_in_a_loop() -> None:
    def run(x: xpr.Array) -> xpr.Array:
        return xpr.lax.fori_loop(0, 3, lambda _, x: x + jnp.roll(x, 1, axis=0), x)

    wanted = X
    for _ in range(3):
        wanted = wanted + np.roll(wanted, 1, axis=0)
    np.testing.assert_array_equal(xpr.jit(run)(_on("a")), wanted)
