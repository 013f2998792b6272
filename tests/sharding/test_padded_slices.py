"""Slices of padded arrays along sharded axes: values as NumPy's, and borders only move."""

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import NamedSharding, P
from xpr.sharding import Mesh

X = np.arange(1, 16 * 4 + 1, dtype=np.float32).reshape(16, 4)


@pytest.fixture
def x() -> xpr.Array:
    mesh = Mesh(np.array(xpr.devices()[:4]), ("d",))
    return xpr.device_put(X, NamedSharding(mesh, P("d")))


def test_a_stencil_with_padding_moves_a_row_each_way(x: xpr.Array) -> None:
    def step(x: xpr.Array) -> xpr.Array:
        y = jnp.pad(x, ((1, 1), (0, 0)), constant_values=-3.0)
        return x + 2 * y[2:] + 3 * y[:-2]

    y = np.pad(X, ((1, 1), (0, 0)), constant_values=-3.0)
    np.testing.assert_array_equal(xpr.jit(step)(x), X + 2 * y[2:] + 3 * y[:-2])
    assert xpr.jit(step).lower(x).communication().bytes == 2 * 4 * 4


def test_every_window_of_a_padded_array(x: xpr.Array) -> None:
    windows = ((0, 16), (3, 19), (5, 21), (2, 18), (0, 8), (0, 3), (17, 21), (20, 21), (4, 9))

    def run(x: xpr.Array) -> list[xpr.Array]:
        y = jnp.pad(x, ((3, 2), (1, 0)), constant_values=7)
        return [y[a:b, 1:] for a, b in windows]

    y = np.pad(X, ((3, 2), (1, 0)), constant_values=7)
    for found, (a, b) in zip(xpr.jit(run)(x), windows, strict=True):
        np.testing.assert_array_equal(found, y[a:b, 1:])


def test_padded_arrays_that_are_read_as_a_whole_too(x: xpr.Array) -> None:
    def run(x: xpr.Array) -> tuple[xpr.Array, ...]:
        y, z = jnp.pad(x, ((1, 1), (0, 0))), jnp.pad(x, ((0, 2), (0, 0)))
        return y[2:], jnp.cumsum(y, axis=0), z, z[1:17], z[::2]

    y, z = np.pad(X, ((1, 1), (0, 0))), np.pad(X, ((0, 2), (0, 0)))
    wanted = (y[2:], np.cumsum(y, axis=0), z, z[1:17], z[::2])
    for found, w in zip(xpr.jit(run)(x), wanted, strict=True):
        np.testing.assert_allclose(found, w, rtol=1e-6)


def test_in_a_loop_and_its_gradient(x: xpr.Array) -> None:
    def step(x: xpr.Array) -> xpr.Array:
        y = jnp.pad(x, ((1, 1), (0, 0)))
        return 0.5 * x + 0.25 * (y[2:] + y[:-2])

    def loss(x: xpr.Array) -> xpr.Array:
        return jnp.sum(xpr.lax.fori_loop(0, 3, lambda _, x: step(x), x) ** 2)

    matrix = 0.5 * np.eye(16) + 0.25 * (np.eye(16, k=1) + np.eye(16, k=-1))
    cube = np.linalg.matrix_power(matrix, 3)
    np.testing.assert_allclose(xpr.jit(xpr.grad(loss))(x), 2 * cube.T @ cube @ X, rtol=1e-5)
