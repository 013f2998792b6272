"""The older formats of sparse matrices beside arrays of NumPy and matrices of SciPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import xpr
import xpr.numpy as jnp
from xpr.experimental import sparse
from xpr.experimental.sparse import COO, CSC, CSR

D = np.array([[0.0, 1.0, 0.0, 4.0], [2.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]], np.float32)
FORMATS: list[Any] = [COO, CSR, CSC]


@pytest.mark.parametrize("kind", FORMATS)
def test_there_and_back(kind: Any) -> None:
    m = kind.fromdense(D)
    assert (m.shape, m.dtype, m.nse, m.ndim, m.size, len(m)) == ((3, 4), np.float32, 4, 2, 12, 3)
    assert repr(m) == f"{kind.__name__}(float32[3, 4], nse=4)"
    np.testing.assert_array_equal(m.todense(), D)
    np.testing.assert_array_equal(sparse.todense(m), D)
    np.testing.assert_array_equal(m.T.todense(), D.T)
    np.testing.assert_array_equal(m.T.T.todense(), D)
    # Of more elements than there are, the others do not count; of fewer, the last are left out.
    np.testing.assert_array_equal(kind.fromdense(D, nse=7).todense(), D)
    assert np.count_nonzero(kind.fromdense(D, nse=3).todense()) == 3
    assert kind.fromdense(D, index_dtype=np.int16).T.todense().shape == (4, 3)
    found = xpr.jit(lambda x: kind.fromdense(x, nse=5).todense())(D)
    np.testing.assert_array_equal(found, D)
    with pytest.raises(ValueError, match="nse must be specified"):
        xpr.jit(kind.fromdense)(D)


@pytest.mark.parametrize("kind", [COO, CSR, CSC])
def test_arrays_are_those_of_scipy(kind: Any) -> None:
    m = kind.fromdense(D)
    if kind is COO:
        expected = scipy.sparse.csr_matrix(D).tocoo()
        names = {"data": expected.data, "row": expected.row, "col": expected.col}
    else:
        expected = (scipy.sparse.csr_matrix if kind is CSR else scipy.sparse.csc_matrix)(D)
        names = {n: getattr(expected, n) for n in ("data", "indices", "indptr")}
    for name, value in names.items():
        np.testing.assert_array_equal(getattr(m, name), value, err_msg=name)


@pytest.mark.parametrize("kind", FORMATS)
def test_products(kind: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (3, 4)).astype(np.float32)
    v, b = np.arange(4, dtype=np.float32), rng.integers(-3, 4, (4, 2)).astype(np.float32)
    m = kind.fromdense(x)
    np.testing.assert_array_equal(m @ v, x @ v)
    np.testing.assert_array_equal(m @ b, x @ b)
    np.testing.assert_array_equal(m.T @ x, x.T @ x)
    np.testing.assert_array_equal(xpr.jit(operator.matmul)(m, b), x @ b)
    np.testing.assert_array_equal(xpr.vmap(lambda c: m @ c, 1, 1)(b), x @ b)
    assert (m @ np.arange(4)).dtype == np.float32
    with pytest.raises(NotImplementedError, match="two sparse"):
        operator.matmul(m, m.T)
    with pytest.raises(NotImplementedError, match="matmul with object of shape"):
        operator.matmul(m, np.ones((2, 4, 3), np.float32))
    with pytest.raises(NotImplementedError, match="__add__"):
        operator.add(m, m)
    with pytest.raises(NotImplementedError, match="sum"):
        m.sum()
    with pytest.raises(NotImplementedError, match="axes argument"):
        m.transpose((1, 0))


def test_products_by_name() -> None:
    kind: Any
    matvec: Any
    matmat: Any
    dense: Any
    v, w = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.float32)
    for kind, matvec, matmat in (
        (COO, sparse.coo_matvec, sparse.coo_matmat),
        (CSR, sparse.csr_matvec, sparse.csr_matmat),
    ):
        m = kind.fromdense(D)
        np.testing.assert_array_equal(matvec(m, v), D @ v)
        np.testing.assert_array_equal(matvec(m, w, transpose=True), D.T @ w)
        np.testing.assert_array_equal(matmat(m, D.T), D @ D.T)
        np.testing.assert_array_equal(matmat(m, D, transpose=True), D.T @ D)
        with pytest.raises(ValueError, match="requires an array of 1 axes"):
            matvec(m, D.T)
    for make, dense in (
        (sparse.coo_fromdense, sparse.coo_todense),
        (sparse.csr_fromdense, sparse.csr_todense),
    ):
        np.testing.assert_array_equal(dense(make(D, nse=6)), D)
        with pytest.raises(ValueError, match="requires a matrix"):
            make(np.ones(3))


def test_elements_at_one_place_are_added_and_those_out_of_bounds_are_not() -> None:
    data = jnp.array([1.0, 2.0, 4.0, 8.0])
    m = COO((data, jnp.array([1, 0, 1, 3]), jnp.array([0, 1, 0, 1])), shape=(3, 2))
    expected = np.array([[0, 2], [5, 0], [0, 0]])
    np.testing.assert_array_equal(m.todense(), expected)
    ordered = m._sort_indices()
    np.testing.assert_array_equal(ordered.row, [0, 1, 1, 3])
    np.testing.assert_array_equal(ordered.todense(), expected)
    assert ordered._sort_indices() is ordered


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
def test_eye_and_empty(name: str) -> None:
    for n, m, k in ((3, 3, 0), (3, 5, 1), (5, 3, -2), (2, 4, -1), (3, 4, 9), (3, 4, -3)):
        found = sparse.eye(n, m, k, sparse_format=name, dtype=np.int32)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found.todense(), np.eye(n, m, k))
        np.testing.assert_array_equal(found.T.todense(), np.eye(n, m, k).T)
    empty = sparse.empty((2, 3), sparse_format=name)
    assert (empty.nse, empty.dtype) == (0, np.float32)
    np.testing.assert_array_equal(empty.todense(), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=f"{name.upper()} must have ndim=2"):
        sparse.empty((2,), sparse_format=name)


def test_unknown_formats() -> None:
    for make in (lambda f: sparse.eye(2, sparse_format=f), lambda f: sparse.empty((2,), None, f)):
        with pytest.raises((ValueError, TypeError), match=r"not recognized|data type"):
            make("ell")


@pytest.mark.parametrize("kind", FORMATS)
def test_derivatives_and_trees(kind: Any) -> None:
    m = kind.fromdense(D)
    v = np.array([1.0, 2.0, 3.0, 4.0], np.float32)

    def loss(m: Any) -> Any:
        return jnp.sum((m @ v) ** 2)

    slope = 2 * np.outer(D @ v, v) * (D != 0)
    found = sparse.grad(loss)(m)
    assert isinstance(found, kind)
    np.testing.assert_array_equal(found.todense(), slope)
    doubled = xpr.tree.map(lambda x: x, m)
    np.testing.assert_array_equal(doubled.todense(), D)
    value, jitted = xpr.jit(sparse.value_and_grad(loss))(m)
    assert value == np.sum((D @ v) ** 2)
    np.testing.assert_array_equal(jitted.todense(), slope)
