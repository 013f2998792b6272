"""Fourier transforms on targets that cannot call the host, against those of NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.harness import Case, run_compiled, set_target
from xpr.core.config import override
from xpr.lowering.rules import _fft_stages as stages
from xpr.lowering.targets.cpu import cpu
from xpr.primitives.fft import fft

REFERENCE: dict[str, Any] = {
    "fft": np.fft.fftn,
    "ifft": np.fft.ifftn,
    "rfft": np.fft.rfftn,
    "irfft": np.fft.irfftn,
}


@pytest.fixture(autouse=True)
def without_host_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(cpu, host_calls=False, single_dispatch_loops=False)
    set_target(monkeypatch, target)


def _operand(kind: str, dtype: str, outer: Sequence[int], lengths: Sequence[int]) -> Any:
    rng = np.random.default_rng(3)
    last = lengths[-1] // 2 + 1 if kind == "irfft" else lengths[-1]
    shape = (*outer, *lengths[:-1], last)
    x = rng.standard_normal(shape)
    if kind == "rfft":
        return x.astype(np.dtype(dtype).type(0).real.dtype)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype)


def _check(transforms: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]], dtype: str) -> None:
    """Errors in the norm: units in the last place that grow with the number of stages at most."""
    cases: list[Case] = [
        (lambda x, k=kind, n=lengths: fft(x, k, n), [_operand(kind, dtype, outer, lengths)])
        for kind, outer, lengths in transforms
    ]
    with override("enable_x64", True):
        results = run_compiled(cases)
    eps = np.finfo(dtype).eps
    for (kind, outer, lengths), (_, (x,)), (found,) in zip(transforms, cases, results, strict=True):
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        wanted = REFERENCE[kind](wide, lengths, range(-len(lengths), 0))
        what = f"{kind} {outer} {lengths} {dtype}"
        assert found.shape == wanted.shape, what
        assert found.dtype == wanted.astype(f"{wanted.dtype.kind}{found.dtype.itemsize}").dtype
        error = np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), 1e-300)
        bound = 2 + np.log2(np.prod(lengths))
        assert error < bound * eps, f"{what}: {error / eps} eps, at most {bound} expected"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_all_kinds(dtype: str) -> None:
    lengths = (1, 2, 3, 4, 6, 16, 17, 36)
    _check([(kind, (2,), (n,)) for kind in REFERENCE for n in lengths], dtype)


def test_several_axes() -> None:
    shapes = ((3, 4), (4, 1), (1, 1), (2, 3, 5), (1, 2, 1))
    _check([(kind, (2,), shape) for kind in REFERENCE for shape in shapes], "complex64")


@pytest.mark.parametrize("kind", ["fft", "irfft"])
def test_lengths_with_large_prime_factors(kind: str) -> None:
    _check([(kind, (2,), (n,)) for n in (37, 74, 97, 1009)], "complex64")


def test_tables_that_are_computed() -> None:
    _check([("fft", (), (1 << 12,)), ("ifft", (2,), (3 * 5 * 7 * 11,))], "complex64")
    _check([("rfft", (), (5003,))], "complex128")


def test_an_empty_transform_is_empty() -> None:
    ((found,),) = run_compiled([(lambda x: fft(x, "fft", (0,)), [np.zeros((2, 0), np.complex64)])])
    assert found.shape == (2, 0)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("order", [1, 2, 7, 8, 9, 1000, 65537])
def test_computed_roots(order: int, sign: int) -> None:
    index = np.arange(order)
    # Angles of at most half a turn, where they are accurate.
    exact = np.exp(sign * 2j * np.pi * ((index + order // 2) % order - order // 2) / order)
    for dtype, tolerance in ((np.float32, 1.2e-7), (np.float64, 1e-15)):
        with override("enable_x64", True):
            re, im = stages._roots(index.astype(np.int32), order, sign, np.dtype(dtype))
        np.testing.assert_allclose(re, exact.real, rtol=0, atol=tolerance)
        np.testing.assert_allclose(im, exact.imag, rtol=0, atol=tolerance)


@pytest.mark.parametrize("n", [1, 2, 12, 97, 1024, 2310, 30030, 1 << 20])
def test_plans(n: int) -> None:
    radices = stages._radices(n)
    assert int(np.prod(radices)) == n
    assert all(r <= 16 or r in stages._prime_factors(n) for r in radices)
    size = stages._convolution_length(n)
    assert 2 * n - 1 <= size <= 3 * n
    assert stages._is_smooth(size)
