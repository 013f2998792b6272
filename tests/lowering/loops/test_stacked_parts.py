"""Reductions along the axis of a stack, part by part, against NumPy's of the stack itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override

SHAPE = (7, 1200)

# The same formula for NumPy's functions and for ours.
Formula = Callable[[Any, list[Any]], Any]
FORMULAS: dict[str, Formula] = {
    "sum": lambda n, v: n.stack(v).sum(0),
    "sum along the last axis": lambda n, v: n.stack(v, -1).sum(-1),
    "sum along the middle": lambda n, v: n.stack(v, 1).sum(1),
    "sum of two axes": lambda n, v: n.stack(v, 1).sum((0, 1)),
    "product of all": lambda n, v: n.stack(v).prod() * 1e3,
    "mean": lambda n, v: n.stack(v).mean(0),
    "variance": lambda n, v: n.stack(v).var(0),
    "variance along the last axis": lambda n, v: n.stack(v, -1).var(-1, keepdims=True),
    "norm": lambda n, v: n.linalg.norm(n.stack(v, -1), axis=-1),
    "squares": lambda n, v: (n.stack(v, 1) ** 2).sum(1),
    "extrema": lambda n, v: n.stack(v).max(0) - n.stack(v, 2).min(2),
    "chosen": lambda n, v: n.where(n.stack(v) > v[0], n.stack(v), -1.0).max(0),
    "with another array": lambda n, v: (n.stack(v) * v[0] - v[1]).sum(0),
    "the stack is a result": lambda n, v: n.stack(v) + n.stack(v).sum(0),
    "weights": lambda n, v: (n.stack(v) * n.arange(len(v))[:, None, None]).sum(0),
    "any and all": lambda n, v: n.any(n.stack(v) > 1, 0) ^ n.all(n.stack(v) > 0, axis=0),
    "integers": lambda n, v: n.stack([(1e6 * x).astype("i4") for x in v]).sum(0, dtype="i4"),
    "a stack of stacks": lambda n, v: n.stack([n.stack(v), n.stack(v[::-1])]).sum((0, 1)),
    "numbers": lambda n, v: n.stack([v[0], n.ones_like(v[0]), v[1]]).sum(0),
}


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _arrays(count: int) -> list[Any]:
    return list(np.random.default_rng(count).standard_normal((count, *SHAPE)))


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("count", [2, 3])
def test_reductions_of_stacks(name: str, count: int) -> None:
    formula, arrays = FORMULAS[name], _arrays(count)
    found = xpr.jit(lambda *v: formula(jnp, list(v)))(*arrays)
    wanted = formula(np, arrays)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["sum", "sum along the last axis", "mean", "norm", "squares", "extrema", "variance"]
)
def test_no_stack_is_made(name: str) -> None:
    text = xpr.jit(lambda *v: FORMULAS[name](jnp, list(v))).lower(*_arrays(3)).as_text("iree")
    assert "concatenate" not in text
    assert "stablehlo.reduce" not in text
    assert "flow.dispatch" not in text


def test_stacks_of_many_are_reduced_as_they_are() -> None:
    arrays = _arrays(17)
    total = xpr.jit(lambda *v: jnp.stack(v).sum(0))
    assert "stablehlo.reduce" in total.lower(*arrays).as_text("iree")
    np.testing.assert_allclose(total(*arrays), sum(arrays), rtol=1e-12, atol=1e-12)


def test_nan_and_infinities() -> None:
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    x, y = (np.array(v) for v in np.meshgrid(values, values))
    f = xpr.jit(lambda x, y: [g(jnp.stack([x, y]), 0) for g in (jnp.sum, jnp.max, jnp.min)])
    with np.errstate(invalid="ignore"):
        wanted = [g(np.stack([x, y]), 0) for g in (np.sum, np.max, np.min)]
    for a, b in zip(f(x, y), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_derivatives() -> None:
    x, y, z = _arrays(3)

    def f(x: Any, y: Any, z: Any) -> Any:
        return jnp.linalg.norm(jnp.stack([x, y * x, z]), axis=0).sum()

    found = xpr.jit(xpr.grad(f, (0, 1, 2)))(x, y, z)
    r = np.sqrt(x * x + (x * y) ** 2 + z * z)
    wanted = (x + x * y * y) / r, x * x * y / r, z / r
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)
