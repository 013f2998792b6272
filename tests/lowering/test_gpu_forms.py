"""The forms that operations take for GPUs compute the same: here they run on the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xpr.numpy as jnp
from tests.harness import Case, run_compiled, set_target
from xpr import lax
from xpr.core import dtypes
from xpr.lowering.rules._matrix_units import parts_of
from xpr.lowering.targets import get_target
from xpr.lowering.targets.forms import WITHOUT_UNITS, matrix_units

Array = np.ndarray[Any, Any]
_NHWC = ("NHWC", "HWIO", "NHWC")


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs get the forms of GPUs that multiply matrices of narrow floats."""
    forms = matrix_units("float16", "bfloat16")
    set_target(monkeypatch, replace(get_target("cpu"), forms=forms, product_kernels=None))


def _sum(dtype: str | None) -> Any:
    return lambda a, b: lax.dot(a, b, preferred_element_type=dtype)


@pytest.mark.usefixtures("units")
def test_products_of_bytes_are_exact() -> None:
    """The greatest products, lengths beyond a block of exact sums, and sums that wrap around."""
    rng = np.random.default_rng(20261128)
    cases: list[Case] = []
    expected: list[Array] = []
    for left, right, k, result in (
        ("int8", "int8", 1100, "int32"),
        ("uint8", "uint8", 300, "int32"),
        ("uint8", "int8", 257, "int32"),
        ("int8", "int8", 64, "int8"),
        ("int8", "int8", 64, "int16"),
    ):
        a = rng.choice([dtypes.iinfo(left).min, dtypes.iinfo(left).max, 1], (17, k)).astype(left)
        b = rng.choice([dtypes.iinfo(right).min, dtypes.iinfo(right).max], (k, 16)).astype(right)
        cases.append((_sum(result), (a, b)))
        expected.append((a.astype(np.int64) @ b.astype(np.int64)).astype(result))
    a = rng.integers(-128, 128, (3, 16, 5, 8)).astype(np.int8)
    b = rng.integers(-128, 128, (8, 20, 3, 5)).astype(np.int8)

    def several(a: Any, b: Any) -> Any:
        return jnp.einsum("bmij,jnbi->bmn", a, b, preferred_element_type=np.int32)

    cases.append((several, (a, b)))
    expected.append(np.einsum("bmij,jnbi->bmn", a.astype(np.int32), b.astype(np.int32)))
    for (found,), wanted in zip(run_compiled(cases), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("units")
def test_products_of_float32_in_parts() -> None:
    """Three products are closer than TensorFloat-32, and keep what is no finite number."""
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(32, 100)).astype("f4"), rng.normal(size=(100, 32)).astype("f4")
    special = np.ones((16, 16), np.float32)
    special[:5, 3] = np.inf, -np.inf, np.nan, np.finfo(np.float32).max, 1e-40
    eye = np.eye(16, dtype=np.float32)
    short_nan = np.full((16, 16), np.nan, np.float32)
    short_nan.view(np.uint32)[...] = 0x7F800001

    def product(precision: str) -> Any:
        return lambda a, b: jnp.matmul(a, b, precision=precision)

    cases: list[Case] = [
        (product("tensorfloat32"), (a, b)),
        (product("BF16_BF16_F32"), (a, b)),
        (product("highest"), (a, b)),
        (product("high"), (special, special)),
        (product("high"), (short_nan, eye)),
    ]
    found = [results[0] for results in run_compiled(cases)]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    # Each factor has a relative error of 2**-16 at most, a rounded one of 2**-8.
    for x, bound in zip(found, (2.0**-15, 2.0**-7, 2.0**-20), strict=False):
        assert (np.abs(x - exact) <= bound * scale).all()
    assert (np.abs(found[1] - exact) > 2.0**-12 * scale).any()
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = special @ special
    np.testing.assert_array_equal(np.isnan(found[3]), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found[3]), np.isinf(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(found[3][finite], wanted[finite], rtol=2.0**-14)
    assert np.isnan(found[4]).all()


def test_the_user_says_how_exact_products_of_float32_are() -> None:
    preset = lax.DotAlgorithmPreset
    one = lax.DotAlgorithm(dtypes.bfloat16, dtypes.bfloat16, np.float32)
    for precision, expected in (
        (None, None),
        ((lax.Precision.HIGHEST,) * 2, None),
        ((lax.Precision.DEFAULT, lax.Precision.HIGHEST), None),
        ((lax.Precision.HIGH,) * 2, 3),
        (preset.TF32_TF32_F32, 3),
        (preset.TF32_TF32_F32_X3, None),
        (preset.BF16_BF16_F32, 1),
        (preset.BF16_BF16_F32_X9, None),
        (preset.F16_F16_F32, None),
        (one, 1),
        (lax.DotAlgorithm(np.float32, np.float32, np.float32), None),
    ):
        assert parts_of(precision) == expected


def _windows(x: Array, k: Array) -> Array:
    x = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    found = np.lib.stride_tricks.sliding_window_view(x, k.shape[:2], axis=(1, 2))
    return np.einsum("nhwcij,ijco->nhwo", found, k)


@pytest.mark.usefixtures("units")
def test_products_and_convolutions_of_narrow_floats() -> None:
    """Small integers, so that sums are exact and results round in one way."""
    rng = np.random.default_rng(8)

    def small(*shape: int) -> Array:
        return rng.integers(-2, 3, shape).astype(np.float64)

    def convolution(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=_NHWC)

    def features_first(x: Any, k: Any) -> Any:
        x, k = x.transpose(0, 3, 1, 2), k.transpose(3, 2, 0, 1)
        return lax.conv_general_dilated(x, k, (1, 1), "SAME").transpose(0, 2, 3, 1)

    def grouped(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(
            x, k, (1, 1), "SAME", dimension_numbers=_NHWC, feature_group_count=4
        )

    a, b, v = small(17, 20), small(20, 18), small(20)
    x, k, single = small(2, 5, 6, 4), small(3, 3, 4, 8), small(3, 3, 1, 4)
    each = np.stack([_windows(x[..., i : i + 1], single[..., i : i + 1]) for i in range(4)], -1)
    for dtype in (np.dtype(np.float16), dtypes.bfloat16):
        programs = [
            (lambda a, b: a @ b, (a, b), a @ b),
            (lambda a, b: a.T @ b.T, (b, a), b.T @ a.T),
            (lambda a, v: a @ v, (a, v), a @ v),
            (convolution, (x, k), _windows(x, k)),
            (features_first, (x, k), _windows(x, k)),
            (grouped, (x, single), each[..., 0, :]),
        ]
        cases: list[Case] = [(f, [y.astype(dtype) for y in args]) for f, args, _ in programs]
        for (found,), (_, _, wanted) in zip(run_compiled(cases), programs, strict=True):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.astype(np.float64), wanted)


@pytest.mark.parametrize("forms", [matrix_units("float16"), WITHOUT_UNITS])
def test_sums_of_every_length(monkeypatch: pytest.MonkeyPatch, forms: Any) -> None:
    """Rows and columns about the lengths where they are cut."""
    set_target(monkeypatch, replace(get_target("cpu"), forms=forms, product_kernels=None))
    rng = np.random.default_rng(9)
    cases: list[Case] = []
    expected = []
    for shape, axes in (
        ((20_000,), (0,)),
        ((3, 8193), (1,)),
        ((5, 9007), (1,)),
        ((300, 17), (0,)),
        ((257, 3, 40), (0, 2)),
        ((8200, 5), (1,)),
    ):
        x = rng.integers(-9, 10, shape).astype(np.float32)
        cases.append((lambda x, axes=axes: x.sum(axes), (x,)))
        expected.append(x.sum(axes))
    for (found,), wanted in zip(run_compiled(cases), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
