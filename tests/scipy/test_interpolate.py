"""RegularGridInterpolator against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import xpr
from tests.numpy.cases import jnp
from xpr.scipy.interpolate import RegularGridInterpolator
from xpr.test_util import check_grads

RNG = np.random.default_rng(9)
GRID = (np.array([0.0, 1.0, 3.5, 4.0]), np.array([-1.0, 0.5, 2.0]), np.array([1.0, 2.0]))
VALUES = RNG.normal(size=(4, 3, 2, 2))
POINTS = RNG.uniform(-1.5, 4.5, (3, 7, 3))


def both(depth: int, trailing: bool, points: Any, **options: Any) -> tuple[Any, Any]:
    """What xpr and SciPy find on the first `depth` axes of the grid."""
    values = VALUES[(..., *(0,) * (3 - depth), slice(None))][..., 0] if depth < 3 else VALUES
    if depth == 3 and not trailing:
        values = values[..., 0]
    grid = GRID[:depth]
    ours = RegularGridInterpolator(grid, values, **options)
    theirs = scipy.interpolate.RegularGridInterpolator(grid, values, bounds_error=False, **options)
    return ours(points), theirs(points)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, None, -7.0])
def test_against_scipy(method: str, fill: float | None) -> None:
    with xpr.enable_x64(True):
        for depth, trailing in ((1, False), (2, False), (3, False), (3, True)):
            points = POINTS[..., :depth]
            found, expected = both(depth, trailing, points, method=method, fill_value=fill)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_points_of_the_grid_and_kinds_of_arguments() -> None:
    f = RegularGridInterpolator(GRID[:2], jnp.arange(12).reshape(4, 3))
    assert f.values.dtype == np.float32
    mesh = np.stack(np.meshgrid(*GRID[:2], indexing="ij"), axis=-1)
    np.testing.assert_allclose(f(mesh), np.arange(12).reshape(4, 3), rtol=1e-6)
    np.testing.assert_allclose(f((jnp.array([[1.0], [3.5]]), 0.5)), [[4.0], [7.0]], rtol=1e-6)
    np.testing.assert_allclose(f(np.array([1.0, 0.5])), [4.0], rtol=1e-6)
    np.testing.assert_array_equal(f(np.array([[1.1, 0.4]]), method="nearest"), [4.0])
    one = RegularGridInterpolator((GRID[0],), np.arange(4.0))
    np.testing.assert_allclose(one(np.array([0.5, 3.75])), [0.5, 2.5], rtol=1e-6)
    np.testing.assert_allclose(one((np.array([0.5]),)), [0.5], rtol=1e-6)


def test_interpolators_are_pytrees() -> None:
    f = RegularGridInterpolator(GRID[:2], VALUES[:, :, 0, 0], method="nearest")
    points = POINTS[0, :, :2]
    g = xpr.tree_util.tree_map(lambda x: x, f)
    assert g.method == "nearest"
    found = xpr.jit(lambda f, x: f(x))(f, points)
    np.testing.assert_array_equal(found, f(points))
    without = RegularGridInterpolator(GRID[:2], VALUES[:, :, 0, 0], fill_value=None)
    assert xpr.tree_util.tree_map(lambda x: x, without).fill_value is None


def test_derivatives_and_vmap() -> None:
    with xpr.enable_x64(True):
        points = jnp.array([[0.3, 0.1], [2.2, 1.4], [3.7, -0.4]])

        def at(values: Any, points: Any) -> Any:
            return RegularGridInterpolator(GRID[:2], values, fill_value=None)(points)

        values = jnp.asarray(VALUES[:, :, 0, 0])
        check_grads(at, (values, points), order=1)
        stack = jnp.stack([points, points + 0.1])
        found = xpr.vmap(at, in_axes=(None, 0))(values, stack)
        np.testing.assert_allclose(found, np.stack([at(values, p) for p in stack]), rtol=1e-12)


def test_errors() -> None:
    grid, values = GRID[:1], np.arange(4.0)
    f = RegularGridInterpolator(grid, values)
    with pytest.raises(ValueError, match="method 'cubic' is not defined"):
        RegularGridInterpolator(grid, values, method="cubic")
    with pytest.raises(ValueError, match="method 'slinear' is not defined"):
        f(values, method="slinear")
    with pytest.raises(NotImplementedError, match="bounds_error takes no effect"):
        RegularGridInterpolator(grid, values, bounds_error=True)
    with pytest.raises(ValueError, match="2 point arrays, but values has 1 dimensions"):
        RegularGridInterpolator(GRID[:2], values)
    with pytest.raises(ValueError, match=r"axis 0 has points of shape \(4,\) and 3 values"):
        RegularGridInterpolator(grid, values[:3])
    with pytest.raises(ValueError, match="at least 2 points"):
        RegularGridInterpolator((values[:1],), values[:1])
    with pytest.raises(ValueError, match="fill_value must be None or of a type compatible"):
        RegularGridInterpolator(grid, values, fill_value=1j)
    with pytest.raises(ValueError, match=r"dimension 2, but this .* has dimension 1"):
        f(np.zeros((5, 2)))
    with pytest.raises(TypeError, match="requires ndarray"):
        RegularGridInterpolator(grid, [1.0, 2.0, 3.0, 4.0])
