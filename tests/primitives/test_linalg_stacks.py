"""Factorisations of many small matrices at once, beside SciPy's of one matrix at a time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg.lapack import get_lapack_funcs

from xpr.primitives import _linalg_host as host
from xpr.primitives import _linalg_householder_host as householder
from xpr.primitives import _linalg_stacks as stacks
from xpr.runtimes.lapack import Each, available, call

Array = np.ndarray[Any, Any]

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(9, 1, 1), (8, 3, 3), (3, 5, 6, 6), (40, 7, 4), (2, 6, 4, 9), (500, 12, 12)]

pytestmark = pytest.mark.skipif(
    not available(), reason="the native part is not here, which calls LAPACK over stacks"
)


def _matrices(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    r = np.random.default_rng(seed)
    x = r.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * r.standard_normal(shape)
    return x.astype(dtype)


def _close(found: Array, expected: Array) -> None:
    assert found.dtype == expected.dtype
    eps = np.finfo(expected.dtype).eps
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=200 * eps, atol=200 * eps * scale)


def _one_by_one(function: Any, *operands: Array, ranks: tuple[int, ...]) -> list[Array]:
    batch = operands[0].shape[: operands[0].ndim - ranks[0]]
    rows = [function(*(x[i] for x in operands)) for i in np.ndindex(*batch)]
    return [np.array(v).reshape(*batch, *np.shape(v[0])) for v in zip(*rows, strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu(shape: tuple[int, ...], dtype: str) -> None:
    x = _matrices(shape, dtype)
    assert stacks.is_stack(x)
    factors, pivots, order = host.lu(x)
    getrf: Any = get_lapack_funcs("getrf", dtype=np.dtype(dtype))
    expected, rows = _one_by_one(lambda a: getrf(a)[:2], x, ranks=(2,))
    _close(factors, expected)
    np.testing.assert_array_equal(pivots, rows)
    m, n = shape[-2:]
    lower = np.tril(factors[..., : min(m, n)], -1) + np.eye(m, min(m, n), dtype=dtype)
    product = lower @ np.triu(factors[..., : min(m, n), :])
    _close(product.astype(dtype), np.take_along_axis(x, order[..., None].astype(int), -2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] == s[-2]], ids=str)
def test_cholesky(shape: tuple[int, ...], dtype: str) -> None:
    x = _matrices(shape, dtype)
    x = x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1], dtype=dtype)
    above = np.triu(np.full(shape[-2:], np.nan), 1)  # is not read
    found = host.cholesky((x + above).astype(dtype))
    (expected,) = _one_by_one(lambda a: (np.linalg.cholesky(a),), x, ranks=(2,))
    _close(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_solve(lower: bool, left: bool, dtype: str) -> None:
    a = _matrices((4, 5, 6, 6), dtype) + 6 * np.eye(6, dtype=dtype)
    b = _matrices((4, 5, 6, 3) if left else (4, 5, 3, 6), dtype, seed=1)
    for transposed, conjugated, unit in [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1)]:
        found = host.triangular_solve(
            a,
            b,
            left_side=left,
            lower=lower,
            transpose_a=bool(transposed),
            conjugate_a=bool(conjugated),
            unit_diagonal=bool(unit),
        )
        read = np.tril(a) if lower else np.triu(a)
        if unit:
            read[..., range(6), range(6)] = 1
        read = read.conj() if conjugated else read
        read = read.swapaxes(-1, -2) if transposed else read
        _close((read @ found if left else found @ read).astype(dtype), b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("full", [True, False])
def test_qr(full: bool, shape: tuple[int, ...], dtype: str) -> None:
    x = _matrices(shape, dtype)
    q, r = householder.qr(x, full_matrices=full)
    mode = "complete" if full else "reduced"
    expected = _one_by_one(lambda a: tuple(np.linalg.qr(a, mode=mode)), x, ranks=(2,))
    _close(q, expected[0])
    _close(r, expected[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reflections(shape: tuple[int, ...], dtype: str) -> None:
    x = _matrices(shape, dtype)
    factors, taus = householder.geqrf(x)
    geqrf: Any = get_lapack_funcs("geqrf", dtype=np.dtype(dtype))
    expected = _one_by_one(lambda a: geqrf(a)[:2], x, ranks=(2,))
    _close(factors, expected[0])
    _close(taus, expected[1])
    m, n = shape[-2:]
    if m >= n:
        orgqr: Any = get_lapack_funcs("ungqr" if np.iscomplexobj(x) else "orgqr", dtype=x.dtype)
        (q,) = _one_by_one(lambda a, t: orgqr(a, t)[:1], factors, taus, ranks=(2, 1))
        _close(householder.householder_product(factors, taus), q)


def test_strided_operands_are_left_alone() -> None:
    x = _matrices((20, 8, 8), "float64")[::2, ::-1, ::2]
    before = x.copy()
    x = x[..., :4, :]
    assert not x.flags.c_contiguous
    factors, _, order = host.lu(x)
    lower = np.tril(factors, -1) + np.eye(4)
    _close(lower @ np.triu(factors), np.take_along_axis(x, order[..., None].astype(int), -2))
    q, r = householder.qr(x, full_matrices=False)
    _close(q @ r, x.copy())
    np.testing.assert_array_equal(before[..., :4, :], x)


def test_one_bad_matrix_leaves_the_others_alone() -> None:
    x = _matrices((20, 5, 5), "float64")
    x = x @ x.swapaxes(-1, -2) + np.eye(5)
    good = host.cholesky(x)
    x[3] = -np.eye(5)
    x[7, 2, 2] = np.nan
    x[9] = 0
    found = host.cholesky(x)
    bad = [3, 7, 9]
    for i in bad:
        assert np.isnan(found[i][np.tril_indices(5)]).all()
        assert (found[i][np.triu_indices(5, 1)] == 0).all()
    others = [i for i in range(20) if i not in bad]
    np.testing.assert_array_equal(found[others], good[others])
    factors, pivots, order = host.lu(x)
    assert np.isnan(factors[7]).any()
    assert ((pivots >= 0) & (pivots < 5)).all()
    assert (np.sort(order, -1) == np.arange(5)).all()
    assert np.isfinite(factors[[i for i in range(20) if i != 7]]).all()
    np.testing.assert_array_equal(factors[9], 0)


def test_a_zero_on_the_diagonal_gives_infinities() -> None:
    a = np.broadcast_to(np.diag([1.0, 0.0, 2.0]), (10, 3, 3))
    kind = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False}
    found = host.triangular_solve(a, np.ones((10, 3, 1)), **kind, unit_diagonal=False)
    # What comes after it is BLAS's to choose: infinity times 0 may be subtracted.
    np.testing.assert_array_equal(found[:, :2, 0], np.broadcast_to([1.0, np.inf], (10, 2)))


def test_denormal_numbers_count() -> None:
    """Also in threads of the pool, which run compiled programs without them."""
    tiny = np.float64(5e-310)
    a = np.broadcast_to(np.array([[1.0, 0.0], [0.0, 1.0]]) * tiny, (4000, 2, 2))
    factors, _, _ = host.lu(a)
    np.testing.assert_array_equal(factors, a)
    b = np.full((4000, 2, 64), tiny)
    kind = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False}
    eye = np.broadcast_to(np.eye(2), (4000, 2, 2))
    np.testing.assert_array_equal(host.triangular_solve(eye, b, **kind, unit_diagonal=False), b)


def test_what_does_not_fit_is_refused() -> None:
    x = np.zeros((4, 3, 3))
    with pytest.raises(ValueError, match="potrf needs 4 matrices without gaps, got \\(3, 3, 3\\)"):
        call(
            "potrf", x.dtype, ["U", 3, Each(x[:3]), 3, Each(np.zeros(4, np.int32))], count=4, work=9
        )
    with pytest.raises(ValueError, match="too many arguments"):
        call("potrf", x.dtype, [1] * 19, count=1, work=1)


def test_the_same_without_the_native_part() -> None:
    """What the other path gives, in a process that has only that one."""
    program = """
import numpy as np
from xpr.primitives import _linalg_host as host, _linalg_stacks as stacks
x = np.random.default_rng(3).standard_normal((30, 5, 5))
assert not stacks.is_stack(x)
factors, pivots, order = host.lu(x)
total = float((factors * np.arange(25).reshape(5, 5)).sum())
print(total, int(pivots.sum()), order[7].tolist())
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"XPR_NATIVE": "0", "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    x = np.random.default_rng(3).standard_normal((30, 5, 5))
    factors, pivots, order = host.lu(x)
    total, *rest = found.stdout.strip().split(" ", 2)
    assert float(total) == pytest.approx((factors * np.arange(25).reshape(5, 5)).sum(), rel=1e-12)
    assert rest == [str(int(pivots.sum())), str(order[7].tolist())]
    parts: Any = scipy.linalg.lu(x[7])
    p, lower, upper = parts
    _close(np.tril(factors[7], -1) + np.eye(5), np.ascontiguousarray(lower))
    _close(np.triu(factors[7]), np.ascontiguousarray(upper))
    np.testing.assert_array_equal(p.argmax(0), order[7])
