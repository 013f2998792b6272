"""Resampling of images: against JAX's numbers, and against what is known of such images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy
from tests.image import cases
from xpr import image
from xpr.test_util import check_grads

jnp: Any = xpr.numpy
GOLDEN = np.load(Path(__file__).parent / "golden.npz")
SMOOTH = [m for m in image.ResizeMethod if m is not image.ResizeMethod.NEAREST]


def compare(found: dict[str, Any]) -> None:
    failures = []
    for name, value in found.items():
        e = GOLDEN[name]
        if (value.shape, value.dtype) != (e.shape, e.dtype):
            failures.append(f"{name}: {value.dtype}{value.shape}, expected {e.dtype}{e.shape}")
        # Weights of pixels that cancel are known to a few units of single precision.
        elif not np.allclose(value, e, rtol=2e-6, atol=2e-6):
            failures.append(f"{name}: off by {np.abs(np.asarray(value) - e).max()}")
    assert not failures, "\n".join(failures)


def test_golden_numbers_at_once() -> None:
    found = cases.resized(image, jnp) | cases.moved(image, jnp)
    assert set(found) == set(GOLDEN)
    compare(found)


def test_golden_numbers_compiled() -> None:
    # Names are no arrays: they come back beside the results.
    names: list[str] = []

    def program(x: Any) -> list[Any]:
        results = {
            f"resize {m} {antialias} (8, 3)": image.resize(x, (8, 3), m, antialias)
            for m, antialias in (("nearest", True), ("lanczos3", True), ("cubic-pytorch", False))
        }
        scale, move = cases.MOVES[1]
        results[f"move area True {scale} {move}"] = image.scale_and_translate(
            x, (6, 9), (0, 1), jnp.array(scale), jnp.array(move), "area"
        )
        names.extend(results)
        return list(results.values())

    compare(dict(zip(names, xpr.jit(program)(jnp.asarray(cases.IMAGE)), strict=True)))


@pytest.mark.parametrize("method", SMOOTH, ids=lambda m: m.name)
def test_constants_and_same_sizes_are_kept(method: image.ResizeMethod) -> None:
    for antialias in (True, False):
        found = image.resize(jnp.full((6, 4), 2.5), (9, 2), method, antialias)
        np.testing.assert_allclose(found, np.full((9, 2), 2.5), rtol=1e-6)
    same = image.resize(cases.IMAGE, (5, 7), method)
    np.testing.assert_array_equal(same, cases.IMAGE)


def test_linear_is_linear_interpolation() -> None:
    row = np.array([3.0, -1.0, 4.0, 1.0, 5.0], "f4")
    found = image.resize(row, (15,), "linear")
    places = (np.arange(15) + 0.5) / 3 - 0.5
    np.testing.assert_allclose(found, np.interp(places, np.arange(5), row), rtol=1e-6)


def test_areas_of_whole_blocks_are_means() -> None:
    x = cases.RNG.normal(size=(6, 8)).astype("f4")
    found = image.resize(x, (2, 4), "area")
    np.testing.assert_allclose(found, x.reshape(2, 3, 4, 2).mean((1, 3)), rtol=1e-5, atol=1e-6)


def test_nearest_takes_the_pixel_that_holds_the_centre() -> None:
    for size, new_size in ((5, 3), (3, 8), (7, 7), (1, 4), (9, 1)):
        row = np.arange(size, dtype="i4")
        expected = [row[int((i + 0.5) * size / new_size)] for i in range(new_size)]
        found = image.resize(row, (new_size,), "nearest")
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


def test_cubic_reproduces_quadratics_inside() -> None:
    # The order of accuracy of Keys's splines is 3.
    row = (np.arange(12.0) ** 2).astype("f4")
    found = np.asarray(image.resize(row, (24,), "cubic"))
    places = (np.arange(24) + 0.5) / 2 - 0.5
    np.testing.assert_allclose(found[4:-4], places[4:-4] ** 2, rtol=1e-5)


def test_whole_moves_shift_pixels() -> None:
    x = cases.IMAGE
    for method in SMOOTH:
        moves = jnp.array([2.0, -3.0])
        found = image.scale_and_translate(x, (5, 7), (0, 1), jnp.ones(2), moves, method)
        expected = np.zeros_like(x)
        expected[2:, :4] = x[:3, 3:]
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_dtypes() -> None:
    assert image.resize(jnp.ones((2, 2), "bfloat16"), (3, 3), "cubic").dtype == jnp.bfloat16
    assert image.resize(jnp.ones((2, 2), "uint8"), (3, 3), "linear").dtype == np.float32
    assert image.resize(jnp.ones((2, 2), bool), (3, 3), "nearest").dtype == np.bool_
    both = cases.IMAGE + 1j * cases.IMAGE[::-1]
    found = image.resize(both, (8, 3), "lanczos3")
    assert found.dtype == np.complex64
    np.testing.assert_allclose(
        found.imag, image.resize(both.imag, (8, 3), "lanczos3"), rtol=1e-5, atol=1e-6
    )
    assert image.resize(jnp.ones((2, 3)), (0, 3), "linear").shape == (0, 3)
    assert image.resize(jnp.ones((2, 3)), (2, 0), "nearest").shape == (2, 0)


def test_derivatives_and_vmap() -> None:
    with xpr.enable_x64(True):
        x = jnp.asarray(cases.RNG.normal(size=(4, 5)))
        for method in ("linear", "lanczos3", "cubic-pytorch"):
            check_grads(lambda x, m=method: image.resize(x, (6, 3), m, False), (x,), order=1)

        def move(x: Any, scale: Any, translation: Any) -> Any:
            return image.scale_and_translate(x, (4, 5), (0, 1), scale, translation, "cubic")

        scale, translation = jnp.array([0.71, 1.33]), jnp.array([0.37, -0.21])
        check_grads(move, (x, scale, translation), order=1, eps=1e-6)
        scales = jnp.stack([scale, scale + 0.1])
        found = xpr.vmap(move, in_axes=(None, 0, None))(x, scales, translation)
        expected = [move(x, s, translation) for s in scales]
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-12)


def test_errors() -> None:
    x = jnp.ones((3, 3))
    one = jnp.ones(1)
    with pytest.raises(ValueError, match=r"shape must have length .* got \(2,\)"):
        image.resize(x, (2,), "linear")
    with pytest.raises(ValueError, match='Unknown resize method "foo"'):
        image.resize(x, (2, 2), "foo")
    wrong: Any = 3
    with pytest.raises(TypeError, match="method must be a ResizeMethod or its name, got 3"):
        image.resize(x, (2, 2), wrong)
    with pytest.raises(ValueError, match=r"axis of size 2 \(axis 0\) of 0"):
        image.resize(x[:0], (2, 3), "linear")
    with pytest.raises(ValueError, match=r"axis of size -1 \(axis 1\)"):
        image.resize(x, (2, -1), "linear")
    listed: Any = [[1.0]]
    with pytest.raises(TypeError, match="resize requires ndarray"):
        image.resize(listed, (2, 2), "linear")
    with pytest.raises(ValueError, match="does not support nearest"):
        image.scale_and_translate(x, (2, 2), (0,), one, one, "nearest")
    with pytest.raises(ValueError, match=r"scale must have one entry for each of the 2"):
        image.scale_and_translate(x, (2, 2), (0, 1), one, one, "linear")
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        image.scale_and_translate(x, (2, 2), (2,), one, one, "linear")
    with pytest.raises(ValueError, match="spatial_dims must be distinct"):
        image.scale_and_translate(x, (2, 2), (0, -2), jnp.ones(2), jnp.ones(2), "linear")
