"""Eigenvalues and singular values on targets that cannot call the host, against NumPy's."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.harness import Case, run_compiled, set_target
from xpr.core.config import override
from xpr.interpreters.jvp import jvp_flat
from xpr.lowering.iree import stopwatch
from xpr.lowering.targets.cpu import cpu
from xpr.primitives import linalg as p

Host = np.ndarray[Any, Any]


@pytest.fixture(autouse=True, params=[False, True], ids=["series", "one"])
def without_host_calls(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Few small matrices are a series of dispatches, or one."""
    target = dataclasses.replace(cpu, host_calls=False, single_dispatch_loops=request.param)
    set_target(monkeypatch, target)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_few_small_matrices_are_one_dispatch(
    dtype: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    counts: list[Any] = []
    for case in ((p.eigh, [_hermitian(dtype, 5, 5)]), (_thin, [_operand(dtype, 3, 6, 4)])):
        with stopwatch.watching() as watch:
            _run([case])
        counts.append(watch.dispatches)
    if request.node.callspec.params["without_host_calls"]:
        assert max(counts) <= 5  # some before and behind, such as those of complex parts
    else:
        assert min(counts) > 10


def _operand(dtype: str, *shape: int) -> Host:
    rng = np.random.default_rng(8)
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def _adjoint(x: Host) -> Host:
    return x.conj().swapaxes(-1, -2)


def _hermitian(dtype: str, *shape: int) -> Host:
    x = _operand(dtype, *shape)
    return ((x + _adjoint(x)) / 2).astype(dtype)


def _tolerance(dtype: str) -> float:
    return 1e-5 if dtype in ("float32", "complex64") else 1e-12


def _norm(x: Host) -> Any:
    return np.linalg.norm(x, axis=(-2, -1))


def _assert_eigen(x: Host, v: Host, w: Host, tolerance: float) -> None:
    assert (v.shape, v.dtype) == (x.shape, x.dtype)
    assert (w.shape, w.dtype) == (x.shape[:-1], x.real.dtype)
    size = _norm(x)
    assert (np.diff(w) >= 0).all()
    assert (_norm(x @ v - v * w[..., None, :]) <= tolerance * size).all()
    assert (_norm(_adjoint(v) @ v - np.eye(x.shape[-1])) <= tolerance).all()
    expected = np.linalg.eigvalsh(x.astype(np.result_type(x, np.float64)))
    assert (np.abs(w - expected).max(-1) <= tolerance * size).all()


def _assert_singular(x: Host, s: Host, u: Host, vh: Host, full: bool, tolerance: float) -> None:
    m, n = x.shape[-2:]
    k = min(m, n)
    assert u.shape == (*x.shape[:-2], m, m if full else k)
    assert vh.shape == (*x.shape[:-2], n if full else k, n)
    assert (s.shape, s.dtype) == ((*x.shape[:-2], k), x.real.dtype)
    assert (s >= 0).all()
    assert (np.diff(s) <= 0).all()
    size = _norm(x)
    product = u[..., :k] * s[..., None, :] @ vh[..., :k, :]
    assert (_norm(product - x) <= tolerance * size).all()
    assert (_norm(_adjoint(u) @ u - np.eye(u.shape[-1])) <= tolerance).all()
    assert (_norm(vh @ _adjoint(vh) - np.eye(vh.shape[-2])) <= tolerance).all()
    expected = np.linalg.svd(x.astype(np.result_type(x, np.float64)), compute_uv=False)
    assert (np.abs(s - expected).max(-1) <= tolerance * size).all()


def _run(cases: list[Case]) -> list[list[Host]]:
    with override("enable_x64", True):
        return run_compiled(cases)


def _special(dtype: str) -> Host:
    """Hermitian matrices whose eigenvalues are equal, zero, of opposite sign or far apart."""
    square = _hermitian(dtype, 4, 4)
    some = [
        np.zeros((4, 4)),
        np.eye(4),
        -np.eye(4),
        np.eye(4)[::-1],
        np.ones((4, 4)),
        np.diag([1e-3, -1.0, 0.0, 1e3]),
        1e15 * square,
        1e-15 * square,
    ]
    return np.stack(some).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eigenvalues(dtype: str) -> None:
    matrices = [_hermitian(dtype, 7, 7), _special(dtype)]
    if dtype == "float32":
        matrices += [np.array([[-2]], dtype), _hermitian(dtype, 2, 3, 2, 2)]
    found = _run([(p.eigh, [x]) for x in matrices])
    for x, (v, w) in zip(matrices, found, strict=True):
        _assert_eigen(x, v, w, _tolerance(dtype))


@pytest.mark.parametrize(("dtype", "full"), [("float32", True), ("complex128", False)])
def test_singular_values(dtype: str, full: bool) -> None:
    low_rank = _operand(dtype, 7, 2) @ _operand(dtype, 2, 5)
    wide = _operand(dtype, 2, 3, 5)
    matrices = [low_rank, wide] if full else [low_rank, _special(dtype)]
    found = _run([(_full if full else _thin, [x]) for x in matrices])
    for x, (u, s, vh) in zip(matrices, found, strict=True):
        _assert_singular(x, s, u, vh, full, _tolerance(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_larger_matrices(dtype: str) -> None:
    x, h = _operand(dtype, 100, 100), _hermitian(dtype, 99, 99)
    (v, w), (u, s, vh) = _run([(p.eigh, [h]), (_thin, [x])])
    _assert_eigen(h, v, w, _tolerance(dtype))
    _assert_singular(x, s, u, vh, False, _tolerance(dtype))


def test_only_one_triangle_is_read() -> None:
    x = _hermitian("complex64", 4, 4)
    dirt = np.triu(np.full((4, 4), np.nan, x.dtype), 1) + np.diag([1j, 2j, 3j, 4j])
    low = (np.tril(x) + np.where(np.isnan(dirt), 0, dirt) + np.triu(x, 1) * 3).astype(x.dtype)

    def eigen(lower: bool) -> Any:
        return lambda a: p.eigh(a, lower=lower, symmetrize_input=False)

    up = _adjoint(low).astype(x.dtype)
    for v, w in _run([(eigen(True), [low]), (eigen(False), [up])]):
        _assert_eigen(x, v, w, 1e-5)


def test_matrices_that_are_not_finite_give_nan_alone() -> None:
    x = np.stack([_hermitian("float32", 4, 4)] * 3)
    x[1, 2, 1] = x[1, 1, 2] = np.nan
    x[2, 0, 0] = np.inf
    (v, w), (u, s, vh), (values,) = _run([(p.eigh, [x]), (_thin, [x]), (_values, [x])])
    _assert_eigen(x[0], v[0], w[0], 1e-5)
    _assert_singular(x[0], s[0], u[0], vh[0], False, 1e-5)
    np.testing.assert_allclose(values[0], s[0], rtol=1e-5)
    for bad in (v, w, u, s, vh, values):
        assert np.isnan(bad[1:]).all()


def _thin(x: Any) -> Any:
    return p.svd(x, full_matrices=False)


def _full(x: Any) -> Any:
    return p.svd(x)


def _values(x: Any) -> Any:
    return p.svd(x, compute_uv=False)


def test_derivatives_are_those_of_the_host() -> None:
    x, dx = _hermitian("float64", 4, 4), _hermitian("float64", 4, 4)[::-1].copy()

    def derivative(function: Any) -> Any:
        def program(a: Any, da: Any) -> Any:
            return jvp_flat(lambda y: list(function(y)), [a], [da])[1]

        return program

    (dv, dw), (ds,) = _run(
        [
            (derivative(lambda y: p.eigh(y)), [x, dx]),
            (derivative(lambda y: [p.svd(y, compute_uv=False)]), [x, dx]),
        ]
    )
    step, dx = 1e-6, (dx + dx.T) / 2
    expected = (np.linalg.eigvalsh(x + step * dx) - np.linalg.eigvalsh(x - step * dx)) / (2 * step)
    np.testing.assert_allclose(dw, expected, atol=1e-8)
    assert np.isfinite(dv).all()
    assert np.isfinite(ds).all()
