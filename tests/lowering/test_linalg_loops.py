"""Factorisations on targets that cannot call the host, against those of NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.harness import Case, run_compiled, run_reference, set_target
from xpr.core.config import override
from xpr.interpreters.jvp import jvp_flat
from xpr.lowering.targets.cpu import cpu
from xpr.primitives import linalg as p
from xpr.primitives import linalg_householder as h
from xpr.primitives import linalg_tridiagonal as t


@pytest.fixture(autouse=True)
def without_host_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(cpu, host_calls=False, single_dispatch_loops=False)
    set_target(monkeypatch, target)


def _operand(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x.astype(dtype)


def _definite(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    x = _operand(dtype, *shape)
    return (x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


_DTYPES = ["float32", "float64", "complex64", "complex128"]


def _tolerance(dtype: str) -> float:
    return 1e-5 if dtype in ("float32", "complex64") else 1e-12


def _run(cases: list[Case]) -> list[list[np.ndarray[Any, Any]]]:
    with override("enable_x64", True):
        return run_compiled(cases)


def _assert_like_host(dtype: str, cases: list[Case]) -> None:
    found = _run(cases)
    with override("enable_x64", True):
        expected = run_reference(cases)
    tolerance = 2e-5 if dtype in ("float32", "complex64") else 1e-13
    for case, (some, others) in enumerate(zip(found, expected, strict=True)):
        for x, y in zip(some, others, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"{case}")


@pytest.mark.parametrize("dtype", _DTYPES)
def test_triangular_equations_equal_those_of_blas(dtype: str) -> None:
    a = _operand(dtype, 2, 5, 5) + (3 * np.eye(5)).astype(dtype)
    columns, rows = _operand(dtype, 2, 5, 3), _operand(dtype, 2, 3, 5)

    def solved(left: bool, lower: bool, transposed: bool, unit: bool) -> Case:
        how: Any = {
            "left_side": left,
            "lower": lower,
            "transpose_a": transposed,
            "conjugate_a": transposed != unit,
            "unit_diagonal": unit,
        }
        return lambda x, b: p.triangular_solve(x, b, **how), [a, columns if left else rows]

    # Each type takes four of the sixteen ways, and each of the first two flags in both values.
    mine = [i for i in range(16) if (i & 3) ^ (i >> 2) == _DTYPES.index(dtype)]
    cases = [solved(i & 1 == 1, i & 2 == 2, i & 4 == 4, i & 8 == 8) for i in mine]
    _assert_like_host(dtype, cases)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_factors_equal_those_of_lapack(dtype: str) -> None:
    bad = np.stack([np.eye(3), -np.eye(3), np.diag([1.0, 0, 1]), np.full((3, 3), np.nan)])
    ties = np.array([[1, 2, 3], [1, 0, 2], [-1, 2, 5], [0, 0, 0]], dtype)
    triangular = np.triu(_operand(dtype, 3, 3)).real.astype(dtype)

    def qr(full: bool) -> Any:
        return lambda x: p.qr(x, full_matrices=full)

    cases: list[Case] = [
        (p.cholesky, [_definite(dtype, 2, 2, 4, 4)]),
        (p.cholesky, [bad.astype(dtype)]),
        (qr(False), [_operand(dtype, 2, 5, 3)]),
        (qr(True), [_operand(dtype, 5, 3)]),
        (qr(True), [_operand(dtype, 3, 5)]),
        (qr(True), [np.zeros((3, 2), dtype)]),
        (qr(False), [triangular]),
        (p.lu, [_operand(dtype, 2, 4, 4)]),
        (p.lu, [_operand(dtype, 3, 5)]),
        (p.lu, [ties]),
        (p.lu, [np.zeros((2, 3), dtype)]),
        (p.lu, [np.array([[-3]], dtype)]),
    ]
    _assert_like_host(dtype, cases)


@pytest.mark.parametrize("shape", [(70, 70), (2, 67, 90), (90, 67)])
def test_blocks_equal_lapack(shape: tuple[int, ...]) -> None:
    x = _operand("float64", *shape)
    cases: list[Case] = [
        (p.lu, [x]),
        (lambda a: p.qr(a, full_matrices=shape == (90, 67)), [x]),
        (h.geqrf, [x]),
    ]
    _assert_like_host("float64", cases)


def test_few_reflections_of_many_columns() -> None:
    factors, taus = np.linalg.qr(_operand("complex128", 2, 9, 4), mode="raw")
    a = np.zeros((2, 9, 7), np.complex128)
    a[..., :4] = factors.swapaxes(-1, -2)
    cases: list[Case] = [
        (h.householder_product, [a, taus]),
        (h.householder_product, [a, taus[..., :0]]),
    ]
    _assert_like_host("complex128", cases[:1])
    np.testing.assert_array_equal(_run(cases[1:])[0][0], np.broadcast_to(np.eye(9, 7), a.shape))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_larger_matrices(dtype: str) -> None:
    x, b = _operand(dtype, 100, 100), _operand(dtype, 100, 2)
    spd = _definite(dtype, 100, 100)

    def program(x: Any, spd: Any, b: Any) -> list[Any]:
        factor = p.cholesky(spd)
        solution = p.triangular_solve(factor, b, left_side=True, lower=True)
        return [factor, solution, *p.qr(x), *p.lu(x)]

    ((factor, solution, q, r, lu, _, order),) = _run([(program, [x, spd, b])])
    low, up = np.tril(lu, -1) + np.eye(100), np.triu(lu)
    for residual, size in (
        (factor @ factor.conj().T - spd, spd),
        (factor @ solution - b, b),
        (q @ r - x, x),
        (q.conj().T @ q - np.eye(100), np.eye(100)),
        (x[order] - low @ up, x),
    ):
        assert np.linalg.norm(residual) <= _tolerance(dtype) * np.linalg.norm(size)


def test_inverted_blocks_lose_nothing_where_they_are_near_singular() -> None:
    """The residual of a substitution is small whatever the condition: N. J. Higham, 8.1."""
    rng = np.random.default_rng(3)
    a = np.triu(rng.standard_normal((80, 80))).T / 4 + np.diag(np.geomspace(1, 1e-2, 80))
    b = rng.standard_normal((80, 1))
    how: Any = {"left_side": True, "lower": True}
    ((x,),) = _run([(lambda a, b: p.triangular_solve(a, b, **how), [a, b])])
    size = np.linalg.norm(a) * np.linalg.norm(x) + np.linalg.norm(b)
    assert np.linalg.norm(a @ x - b) <= 1e-14 * size


def test_nan_ends_in_nan() -> None:
    x = _definite("float32", 70, 70)
    x[40, 40] = np.nan
    (factor,), (lu, pivots, order), (q, r) = _run([(p.cholesky, [x]), (p.lu, [x]), (p.qr, [x])])
    assert np.isnan(factor[np.tril_indices(70)]).all()
    assert np.isnan(lu[-1, -1])
    assert ((pivots >= np.arange(70)) & (pivots < 70)).all()
    assert sorted(order) == list(range(70))
    assert np.isnan(q).any()
    assert np.isnan(r).any()


def test_derivatives_of_loops() -> None:
    x = _operand("float64", 4, 4) + 2 * np.eye(4)
    dx = _operand("float64", 4, 4)[::-1].copy()

    def factors(a: Any) -> list[Any]:
        return [p.lu(a)[0], p.qr(a)[1], p.cholesky(a)]

    def derivative(a: Any, da: Any) -> Any:
        return jvp_flat(factors, [a], [da])[1]

    x = x @ x.T
    dx = dx + dx.T
    step = 1e-6
    found, more, less = _run(
        [
            (derivative, [x, dx]),
            (factors, [x + step * dx]),
            (factors, [x - step * dx]),
        ]
    )
    for slope, high, low in zip(found, more, less, strict=True):
        np.testing.assert_allclose(slope, (high - low) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_tridiagonal_equations(dtype: str) -> None:
    low, middle, high = _operand(dtype, 3, 2, 6)
    right = _operand(dtype, 2, 6, 3)
    singular = low.copy(), middle.copy()
    singular[0][0, 1] = singular[1][0, 0] = 0

    def solved(perturb: bool) -> Any:
        return lambda *x: t.tridiagonal_solve(*x, perturb_singular=perturb)

    one = np.array([2.0], dtype)
    cases: list[Case] = [
        (solved(False), [low, middle, high, right]),
        (solved(False), [*singular, high, right]),
        (solved(True), [*singular, high, right]),
        (solved(False), [one, one, one, one[None]]),
    ]
    found = _run(cases)
    with override("enable_x64", True):
        expected = run_reference(cases)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    for (x,), (y,) in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    matrix = np.stack([np.diag(m) for m in middle])
    for k in range(2):
        matrix[k] += np.diag(low[k, 1:], -1) + np.diag(high[k, :-1], 1)
    np.testing.assert_allclose(matrix @ found[0][0], right, atol=tolerance)
    assert np.isnan(found[1][0][0]).all()


def test_what_has_no_loop_says_so() -> None:
    with pytest.raises(NotImplementedError, match="geqp3 runs on the host; target cpu"):
        run_compiled([(h.geqp3, [np.eye(2, dtype=np.float32)])])
