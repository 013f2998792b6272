"""Convolutions, samples of products, and arrays by rows, of `xpr.experimental.sparse`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.experimental import sparse


def _correlated(signal: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any]) -> Any:
    if len(kernel) > len(signal):
        return np.zeros(0, np.float32)
    return np.correlate(signal, kernel, "valid")


@pytest.mark.parametrize("padding", ["VALID", "SAME", ((2, 0),), ((-1, 1),)])
@pytest.mark.parametrize("sparse_filter", [False, True])
def test_convolutions_of_signals(padding: Any, sparse_filter: bool) -> None:
    rng = np.random.default_rng(3)
    x = (rng.normal(size=9) * (rng.random(9) < 0.5)).astype(np.float32)
    k = np.array([0, 2, -1], np.float32)
    before, after = {"VALID": (0, 0), "SAME": (1, 1)}.get(padding, padding[0])
    padded = np.pad(x, (max(before, 0), max(after, 0)))[max(-before, 0) :]
    signal: Any = sparse.BCOO.fromdense(jnp.asarray(x)[None, None], nse=11)
    kernel: Any = jnp.asarray(k)[None, None]
    if sparse_filter:
        kernel = sparse.BCOO.fromdense(kernel, n_batch=2)
    for run in (lambda f: f, xpr.jit):
        found = run(
            lambda a, b: sparse.bcoo_conv_general_dilated(
                a, b, window_strides=(1,), padding=padding
            )
        )(signal, kernel)
        assert found.shape == (1, 1, padded.size - 2)
        np.testing.assert_allclose(found.todense()[0, 0], _correlated(padded, k), rtol=1e-6)


def test_convolutions_in_a_wider_type() -> None:
    signal, filter = np.array([[[100, 0, 100, 5]]], np.int8), np.array([[[10, 3]]], np.int8)
    found = sparse.bcoo_conv_general_dilated(
        sparse.BCOO.fromdense(jnp.asarray(signal)),
        jnp.asarray(filter),
        window_strides=(1,),
        padding="VALID",
        preferred_element_type=np.int32,
    ).todense()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [[[1000, 300, 1015]]])


def test_what_sparse_convolutions_refuse() -> None:
    x = sparse.BCOO.fromdense(jnp.ones((1, 1, 4)))
    two = sparse.BCOO.fromdense(jnp.ones((2, 1, 4)))
    wide = jnp.ones((1, 1, 4, 4))

    def run(lhs: Any, rhs: Any, strides: Any = (1,), **options: Any) -> Any:
        return sparse.bcoo_conv_general_dilated(
            lhs, rhs, window_strides=strides, padding="VALID", **options
        )

    cases: list[tuple[str, Any]] = [
        ("non-unit window_strides", lambda: run(x, x, (2,))),
        ("rhs_dilation", lambda: run(x, x, rhs_dilation=(2,))),
        ("leading dimensions other than", lambda: run(two, x)),
        ("other axes than one", lambda: run(wide, wide, (1, 1))),
    ]
    for words, call in cases:
        with pytest.raises(NotImplementedError, match=words):
            call()
    with pytest.raises(TypeError, match="lhs and rhs ndim to be equal"):
        run(x, wide)


def test_samples_of_products_are_those_of_the_whole_product() -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(size=(2, 3, 4)).astype(np.float32)
    b = rng.normal(size=(4, 3, 5)).astype(np.float32)
    whole = np.einsum("iab,bak->ik", a, b)
    numbers = (([2, 1], [0, 1]), ([], []))
    at = np.array([[0, 4], [1, 0], [2, 0], [0, 4]])
    expected = [whole[0, 4], whole[1, 0], 0, whole[0, 4]]
    sampled = xpr.jit(
        lambda a, b, at: sparse.bcoo_dot_general_sampled(a, b, at, dimension_numbers=numbers)
    )
    np.testing.assert_allclose(sampled(a, b, at), expected, rtol=1e-5)
    # Along a batch axis, and for rows of the product.
    batched = sparse.bcoo_dot_general_sampled(
        a, a, np.array([[[0]], [[2]]]), dimension_numbers=(([2], [2]), ([0], [0]))
    )
    full = np.einsum("bij,bkj->bik", a, a)
    np.testing.assert_allclose(batched, [[full[0, 0]], [full[1, 2]]], rtol=1e-5)
    outer = sparse.bcoo_dot_general_sampled(
        a[0, 0], b[0, 0], np.array([[1, 2]]), dimension_numbers=(([], []), ([], []))
    )
    np.testing.assert_allclose(outer, [a[0, 0, 1] * b[0, 0, 2]], rtol=1e-6)
    with pytest.raises(ValueError, match="for a product of at least batch"):
        sparse.bcoo_dot_general_sampled(a[0], b[:, 0], at[:, [0, 0, 1]],
                                        dimension_numbers=(([1], [0]), ([], [])))  # fmt: skip


def test_elements_of_arrays_by_rows() -> None:
    m = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
    by_rows = sparse.BCSR.fromdense(jnp.asarray(m))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = xpr.jit(sparse.bcsr_extract)(by_rows.indices, by_rows.indptr, x)
    np.testing.assert_array_equal(found, x[m != 0])
    batch = sparse.BCSR.fromdense(jnp.asarray(np.stack([m, m])), n_batch=1)
    found = sparse.bcsr_extract(batch.indices, batch.indptr, np.stack([x, -x]))
    np.testing.assert_array_equal(found, [x[m != 0], -x[m != 0]])
    grad = xpr.grad(lambda x: sparse.bcsr_extract(by_rows.indices, by_rows.indptr, x).sum())(x)
    np.testing.assert_array_equal(grad, m != 0)


def test_arrays_by_rows_are_joined_and_repeated() -> None:
    m = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
    by_rows = sparse.BCSR.fromdense(jnp.asarray(m))
    for axis in (0, 1):
        joined = sparse.bcsr_concatenate([by_rows, by_rows], dimension=axis)
        assert isinstance(joined, sparse.BCSR)
        np.testing.assert_array_equal(joined.todense(), np.concatenate([m, m], axis))
    wide = sparse.bcsr_broadcast_in_dim(by_rows, shape=(4, 2, 3), broadcast_dimensions=(1, 2))
    assert wide.n_batch == 1
    np.testing.assert_array_equal(wide.todense(), np.broadcast_to(m, (4, 2, 3)))
    twice = sparse.BCSR((np.array([1, 2, 4]), np.array([1, 1, 0]), np.array([0, 2, 3])),
                        shape=(2, 3))  # fmt: skip
    once = sparse.bcsr_sum_duplicates(twice)
    assert once.nse == 2
    np.testing.assert_array_equal(once.todense(), [[0, 3, 0], [4, 0, 0]])
