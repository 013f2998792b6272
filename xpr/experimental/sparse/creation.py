"""How sparse arrays are made, and made dense again."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO, sizes_of
from xpr.experimental.sparse._parts import (
    full_batch,
    known_number,
    masked,
    over_batch,
    placed,
    require_bcoo,
    sparse_sizes,
)
from xpr.random import choice, split, uniform
from xpr.transforms.vmap import vmap


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCOO:
    """The sparse form of an array.

    Specified are the elements that are not zero; of an array with dense axes, the parts along them
    that are not all zero. With batch axes each element of the batch has as many as the fullest.

    Parameters:
        mat: an array.
        nse: how many elements to specify; what is left over is out of bounds, and what is too much
            is left out. Must be given under `jit` and `vmap`.
        n_batch, n_dense: the numbers of leading batch axes and of trailing dense axes.
        index_dtype: the dtype of the indices.

    Raises ValueError for more batch and dense axes than axes, and where `nse` must be given.

    >>> import xpr.numpy as jnp
    >>> m = bcoo_fromdense(jnp.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]))
    >>> m.data, m.indices.tolist()
    (Array([1., 2., 3.], dtype=float32), [[0, 1], [1, 0], [1, 2]])
    """
    mat = jnp.asarray(mat)
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    n_sparse = mat.ndim - n_batch - n_dense
    if n_batch < 0 or n_dense < 0 or n_sparse < 0:
        raise ValueError(
            f"bcoo_fromdense requires n_batch + n_dense of at most {mat.ndim}, the number of axes, "
            f"got n_batch={n_batch}, n_dense={n_dense}"
        )
    occupied = (mat != 0).any(tuple(range(n_batch + n_sparse, mat.ndim)))
    if nse is None:
        counts = occupied.sum(tuple(range(n_batch, n_batch + n_sparse)))
        nse = known_number(counts.max(initial=0), "bcoo_fromdense")
    nse = operator.index(nse)
    sizes = mat.shape[n_batch : n_batch + n_sparse]

    def kernel(x: Any, there: Any) -> tuple[Any, Any]:
        if not sizes:
            indices = jnp.zeros((nse, 0), index_dtype)
            first = (jnp.arange(nse) == 0) & there
            return masked(jnp.broadcast_to(x, (nse, *x.shape)), first), indices
        columns = jnp.nonzero(there, size=nse, fill_value=tuple(sizes))
        indices = jnp.stack(columns, axis=1).astype(index_dtype)
        found = x.at[columns].get(mode="fill", fill_value=0)
        return found, indices

    data, indices = over_batch(kernel, n_batch)(mat, occupied)
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_todense(mat: BCOO) -> Any:
    """The array with all its elements.

    >>> import xpr.numpy as jnp
    >>> bcoo_todense(BCOO((jnp.array([1.0, 2.0, 4.0]), jnp.array([[1], [0], [1]])), shape=(3,)))
    Array([2., 5., 0.], dtype=float32)
    """
    mat = require_bcoo("bcoo_todense", mat)
    sizes = sparse_sizes(mat)

    def kernel(data: Any, indices: Any) -> Any:
        where, valid = placed(indices, sizes)
        if not sizes:
            return data.sum(0, dtype=data.dtype)
        start = jnp.zeros((*sizes, *data.shape[1:]), data.dtype)
        columns = tuple(where[:, i] for i in range(len(sizes)))
        put = start.at[columns]
        if data.dtype == bool:
            return put.max(masked(data, valid), mode="drop")
        return put.add(masked(data, valid), mode="drop")

    return over_batch(kernel, mat.n_batch)(*full_batch(mat))


def bcoo_from_scipy(mat: Any, index_dtype: Any, n_dense: int, n_batch: int) -> BCOO:
    """A matrix or array of `scipy.sparse`."""
    if n_dense or n_batch:
        raise NotImplementedError("from_scipy_sparse with nonzero n_dense/n_batch.")
    coo = mat.tocoo()
    if index_dtype is None:
        index_dtype = np.int32
    columns = getattr(coo, "coords", None) or (coo.row, coo.col)
    indices = np.stack([np.asarray(c) for c in columns], axis=1).astype(index_dtype)
    return BCOO((jnp.asarray(coo.data), jnp.asarray(indices)), shape=coo.shape)


def bcoo_empty(
    shape: Sequence[int], dtype: Any, index_dtype: Any, n_dense: int, n_batch: int, nse: int
) -> BCOO:
    """An array of zeros."""
    shape = sizes_of(shape, "sparse.empty")
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_sparse, n_batch, n_dense, nse) < 0:
        raise ValueError(f"Invalid inputs: {shape=}, n_dense={n_dense}, n_batch={n_batch}, {nse=}")
    batch, sizes = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    data = jnp.zeros((*batch, nse, *shape[n_batch + n_sparse :]), dtype)
    bounds = jnp.asarray(np.array(sizes, dtype=np.dtype(index_dtype)).reshape(n_sparse))
    indices = jnp.broadcast_to(bounds, (*batch, nse, n_sparse))
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def bcoo_eye(
    N: int, M: int | None, k: int, dtype: Any, index_dtype: Any, n_batch: int, n_dense: int
) -> BCOO:
    """Ones on a diagonal."""
    rows, columns = operator.index(N), operator.index(N if M is None else M)
    k = operator.index(k)
    first, count = max(0, -k), max(0, min(rows - max(0, -k), columns - max(0, k)))
    if n_batch + n_dense:
        whole = np.eye(rows, columns, k)
        there = (whole != 0).any(tuple(range(2 - n_dense, 2)))
        counts = there.sum(tuple(range(n_batch, 2 - n_dense)))
        return bcoo_fromdense(
            jnp.asarray(whole, dtype or float),
            n_batch=n_batch,
            n_dense=n_dense,
            nse=int(counts.max(initial=0)),
            index_dtype=index_dtype,
        )
    at = np.arange(first, first + count)
    indices = np.stack([at, at + k], axis=1).astype(index_dtype)
    return BCOO(
        (jnp.ones(count, dtype), jnp.asarray(indices)),
        shape=(rows, columns),
        indices_sorted=True,
        unique_indices=True,
    )


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = float,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = uniform,
    **kwds: Any,
) -> BCOO:
    """A sparse array with random elements at random indices.

    Parameters:
        key: a random key.
        shape, n_batch, n_dense: of the array, as for `BCOO`.
        dtype, indices_dtype: of its elements and its indices.
        nse: how many elements to specify, or, below 1, which part of all.
        unique_indices: whether no index may occur twice.
        sorted_indices: whether the indices are to be in order.
        generator: draws the elements, as `generator(key, shape, dtype, **kwds)`.

    The numbers are not those that JAX draws for the same key.

    >>> import xpr
    >>> random_bcoo(xpr.random.key(0), (3, 4), nse=3, dtype="float32")
    BCOO(float32[3, 4], nse=3)
    """
    shape = sizes_of(shape, "random_bcoo")
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ValueError(f"Invalid {n_batch=}, {n_dense=} for {shape=}")
    batch, sizes = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    total = int(np.prod(sizes, dtype=np.int64))
    if nse < 0:
        raise ValueError(f"got nse={nse}, expected to be >= 0")
    count = int(np.ceil(nse * total)) if nse < 1 else operator.index(int(nse))
    if unique_indices and count > total:
        raise ValueError(f"random_bcoo: {count} unique indices do not fit into the sizes {sizes}")
    index_key, data_key = split(key)

    def draw(k: Any) -> Any:
        if not sizes:
            return jnp.zeros((count, 0), indices_dtype or np.int32)
        flat = choice(k, total, (count,), replace=not unique_indices)
        columns = jnp.unravel_index(flat, sizes)
        return jnp.stack(columns, axis=1).astype(indices_dtype or np.int32)

    keys = split(index_key, int(np.prod(batch, dtype=np.int64)))
    indices = vmap(draw)(keys).reshape(*batch, count, n_sparse)
    data = generator(data_key, (*batch, count, *shape[n_batch + n_sparse :]), dtype, **kwds)
    found = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return found.sort_indices() if sorted_indices else found
