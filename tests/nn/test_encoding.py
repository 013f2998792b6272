"""`one_hot` against comparisons in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from tests.numpy.cases import jnp

nn: Any = xpr.nn

INDICES = np.array([[0, 2, 4], [-1, 1, 300]])


@pytest.mark.parametrize("axis", [-1, 0, 1, 2, -3])
@pytest.mark.parametrize("jitted", [False, True])
def test_values(axis: int, jitted: bool) -> None:
    def run(x: Any) -> Any:
        return [nn.one_hot(x, 4, axis=axis, dtype=d) for d in (None, jnp.int32, bool, jnp.bfloat16)]

    expected = np.moveaxis(INDICES[..., None] == np.arange(4), -1, axis)
    for found in (xpr.jit(run) if jitted else run)(INDICES):
        np.testing.assert_array_equal(found.astype(np.float32), expected)
    names = [f.dtype.name for f in run(INDICES)]
    assert names == ["float32", "int32", "bool", "bfloat16"]


def test_other_indices() -> None:
    assert nn.one_hot(2, 3).tolist() == [0, 0, 1]
    assert nn.one_hot([0, 1], 2).tolist() == [[1, 0], [0, 1]]
    assert nn.one_hot(np.array([1.0, 0.5]), 2).tolist() == [[0, 1], [0, 0]]
    for count in (256, 300):
        found = nn.one_hot(np.array([0, 255], np.uint8), count)
        np.testing.assert_array_equal(found, np.arange(count) == np.array([[0], [255]]))
    assert nn.one_hot(np.array([0]), 0).shape == (1, 0)
    assert nn.one_hot(np.zeros((0, 2), int), 3).shape == (0, 2, 3)
    with xpr.enable_x64(True):
        assert nn.one_hot(0, 2).dtype == np.float64


def test_along_a_named_axis() -> None:
    found = xpr.vmap(lambda _: nn.one_hot(np.array([0, 2, 5]), 3, axis="i"), axis_name="i")(
        np.zeros(3)
    )
    np.testing.assert_array_equal(found, np.arange(3)[:, None] == np.array([0, 2, 5]))
    with pytest.raises(ValueError, match="num_classes to be the size of axis 'i', got 4 and 3"):
        xpr.vmap(lambda _: nn.one_hot(0, 4, axis="i"), axis_name="i")(np.zeros(3))


def test_vmap_agrees_with_a_loop() -> None:
    expected = np.stack([np.asarray(nn.one_hot(row, 3)) for row in INDICES])
    np.testing.assert_array_equal(xpr.vmap(lambda v: nn.one_hot(v, 3))(INDICES), expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.one_hot(INDICES, 3, axis=3), ValueError, "axis 3 is out of bounds"),
        (lambda: nn.one_hot(INDICES, 2.5), TypeError, "integer"),
        (lambda: nn.one_hot(np.array([True]), 2), TypeError, "does not accept dtype bool"),
        (lambda: nn.one_hot(INDICES, 3, axis=1.5), (TypeError, NameError), "1.5"),
        (lambda: xpr.jit(lambda n: nn.one_hot(0, n))(3), TypeError, "argument `num_classes`"),
        (lambda: nn.one_hot(INDICES, -1), (TypeError, ValueError), "-1|negative"),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
