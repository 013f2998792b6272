"""Factorisations on targets that cannot call the host, against those of NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.harness import Case, run_compiled, run_reference
from xpr.core.config import override
from xpr.dispatch import compiled
from xpr.lowering.targets.cpu import cpu
from xpr.primitives import linalg as p


@pytest.fixture(autouse=True)
def without_host_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(cpu, host_calls=False, single_dispatch_loops=False)
    monkeypatch.setattr(compiled, "target_of", lambda device: target)


def _operand(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x.astype(dtype)


def _definite(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    x = _operand(dtype, *shape)
    return (x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_loops_equal_lapack(dtype: str) -> None:
    a = _operand(dtype, 2, 5, 5) + (3 * np.eye(5)).astype(dtype)
    columns, rows = _operand(dtype, 2, 5, 3), _operand(dtype, 2, 3, 5)

    def solved(left: bool, lower: bool, turned: bool, unit: bool) -> Case:
        how: Any = {
            "left_side": left,
            "lower": lower,
            "transpose_a": turned,
            "conjugate_a": turned != unit,
            "unit_diagonal": unit,
        }
        return lambda x, b: p.triangular_solve(x, b, **how), [a, columns if left else rows]

    bad = np.stack([np.eye(3), -np.eye(3), np.diag([1.0, 0, 1]), np.full((3, 3), np.nan)])
    cases: list[Case] = [
        (p.cholesky, [_definite(dtype, 2, 2, 4, 4)]),
        (p.cholesky, [_definite(dtype, 30, 30)]),
        (p.cholesky, [bad.astype(dtype)]),
        *(solved(i & 1 == 1, i & 2 == 2, i & 4 == 4, i & 8 == 8) for i in range(16)),
        *(
            (lambda x, full=full: p.qr(x, full_matrices=full), [x])
            for x in (
                _operand(dtype, 4, 4),
                _operand(dtype, 2, 5, 3),
                _operand(dtype, 3, 5),
                np.zeros((3, 2), dtype),
                np.triu(_operand(dtype, 3, 3)).real.astype(dtype),
            )
            for full in (False, True)
        ),
    ]
    with override("enable_x64", True):
        found, expected = run_compiled(cases), run_reference(cases)
    tolerance = 2e-5 if np.dtype(dtype).name in ("float32", "complex64") else 1e-13
    for case, (some, others) in enumerate(zip(found, expected, strict=True)):
        for x, y in zip(some, others, strict=True):
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"{case}")


def test_loops_are_accurate_for_larger_matrices() -> None:
    x, b = _operand("float32", 100, 100), _operand("float32", 100, 2)
    spd = _definite("float32", 100, 100)

    def program(x: Any, spd: Any, b: Any) -> list[Any]:
        factor = p.cholesky(spd)
        return [factor, p.triangular_solve(factor, b, left_side=True, lower=True), *p.qr(x)]

    ((factor, solution, q, r),) = run_compiled([(program, [x, spd, b])])
    for residual, size in (
        (factor @ factor.T - spd, spd),
        (factor @ solution - b, b),
        (q @ r - x, x),
        (q.T @ q - np.eye(100), np.eye(100)),
    ):
        assert np.linalg.norm(residual) < 1e-5 * np.linalg.norm(size)
