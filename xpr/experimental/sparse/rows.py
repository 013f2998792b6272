"""BCSR arrays: how they are made, and their products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO, JAXSparse
from xpr.experimental.sparse._parts import (
    full_batch,
    masked,
    over_batch,
    placed,
    require_bcoo,
    sparse_sizes,
)
from xpr.experimental.sparse._rows import BCSR
from xpr.experimental.sparse.creation import bcoo_empty, bcoo_fromdense, bcoo_todense
from xpr.experimental.sparse.pieces import bcoo_concatenate
from xpr.experimental.sparse.products import Dimensions, bcoo_dot_general
from xpr.experimental.sparse.reordering import (
    bcoo_broadcast_in_dim,
    bcoo_sort_indices,
    sum_duplicates,
)


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCSR:
    """The form by rows of an array with two axes beside batch and dense ones; see `bcoo_fromdense`.

    ValueError for another number of axes.

    >>> import xpr.numpy as jnp
    >>> bcsr_fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]])).indptr
    Array([0, 1, 3], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(
            f"bcsr_fromdense: must have 2 sparse dimensions. Got {mat.ndim} axes, n_batch={n_batch}"
            f", n_dense={n_dense}"
        )
    return bcsr_from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )


def bcsr_from_bcoo(arr: BCOO) -> BCSR:
    """A BCOO array by rows. ValueError unless it has two sparse axes."""
    arr = require_bcoo("BCSR.from_bcoo", arr)
    if arr.n_sparse != 2:
        raise ValueError(f"BCSR.from_bcoo requires two sparse axes, got {arr.n_sparse}")
    arr = bcoo_sort_indices(arr)
    sizes = sparse_sizes(arr)

    def kernel(data: Any, indices: Any) -> tuple[Any, Any, Any]:
        at, valid = placed(indices, sizes)
        # What is out of bounds in one axis only stands among the others: it is set to zero.
        rows = jnp.where(indices[:, 0] < 0, indices[:, 0] + sizes[0], indices[:, 0])
        counts = jnp.zeros(sizes[0], at.dtype).at[rows].add(1, mode="drop")
        start = jnp.concatenate([jnp.zeros(1, at.dtype), jnp.cumsum(counts).astype(at.dtype)])
        return masked(data, valid), at[:, 1], start

    found = over_batch(kernel, arr.n_batch)(*full_batch(arr))
    return BCSR(found, shape=arr.shape, indices_sorted=True, unique_indices=arr.unique_indices)


def bcsr_to_bcoo(mat: BCSR) -> BCOO:
    """The same elements with an index for each; behind the last row they are out of bounds."""
    rows = mat.shape[mat.n_batch]

    def kernel(indices: Any, indptr: Any) -> Any:
        at = jnp.searchsorted(indptr[1:], jnp.arange(mat.nse, dtype=indptr.dtype), side="right")
        return jnp.stack([jnp.minimum(at, rows).astype(indices.dtype), indices], axis=1)

    indices = over_batch(kernel, mat.n_batch)(mat.indices, mat.indptr)
    known = {"indices_sorted": mat.indices_sorted, "unique_indices": mat.unique_indices}
    return BCOO((mat.data, indices), shape=mat.shape, **known)


def bcsr_todense(mat: BCSR) -> Any:
    """The array with all its elements.

    >>> import xpr.numpy as jnp
    >>> bcsr_todense(bcsr_fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    """
    return bcoo_todense(bcsr_to_bcoo(mat))


def bcsr_from_scipy(mat: Any, index_dtype: Any, n_dense: int, n_batch: int) -> BCSR:
    """A matrix or array of `scipy.sparse`."""
    if n_dense or n_batch:
        raise NotImplementedError("BCSR from_scipy_sparse with nonzero n_dense/n_batch.")
    csr = mat.tocsr()
    dtype = np.int32 if index_dtype is None else index_dtype
    arrays = (csr.data, csr.indices.astype(dtype), csr.indptr.astype(dtype))
    data, indices, indptr = map(jnp.asarray, arrays)
    return BCSR((data, indices, indptr), shape=csr.shape)


def bcsr_empty(
    shape: Sequence[int],
    dtype: Any,
    index_dtype: Any,
    n_dense: int = 0,
    n_batch: int = 0,
    nse: int = 0,
) -> BCSR:
    """An array of zeros."""
    return bcsr_from_bcoo(bcoo_empty(shape, dtype, index_dtype, n_dense, n_batch, nse))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
    """The array in which no index occurs twice; see `bcoo_sum_duplicates`.

    >>> import xpr.numpy as jnp
    >>> twice = BCSR((jnp.array([1, 2]), jnp.array([1, 1]), jnp.array([0, 2])), shape=(1, 3))
    >>> bcsr_sum_duplicates(twice).data
    Array([3], dtype=int32)
    """
    return bcsr_from_bcoo(sum_duplicates(bcsr_to_bcoo(mat), nse, remove_zeros))


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """`lax.broadcast_in_dim` of a BCSR array; see `bcoo_broadcast_in_dim`.

    >>> import xpr.numpy as jnp
    >>> m = BCSR.fromdense(jnp.array([[0, 1], [2, 0]]))
    >>> found = bcsr_broadcast_in_dim(m, shape=(1, 2, 2), broadcast_dimensions=(1, 2))
    >>> found.n_batch, found.todense().tolist()
    (1, [[[0, 1], [2, 0]]])
    """
    del sharding  # a hint about devices
    found = bcoo_broadcast_in_dim(
        bcsr_to_bcoo(mat), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    return bcsr_from_bcoo(found)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """BCSR arrays behind each other along `dimension`; see `bcoo_concatenate`.

    >>> import xpr.numpy as jnp
    >>> m = BCSR.fromdense(jnp.array([[0, 1]]))
    >>> bcsr_concatenate([m, m], dimension=0).todense().tolist()
    [[0, 1], [0, 1]]
    """
    found = bcoo_concatenate([bcsr_to_bcoo(m) for m in operands], dimension=dimension)
    return bcsr_from_bcoo(found)


def bcsr_dot_general(
    lhs: BCSR | Any,
    rhs: Any,
    *,
    dimension_numbers: Dimensions,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` with a BCSR array; see `bcoo_dot_general`.

    >>> import xpr.numpy as jnp
    >>> m = bcsr_fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> bcsr_dot_general(m, jnp.ones(2), dimension_numbers=(([1], [0]), ([], [])))
    Array([1., 5.], dtype=float32)
    """
    left, right = (bcsr_to_bcoo(x) if isinstance(x, BCSR) else x for x in (lhs, rhs))
    return bcoo_dot_general(
        left,
        right,
        dimension_numbers=dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )


def todense(arr: Any) -> Any:
    """The array that is meant by a sparse one; an array is returned as it is.

    >>> import xpr.numpy as jnp
    >>> todense(BCOO.fromdense(jnp.array([0.0, 1.0])))
    Array([0., 1.], dtype=float32)
    """
    if isinstance(arr, BCSR):
        return bcsr_todense(arr)
    if isinstance(arr, BCOO):
        return bcoo_todense(arr)
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return jnp.asarray(arr)
