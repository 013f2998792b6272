"""Batch axes, sparse axes and dense axes as one another."""

from __future__ import annotations

import operator
import warnings

import xpr.numpy as jnp
from xpr.core.source_info import user_stacklevel
from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse._parts import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    full_batch,
    limits,
    masked,
    placed,
    require_bcoo,
    sparse_sizes,
)


def bcoo_update_layout(
    mat: BCOO,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:
    """The array with other numbers of batch axes and dense axes.

    More of either needs more memory: for each element of the batch there are as many as for all
    before, and zeros fill the dense axes. `on_inefficient` says what happens then: "error", "warn"
    or None for nothing. (So a matrix of one element for each row becomes one with `n_batch=1`
    by `sum_duplicates(nse=1)` afterwards.)

    Raises SparseEfficiencyError, a ValueError, and ValueError for numbers that do not fit.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.eye(2), n_batch=1)
    >>> bcoo_update_layout(m, n_batch=0).indices.tolist()
    [[0, 0], [1, 1]]
    """
    mat = require_bcoo("bcoo_update_layout", mat)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(
            f"on_inefficient={on_inefficient!r}; expected one of ['error', 'warn', None]."
        )
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > mat.ndim:
        raise ValueError(
            f"update_layout requires n_batch + n_dense of at most {mat.ndim}, the number of axes, "
            f"got {n_batch=}, {n_dense=}"
        )
    for what, before, after in (("batch", mat.n_batch, n_batch), ("dense", mat.n_dense, n_dense)):
        if after > before and on_inefficient is not None:
            text = (
                f"For matrix of shape {mat.shape}, increasing n_{what} from {before} to {after} "
                "results in inefficient storage."
            )
            if on_inefficient == "error":
                raise SparseEfficiencyError(
                    f"{text} To disable this error, set the on_inefficient argument of "
                    "bcoo_update_layout to 'warn' or None."
                )
            warnings.warn(text, SparseEfficiencyWarning, stacklevel=user_stacklevel())
    while mat.n_dense > n_dense:
        mat = _dense_to_sparse(mat)
    while mat.n_batch > n_batch:
        mat = _batch_to_sparse(mat)
    while mat.n_batch < n_batch:
        mat = _sparse_to_batch(mat)
    while mat.n_dense < n_dense:
        mat = _sparse_to_dense(mat)
    return mat


def _dense_to_sparse(mat: BCOO) -> BCOO:
    """The first dense axis becomes the last sparse one."""
    n, size = mat.n_batch, mat.shape[mat.n_batch + mat.n_sparse]
    data, indices = full_batch(mat)
    nse = mat.nse * size
    data = data.reshape(*data.shape[:n], nse, *data.shape[n + 2 :])
    column = jnp.broadcast_to(
        jnp.arange(size, dtype=indices.dtype)[:, None], (*indices.shape[:-1], size, 1)
    )
    rows = jnp.broadcast_to(indices[..., None, :], (*indices.shape[:-1], size, mat.n_sparse))
    at = jnp.concatenate([rows, column], axis=-1).reshape(*indices.shape[:n], nse, -1)
    return mat.like(data, at, mat.shape, **mat.known())


def _batch_to_sparse(mat: BCOO) -> BCOO:
    """The last batch axis becomes the first sparse one."""
    n, size = mat.n_batch - 1, mat.shape[mat.n_batch - 1]
    data, indices = full_batch(mat)
    rows = jnp.arange(size, dtype=indices.dtype).reshape(size, 1, 1)
    rows = jnp.broadcast_to(rows, (*indices.shape[:-1], 1))
    at = jnp.concatenate([rows, indices], axis=-1)
    nse = size * mat.nse
    at = at.reshape(*at.shape[:n], nse, at.shape[-1])
    return mat.like(data.reshape(*data.shape[:n], nse, *data.shape[n + 2 :]), at, mat.shape)


def _sparse_to_batch(mat: BCOO) -> BCOO:
    """The first sparse axis becomes the last batch one."""
    n, size = mat.n_batch, mat.shape[mat.n_batch]
    data, indices = full_batch(mat)
    at, valid = placed(indices, sparse_sizes(mat))
    rows = jnp.arange(size, dtype=at.dtype).reshape((1,) * n + (size, 1))
    here = jnp.expand_dims(at[..., 0], n) == rows
    here &= jnp.expand_dims(valid, n)
    data = masked(jnp.expand_dims(data, n), here)
    rest = jnp.expand_dims(at[..., 1:], n)
    at = jnp.where(here[..., None], rest, limits(sparse_sizes(mat)[1:], rest))
    return mat.like(data, at, mat.shape, unique_indices=mat.unique_indices)


def _sparse_to_dense(mat: BCOO) -> BCOO:
    """The last sparse axis becomes the first dense one."""
    n = mat.n_batch
    sizes = sparse_sizes(mat)
    data, indices = full_batch(mat)
    at, valid = placed(indices, sizes)
    data = masked(data, valid)
    places = jnp.arange(sizes[-1], dtype=at.dtype)
    here = at[..., -1:] == places.reshape((1,) * (at.ndim - 1) + places.shape)
    return mat.like(masked(jnp.expand_dims(data, n + 1), here), at[..., :-1], mat.shape)
