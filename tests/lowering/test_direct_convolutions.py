"""Convolutions by kernels that come with xpr."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import needs_product_kernels
from tests.lowering.kernels_util import KINDS, lowered, results
from xpr import lax
from xpr.lowering import prebuilt
from xpr.lowering.rules import _direct_convolutions, _packed_products

RNG = np.random.default_rng(13)
NHWC = ("NHWC", "HWIO", "NHWC")


def array(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def convolved(
    x: np.ndarray, w: np.ndarray, strides: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    """The convolution of NHWC by HWIO in float64, a product for each tap."""
    x = np.pad(x.astype(np.float64), [(0, 0), *padding, (0, 0)])
    w = w.astype(np.float64)
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[1:3], w.shape[:2], strides, dilation, strict=True)
    ]
    each, outputs = w.shape[2], w.shape[3] // groups
    out = np.zeros((x.shape[0], *sizes, w.shape[3]))
    for i, j in itertools.product(range(w.shape[0]), range(w.shape[1])):
        rows = i * dilation[0] + strides[0] * np.arange(sizes[0])
        columns = j * dilation[1] + strides[1] * np.arange(sizes[1])
        part = x[:, rows][:, :, columns]
        for g in range(groups):
            inputs, kept = slice(g * each, (g + 1) * each), slice(g * outputs, (g + 1) * outputs)
            out[..., kept] += part[..., inputs] @ w[i, j][:, kept]
    return out


@pytest.fixture
def for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the smallest convolutions too, in small groups, so that there may be many."""
    for name in ("_LEAST_FEATURES", "_LEAST_OUTPUTS", "_LEAST_WORK", "_GROUP_WORK"):
        monkeypatch.setattr(_direct_convolutions, name, 1)
    monkeypatch.setattr(_direct_convolutions, "_PANEL_BYTES", 1 << 12)


# Operand, kernel, strides, padding, dilation, groups: pixels and output features around what a
# tile has, rows that end within one, and the last row and column of the operand beyond any window.
CASES: list[Any] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),
    ((2, 7, 7, 5), (3, 3, 5, 33), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    ((3, 9, 8, 4), (3, 2, 4, 16), (2, 3), [(0, 1), (1, 0)], (1, 1), 1),
    ((1, 12, 13, 3), (1, 1, 3, 7), (2, 2), [(0, 0), (0, 0)], (1, 1), 1),
    ((2, 10, 11, 6), (3, 3, 6, 15), (1, 1), [(2, 2), (2, 2)], (2, 3), 1),
    ((2, 6, 5, 12), (3, 3, 4, 9), (1, 1), [(1, 1), (1, 1)], (1, 1), 3),
    ((1, 6, 6, 8), (2, 2, 4, 80), (2, 1), [(0, 0), (1, 1)], (1, 2), 2),
    ((5, 4, 4, 2), (4, 4, 2, 64), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_convolutions_of_all_sizes(kind: str, dtype: str) -> None:
    pairs = [(array(case[0], dtype), array(case[1], dtype)) for case in CASES]

    def program(*args: Any) -> list[Any]:
        return [
            lax.conv_general_dilated(
                *(x, w, strides, padding),
                rhs_dilation=dilation,
                dimension_numbers=NHWC,
                feature_group_count=groups,
            )
            for (_, _, strides, padding, dilation, groups), x, w in zip(
                CASES, args[::2], args[1::2], strict=True
            )
        ]

    found = results(program, [x for pair in pairs for x in pair], kind, "xpr_convolve")
    for case, (x, w), c in zip(CASES, pairs, found, strict=True):
        wide = convolved(x, w, *case[2:])
        bound = convolved(np.abs(x), np.abs(w), *case[2:])
        depth = np.prod(w.shape[:3])
        assert c.shape == wide.shape, case
        assert (np.abs(c - wide) <= depth * np.finfo(dtype).eps * bound).all(), case


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("for_all_sizes")
def test_special_values_stay_in_their_windows(kind: str) -> None:
    x, w = array((2, 6, 7, 4)), array((3, 3, 4, 18))
    x[0, 2, 3, 1], x[1, 0, 0, 0], x[1, 5, 6, 3] = np.nan, np.inf, -np.inf
    (found,) = results(
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=NHWC),
        *((x, w), kind, "xpr_convolve"),
    )
    with np.errstate(invalid="ignore"):
        wide = convolved(x, w, (1, 1), [(0, 0), (0, 0)], (1, 1), 1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wide))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wide))
    finite = np.isfinite(wide)
    np.testing.assert_allclose(found[finite], wide[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_single_pixels_with_features_first_are_products(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_packed_products, "_WORK", {"float32": (1, 1), "float64": (1, 1)})
    monkeypatch.setattr(_packed_products, "_LEAST", 1)
    x, w, line = array((3, 20, 5, 7)), array((33, 20, 1, 1)), array((2, 20, 9))

    def program(x: Any, w: Any, line: Any) -> Any:
        return (
            lax.conv_general_dilated(x, w, (1, 1), "SAME"),
            lax.conv_general_dilated(x, w, (2, 3), "VALID"),
            lax.conv_general_dilated(line, w[..., 0], (1,), "VALID"),
        )

    found = results(program, (x, w, line), kind)
    weights = w[:, :, 0, 0].astype(np.float64)
    wide = np.einsum("oc,bchw->bohw", weights, x)
    for c, right in zip(
        found, (wide, wide[:, :, ::2, ::3], np.einsum("oc,bcl->bol", weights, line)), strict=True
    ):
        np.testing.assert_allclose(c, right, rtol=1e-4, atol=1e-4)


@needs_product_kernels
def test_derivatives_of_strided_and_grouped_ones() -> None:
    x, w = array((4, 16, 16, 32)), array((3, 3, 16, 64))
    strides, edges = (2, 2), [(1, 1), (1, 1)]

    def apply(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            *(x, w, strides, edges), dimension_numbers=NHWC, feature_group_count=2
        )

    assert "xpr_convolve_f32" in xpr.jit(apply).lower(x, w).as_text("iree")
    slopes = xpr.jit(xpr.grad(lambda x, w: jnp.sum(apply(x, w) ** 2), argnums=(0, 1)))(x, w)

    def linear(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return convolved(x, w, strides, edges, (1, 1), 2)

    result = linear(x, w)
    # Along a direction d the derivative is the sum of 2 f(x, w) f(d, w), and of 2 f(x, w) f(x, d).
    d, e = array(x.shape), array(w.shape)
    for found, right in (
        ((np.asarray(slopes[0]) * d).sum(), (2 * result * linear(d, w)).sum()),
        ((np.asarray(slopes[1]) * e).sum(), (2 * result * linear(x, e)).sum()),
    ):
        assert abs(found - right) < 1e-3 * abs(result).sum()


def test_other_convolutions_are_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC)

    x, w = array((2, 16, 16, 32)), array((3, 3, 32, 64))
    kind = "products_avx2"
    assert "xpr_convolve" not in lowered(apply, (x, w), None).text
    assert "xpr_convolve" not in lowered(apply, (x[..., :1], w[:, :, :1]), kind).text
    # Objects that are older than these files do not have the kernels.
    monkeypatch.setattr(prebuilt, "has", lambda file, function: False)
    assert "xpr_convolve" not in lowered(apply, (x, w), kind).text
    empty = xpr.jit(apply)(x[:0], w)
    assert empty.shape == (0, 16, 16, 64)
