"""Gathers outside the operand: what each mode means for cotangents, and under vmap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.transforms.tracing import make_jaxpr

_F32 = np.float32
_ELEMENTS = lax.GatherDimensionNumbers((), (0,), (0,))
_INDICES = np.array([[0], [2], [2], [7], [-1]], np.int32)


def _gather(x: Any, i: Any, **options: Any) -> Any:
    return lax.gather(x, i, _ELEMENTS, (1,), **options)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("clip", [10001, 0, 1110]),
        ("promise_in_bounds", [1, 0, 110]),
        ("fill", [1, 0, 110]),
    ],
)
def test_cotangents(mode: str, wanted: list[float]) -> None:
    x = np.zeros(3, _F32)
    _, pull = xpr.vjp(lambda x: _gather(x, _INDICES, mode=mode), x)
    ct = 10.0 ** np.arange(5, dtype=_F32)
    np.testing.assert_array_equal(pull(ct)[0], wanted)
    # The same through a batch of index vectors.
    one = xpr.vmap(lambda x, i: _gather(x, i, mode=mode), in_axes=(None, 0))
    _, pull = xpr.vjp(lambda x: one(x, _INDICES), x)
    np.testing.assert_array_equal(pull(ct)[0], wanted)


@pytest.mark.parametrize("fill_value", [None, 5.0])
def test_the_filling_has_no_tangent(fill_value: float | None) -> None:
    x = np.ones(3, _F32)
    _, tangent = xpr.jvp(
        lambda x: _gather(x, _INDICES, mode="fill", fill_value=fill_value), (x,), (x,)
    )
    np.testing.assert_array_equal(tangent, [1, 1, 1, 0, 0])


@pytest.mark.parametrize(
    ("axes", "operand_batching", "unique"),
    [((0, None), (), True), ((None, 0), (), False), ((0, 0), (0,), True), ((1, 0), (1,), True)],
)
def test_a_batch_stays_one_gather(
    axes: tuple[int | None, int | None], operand_batching: tuple[int, ...], unique: bool
) -> None:
    shapes = {None: (3,), 0: (4, 3), 1: (3, 4)}
    x = np.zeros(shapes[axes[0]], _F32)
    i = np.zeros((2, 1) if axes[1] is None else (4, 2, 1), np.int32)
    function = xpr.vmap(lambda x, i: _gather(x, i, mode="clip", unique_indices=True), axes)
    (eqn,) = make_jaxpr(function)(x, i).jaxpr.eqns
    assert eqn.primitive.name == "gather"
    assert eqn.params["dimension_numbers"].operand_batching_dims == operand_batching
    # Examples that share an operand may read one element twice.
    assert eqn.params["unique_indices"] is unique


def test_a_promise_kept_by_each_example_does_not_lose_cotangents() -> None:
    """Two examples read one element, each of them once."""
    indices = np.array([[[0], [1]], [[1], [2]]], np.int32)
    one = xpr.vmap(lambda x, i: _gather(x, i, unique_indices=True), in_axes=(None, 0))
    _, pull = xpr.vjp(lambda x: one(x, indices), np.zeros(3, _F32))
    ct = np.array([[1, 10], [100, 1000]], _F32)
    np.testing.assert_array_equal(pull(ct)[0], [1, 110, 1000])
