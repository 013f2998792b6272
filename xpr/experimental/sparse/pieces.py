"""Parts of sparse arrays, and sparse arrays put together."""

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
    placed,
    require_bcoo,
    sparse_sizes,
)
from xpr.experimental.sparse.layout import bcoo_update_layout
from xpr.experimental.sparse.reordering import (
    bcoo_broadcast_in_dim,
    bcoo_squeeze,
    sum_duplicates,
)
from xpr.lax import dynamic_slice, dynamic_slice_in_dim


def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """The elements between `start_indices` and `limit_indices`, every `strides`-th of them.

    As many elements as before are specified, those outside out of bounds, unless the result has
    less. ValueError for numbers that do not fit the axes.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> bcoo_slice(m, start_indices=(0, 1), limit_indices=(2, 2)).todense().tolist()
    [[1.0], [3.0]]
    """
    mat = require_bcoo("bcoo_slice", mat)
    first, last = (tuple(map(operator.index, xs)) for xs in (start_indices, limit_indices))
    steps = (1,) * mat.ndim if strides is None else tuple(map(operator.index, strides))
    if {len(first), len(last), len(steps)} != {mat.ndim}:
        raise ValueError(
            f"bcoo_slice: indices must have size mat.ndim={mat.ndim}, got {first}, {last}, {steps}"
        )
    for s, e, step, n in zip(first, last, steps, mat.shape, strict=True):
        if not (0 <= s <= e <= n and step > 0):
            raise ValueError(
                f"bcoo_slice: invalid indices {first}, {last}, {steps} for {mat.shape}"
            )
    shape = tuple(-(-(e - s) // step) for s, e, step in zip(first, last, steps, strict=True))
    if shape == mat.shape:
        return mat
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat)
    take = [slice(s, e, step) for s, e, step in zip(first, last, steps, strict=True)]
    data = data[(*take[:n], slice(None), *take[m:])]
    indices = indices[tuple(take[:n])]
    at, valid = placed(indices, sparse_sizes(mat))
    offset, end, step = (limits(xs[n:m], at) for xs in (first, last, steps))
    inside = (at >= offset) & (at < end) & ((at - offset) % step == 0)
    return _within(mat, data, (at - offset) // step, inside.all(-1) & valid, shape)


def _within(mat: BCOO, data: Any, at: Any, inside: Any, shape: Sequence[int]) -> BCOO:
    """The elements that are inside, as few as the result has."""
    sizes = shape[mat.n_batch : mat.n_batch + mat.n_sparse]
    at = jnp.where(inside[..., None], at, limits(sizes, at))
    found = mat.like(masked(data, inside), at, shape)
    most = math.prod(sizes)
    return found if found.nse <= most else sum_duplicates(found, most, remove_zeros=False)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """The part of the sizes `slice_sizes` at `start_indices`, which may be traced.

    Starts are moved so that the part is within the array, as by `lax.dynamic_slice`.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([1.0, 0.0, 2.0]))
    >>> bcoo_dynamic_slice(m, (jnp.array(1),), (2,)).todense()
    Array([0., 2.], dtype=float32)
    """
    mat = require_bcoo("bcoo_dynamic_slice", mat)
    sizes = tuple(map(operator.index, slice_sizes))
    if len(start_indices) != mat.ndim or len(sizes) != mat.ndim:
        raise ValueError(
            f"bcoo_dynamic_slice: indices must have size mat.ndim={mat.ndim}, got "
            f"{len(start_indices)} starts and {len(sizes)} sizes"
        )
    if any(not 0 <= s <= n for s, n in zip(sizes, mat.shape, strict=True)):
        raise TypeError(
            f"slice_sizes must be less than or equal to operand shape, got {sizes} for {mat.shape}"
        )
    first = []
    for s, size, n in zip(start_indices, sizes, mat.shape, strict=True):
        start = jnp.asarray(s)
        start = jnp.where(start < 0, start + n, start)
        first.append(jnp.clip(start, 0, n - size))
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat)
    zero = jnp.zeros((), first[0].dtype if first else np.int32)
    data = dynamic_slice(
        data, (*first[:n], zero, *first[m:]), (*sizes[:n], mat.nse, *sizes[m:])
    )  # fmt: skip
    for d in range(n):
        indices = dynamic_slice_in_dim(indices, first[d], sizes[d], axis=d)
    at, valid = placed(indices, sparse_sizes(mat))
    if n == m:
        return mat.like(data, indices, sizes)
    offset = jnp.stack([s.astype(at.dtype) for s in first[n:m]])
    offset = offset.reshape((1,) * (at.ndim - 1) + offset.shape)
    inside = ((at >= offset) & (at < offset + limits(sizes[n:m], at))).all(-1) & valid
    return _within(mat, data, at - offset, inside, sizes)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with some axes in reverse.

    >>> import xpr.numpy as jnp
    >>> bcoo_rev(BCOO.fromdense(jnp.array([1.0, 0.0, 2.0])), dimensions=(0,)).todense()
    Array([2., 0., 1.], dtype=float32)
    """
    mat = require_bcoo("bcoo_rev", operand)
    turned = {operator.index(d) % mat.ndim for d in dimensions}
    n, m = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = full_batch(mat)
    data = jnp.flip(data, tuple(d if d < n else d - m + n + 1 for d in turned if d < n or d >= m))
    indices = jnp.flip(indices, tuple(d for d in turned if d < n))
    sizes = sparse_sizes(mat)
    at, valid = placed(indices, sizes)
    mirrored = [
        sizes[i] - 1 - at[..., i] if i + n in turned else at[..., i] for i in range(len(sizes))
    ]
    at = jnp.stack(mirrored, axis=-1) if mirrored else at
    at = jnp.where(valid[..., None], at, limits(sizes, at))
    return mat.like(data, at, mat.shape, unique_indices=mat.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Sparse arrays one behind the other along an axis.

    ValueError for shapes that differ elsewhere.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([1.0, 0.0]))
    >>> bcoo_concatenate([m, m], dimension=0).todense()
    Array([1., 0., 1., 0.], dtype=float32)
    """
    mats = [require_bcoo("bcoo_concatenate", m) for m in operands]
    if not mats:
        raise ValueError("bcoo_concatenate requires one operand or more, got none")
    ndim = mats[0].ndim
    axis = operator.index(dimension)
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    axis %= ndim
    shapes = [m.shape for m in mats]
    if any((*s[:axis], *s[axis + 1 :]) != (*shapes[0][:axis], *shapes[0][axis + 1 :])
           for s in shapes):  # fmt: skip
        raise ValueError(
            f"Cannot concatenate arrays of shapes {shapes} along dimension {axis}: they differ "
            "elsewhere"
        )
    n_batch, n_dense = min(m.n_batch for m in mats), min(m.n_dense for m in mats)
    mats = [bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in mats]
    shape = (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])
    n, m = n_batch, ndim - n_dense
    parts = [full_batch(mat) for mat in mats]
    if n <= axis < m:
        at = []
        offset = 0
        for mat, (_, indices) in zip(mats, parts, strict=True):
            indices, valid = placed(indices, sparse_sizes(mat))
            shift = np.zeros((1,) * (indices.ndim - 1) + (m - n,), np.dtype(indices.dtype))
            shift[..., axis - n] = offset
            moved = indices + jnp.asarray(shift)
            at.append(jnp.where(valid[..., None], moved, limits(shape[n:m], moved)))
            offset += mat.shape[axis]
        data = jnp.concatenate([d for d, _ in parts], axis=n)
        return mats[0].like(data, jnp.concatenate(at, axis=n), shape)
    if axis < n:
        nse = max(mat.nse for mat in mats)
        padded = [_padded(mat, d, i, nse) for mat, (d, i) in zip(mats, parts, strict=True)]
        data = jnp.concatenate([d for d, _ in padded], axis=axis)
        return mats[0].like(data, jnp.concatenate([i for _, i in padded], axis=axis), shape)
    wide, before = [], 0
    place = axis - m + n + 1
    for mat, (d, _) in zip(mats, parts, strict=True):
        widths = [(0, 0)] * d.ndim
        widths[place] = (before, shape[axis] - before - mat.shape[axis])
        wide.append(jnp.pad(d, widths))
        before += mat.shape[axis]
    data = jnp.concatenate(wide, axis=n)
    return mats[0].like(data, jnp.concatenate([i for _, i in parts], axis=n), shape)


def _padded(mat: BCOO, data: Any, indices: Any, nse: int) -> tuple[Any, Any]:
    """With elements out of bounds, so that there are `nse`."""
    n, more = mat.n_batch, nse - mat.nse
    if not more:
        return data, indices
    zeros = jnp.zeros((*data.shape[:n], more, *data.shape[n + 1 :]), data.dtype)
    bound = jnp.broadcast_to(
        limits(sparse_sizes(mat), indices), (*indices.shape[:n], more, mat.n_sparse)
    )
    return jnp.concatenate([data, zeros], axis=n), jnp.concatenate([indices, bound], axis=n)


def getitem(mat: BCOO, index: Any) -> BCOO:
    """`mat[index]`: integers, slices, `...` and None."""
    mat = require_bcoo("indexing", mat)
    entries = list(index) if isinstance(index, tuple) else [index]
    real = sum(e is not None and e is not ... for e in entries)
    if real > mat.ndim:
        raise IndexError(
            f"Too many indices: array is {mat.ndim}-dimensional, but {real} were indexed"
        )
    if not any(e is ... for e in entries):
        entries.append(...)
    at = next(i for i, e in enumerate(entries) if e is ...)
    entries[at : at + 1] = [slice(None)] * (mat.ndim - real)
    if any(e is ... for e in entries):
        raise IndexError("an index can only have a single ellipsis ('...')")
    first, last, steps, gone, turned = [], [], [], [], []
    axis = 0
    for e in entries:
        if e is None:
            continue
        size = mat.shape[axis]
        if isinstance(e, slice):
            start, stop, step = e.indices(size)
            if step < 0:
                turned.append(axis)
                count = len(range(start, stop, step))
                start, stop, step = size - 1 - start, size - start + (count - 1) * -step, -step
                stop = stop if count else start
            first.append(start)
            last.append(max(start, stop))
            steps.append(step)
        else:
            try:
                i = operator.index(e)
            except TypeError:
                raise NotImplementedError(
                    f"indexing a sparse array with {type(e).__name__}: integers, slices, ... and "
                    "None are possible"
                ) from None
            if not -size <= i < size:
                raise IndexError(
                    f"index {i} is out of bounds for axis {axis} of size {size} of a sparse array"
                )
            first.append(i % size)
            last.append(i % size + 1)
            steps.append(1)
            gone.append(axis)
        axis += 1
    mat = bcoo_rev(mat, turned) if turned else mat
    found = bcoo_slice(mat, start_indices=first, limit_indices=last, strides=steps)
    found = bcoo_squeeze(found, dimensions=gone)
    shape, where, kept = [], [], iter(range(found.ndim))
    for e in entries:
        if e is None:
            shape.append(1)
        elif isinstance(e, slice):
            where.append(len(shape))
            shape.append(found.shape[next(kept)])
    if None not in entries:
        return found
    return bcoo_broadcast_in_dim(found, shape=shape, broadcast_dimensions=where)
