"""Sparse arrays beside arrays of NumPy and matrices of SciPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import xpr
import xpr.numpy as jnp
from xpr.experimental import sparse
from xpr.experimental.sparse import BCOO, BCSR

D = np.array([[0.0, 1.0, 0.0, 4.0], [2.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]], np.float32)
# The shape, n_batch and n_dense of arrays that every operation is tried on.
LAYOUTS = [((3, 4), 0, 0), ((3, 4), 1, 0), ((3, 4), 0, 1), ((2, 3, 4), 1, 1), ((2, 3, 4), 1, 0),
           ((2, 3, 4), 0, 0), ((0, 4), 0, 0), ((2, 3, 0), 1, 0), ((2, 2, 3, 2), 2, 1)]  # fmt: skip


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Small integers as floats, a third of them not zero: sums are exact."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 9, shape) * (rng.random(shape) < 0.4)).astype(np.float32)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(sparse.todense(found)), expected)


todense: Callable[..., Any] = sparse.bcoo_todense
sin: Callable[..., Any] = jnp.sin


def odd() -> BCOO:
    """Indices that occur twice, count from the end and are out of bounds, there with no numbers."""
    data = jnp.array([1.0, np.nan, 2.0, 4.0, np.inf, 8.0])
    indices = jnp.array([[0, 1], [3, 0], [0, 1], [1, -1], [1, 4], [0, 3]])
    return BCOO((data, indices), shape=(3, 4))


ODD = np.array([[0, 3, 0, 8], [0, 0, 0, 4], [0, 0, 0, 0]], np.float32)


@pytest.mark.parametrize(("shape", "n_batch", "n_dense"), LAYOUTS)
def test_there_and_back(shape: tuple[int, ...], n_batch: int, n_dense: int) -> None:
    x = numbers(shape)
    m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    assert (m.shape, m.dtype, m.n_batch, m.n_dense) == (shape, np.float32, n_batch, n_dense)
    assert (m.ndim, m.size, len(m)) == (x.ndim, x.size, shape[0])
    occupied = (x != 0).any(tuple(range(x.ndim - n_dense, x.ndim)))
    assert m.nse == occupied.sum(tuple(range(n_batch, occupied.ndim))).max(initial=0)
    same(m, x)
    same(BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense, nse=m.nse + 2), x)
    assert BCOO.fromdense(x, index_dtype=np.int16).indices.dtype == np.int16
    for batch in range(x.ndim + 1):
        for dense in range(x.ndim + 1 - batch):
            other = m.update_layout(n_batch=batch, n_dense=dense, on_inefficient=None)
            assert (other.n_batch, other.n_dense) == (batch, dense)
            same(other, x)
            if other.nse:
                merged = other.sum_duplicates()
                same(merged, x)
                assert merged.nse <= max(1, x.size)


def test_the_meaning_of_indices() -> None:
    m = odd()
    same(m, ODD)
    same(m.T, ODD.T)
    same(m.sum_duplicates(), ODD)
    assert m.sum_duplicates().indices.tolist() == [[0, 1], [0, 3], [1, 3]]
    same(m.sum_duplicates(nse=5), ODD)
    assert m.sum_duplicates(nse=5).indices.tolist()[3:] == [[3, 4], [3, 4]]
    same(m.sum_duplicates(nse=1), ODD * (ODD == 3))
    same(m.sort_indices(), ODD)
    same(m @ jnp.ones(4), ODD.sum(1))
    same(m @ jnp.eye(4), ODD)
    same(jnp.ones(3) @ m, ODD.sum(0))
    for axis in (0, 1, -1, (0, 1), None):
        same(m.sum(axis), ODD.sum(axis))
    same(m * jnp.full((3, 4), 2.0), 2 * ODD)
    same(m * m, ODD**2)
    same(m**2, ODD**2)
    same(m @ m.T, ODD @ ODD.T)
    same(m.reshape(2, 6), ODD.reshape(2, 6))
    same(m.reshape(-1), ODD.reshape(-1))
    same(m[1], ODD[1])
    same(m[:, ::-2], ODD[:, ::-2])
    same(sparse.bcoo_concatenate([m, m], dimension=1), np.concatenate([ODD, ODD], 1))
    same(sparse.bcoo_rev(m, (0, 1)), ODD[::-1, ::-1])
    same(BCSR.from_bcoo(m), ODD)
    same(BCSR.from_bcoo(m) @ jnp.ones(4), ODD.sum(1))
    same(sparse.bcoo_extract(m, D), D * (ODD != 0))
    same(m.update_layout(n_batch=1, on_inefficient=None), ODD)
    same(m.update_layout(n_dense=1, on_inefficient=None), ODD)
    zeros = BCOO((jnp.array([0.0, 1.0]), jnp.array([[0], [1]])), shape=(2,))
    assert (zeros.sum_duplicates().nse, zeros.sum_duplicates(remove_zeros=False).nse) == (1, 2)


def test_operators() -> None:
    m, n = BCOO.fromdense(D), BCOO.fromdense(D[::-1].copy())
    for function in (operator.add, operator.sub, operator.mul):
        same(function(m, n), function(D, D[::-1]))
        same(function(m, m), function(D, D))
    same(m + jnp.ones((3, 4)), D + 1)
    same(jnp.ones((3, 4)) - m, 1 - D)
    for other in (2, np.float32(3), jnp.ones(4), jnp.arange(3.0)[:, None], D):
        same(m * other, D * other)
        same(other * m, D * other)
    same(m / 2, D / 2)
    same(m / jnp.arange(1.0, 5.0), D / np.arange(1, 5, dtype=np.float32))
    same(-m, -D)
    same(abs(-m), D)
    assert m.astype(int).dtype == np.int32
    same(BCOO.fromdense(D > 0), D > 0)
    same(BCOO.fromdense(D * 1j) @ jnp.ones(4), (D * 1j).sum(1))
    with pytest.raises(NotImplementedError, match="prevent silent densification"):
        _ = m + 1
    with pytest.raises(NotImplementedError, match="Division by a sparse array"):
        _ = 1 / m
    with pytest.raises(NotImplementedError, match="sparse rule for eq is not implemented"):
        operator.eq(m, m)
    with pytest.raises(TypeError, match=r"incompatible shapes .*: \(3, 4\), \(4, 3\)"):
        _ = m + m.T


@pytest.mark.parametrize(
    ("index"),
    [0, -1, (slice(None), 1), (slice(1, 3), slice(None, None, 2)), (..., None), (None, 1),
     (2, 3), (slice(None, None, -1),), (slice(3, 0, -2), ...), (slice(2, 2),)],
)  # fmt: skip
def test_indices(index: Any) -> None:
    for n_batch, n_dense in ((0, 0), (1, 0), (0, 1), (1, 1)):
        m = BCOO.fromdense(D, n_batch=n_batch, n_dense=n_dense)
        same(m[index], D[index])


def test_parts() -> None:
    x = numbers((3, 4, 5))
    for n_batch, n_dense in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1)):
        m = BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        for starts in ((0, 1, 2), (2, 3, 4), (-1, 0, 9)):
            part = sparse.bcoo_dynamic_slice(m, starts, (2, 2, 3))
            places = [min(max(s + n * (s < 0), 0), n - k)
                      for s, n, k in zip(starts, x.shape, (2, 2, 3), strict=True)]  # fmt: skip
            same(part, x[tuple(slice(p, p + k) for p, k in zip(places, (2, 2, 3), strict=True))])
        for axis in range(3):
            joined = sparse.bcoo_concatenate([m, m * 2], dimension=axis)
            same(joined, np.concatenate([x, 2 * x], axis))
        wide = sparse.bcoo_broadcast_in_dim(m, shape=(2, 3, 4, 5), broadcast_dimensions=(1, 2, 3))
        same(wide, np.broadcast_to(x, (2, 3, 4, 5)))
        same(sparse.bcoo_squeeze(m[:1], dimensions=(0,)), x[0])


# ---- products


PRODUCTS = [
    # shapes and n_batch of lhs, shape of rhs, contracting and batch dimensions
    ((3, 4), 0, (4,), (([1], [0]), ([], []))),
    ((3, 4), 0, (5, 3), (([0], [1]), ([], []))),
    ((3, 4), 0, (4, 3), (([0, 1], [1, 0]), ([], []))),
    ((3, 4), 0, (2,), (([], []), ([], []))),
    ((3, 4), 1, (4, 2), (([1], [0]), ([], []))),
    ((3, 4), 1, (3, 2), (([0], [0]), ([], []))),
    ((2, 3, 4), 1, (4, 2, 5), (([2], [0]), ([0], [1]))),
    ((2, 3, 4), 2, (3, 4, 2), (([2], [1]), ([1, 0], [0, 2]))),
    ((2, 3, 4), 1, (2, 3, 4), (([0, 1, 2], [0, 1, 2]), ([], []))),
    ((0, 4), 0, (4, 2), (([1], [0]), ([], []))),
    ((3, 0), 0, (0, 2), (([1], [0]), ([], []))),
]


def general(x: np.ndarray, y: np.ndarray, numbers: Any) -> np.ndarray:
    """`dot_general` by einsum."""
    (xc, yc), (xb, yb) = numbers
    left, right = list(range(x.ndim)), list(range(10, 10 + y.ndim))
    for i, j in zip((*xc, *xb), (*yc, *yb), strict=True):
        right[j] = left[i]
    out = [left[i] for i in xb] + [a for i, a in enumerate(left) if i not in (*xb, *xc)]
    out += [a for j, a in enumerate(right) if j not in (*yb, *yc)]
    return np.einsum(x, left, y, right, out)


@pytest.mark.parametrize(("shape", "n_batch", "other", "dims"), PRODUCTS)
def test_products(shape: Any, n_batch: int, other: Any, dims: Any) -> None:
    x, y = numbers(shape), numbers(other, 1)
    m = BCOO.fromdense(x, n_batch=n_batch)
    expected = general(x, y, dims)
    same(sparse.bcoo_dot_general(m, jnp.asarray(y), dimension_numbers=dims), expected)
    (xc, yc), (xb, yb) = dims
    turned = ((yc, xc), (yb, xb))
    found = sparse.bcoo_dot_general(jnp.asarray(y), m, dimension_numbers=turned)
    same(found, general(y, x, turned))
    if not n_batch:
        n = BCOO.fromdense(y)
        same(sparse.bcoo_dot_general(m, n, dimension_numbers=dims), expected)


def test_sparse_products_of_batches() -> None:
    x, y = numbers((2, 3, 4)), numbers((2, 5, 4), 1)
    m, n = BCOO.fromdense(x, n_batch=1), BCOO.fromdense(y, n_batch=1)
    dims = (([2], [2]), ([0], [0]))
    same(sparse.bcoo_dot_general(m, n, dimension_numbers=dims), general(x, y, dims))
    same(m @ n.transpose((0, 2, 1)), x @ y.transpose(0, 2, 1))
    flat = BCOO.fromdense(y[0])
    dims = (([2], [1]), ([], []))
    same(sparse.bcoo_dot_general(m, flat, dimension_numbers=dims), general(x, y[0], dims))


def test_products_have_numpys_shapes_and_types() -> None:
    m = BCOO.fromdense(D)
    v, w = numbers((4,)), numbers((3,))
    same(m @ jnp.asarray(v), D @ v)
    same(jnp.asarray(w) @ m, w @ D)
    same(w @ m, w @ D)
    stack = numbers((2, 4, 5))
    same(m @ jnp.asarray(stack), D @ stack)
    batch = BCOO.fromdense(np.stack([D, 2 * D]), n_batch=1)
    same(batch @ jnp.asarray(v), np.stack([D, 2 * D]) @ v)
    assert (m @ jnp.arange(4)).dtype == np.float32
    assert (m.astype(int) @ jnp.arange(4)).dtype == np.int32
    assert (m.astype(jnp.bfloat16) @ jnp.ones(4, jnp.bfloat16)).dtype == jnp.bfloat16
    with pytest.raises(TypeError, match=r"contracting dimensions .* got \(4,\) and \(3,\)"):
        _ = m @ jnp.ones(3)
    with pytest.raises(NotImplementedError, match="contracting over dense dimensions"):
        _ = BCOO.fromdense(D, n_dense=1) @ jnp.ones(4)
    dims = (([], []), ([0], [0]))
    with pytest.raises(NotImplementedError, match="must be among the batch dimensions"):
        sparse.bcoo_dot_general(m, jnp.ones(3), dimension_numbers=dims)


# ---- transformations


def test_compiled() -> None:
    m, v = odd(), jnp.arange(4.0)

    @xpr.jit
    def run(m: BCOO, v: Any) -> Any:
        again = BCOO.fromdense(m.todense() + 1, nse=12)
        return m @ v, m.T @ jnp.ones(3), m * 2, (m @ m.T).sum_duplicates(nse=4), again[1] @ v

    results = run(m, v)
    expected = ODD @ np.arange(4), ODD.sum(0), 2 * ODD, ODD @ ODD.T, (ODD + 1)[1] @ np.arange(4)
    for found, wanted in zip(results, expected, strict=True):
        same(found, wanted)
    with pytest.raises(ValueError, match="nse must be specified"):
        xpr.jit(BCOO.fromdense)(D)
    with pytest.raises(ValueError, match="nse must be specified"):
        xpr.jit(lambda m: m.sum_duplicates())(m)


def test_batches() -> None:
    x = np.stack([D, 2 * D])
    m = BCOO.fromdense(x, n_batch=1)
    same(xpr.vmap(lambda m: m @ jnp.ones(4))(m), x.sum(2))
    same(xpr.vmap(lambda m, v: m @ v, (None, 0))(BCOO.fromdense(D), jnp.eye(4)), D.T)
    found = xpr.vmap(lambda m: (m * 3).T)(m)
    assert found.shape == (2, 4, 3)
    same(found, 3 * x.transpose(0, 2, 1))
    same(xpr.vmap(lambda x: BCOO.fromdense(x, nse=4))(jnp.asarray(x)), x)
    nested = BCOO.fromdense(np.stack([x, x + 1]), n_batch=2)
    same(xpr.vmap(xpr.vmap(lambda m: m.sum(0)), 1, 1)(nested), np.stack([x, x + 1]).sum(2))
    rows = BCSR.fromdense(x, n_batch=1)
    same(xpr.vmap(lambda m: m @ jnp.ones(4))(rows), x.sum(2))
    with pytest.raises(ValueError, match="Cannot map in_axis=0 for BCOO array with n_batch=0"):
        xpr.vmap(lambda m: m)(BCOO.fromdense(D))


def test_derivatives() -> None:
    m, v = BCOO.fromdense(D), jnp.arange(4.0)
    rows, columns = np.nonzero(D)

    def loss(m: Any, v: Any) -> Any:
        return jnp.sum((m @ v) ** 2)

    def dense(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 2 * np.outer(x @ v, v)

    by_m, by_v = sparse.grad(loss, (0, 1))(m, v)
    np.testing.assert_array_equal(by_m.data, dense(D, np.arange(4.0))[rows, columns])
    np.testing.assert_array_equal(by_v, 2 * D.T @ (D @ np.arange(4.0)))
    value, gradient = sparse.value_and_grad(loss)(m, v)
    assert float(value) == np.sum((D @ np.arange(4.0)) ** 2)
    assert gradient.indices is m.indices
    assert sparse.grad(lambda m: (loss(m, v), 7), has_aux=True)(m)[1] == 7
    for jacobian in (sparse.jacfwd, sparse.jacrev):
        found = jacobian(lambda m: m @ v)(m)
        assert (found.shape, found.n_batch) == ((3, 3, 4), 1)
        same(found, np.einsum("ik,kj->ikj", np.eye(3), (D != 0) * np.arange(4.0)))
        tree = jacobian(lambda m, s: {"a": m.sum() * s, "b": s}, (0, 1))(m, 2.0)
        same(tree["a"][0], 2.0 * (D != 0))
        assert float(tree["a"][1]) == D.sum()
    # by what makes the data, through creation, sums of duplicates and products of sparse arrays
    x = jnp.asarray(D)
    through = xpr.grad(lambda x: (BCOO.fromdense(x, nse=4) @ v).sum())(x)
    np.testing.assert_array_equal(through, (D != 0) * np.arange(4.0))

    def square(data: Any) -> Any:
        m = BCOO((data, jnp.array([[0, 1], [0, 1], [1, 0]])), shape=(2, 2))
        return (m @ m).todense().sum() + m.sum_duplicates(nse=3).data[0]

    # (a + b) c twice, and a + b: the derivatives are 2 c + 1, 2 c + 1 and 2 (a + b)
    assert xpr.grad(square)(jnp.array([1.0, 2.0, 5.0])).tolist() == [11.0, 11.0, 6.0]
    tangent = xpr.jvp(lambda d: m.with_data(d) @ v, (m.data,), (jnp.ones(4),))[1]
    np.testing.assert_array_equal(tangent, (D != 0) @ np.arange(4.0))


def test_sparsify() -> None:
    m, v = BCOO.fromdense(D), jnp.arange(4.0)
    cases: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (lambda x: jnp.sum(2 * x + x, axis=0) @ v, lambda x: (3 * x).sum(0) @ np.arange(4.0)),
        (xpr.jit(lambda x: x.T @ x), lambda x: x.T @ x),
        (lambda x: x[1:] * x[0, 1], lambda x: x[1:] * x[0, 1]),
        (lambda x: jnp.concatenate([x, x]).reshape(2, 12),
         lambda x: np.concatenate([x, x]).reshape(2, 12)),
        (lambda x: x.astype(int), lambda x: x.astype(int)),
        (lambda x: jnp.square(x) - x[::-1], lambda x: x**2 - x[::-1]),
        (lambda x: (x, x @ v)[1], lambda x: x @ np.arange(4.0)),
    ]  # fmt: skip
    for function, expected in cases:
        same(sparse.sparsify(function)(m), expected(D))
    np.testing.assert_allclose(sparse.sparsify(jnp.tanh)(m).todense(), np.tanh(D), rtol=1e-6)
    same(sparse.sparsify(lambda x, *, by: x @ by)(BCSR.fromdense(D), by=v), D @ np.arange(4.0))
    for function, name in ((jnp.cos, "cos"), (jnp.exp, "exp"), (lambda x: x**-1, "integer_pow")):
        with pytest.raises(NotImplementedError, match=f"sparse rule for {name}"):
            sparse.sparsify(function)(m)


# ---- making


def test_scipy() -> None:
    for form in (scipy.sparse.coo_matrix, scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        for cls in (BCOO, BCSR):
            m = cls.from_scipy_sparse(form(D))
            same(m, D)
            same(m @ jnp.ones(4), form(D) @ np.ones(4))
    with pytest.raises(NotImplementedError, match="nonzero n_dense/n_batch"):
        BCOO.from_scipy_sparse(scipy.sparse.coo_matrix(D), n_batch=1)


def test_rows() -> None:
    reference = scipy.sparse.csr_matrix(D)
    m = BCSR.fromdense(D)
    for found, expected in zip(
        (m.data, m.indices, m.indptr),
        (reference.data, reference.indices, reference.indptr),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    same(m, D)
    same(m.to_bcoo(), D)
    same(m.T, D.T)
    same(m.sum(0), D.sum(0))
    same(m @ jnp.eye(4), D)
    same(jnp.ones(3) @ m, D.sum(0))
    same(BCSR.fromdense(D, nse=7), D)
    same(m.sum_duplicates(nse=6), D)
    x = numbers((2, 3, 4, 2))
    same(BCSR.fromdense(x, n_batch=1, n_dense=1), x)
    same(sparse.empty((2, 3), sparse_format="bcsr"), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="must have 2 sparse dimensions"):
        BCSR.fromdense(jnp.ones(3))


def test_unit_and_random_matrices() -> None:
    for rows, columns, k in ((3, 3, 0), (2, 4, 1), (4, 2, -1), (3, 2, 5), (0, 2, 0)):
        for n_batch, n_dense in ((0, 0), (1, 0), (0, 1), (1, 1)):
            m = sparse.eye(rows, columns, k, n_batch=n_batch, n_dense=n_dense)
            same(m, np.eye(rows, columns, k))
        same(sparse.eye(rows, columns, k, sparse_format="bcsr"), np.eye(rows, columns, k))
    same(sparse.empty((2, 3), n_batch=1, nse=2), np.zeros((2, 3)))
    for unique in (True, False):
        m = sparse.random_bcoo(
            xpr.random.key(0),
            (3, 4, 5),
            nse=3,
            n_batch=1,
            n_dense=1,
            unique_indices=unique,
            sorted_indices=True,
            dtype="float32",
        )
        assert (m.nse, m.n_batch, m.n_dense, m.indices_sorted) == (3, 1, 1, True)
        assert (np.diff(m.indices[..., 0], axis=1) >= int(unique)).all()
    m = sparse.random_bcoo(xpr.random.key(0), (30, 40), dtype="float32")
    assert m.nse == 240
    assert len({tuple(i) for i in m.indices.tolist()}) == 240


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BCOO((jnp.ones(2), jnp.ones((3, 2), int)), shape=(2, 2)), ValueError, "3 indices"),
        (lambda: BCOO((jnp.ones(1), jnp.ones((1, 3), int)), shape=(2, 2)), ValueError, "not its 2"),
        (lambda: BCOO((jnp.ones(1), jnp.ones((1, 2))), shape=(2, 2)), TypeError, "of integers"),
        (lambda: BCOO.fromdense(jnp.ones(3), n_batch=2), ValueError, "of at most 1"),
        (lambda: BCOO.fromdense(D).transpose((0, 0)), TypeError, "isn't a permutation"),
        (lambda: BCOO.fromdense(D, n_batch=1).T, NotImplementedError, "cannot permute batch axes"),
        (lambda: BCOO.fromdense(D).reshape(7), TypeError, r"size 12\) into shape \(7,\)"),
        (lambda: BCOO.fromdense(D).sum(2), ValueError, "axis 2 is out of bounds"),
        (lambda: BCOO.fromdense(D)[3], IndexError, "index 3 is out of bounds for axis 0"),
        (lambda: BCOO.fromdense(D)[0, 0, 0], IndexError, "Too many indices"),
        (lambda: BCOO.fromdense(D) * jnp.ones(3), ValueError, "Incompatible shapes for broadcast"),
        (lambda: BCOO.fromdense(D).update_layout(n_batch=1), sparse.SparseEfficiencyError, "inef"),
        (lambda: todense(D), TypeError, "requires a BCOO array, got ndarray"),
        (lambda: sin(BCOO.fromdense(D)), TypeError, "requires ndarray or scalar arguments"),
    ],
)  # fmt: skip
def test_errors(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
