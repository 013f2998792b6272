"""Absolute values and quotients of many complex numbers by kernels that come with xpr."""

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

RNG = np.random.default_rng(17)
TYPES = ["complex64", "complex128"]
REAL = {"complex64": np.dtype(np.float32), "complex128": np.dtype(np.float64)}


def numbers(count: int, dtype: str, spread: int) -> np.ndarray:
    """Random numbers whose parts differ in size by up to 2**spread, either way."""
    parts = RNG.standard_normal((count, 2)) * 2.0 ** RNG.integers(-spread, spread, (count, 2))
    return parts.astype(REAL[dtype]).view(dtype)[:, 0]


def special(dtype: str) -> np.ndarray:
    real = REAL[dtype]
    info = np.finfo(real)
    parts = [0.0, 1.0, info.tiny, info.max, 3e-30, 7e30, np.inf, np.nan]
    pairs = list(itertools.product([*parts, *(-x for x in parts[:-1])], repeat=2))
    return np.array(pairs, real).view(dtype)[:, 0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_against_wider_numbers(kind: str, dtype: str) -> None:
    spread = 40 if dtype == "complex64" else 300
    z, w = numbers(1337, dtype, spread), numbers(1337, dtype, spread)

    def program(z: Any, w: Any) -> Any:
        return abs(z), z / w, z / z, 1 / w, z.reshape(7, 191) / w[0]

    found = results(program, (z, w), kind, "xpr_complex_divide")
    wide_z, wide_w = z.astype(np.clongdouble), w.astype(np.clongdouble)
    eps = np.finfo(dtype).eps
    size, quotient, one, inverse, by_first = found
    assert (np.abs(size - np.abs(wide_z)) <= 2 * eps * np.abs(wide_z)).all()
    for one_found, wide in (
        (quotient, wide_z / wide_w),
        (inverse, 1 / wide_w),
        (by_first.ravel(), wide_z / wide_w[0]),
    ):
        assert (np.abs(one_found - wide) <= 4 * eps * np.abs(wide)).all()
    np.testing.assert_array_equal(one, np.ones(1337, dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_special_values(kind: str, dtype: str) -> None:
    values = special(dtype)
    z, w = (x.ravel() for x in np.meshgrid(values, values))

    def program(z: Any, w: Any) -> Any:
        return abs(z), z / w

    size, found = results(program, (z, w), kind, "xpr_complex_divide")
    with np.errstate(all="ignore"):
        # Tiny numbers count as zero, and hypot says what C99 does.
        np.testing.assert_allclose(size, np.hypot(np.real(z), np.imag(z)), rtol=1e-6, atol=1e-37)
        exact = z.astype(np.clongdouble) / w.astype(np.clongdouble)
    # ISO C99, Annex G.5.1.4.
    infinite, other_infinite = np.isinf(z), np.isinf(w)
    finite, other_finite = np.isfinite(z), np.isfinite(w)
    assert np.isinf(found[infinite & other_finite]).all()
    assert (found[finite & other_infinite] == 0).all()
    assert np.isinf(found[(infinite | (finite & (z != 0))) & (w == 0)]).all()
    assert np.isnan(found[np.isnan(np.real(z)) & np.isnan(np.imag(z))]).all()
    assert np.isnan(found[(z == 0) & (w == 0)]).all()
    # What is representable is a quotient of numbers.
    info = np.finfo(dtype)
    usual = finite & other_finite & (w != 0)
    usual[usual] &= (np.abs(exact[usual]) < info.max / 4) & (np.abs(exact[usual]) > 4 * info.tiny)
    least = 8 * info.eps * np.abs(exact[usual])
    assert (np.abs(found[usual] - exact[usual]) <= least).all()
    same = usual & (z == w)
    np.testing.assert_array_equal(found[same], np.ones(same.sum(), dtype))


@needs_product_kernels
def test_programs_with_other_operations_run_too() -> None:
    z, w = numbers(2000, "complex64", 2), numbers(2000, "complex64", 2)

    def program(z: Any, w: Any) -> Any:
        again = lax.fori_loop(0, 2, lambda _, x: x / w, z)
        return jnp.sum(abs(z / w)), again, abs(z) * jnp.exp(z / w)

    assert "xpr_complex" in xpr.jit(lambda z, w: z / w).lower(z, w).as_text("iree")
    total, again, product = xpr.jit(program)(z, w)
    wide_z, wide_w = z.astype(np.complex128), w.astype(np.complex128)
    np.testing.assert_allclose(total, np.abs(wide_z / wide_w).sum(), rtol=1e-5)
    np.testing.assert_allclose(again, wide_z / wide_w / wide_w, rtol=1e-5)
    with np.errstate(over="ignore", invalid="ignore"):
        right = np.abs(wide_z) * np.exp(wide_z / wide_w)
    usual = (np.abs(right) < 1e30) & (np.abs(right) > 1e-30) & (np.abs(wide_z / wide_w) < 100)
    np.testing.assert_allclose(np.asarray(product)[usual], right[usual], rtol=1e-4)


def test_others_are_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    z = numbers(1000, "complex64", 2)
    kind = "products_avx2"

    def quotient(x: Any) -> Any:
        return x / (x + 1)

    assert "xpr_complex" not in lowered(quotient, (z[:100],), kind).text
    assert "xpr_complex" not in lowered(quotient, (z,), None).text
    assert "xpr_complex" not in lowered(quotient, (np.ones(1000, np.float32),), kind).text
    # Objects that are older than these files do not have the kernels.
    monkeypatch.setattr(prebuilt, "has", lambda file, function: False)
    assert "xpr_complex" not in lowered(lambda x: x / x, (z,), kind).text
    assert xpr.jit(lambda x: x / x)(z[:0]).shape == (0,)
