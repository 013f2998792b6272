"""Sums and elementwise products of sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse._parts import (
    full_batch,
    limits,
    masked,
    over_batch,
    placed,
    require_bcoo,
    sparse_sizes,
)
from xpr.experimental.sparse.creation import bcoo_todense
from xpr.experimental.sparse.layout import bcoo_update_layout


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum over some axes.

    The result specifies as many elements, times the sizes of the batch axes that are summed over;
    indices occur several times. ValueError for an axis that does not exist.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> bcoo_reduce_sum(m, axes=(0,)).todense()
    Array([2., 4.], dtype=float32)
    """
    mat = require_bcoo("bcoo_reduce_sum", mat)
    gone = _axes(axes, mat.ndim)
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    kept_batch = [d for d in range(n) if d not in gone]
    summed_batch = [d for d in range(n) if d in gone]
    data, indices = full_batch(mat)
    at, valid = placed(indices, sparse_sizes(mat))
    data = masked(data, valid)
    data = data.sum(tuple(d - m + n + 1 for d in gone if d >= m), dtype=data.dtype)
    at = at[..., np.array([d - n for d in range(n, m) if d not in gone], np.int32)]
    order = (*kept_batch, *summed_batch)
    data = data.transpose((*order, *range(n, data.ndim)))
    at = at.transpose((*order, n, n + 1))
    head = tuple(mat.shape[d] for d in kept_batch)
    nse = math.prod(mat.shape[d] for d in summed_batch) * mat.nse
    shape = tuple(s for d, s in enumerate(mat.shape) if d not in gone)
    return mat.like(
        data.reshape(*head, nse, *data.shape[n + 1 :]), at.reshape(*head, nse, at.shape[-1]), shape
    )


def _axes(axes: Any, ndim: int) -> set[int]:
    found = set()
    for a in axes:
        axis = operator.index(a)
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
        found.add(axis % ndim)
    return found


def sum_over(mat: BCOO, axis: int | Sequence[int] | None) -> Any:
    """The method: an array of all is summed over, else a sparse array."""
    if axis is None:
        axes: Sequence[int] = range(mat.ndim)
    else:
        axes = (axis,) if isinstance(axis, (int, np.integer)) else axis
    found = bcoo_reduce_sum(mat, axes=axes)
    return bcoo_todense(found) if not found.ndim else found


def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of the array `arr` at the indices of `sparr`.

    Of an index that occurs twice, the second is given 0, unless `assume_unique` says that there is
    none. ValueError for another shape.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([0.0, 1.0]))
    >>> bcoo_extract(m, jnp.array([5.0, 7.0])).data
    Array([7.], dtype=float32)
    """
    sparr = require_bcoo("bcoo_extract", sparr)
    arr = jnp.asarray(arr)
    if arr.shape != sparr.shape:
        raise ValueError(
            f"bcoo_extract requires an array of the shape {sparr.shape}, got {arr.shape}"
        )
    sizes = sparse_sizes(sparr)
    unique = sparr.unique_indices if assume_unique is None else assume_unique

    def kernel(x: Any, indices: Any) -> Any:
        at, valid = placed(indices, sizes)
        if not unique and len(at):
            valid = valid & _first_of_each(at)
        if not sizes:
            return masked(jnp.broadcast_to(x, (len(at), *x.shape)), valid)
        columns = tuple(at[:, i] for i in range(len(sizes)))
        return masked(x.at[columns].get(mode="fill", fill_value=0), valid)

    _, indices = full_batch(sparr)
    data = over_batch(kernel, sparr.n_batch)(arr, indices)
    return BCOO((data, sparr.indices), shape=sparr.shape, **sparr.known())


def _first_of_each(at: Any) -> Any:
    """Of indices [nse, n], which do not occur before."""
    if not at.shape[1]:
        return jnp.arange(len(at)) == 0
    _, first = jnp.unique(at, axis=0, return_index=True, size=len(at), fill_value=0)
    order = jnp.arange(len(at))
    return jnp.zeros(len(at), bool).at[first].set(True) & (order >= 0)


def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Any:
    """The data of the elementwise product with an array, which is broadcast to the sparse one.

    >>> import xpr.numpy as jnp
    >>> bcoo_multiply_dense(BCOO.fromdense(jnp.array([0.0, 2.0, 3.0])), jnp.array([5.0, 7.0, 1.0]))
    Array([14.,  3.], dtype=float32)
    """
    mat = require_bcoo("bcoo_multiply_dense", sp_mat)
    v = jnp.asarray(v)
    if not v.ndim:
        return mat.data * v
    shape = (1,) * (mat.ndim - v.ndim) + v.shape
    if len(shape) != mat.ndim or any(
        size not in (1, own) for size, own in zip(shape, mat.shape, strict=True)
    ):
        raise ValueError(
            f"Incompatible shapes for broadcasting: shapes=[{mat.shape}, {v.shape}]: the sparse "
            "array is not broadcast"
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    v = v.reshape(shape)
    wide = jnp.broadcast_to(v, (*mat.shape[:n], *shape[n:m], *shape[m:]))
    sizes, own = sparse_sizes(mat), shape[n:m]

    def kernel(data: Any, indices: Any, x: Any) -> Any:
        at, valid = placed(indices, sizes)
        columns = tuple(
            at[:, i] if own[i] != 1 or sizes[i] == 1 else jnp.zeros_like(at[:, i])
            for i in range(len(sizes))
        )
        picked = x.at[columns].get(mode="fill", fill_value=0) if columns else x
        return masked(data * picked, valid)

    return over_batch(kernel, n)(*full_batch(mat), wide)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays, which specifies lhs.nse * rhs.nse elements.

    ValueError for shapes that differ.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([0.0, 2.0, 3.0]))
    >>> bcoo_multiply_sparse(m, m).todense()
    Array([0., 4., 9.], dtype=float32)
    """
    lhs = require_bcoo("bcoo_multiply_sparse", lhs)
    lhs, rhs = alike("bcoo_multiply_sparse", lhs, require_bcoo("bcoo_multiply_sparse", rhs))
    sizes = sparse_sizes(lhs)

    def kernel(a: Any, i: Any, b: Any, j: Any) -> tuple[Any, Any]:
        i, valid = placed(i, sizes)
        j, other = placed(j, sizes)
        match = (i[:, None] == j[None]).all(-1) & valid[:, None] & other[None]
        product = masked(a[:, None] * b[None], match)
        rows = jnp.where(match[..., None], i[:, None], limits(sizes, i))
        count = match.size
        return product.reshape(count, *product.shape[2:]), rows.reshape(count, len(sizes))

    data, indices = over_batch(kernel, lhs.n_batch)(*full_batch(lhs), *full_batch(rhs))
    return lhs.like(data, indices, lhs.shape)


def alike(name: str, lhs: BCOO, rhs: BCOO) -> tuple[BCOO, BCOO]:
    """Both with the same layout; ValueError for shapes that differ."""
    if lhs.shape != rhs.shape:
        raise TypeError(
            f"{name} got incompatible shapes for broadcasting: {lhs.shape}, {rhs.shape}."
        )
    n_batch, n_dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in (lhs, rhs))
    dtype = jnp.promote_types(lhs.indices.dtype, rhs.indices.dtype)
    return tuple(  # pyright: ignore[reportReturnType]
        BCOO((m.data, m.indices.astype(dtype)), shape=m.shape, **m.known()) for m in (lhs, rhs)
    )


def add_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The sum, which specifies the elements of both."""
    if lhs.indices is rhs.indices and lhs.n_batch == rhs.n_batch and lhs.shape == rhs.shape:
        return lhs.with_data(lhs.data + rhs.data)
    lhs, rhs = alike("add", lhs, rhs)
    n = lhs.n_batch
    (a, i), (b, j) = full_batch(lhs), full_batch(rhs)
    dtype = jnp.promote_types(a.dtype, b.dtype)
    data = jnp.concatenate([a.astype(dtype), b.astype(dtype)], axis=n)
    return lhs.like(data, jnp.concatenate([i, j], axis=n), lhs.shape)
