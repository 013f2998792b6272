"""Cholesky factors of small matrices by kernels that come with xpr."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import needs_product_kernels
from tests.lowering.kernels_util import KINDS, lowered, results
from xpr import lax
from xpr.lowering import prebuilt

RNG = np.random.default_rng(19)
SIDES = [1, 2, 3, 7, 10, 16, 17, 33, 64]


def symmetric(n: int, dtype: str, *batch: int) -> np.ndarray:
    x = RNG.standard_normal((*batch, n, n))
    return (x @ np.swapaxes(x, -1, -2) + n * np.eye(n)).astype(dtype)


def factors(*args: Any) -> list[Any]:
    return [lax.linalg.cholesky(x, symmetrize_input=False) for x in args]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_factors_of_all_sizes(kind: str, dtype: str) -> None:
    matrices = [symmetric(n, dtype) for n in SIDES]
    matrices += [symmetric(5, dtype, 3, 2), symmetric(40, dtype, 7)]
    # What is above the diagonal is not read.
    read = [np.where(np.tri(x.shape[-1], dtype=bool), x, np.nan).astype(dtype) for x in matrices]
    for x, found in zip(matrices, results(factors, read, kind, "xpr_cholesky"), strict=True):
        wide = np.linalg.cholesky(x.astype(np.float64))
        np.testing.assert_allclose(found, wide, atol=x.shape[-1] * np.finfo(dtype).eps * 30)
        np.testing.assert_array_equal(np.triu(found, 1), np.zeros_like(found))


@pytest.mark.parametrize("kind", KINDS)
def test_a_matrix_without_a_factor_gives_nan(kind: str) -> None:
    x = symmetric(6, "float32", 5)
    x[1, 4, 4], x[2, 0, 0], x[3, 3, 1] = -1.0, 0.0, np.nan
    (found,) = results(factors, [x], kind, "xpr_cholesky")
    for i in (1, 2, 3):
        np.testing.assert_array_equal(found[i], np.tril(np.full((6, 6), np.nan)))
    for i in (0, 4):
        np.testing.assert_allclose(found[i], np.linalg.cholesky(x[i]), rtol=1e-4, atol=1e-5)


@needs_product_kernels
def test_derivatives_and_loops() -> None:
    x = symmetric(9, "float32")

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.linalg.cholesky(x) ** 3)

    assert "xpr_cholesky_f32" in xpr.jit(loss).lower(x).as_text("iree")
    direction = symmetric(9, "float64")
    found = (np.asarray(xpr.jit(xpr.grad(loss))(x)) * direction).sum()
    wide, step = x.astype(np.float64), 1e-5
    ends = [(np.linalg.cholesky(wide + s * step * direction) ** 3).sum() for s in (1, -1)]
    right = (ends[0] - ends[1]) / (2 * step)
    assert abs(found - right) < 1e-3 * abs(right)


def test_other_factors_are_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "products_avx2"
    x = symmetric(8, "float32")
    for other in (symmetric(65, "float32"), symmetric(2, "float32", 65), x.astype(np.complex64)):
        assert "xpr_cholesky" not in lowered(factors, (other,), kind).text
    assert "xpr_cholesky" not in lowered(factors, (x,), None).text
    # Objects that are older than these files do not have the kernels.
    monkeypatch.setattr(prebuilt, "has", lambda file, function: False)
    assert "xpr_cholesky" not in lowered(factors, (x,), kind).text
    assert xpr.jit(jnp.linalg.cholesky)(x[:0, :0]).shape == (0, 0)
