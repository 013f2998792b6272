"""Derivatives of reductions where they are a matter of convention, and their batching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.transforms.tracing import make_jaxpr

_F32 = np.float32
_NAN, _INF = np.nan, np.inf
_ONE = _F32(1)


def _gradient(name: str, values: Sequence[float]) -> list[float]:
    function = getattr(lax, name)
    return np.asarray(xpr.grad(lambda x: function(x, (0,)))(np.array(values, _F32))).tolist()


# Equal extremes share the tangent equally; a NaN leaves no extreme to take it from.
@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("reduce_max", [1, 3, 3, 1, 3], [0, 1 / 3, 1 / 3, 0, 1 / 3]),
        ("reduce_min", [1, 3, 3, 1], [0.5, 0, 0, 0.5]),
        ("reduce_max", [_INF, _INF, -_INF], [0.5, 0.5, 0]),
        ("reduce_max", [], []),
        ("reduce_prod", [2, 0, 3], [0, 6, 0]),
        ("reduce_prod", [0, 0, 3], [0, 0, 0]),
        ("reduce_prod", [0], [1]),
        ("reduce_prod", [], []),
        ("reduce_prod", [2, 3, 5, 7, 11], [1155, 770, 462, 330, 210]),
        ("reduce_sum", [], []),
    ],
)
def test_gradients(name: str, values: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(_gradient(name, values), wanted, rtol=1e-6)


def test_the_tangent_of_an_extreme_that_is_nan_is_nan() -> None:
    x = np.array([_NAN, 1, 2], _F32)
    _, tangent = xpr.jvp(lambda x: lax.reduce_max(x, (0,)), (x,), (np.ones(3, _F32),))
    assert np.isnan(tangent)


@pytest.mark.parametrize("values", [[2, 0, 3, 0], [0, 0, 0], [2, 0, 3], [0, 5]])
def test_second_derivatives_of_products_with_zeros(values: list[float]) -> None:
    x = np.array(values, _F32)
    found = xpr.jacfwd(xpr.grad(lambda x: lax.reduce_prod(x, (0,))))(x)
    n = len(x)
    wanted = [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]
    np.testing.assert_array_equal(found, wanted)


def test_indices_and_bits_have_no_tangents() -> None:
    x = np.array([1.0, 3.0, 2.0], _F32)
    for name in ("argmin", "argmax"):
        function = getattr(lax, name)
        _, tangent = xpr.jvp(lambda x, f=function: f(x, 0, np.int32), (x,), (x,))
        assert tangent.dtype == xpr.dtypes.float0


# ---- the general fold


def _product(a: Any, b: Any) -> Any:
    return a * b + 0


def _reduced(x: Any, init: Any = _ONE) -> Any:
    return lax.reduce(x, init, _product, (0,))


def test_a_general_reduction_is_differentiated_in_both_modes() -> None:
    x = np.array([2, 0, 3, 5, 7], _F32)
    assert "reduce[" in str(make_jaxpr(_reduced)(x))
    assert np.asarray(xpr.grad(_reduced)(x)).tolist() == [0, 210, 0, 0, 0]
    assert float(xpr.jvp(_reduced, (x,), (np.ones(5, _F32),))[1]) == 210
    assert float(xpr.grad(_reduced, 1)(x[2:], _F32(1))) == 105
    assert np.asarray(xpr.grad(_reduced)(np.zeros(0, _F32))).tolist() == []
    assert float(xpr.grad(_reduced, 1)(np.zeros(0, _F32), _F32(1))) == 1


def test_a_general_reduction_keeps_the_order_of_its_operands() -> None:
    """Affine maps a x + b, which do not commute."""

    def compose(f: Any, g: Any) -> Any:
        return f[0] * g[0], f[1] * g[0] + g[1]

    def final(a: Any, b: Any) -> Any:
        return lax.reduce((a, b), (_F32(1), _F32(0)), compose, (0,))[1]

    a, b = np.array([2, 3, 5, 7, 11], _F32), np.array([1, 1, 1, 1, 1], _F32)
    factors = [3 * 5 * 7 * 11, 5 * 7 * 11, 7 * 11, 11, 1]
    assert np.asarray(xpr.grad(final, 1)(a, b)).tolist() == factors
    # A factor multiplies the value that the maps before it give.
    value, wanted = 0.0, []
    for i in range(5):
        wanted.append(value * factors[i])
        value = a[i] * value + b[i]
    assert np.asarray(xpr.grad(final)(a, b)).tolist() == wanted


def test_initial_values_may_be_batched() -> None:
    x, inits = np.array([2, 0.5, 3], _F32), np.array([1, 2], _F32)
    assert np.asarray(xpr.vmap(_reduced, (None, 0))(x, inits)).tolist() == [3, 6]
    both = xpr.vmap(_reduced)(np.stack([x, 2 * x]), inits)
    assert np.asarray(both).tolist() == [3, 48]
