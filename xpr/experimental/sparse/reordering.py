"""The same elements in another order or another layout."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO, sizes_of
from xpr.experimental.sparse._parts import (
    full_batch,
    known_number,
    limits,
    masked,
    over_batch,
    placed,
    require_bcoo,
    sorting,
    sparse_sizes,
    starts,
)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its axes in another order.

    Batch axes, sparse axes and dense axes are permuted each among themselves; NotImplementedError
    otherwise. TypeError for what is no permutation.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]))
    >>> bcoo_transpose(m, permutation=(1, 0)).todense().tolist()
    [[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]]
    """
    mat = require_bcoo("bcoo_transpose", mat)
    order = tuple(operator.index(p) for p in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(
            "transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{order} for shape {mat.shape}."
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = order[:n], order[n:m], order[m:]
    for part, first, end, what in ((batch, 0, n, "batch axes with non-batch"),
                                   (dense, m, mat.ndim, "dense axes with non-dense")):  # fmt: skip
        if any(not first <= p < end for p in part):
            raise NotImplementedError(
                f"transpose permutation cannot permute {what} axes; got permutation {order}, with "
                f"n_batch={n}, n_dense={mat.n_dense}."
            )
    if order == tuple(range(mat.ndim)):
        return mat
    data = mat.data.transpose((*batch, n, *(p - m + n + 1 for p in dense)))
    indices = mat.indices.transpose((*batch, n, n + 1))
    in_order = sparse == tuple(range(n, m))
    if not in_order:
        indices = indices[..., np.array([p - n for p in sparse])]
    return mat.like(
        data,
        indices,
        [mat.shape[p] for p in order],
        indices_sorted=mat.indices_sorted and in_order,
        unique_indices=mat.unique_indices,
    )


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with its indices in lexicographic order.

    >>> import xpr.numpy as jnp
    >>> m = BCOO((jnp.array([1.0, 2.0]), jnp.array([[2], [0]])), shape=(3,))
    >>> bcoo_sort_indices(m).data
    Array([2., 1.], dtype=float32)
    """
    mat = require_bcoo("bcoo_sort_indices", mat)
    if mat.indices_sorted:
        return mat

    def kernel(data: Any, indices: Any) -> tuple[Any, Any]:
        found, order = sorting(indices)
        return data[order], found

    data, indices = over_batch(kernel, mat.n_batch)(*full_batch(mat))
    return mat.like(
        data, indices, mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array in which no index occurs twice, with its indices in order.

    Elements out of bounds and zeros are left out. `nse`, which must be given under `jit` and
    `vmap`, says how many elements there are to be: what is left over is out of bounds, and what is
    too much is left out.

    >>> import xpr.numpy as jnp
    >>> m = BCOO((jnp.array([1.0, 2.0, 4.0]), jnp.array([[1], [0], [1]])), shape=(3,))
    >>> bcoo_sum_duplicates(m).data
    Array([2., 5.], dtype=float32)
    """
    return sum_duplicates(mat, nse, remove_zeros=True)


def sum_duplicates(mat: BCOO, nse: int | None, remove_zeros: bool) -> BCOO:
    """As `bcoo_sum_duplicates`; zeros are left out on request."""
    mat = require_bcoo("bcoo_sum_duplicates", mat)
    sizes = sparse_sizes(mat)
    data, indices = full_batch(mat)

    def arrange(values: Any, at: Any) -> tuple[Any, Any, Any, Any]:
        at, valid = placed(at, sizes)
        if remove_zeros:
            valid = valid & (values != 0).any(tuple(range(1, values.ndim)))
        at = jnp.where(valid[:, None], at, limits(sizes, at))
        if not sizes:  # in order are those that count first
            order = jnp.argsort(~valid, stable=True)
            ordered = valid[order]
            new = ordered & (jnp.arange(len(at)) == 0)
            return masked(values[order], ordered), at, new, ordered
        at, order = sorting(at)
        ordered = valid[order]
        return masked(values[order], ordered), at, starts(at) & ordered, ordered

    values, at, new, counts = over_batch(arrange, mat.n_batch)(data, indices)
    if nse is None:
        most = new.sum(-1).max(initial=0) if mat.nse else np.int32(0)
        nse = known_number(most, "bcoo_sum_duplicates")
    count = operator.index(nse)

    def gather(values: Any, at: Any, new: Any, counts: Any) -> tuple[Any, Any]:
        group = jnp.where(counts, jnp.cumsum(new) - 1, count)
        summed = jnp.zeros((count, *values.shape[1:]), values.dtype)
        place = jnp.where(new, group, count)
        rows = jnp.broadcast_to(limits(sizes, at), (count, len(sizes)))
        if values.dtype == bool:
            summed = summed.at[group].max(values, mode="drop")
        else:
            summed = summed.at[group].add(values, mode="drop")
        return summed, rows.at[place].set(at, mode="drop")

    data, indices = over_batch(gather, mat.n_batch)(values, at, new, counts)
    return mat.like(data, indices, mat.shape, indices_sorted=True, unique_indices=True)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
) -> BCOO:
    """The array with its batch axes and its sparse axes in other shapes.

    `new_sizes` are the sizes of all axes; the elements of a batch remain together, and dense axes
    remain as they are. Raises TypeError for another number of elements, NotImplementedError where
    batch, sparse and dense axes would mix, and for `dimensions`.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> bcoo_reshape(m, new_sizes=(4,)).indices.tolist()
    [[1], [2]]
    """
    mat = require_bcoo("bcoo_reshape", mat)
    new = sizes_of(new_sizes, "bcoo_reshape")
    if math.prod(new) != math.prod(mat.shape):
        raise TypeError(
            f"cannot reshape array of shape {mat.shape} (size {math.prod(mat.shape)}) into shape "
            f"{new} (size {math.prod(new)})"
        )
    if dimensions is not None and tuple(dimensions) != tuple(range(mat.ndim)):
        raise NotImplementedError("bcoo_reshape with dimensions in another order")
    if new == mat.shape:
        return mat
    old_batch, sizes = mat.shape[: mat.n_batch], sparse_sizes(mat)
    dense = mat.shape[mat.ndim - mat.n_dense :]
    if new[len(new) - mat.n_dense :] != dense:
        raise NotImplementedError(
            f"reshape of a BCOO array of shape {mat.shape} to {new}: its {mat.n_dense} dense axes "
            "must remain"
        )
    kept = new[: len(new) - mat.n_dense]
    n_batch = _leading(kept, math.prod(old_batch), mat.n_batch, math.prod(sizes))
    if n_batch is None:
        raise NotImplementedError(
            f"reshape of a BCOO array of shape {mat.shape}, n_batch={mat.n_batch}, to {new}: batch "
            "axes and sparse axes cannot mix"
        )
    batch, new_sparse = kept[:n_batch], kept[n_batch:]
    data, indices = full_batch(mat)
    at, valid = placed(indices, sizes)
    total = math.prod(sizes)
    if total > np.iinfo(np.dtype(at.dtype)).max:
        raise ValueError(
            f"reshape: {total} elements cannot be counted by indices of {at.dtype.name}; make the "
            "array with index_dtype='int64'"
        )
    flat = jnp.zeros(at.shape[:-1], at.dtype)
    for i, n in enumerate(sizes):
        flat = flat * n + at[..., i]
    columns = []
    for n in reversed(new_sparse):
        columns.append(flat % max(n, 1))
        flat = flat // max(n, 1)
    if columns:
        stacked = jnp.stack(columns[::-1], axis=-1)
        stacked = jnp.where(valid[..., None], stacked, limits(new_sparse, stacked))
    else:
        data = masked(data, valid)
        stacked = at[..., :0]
    data = data.reshape(*batch, mat.nse, *dense)
    return mat.like(data, stacked.reshape(*batch, mat.nse, len(new_sparse)), new)


def _leading(sizes: Sequence[int], batch: int, n_batch: int, sparse: int) -> int | None:
    """How many of the new axes hold the batch; as many as before if that fits."""
    fits = [
        n
        for n in range(len(sizes) + 1)
        if math.prod(sizes[:n]) == batch and math.prod(sizes[n:]) == sparse
    ]
    if not n_batch and 0 in fits:
        return 0
    fits = [n for n in fits if n or not n_batch]
    return min(fits, key=lambda n: abs(n - n_batch), default=None)


def reshape(mat: BCOO, *args: Any, **kwargs: Any) -> BCOO:
    """The method: sizes as one sequence or one by one, one of them -1 for what is left."""
    given = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    given = tuple(operator.index(n) for n in kwargs.pop("shape", given))
    if kwargs:
        raise TypeError(f"reshape of a BCOO array takes no {', '.join(kwargs)}")
    if -1 in given:
        rest = math.prod(n for n in given if n != -1)
        given = tuple(math.prod(mat.shape) // max(rest, 1) if n == -1 else n for n in given)
    return bcoo_reshape(mat, new_sizes=given)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> BCOO:
    """The array with further axes, or repeated along axes of size 1.

    Axis i of `mat` becomes axis `broadcast_dimensions[i]`. New axes in front are batch axes,
    others belong to the group of the axes around them. NotImplementedError where sparse or dense
    axes would have to be repeated; use dense arrays for these.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([1.0, 0.0]))
    >>> bcoo_broadcast_in_dim(m, shape=(2, 2), broadcast_dimensions=(1,)).todense().tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    mat = require_bcoo("bcoo_broadcast_in_dim", mat)
    new, to = sizes_of(shape, "bcoo_broadcast_in_dim"), tuple(broadcast_dimensions)
    if len(to) != mat.ndim or list(to) != sorted(set(to)) or any(
        mat.shape[i] not in (1, new[d]) for i, d in enumerate(to)
    ):  # fmt: skip
        raise ValueError(
            f"bcoo_broadcast_in_dim: shape {mat.shape} cannot be broadcast to {new} by the "
            f"dimensions {to}"
        )
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    first = to[n] if mat.n_sparse else (to[m] if mat.n_dense else len(new))
    if not mat.n_sparse and not mat.n_dense:
        first = len(new)
    last = to[m] if mat.n_dense else len(new)
    data, indices = full_batch(mat)
    batch_from = {d: i for i, d in enumerate(to[:n])}
    head = [mat.shape[batch_from[d]] if d in batch_from else 1 for d in range(first)]
    data = data.reshape(*head, *data.shape[n:])
    indices = indices.reshape(*head, *indices.shape[n:])
    data = jnp.broadcast_to(data, (*new[:first], *data.shape[first:]))
    indices = jnp.broadcast_to(indices, (*new[:first], *indices.shape[first:]))
    columns, place = [], {d: i for i, d in enumerate(to[n:m])}
    nothing = jnp.zeros(indices.shape[:-1], indices.dtype)
    indices, valid = placed(indices, sparse_sizes(mat))
    data = masked(data, valid)
    for d in range(first, last):
        if d in place:
            columns.append(indices[..., place[d]])
        else:
            columns.append(nothing)
        if (mat.shape[to.index(d)] if d in place else 1) != new[d]:
            raise NotImplementedError(
                f"bcoo_broadcast_in_dim: sparse axis {d} of size 1 cannot be repeated {new[d]} "
                "times"
            )
    stacked = jnp.stack(columns, axis=-1) if columns else indices[..., :0]
    dense = {d: i for i, d in enumerate(to[m:])}
    tail = [mat.shape[m + dense[d]] if d in dense else 1 for d in range(last, len(new))]
    data = data.reshape(*data.shape[: first + 1], *tail)
    data = jnp.broadcast_to(data, (*data.shape[: first + 1], *new[last:]))
    return mat.like(data, stacked, new)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without axes of size 1.

    >>> import xpr.numpy as jnp
    >>> bcoo_squeeze(BCOO.fromdense(jnp.ones((1, 2))), dimensions=(0,)).shape
    (2,)
    """
    arr = require_bcoo("bcoo_squeeze", arr)
    gone = {operator.index(d) % max(arr.ndim, 1) for d in dimensions}
    for d in gone:
        if arr.shape[d] != 1:
            raise ValueError(
                "cannot select an axis to squeeze out which has size not equal to one, got shape="
                f"{arr.shape} and dimensions={tuple(dimensions)}"
            )
    if not gone:
        return arr
    n, m = arr.n_batch, arr.n_batch + arr.n_sparse
    data, indices = full_batch(arr)
    at, valid = placed(indices, sparse_sizes(arr))
    data = masked(data, valid)
    kept = np.array([d - n for d in range(n, m) if d not in gone], np.int32)
    at = at[..., kept].squeeze(tuple(d for d in gone if d < n))
    data = data.squeeze(tuple(d if d < n else d - m + n + 1 for d in gone if d < n or d >= m))
    return arr.like(data, at, [s for d, s in enumerate(arr.shape) if d not in gone])
