"""Scatters of several updates to one place or outside the operand: who gets which cotangent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.transforms.tracing import make_jaxpr

_F32 = np.float32
_ELEMENTS = lax.ScatterDimensionNumbers((), (0,), (0,))
_PAIRS = lax.ScatterDimensionNumbers((1,), (), (0,))
_INDICES = np.array([[1], [1], [0], [5]], np.int32)


def _scatter(name: str, **options: Any) -> Callable[..., Any]:
    function = getattr(lax, name)
    return lambda x, u: function(x, _INDICES, u, _ELEMENTS, **options)


# Rows: results; entries: operands or updates.
@pytest.mark.parametrize(
    ("name", "mode", "by_x", "by_u"),
    [
        (
            "scatter",
            "clip",
            [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
            [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]],
        ),
        (
            "scatter",
            "drop",
            [[0, 0, 0], [0, 0, 0], [0, 0, 1]],
            [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]],
        ),
        ("scatter_add", "clip", np.eye(3), [[0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]]),
        ("scatter_sub", "drop", np.eye(3), [[0, 0, -1, 0], [-1, -1, 0, 0], [0, 0, 0, 0]]),
        # Operand and both updates are 2 at index 1, and share evenly.
        (
            "scatter_max",
            "drop",
            [[0, 0, 0], [0, 1 / 3, 0], [0, 0, 1]],
            [[0, 0, 1, 0], [1 / 3, 1 / 3, 0, 0], [0, 0, 0, 0]],
        ),
        (
            "scatter_max",
            "clip",
            [[0, 0, 0], [0, 1 / 3, 0], [0, 0, 0]],
            [[0, 0, 1, 0], [1 / 3, 1 / 3, 0, 0], [0, 0, 0, 1]],
        ),
        (
            "scatter_min",
            "drop",
            [[1, 0, 0], [0, 1 / 3, 0], [0, 0, 1]],
            [[0, 0, 0, 0], [1 / 3, 1 / 3, 0, 0], [0, 0, 0, 0]],
        ),
    ],
)
@pytest.mark.parametrize("jacobian", [xpr.jacfwd, xpr.jacrev])
def test_jacobians(jacobian: Any, name: str, mode: str, by_x: Any, by_u: Any) -> None:
    x, u = np.array([1, 2, 3], _F32), np.array([2, 2, 4, 9], _F32)
    found = jacobian(_scatter(name, mode=mode), (0, 1))(x, u)
    np.testing.assert_allclose(found[0], by_x, rtol=1e-6)
    np.testing.assert_allclose(found[1], by_u, rtol=1e-6)


def test_windows_that_overlap_in_part() -> None:
    """The later window wins where they meet, and only there."""
    indices = np.array([[1], [0], [9]], np.int32)
    _, pull = xpr.vjp(
        lambda x, u: lax.scatter(x, indices, u, _PAIRS, mode="drop"),
        np.zeros(4, _F32),
        np.zeros((3, 2), _F32),
    )
    x_ct, u_ct = pull(np.array([1, 10, 100, 1000], _F32))
    np.testing.assert_array_equal(x_ct, [0, 0, 0, 1000])
    np.testing.assert_array_equal(u_ct, [[0, 100], [1, 10], [0, 0]])


def test_nan_that_wins_has_the_tangent() -> None:
    x, u = np.array([np.nan, 1, np.nan], _F32), np.array([np.nan, 0, 3, 3], _F32)
    by_x, by_u = xpr.jacrev(_scatter("scatter_max", mode="drop"), (0, 1))(x, u)
    np.testing.assert_array_equal(by_x, [[1, 0, 0], [0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(by_u, [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])


def test_products() -> None:
    x, u = np.array([2, 3, 0], _F32), np.array([5, 0], _F32)

    def product(x: Any, u: Any, **options: Any) -> Any:
        return lax.scatter_mul(x, np.array([[0], [2]], np.int32), u, _ELEMENTS, **options)

    by_x, by_u = xpr.jacrev(lambda x, u: product(x, u, unique_indices=True), (0, 1))(x, u)
    np.testing.assert_array_equal(by_x, np.diag([5, 1, 0]))
    np.testing.assert_array_equal(by_u, [[2, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(xpr.jacrev(product)(x, u), by_x)
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        xpr.jacfwd(product, 1)(x, u)
    # One update meets no other.
    one = xpr.grad(lambda u: lax.scatter_mul(x, np.array([1]), u, _ELEMENTS).sum())
    assert one(_F32(7)) == 3


def test_functions_applied_to_elements() -> None:
    def squares(x: Any, indices: Any, unique: bool) -> Any:
        return lax.scatter_apply(
            x,
            np.array(indices, np.int32),
            lambda e: e * e,
            _ELEMENTS,
            update_shape=(len(indices),),
            unique_indices=unique,
        )

    x = np.array([1, 2, 3], _F32)
    # The index outside would be 2 as well if it were moved inside.
    found = xpr.jacrev(lambda x: squares(x, [[2], [1], [8]], True))(x)
    np.testing.assert_array_equal(found, np.diag([1, 4, 6]))
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        xpr.grad(lambda x: squares(x, [[2], [2]], False).sum())(x)


def test_a_function_with_a_singular_derivative_elsewhere() -> None:
    def roots(x: Any) -> Any:
        return lax.scatter_apply(
            x, np.array([[1]], np.int32), lax.sqrt, _ELEMENTS, update_shape=(1,)
        )

    found = xpr.grad(lambda x: roots(x).sum())(np.array([0, 4, 0], _F32))
    np.testing.assert_array_equal(found, [1, 0.25, 1])


@pytest.mark.parametrize("name", ["scatter", "scatter_add", "scatter_mul", "scatter_max"])
@pytest.mark.parametrize("batched_indices", [False, True])
def test_a_batch_stays_one_scatter(name: str, batched_indices: bool) -> None:
    x, u = np.zeros((5, 3), _F32), np.zeros((5, 4), _F32)
    i = np.zeros((5, 4, 1) if batched_indices else (4, 1), np.int32)
    function = xpr.vmap(
        lambda x, i, u: getattr(lax, name)(x, i, u, _ELEMENTS, unique_indices=True),
        (0, 0 if batched_indices else None, 0),
    )
    (eqn,) = make_jaxpr(function)(x, i, u).jaxpr.eqns
    numbers = eqn.params["dimension_numbers"]
    assert numbers.operand_batching_dims == ((0,) if batched_indices else ())
    assert eqn.params["unique_indices"]


def test_scatter_add_has_no_equation_for_a_tangent_that_is_zero() -> None:
    def tangent(x: Any) -> Any:
        return xpr.jvp(lambda x: _scatter("scatter_add")(x, np.ones(4, _F32)), (x,), (x,))[1]

    names = [eqn.primitive.name for eqn in make_jaxpr(tangent)(np.zeros(3, _F32)).jaxpr.eqns]
    assert names.count("scatter-add") == 1
