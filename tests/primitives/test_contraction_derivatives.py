"""Cotangents of contractions and convolutions have their operands' dtypes; batches of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.core.config import override

_DTYPES = {
    "wider result": ("float16", "float16", "float32"),
    "narrower result": ("float32", "float32", "float16"),
    "bfloat16 into float32": ("bfloat16", "bfloat16", "float32"),
    "mixed operands": ("float16", "float32", None),
    "real and complex": ("float32", "complex64", None),
    "complex result": ("float32", "float32", "complex64"),
    "double result": ("float32", "float32", "float64"),
}


def _cotangents(function: Any, *operands: Any) -> tuple[Any, ...]:
    out, pullback = xpr.vjp(function, *operands)
    return pullback(np.ones(out.shape, out.dtype))


@pytest.mark.parametrize("case", _DTYPES)
def test_cotangents_of_products_have_the_operands_dtypes(case: str) -> None:
    left, right, preferred = (None if d is None else xpr.numpy.dtype(d) for d in _DTYPES[case])
    with override("enable_x64", True):
        x = np.arange(6.0).reshape(2, 3).astype(left)
        y = np.arange(12.0).reshape(3, 4).astype(right)
        dx, dy = _cotangents(lambda x, y: lax.dot(x, y, preferred_element_type=preferred), x, y)
    assert (dx.dtype, dy.dtype) == (x.dtype, y.dtype)
    wide = np.complex64 if "complex" in case else np.float32
    np.testing.assert_array_equal(np.asarray(dx, wide), np.ones((2, 4)) @ y.astype(wide).T)
    np.testing.assert_array_equal(np.asarray(dy, wide), x.astype(wide).T @ np.ones((2, 4)))


@pytest.mark.parametrize("case", ["wider result", "bfloat16 into float32", "double result"])
def test_cotangents_of_convolutions_have_the_operands_dtypes(case: str) -> None:
    left, _, preferred = map(xpr.numpy.dtype, _DTYPES[case])
    with override("enable_x64", True):
        x, k = np.ones((1, 1, 4)).astype(left), np.ones((1, 1, 2)).astype(left)
        dx, dk = _cotangents(
            lambda x, k: lax.conv_general_dilated(
                x, k, (1,), "VALID", preferred_element_type=preferred
            ),
            x,
            k,
        )
    assert (dx.dtype, dk.dtype) == (x.dtype, k.dtype)
    assert np.asarray(dx, np.float32).ravel().tolist() == [1, 2, 2, 1]
    assert np.asarray(dk, np.float32).ravel().tolist() == [3, 3]


def test_the_cotangent_is_rounded_once() -> None:
    """A sum of 4096 halves: in float16 it would stop at 2048 / 2 and lose the rest."""
    x, y = np.ones((1, 1), np.float16), np.full((1, 4096), 0.5, np.float16)
    (dx, _) = _cotangents(lambda x, y: lax.dot(x, y, preferred_element_type=np.float32), x, y)
    assert np.asarray(dx).tolist() == [[2048]]


# Batch axes of operands at every pair of places, also where the operand is unbatched.
_PLACES = [p for p in itertools.product([None, 0, 1, 3], repeat=2) if p != (None, None)]


@pytest.mark.parametrize("places", _PLACES)
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
def test_convolutions_of_batches_are_one_convolution(groups: Any, places: Any) -> None:
    rng = np.random.default_rng(0)
    features, batches = groups
    shapes = (2, 2 * features, 5), (4, 2, 2)
    operands = [
        rng.integers(-3, 4, s if d is None else (*s[:d], 3, *s[d:])).astype(np.float32)
        for s, d in zip(shapes, places, strict=True)
    ]

    def conv(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(
            x, k, (1,), "SAME", feature_group_count=features, batch_group_count=batches
        )

    jaxpr = str(xpr.make_jaxpr(xpr.vmap(conv, places))(*operands))
    assert jaxpr.count("conv_general_dilated[") == 1
    assert "broadcast_in_dim" not in jaxpr
    found = xpr.vmap(conv, places)(*operands)
    wanted = [
        conv(*(x if d is None else np.take(x, i, d) for x, d in zip(operands, places, strict=True)))
        for i in range(3)
    ]
    np.testing.assert_array_equal(found, np.stack([np.asarray(w) for w in wanted]))


def test_products_with_one_batched_operand_are_one_product() -> None:
    x, y = np.ones((5, 2, 3), np.float32), np.ones((3, 4), np.float32)
    jaxpr = str(xpr.make_jaxpr(xpr.vmap(lax.dot, (0, None)))(x, y))
    assert "broadcast_in_dim" not in jaxpr
    assert jaxpr.count("dot_general[") == 1
