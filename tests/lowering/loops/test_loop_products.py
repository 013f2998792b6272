"""Products of matrices in loops in memory against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.core.config import override
from xpr.lowering.loops import choice
from xpr.lowering.loops.registers.table import NotInRegisters

# Equation and sizes of its letters: lanes along columns and rows, along the sum, none; whole and
# partial tiles and vectors.
_PRODUCTS = (
    ("ik,kj->ij", {"i": 4, "k": 24, "j": 40}),
    ("ik,jk->ij", {"i": 9, "k": 29, "j": 5}),
    ("ki,kj->ij", {"i": 21, "k": 7, "j": 35}),
    ("ki,jk->ij", {"i": 19, "k": 6, "j": 3}),
    ("ik,jk->ij", {"i": 3, "k": 77, "j": 1}),
    ("ik,kj->ij", {"i": 3, "k": 5, "j": 4}),
    ("bik,bkj->bij", {"b": 3, "i": 6, "k": 10, "j": 17}),
    ("kil,klj->ij", {"i": 5, "k": 3, "l": 4, "j": 33}),
    ("ikl,jkl->ij", {"i": 5, "k": 3, "l": 20, "j": 4}),
    ("k,kj->j", {"k": 50, "j": 71}),
    ("ik,k->i", {"i": 23, "k": 66}),
    ("iak,kbj->iabj", {"i": 2, "a": 3, "k": 33, "b": 2, "j": 9}),
)


def _operands(dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(3)
    out = []
    for equation, sizes in _PRODUCTS:
        names = equation.split("->")[0].split(",")
        shapes = [tuple(sizes[c] for c in name) for name in names]
        x, y = (
            random.integers(-9, 9, s) if dtype[0] in "iu" else random.normal(size=s) for s in shapes
        )
        out.append((x.astype(dtype), y.astype(dtype)))
    return out


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotInRegisters("a test of loops in memory")

    monkeypatch.setattr(choice, "vector_scan", refuse)
    with override("enable_x64", True), override("enable_checks", True):
        yield


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
def test_every_form_of_a_product(dtype: str) -> None:
    """One operand is another one in each step, so that no product is taken out of the loop."""
    operands = _operands(dtype)

    def run(state: Any) -> Any:
        def step(n: Any, _: Any) -> Any:
            more = n.astype(dtype)
            products = [
                jnp.einsum(equation, x + more, y)
                for (equation, _), (x, y) in zip(_PRODUCTS, state, strict=True)
            ]
            return n + 1, products

        return lax.scan(step, jnp.int32(0), None, length=2)[1]

    exact, kind = (np.float64, "f") if dtype.startswith("f") else (np.int64, "i")
    for (equation, _), (x, y), products in zip(
        _PRODUCTS, operands, xpr.jit(run)(operands), strict=True
    ):
        for n, z in enumerate(products):
            a = (x + np.asarray(n, dtype)).astype(exact)
            wanted = np.einsum(equation, a, y.astype(exact))
            if kind == "i":
                np.testing.assert_array_equal(z, wanted.astype(dtype), err_msg=equation)
                continue
            # 77 products at most, each rounded twice at most: Higham's (3.5).
            bound = np.einsum(equation, abs(a), abs(y).astype(exact))
            assert np.all(abs(z - wanted) <= 160 * np.finfo(dtype).eps * bound), equation


def test_products_of_what_a_loop_carries() -> None:
    """The carried matrix is read by the product that takes its place."""
    x, y = (np.random.default_rng(k).normal(size=(20, 20)) / 4.0 for k in range(2))

    def run(x: Any, y: Any) -> Any:
        return lax.scan(lambda x, _: (x @ y + x.T @ x, x[0] @ y), x, None, length=3)

    found, rows = xpr.jit(run)(x, y)
    wanted, wanted_rows = x, []
    for _ in range(3):
        wanted_rows.append(wanted[0] @ y)
        wanted = wanted @ y + wanted.T @ wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * abs(wanted).max())
    np.testing.assert_allclose(rows, wanted_rows, rtol=1e-12, atol=1e-12 * abs(wanted).max())


def test_products_of_two_dtypes() -> None:
    """Elements are converted to the result's type before they are multiplied."""
    random = np.random.default_rng(5)
    ints, small = (
        random.integers(-5, 5, (6, 7), np.int32),
        random.integers(-99, 99, (7, 8), np.int8),
    )
    floats, flags = random.standard_normal((7, 8)), random.random((3, 7)) < 0.5

    def looped(ints: Any, small: Any, floats: Any, flags: Any) -> Any:
        sums = ((1,), (0,)), ((), ())

        def step(total: Any, _: Any) -> Any:
            a = lax.dot_general(ints, floats, sums)
            b = lax.dot_general(ints, small, sums, preferred_element_type=jnp.int64)
            c = lax.dot_general(flags, floats, sums)
            return total + a.sum() + b.sum() + c.sum(), (a, b, c)

        return lax.scan(step, 0.0, None, length=2)

    args = ints, small, floats, flags
    text = xpr.jit(looped).lower(*args).as_text("iree")
    assert "flow.dispatch @" in text
    assert "stablehlo.while" not in text
    _, found = xpr.jit(looped)(*args)
    wanted = ints @ floats, ints.astype(np.int64) @ small, flags @ floats
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x[1], y, rtol=1e-12, atol=1e-12)
