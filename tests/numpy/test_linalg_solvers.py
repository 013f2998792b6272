"""Equations, inverses, determinants, least squares and powers against NumPy; derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.numpy.cases import Case, check
from xpr.core.config import override
from xpr.test_util import check_grads

HOST: Any = np.linalg
RNG = np.random.default_rng(11)
INF = float("inf")


def _draw(*shape: int, dtype: str = "float32") -> Any:
    x = RNG.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(dtype)


def _regular(*shape: int, dtype: str = "float32") -> Any:
    """Matrices of good condition, so that few digits are lost."""
    n = shape[-1]
    return (_draw(*shape, dtype=dtype) / n + 2 * np.eye(n)).astype(dtype)


def _of(name: str, *args: Any, tol: float = 2e-5, **kwargs: Any) -> Case:
    """`linalg.name(*args)` of xpr.numpy and of NumPy."""
    return Case(
        name,
        args,
        kwargs,
        call=lambda module, *a, **k: getattr(module.linalg, name)(*a, **k),
        rtol=tol,
        atol=tol,
    )


INTEGERS = np.array([[4, 1, 0], [1, 3, 1], [0, 2, 5]], np.int32)
LOW = (np.outer([1, 2, 3, 4], [1, 0, 2]) / 4).astype(np.float32)


def _solver_cases(dtype: str) -> list[Case]:
    a = _regular(2, 4, 4, dtype=dtype)
    b = _draw(4, dtype=dtype)
    return [
        _of("solve", a, b),
        _of("solve", a, _draw(2, 4, 3, dtype=dtype)),
        _of("solve", a, _draw(3, 1, 4, 2, dtype=dtype)),
        _of("solve", a[0], _draw(3, 2, 4, 2, dtype=dtype)),
        _of("solve", a[0], b),
        # In NumPy 2 what is no vector is matrices.
        _of("solve", _regular(3, 3, dtype=dtype), _draw(3, 3, dtype=dtype)),
        _of("inv", a),
        *(_of("det", _regular(2, n, n, dtype=dtype)) for n in range(6)),
        *(_of("slogdet", _regular(2, n, n, dtype=dtype)) for n in range(6)),
        Case(
            "slogdet",
            (a,),
            call=lambda m, x: m.linalg.slogdet(x, **({"method": "qr"} if m is jnp else {})),
            rtol=2e-5,
            atol=2e-5,
        ),
        *(_of("cond", a, p) for p in (None, 1, -1, 2, -2, INF, -INF, "fro", "nuc")),
        _of("cond", _draw(2, 4, 3, dtype=dtype)),
        _of("matrix_rank", a),
        _of("matrix_rank", LOW.astype(dtype)),
        _of("matrix_rank", b),
        *(_of("matrix_power", a, n) for n in (-3, -1, 0, 1, 2, 3, 6)),
        _of("tensorinv", _regular(6, 6, dtype=dtype).reshape(2, 3, 6), 2, tol=1e-4),
        _of("tensorinv", _regular(6, 6, dtype=dtype).reshape(6, 2, 3), ind=1, tol=1e-4),
        _of("tensorsolve", _regular(6, 6, dtype=dtype).reshape(2, 3, 6), _draw(2, 3)),
        _of("tensorsolve", _regular(4, 4, dtype=dtype).reshape(2, 4, 2), _draw(2, 2), axes=(1,)),
        _of("multi_dot", [_draw(2, 3, dtype=dtype), _draw(3, 4, dtype=dtype), _draw(4, 2)]),
        _of("multi_dot", [_draw(5), _draw(5, 2), _draw(2, 7), _draw(7, 3), _draw(3)]),
    ]


def _least_squares_cases(dtype: str) -> list[Case]:
    cases = []
    for a in (_draw(5, 3, dtype=dtype), _draw(3, 5, dtype=dtype), LOW.astype(dtype)):
        m = a.shape[0]
        cases.append(_of("pinv", np.stack([a, 2 * a]), tol=1e-4))
        cases.append(_of("pinv", a, rtol=0.5))
        for b in (_draw(m, dtype=dtype), _draw(m, 2, dtype=dtype)):
            for rcond in (None, 0.5):
                cases.append(
                    Case(
                        "lstsq",
                        (a, b),
                        call=lambda mod, a, b, rcond=rcond: mod.linalg.lstsq(
                            a, b, rcond, **({"numpy_resid": True} if mod is jnp else {})
                        ),
                        dtype=None,
                        rtol=1e-4,
                        atol=1e-5,
                        eager_only=True,
                    )
                )
    hermitian = _draw(3, 3, dtype=dtype)
    hermitian = hermitian + hermitian.conj().T
    cases.append(_of("pinv", hermitian, hermitian=True, tol=1e-4))
    cases.append(_of("matrix_rank", hermitian, hermitian=True))
    return cases


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_the_table_agrees_with_numpy(dtype: str) -> None:
    check([*_solver_cases(dtype), *_least_squares_cases(dtype)])


def test_double_precision_keeps_its_digits() -> None:
    with override("enable_x64", True):
        for dtype in ("float64", "complex128"):
            a, b = _regular(2, 5, 5, dtype=dtype), _draw(5, 2, dtype=dtype)
            for name, args in (
                ("solve", (a, b)),
                ("inv", (a,)),
                ("det", (a,)),
                ("slogdet", (a,)),
                ("pinv", (a[:, :, :3],)),
                ("cond", (a, 1)),
            ):
                found, wanted = getattr(jnp.linalg, name)(*args), getattr(HOST, name)(*args)
                for f, w in zip(xpr.tree.leaves(found), xpr.tree.leaves(wanted), strict=True):
                    np.testing.assert_allclose(f, w, rtol=1e-12, atol=1e-13, err_msg=name)


def test_integers_become_floats() -> None:
    for name in ("inv", "det", "pinv"):
        found = getattr(jnp.linalg, name)(INTEGERS)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, getattr(HOST, name)(INTEGERS), rtol=1e-4, atol=1e-6)
    assert jnp.linalg.matrix_power(INTEGERS, 2).dtype == np.int32
    assert jnp.linalg.matrix_power(INTEGERS, -1).dtype == np.float32
    assert jnp.linalg.solve(INTEGERS, np.arange(3)).dtype == np.float32
    assert jnp.linalg.slogdet(INTEGERS).logabsdet.dtype == np.float32


def test_empty_matrices() -> None:
    none = np.zeros((3, 0, 0), np.float32)
    np.testing.assert_array_equal(jnp.linalg.det(none), np.ones(3))
    np.testing.assert_array_equal(jnp.linalg.slogdet(none).logabsdet, np.zeros(3))
    assert jnp.linalg.inv(none).shape == (3, 0, 0)
    assert jnp.linalg.solve(none, np.zeros((0,), np.float32)).shape == (3, 0)
    assert jnp.linalg.solve(np.eye(2, dtype=np.float32), np.zeros((2, 0))).shape == (2, 0)
    assert jnp.linalg.inv(np.zeros((0, 2, 2), np.float32)).shape == (0, 2, 2)
    assert jnp.linalg.pinv(np.zeros((0, 3), np.float32)).shape == (3, 0)
    assert int(jnp.linalg.matrix_rank(np.zeros((0, 3), np.float32))) == 0
    x, left, rank, s = jnp.linalg.lstsq(np.zeros((3, 0)), np.array([1.0, 2, 3]))
    assert (x.shape, float(left[0]), int(rank), s.shape) == ((0,), 14.0, 0, (0,))


def test_singular_matrices_do_not_stop_a_program() -> None:
    ones, zeros = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    stack = np.stack([ones, np.eye(2, dtype=np.float32), zeros])
    for solved in (jnp.linalg.inv(stack), jnp.linalg.solve(stack, ones)):
        finite = np.isfinite(np.asarray(solved)).all((-2, -1))
        np.testing.assert_array_equal(finite, [False, True, False])
    sign, size = jnp.linalg.slogdet(stack)
    np.testing.assert_array_equal(sign, [0, 1, 0])
    np.testing.assert_array_equal(size, [-np.inf, 0, -np.inf])
    for p in (None, 1, "fro"):
        # The two equal rows have a singular value that rounding makes nearly 0.
        found = np.asarray(jnp.linalg.cond(stack, p))
        assert found[0] > 1e6
        assert found[2] == np.inf
    nan = np.full((2, 2), np.nan, np.float32)
    for name in ("inv", "det", "pinv", "cond"):
        assert np.isnan(np.asarray(getattr(jnp.linalg, name)(nan))).all()


def _cofactors(a: Any) -> Any:
    rows, columns = np.indices(a.shape)
    minors = [
        HOST.det(np.delete(np.delete(a, i, 0), j, 1))
        for i, j in zip(rows.flat, columns.flat, strict=True)
    ]
    return (-1.0) ** (rows + columns) * np.reshape(minors, a.shape)


@pytest.mark.parametrize(
    "a",
    [
        np.diag([0.0, 1, 2, 3]),
        np.diag([1.0, 2, 3, 0]),
        np.diag([1.0, 0, 0, 3]),
        np.eye(4, k=1),
        np.zeros((4, 4)),
        np.arange(16.0).reshape(4, 4),
        np.array([[0.0, 1, 2, 3], [0, 4, 5, 6], [0, 1, 9, 3], [0, 5, 5, 5]]),
        np.array([[0.0, 0, 0, 0], [1, 4, 5, 6], [2, 1, 9, 3], [0, 5, 5, 5]]),
        np.ones((5, 5)),
        np.array([[1.0, 2], [2, 4]]),
        np.array([[1.0, 2, 3], [2, 4, 6], [0, 0, 1]]),
    ],
)
def test_the_derivative_of_a_determinant_is_its_cofactors(a: Any) -> None:
    with override("enable_x64", True):
        found = xpr.grad(jnp.linalg.det)(a)
    np.testing.assert_allclose(found, _cofactors(a), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_derivatives_agree_with_differences(dtype: str) -> None:
    a, b = _regular(2, 4, 4, dtype=dtype), _draw(4, dtype=dtype)
    low = _draw(4, 1, dtype=dtype), _draw(1, 3, dtype=dtype)
    with override("enable_x64", True):
        check_grads(jnp.linalg.solve, (a, b), order=2)
        check_grads(jnp.linalg.inv, (a,), order=2)
        check_grads(jnp.linalg.det, (a,), order=2)
        check_grads(jnp.linalg.det, (a[:, :3, :3],), order=2)
        check_grads(lambda x: tuple(jnp.linalg.slogdet(x)), (a,), order=2)
        check_grads(jnp.linalg.pinv, (_draw(2, 4, 3, dtype=dtype),), order=2)
        check_grads(lambda x, y: jnp.linalg.pinv(x @ y), low, order=2)
        # Equal singular values are no obstacle.
        check_grads(jnp.linalg.pinv, (np.eye(3, 2, dtype=dtype),), order=2)
        check_grads(lambda x, y: jnp.linalg.lstsq(x, y)[:2], (a[0, :, :2], b), order=2)
        check_grads(lambda x, y: jnp.linalg.lstsq(x, y)[::3], (a[0, :3], b[:3]), order=1)
        check_grads(lambda x: jnp.linalg.cond(x, 1), (a,), order=1)
        check_grads(lambda x: jnp.linalg.matrix_power(x, -2), (a[0],), order=1)


def test_batches_are_loops() -> None:
    a, b = _regular(3, 4, 4), _draw(3, 4)
    calls: list[tuple[Any, tuple[Any, ...], Any]] = [
        (jnp.linalg.solve, (a, b), 0),
        (jnp.linalg.solve, (a[0], b), (None, 0)),
        (jnp.linalg.solve, (a, b[0]), (0, None)),
        (jnp.linalg.det, (a,), 0),
        (lambda x: jnp.linalg.slogdet(x).logabsdet, (a,), 0),
        (jnp.linalg.pinv, (a[:, :, :2],), 0),
        (lambda x, y: jnp.linalg.lstsq(x, y)[0], (a[:, :, :2], b), 0),
        (xpr.grad(jnp.linalg.det), (a,), 0),
        (xpr.grad(lambda x, y: jnp.linalg.solve(x, y).sum()), (a, b), 0),
    ]
    for function, args, axes in calls:
        given = [axes] * len(args) if not isinstance(axes, tuple) else list(axes)
        rows = [
            function(*(x if axis is None else x[i] for x, axis in zip(args, given, strict=True)))
            for i in range(3)
        ]
        found = xpr.vmap(function, axes)(*args)
        np.testing.assert_allclose(found, np.stack(rows), rtol=1e-4, atol=1e-5)


def test_one_matrix_is_factored_once_for_many_equations() -> None:
    a, b = _regular(4, 4), _draw(5, 3, 4, 2)
    jaxpr = str(xpr.make_jaxpr(jnp.linalg.solve)(a, b))
    assert jaxpr.count(" = lu") == 1
    assert "f32[4,30]" in jaxpr


def test_multi_dot_takes_the_cheapest_order() -> None:
    shapes = [(10, 100), (100, 5), (5, 50)]
    jaxpr = str(xpr.make_jaxpr(lambda *x: jnp.linalg.multi_dot(x))(*(_draw(*s) for s in shapes)))
    # (A B) C takes 7500 multiplications, A (B C) ten times as many.
    assert "f32[10,5] = dot_general" in jaxpr
    assert "f32[100,50] = dot_general" not in jaxpr


def test_the_names_of_the_array_api_standard() -> None:
    names = (
        "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
        "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot "
        "vector_norm"
    )
    assert [n for n in names.split() if not hasattr(jnp.linalg, n)] == []
    a = _regular(2, 3, 3)
    assert jnp.linalg.matrix_rank(a, rtol=np.array([0.1, 0.2], np.float32)).shape == (2,)
    assert jnp.linalg.pinv(a, rtol=np.array([0.1, 0.2], np.float32)).shape == (2, 3, 3)
    assert jnp.linalg.slogdet(a)._fields == ("sign", "logabsdet")
    np.testing.assert_array_equal(jnp.linalg.matrix_transpose(a), a.swapaxes(-1, -2))


A = np.ones((2, 2), np.float32)
X = np.ones((2, 3), np.float32)
V = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda: jnp.linalg.solve(X, V), ValueError, r"solve must have shape .* got \(2, 3\)"),
        (lambda: jnp.linalg.solve(A, V), ValueError, r"got shapes \(2, 2\) \(a\) and \(3,\) \(b\)"),
        (lambda: jnp.linalg.solve(A, 1.0), ValueError, r"and \(\) \(b\)"),
        (lambda: jnp.linalg.solve([[1.0]], V), TypeError, "linalg.solve requires ndarray"),
        (lambda: jnp.linalg.inv(X), ValueError, r"Argument to inv must have shape \[..., n, n\]"),
        (lambda: jnp.linalg.det(V), ValueError, "Argument to det must have shape"),
        (lambda: jnp.linalg.slogdet(A, method="x"), ValueError, "Unknown slogdet method 'x'"),
        (lambda: jnp.linalg.cond(X, 1), ValueError, "cond with p=1 must have shape"),
        (lambda: jnp.linalg.cond(V), ValueError, "cond: input array must be at least 2D"),
        (lambda: jnp.linalg.cond(np.zeros((0, 0))), ValueError, "cond requires arrays that are no"),
        (
            lambda: jnp.linalg.matrix_rank(A, rtol=0.1, tol=0.1),
            ValueError,
            "only one of tol or rtol",
        ),
        (lambda: jnp.linalg.pinv(A, 0.1, rcond=0.1), ValueError, "only one of rtol and rcond"),
        (lambda: jnp.linalg.lstsq(V, V), TypeError, "lstsq requires a matrix a"),
        (lambda: jnp.linalg.lstsq(A, A[None]), TypeError, "lstsq requires a vector or a matrix b"),
        (lambda: jnp.linalg.lstsq(A, V), ValueError, "lstsq: a and b differ in rows"),
        (lambda: jnp.linalg.matrix_power(A, 1.5), TypeError, "exponent must be an integer"),
        (lambda: jnp.linalg.matrix_power(X, 2), TypeError, "Last 2 dimensions of the array"),
        (lambda: jnp.linalg.tensorinv(A, 0), ValueError, "ind must be a positive integer"),
        (lambda: jnp.linalg.tensorinv(X, 1), ValueError, "when the product of the first `ind`"),
        (lambda: jnp.linalg.tensorsolve(X, V), ValueError, "first axes of a, after axes were"),
        (lambda: jnp.linalg.multi_dot([]), ValueError, "at least one array"),
        (lambda: jnp.linalg.multi_dot([A, V[:2], A]), ValueError, "multi_dot requires matrices"),
        (lambda: jnp.linalg.multi_dot([A, X.T]), ValueError, "the last axis of each array"),
    ],
)
def test_errors_name_the_function(call: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()
