"""Products of sparse arrays, with arrays and with each other."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse._parts import (
    full_batch,
    limits,
    masked,
    over_batch,
    placed,
    sparse_sizes,
)
from xpr.experimental.sparse.reordering import sum_duplicates
from xpr.transforms.vmap import vmap

Dimensions = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Dimensions,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` where one or both operands are BCOO arrays.

    With an array, the result is an array. Of two sparse arrays it is sparse, and specifies for
    each pair of elements one, but at most as many as it has. Batch dimensions of the product must
    be batch axes of sparse operands; sums are over sparse axes and batch axes.

    Parameters:
        dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)).
        preferred_element_type: the dtype of the result.
        precision, out_sharding: have no effect here.

    Raises TypeError for sizes that differ, NotImplementedError for sums over dense axes.

    >>> import xpr.numpy as jnp
    >>> m = BCOO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> bcoo_dot_general(m, jnp.ones(2), dimension_numbers=(([1], [0]), ([], [])))
    Array([1., 5.], dtype=float32)
    """
    del precision, out_sharding
    (lc, rc), (lb, rb) = (tuple(tuple(map(operator.index, d)) for d in pair)
                          for pair in dimension_numbers)  # fmt: skip
    _check(lhs.shape, rhs.shape, lc, rc, lb, rb)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        found: Any = _sparse_sparse(lhs, rhs, lc, rc, lb, rb)
        if preferred_element_type is not None:
            found = found.astype(preferred_element_type)
        return found
    if isinstance(lhs, BCOO):
        found = _sparse_dense(lhs, jnp.asarray(rhs), lc, rc, lb, rb)
    elif isinstance(rhs, BCOO):
        lhs = jnp.asarray(lhs)
        found = _sparse_dense(rhs, lhs, rc, lc, rb, lb)
        # batch, axes of rhs, axes of lhs: the latter two change places
        n, m = len(lb), rhs.ndim - len(rc) - len(rb)
        ndim = found.ndim
        found = found.transpose((*range(n), *range(n + m, ndim), *range(n, n + m)))
    else:
        raise TypeError(
            f"bcoo_dot_general requires a BCOO array, got {type(lhs).__name__} and "
            f"{type(rhs).__name__}"
        )
    return found if preferred_element_type is None else found.astype(preferred_element_type)


def _check(
    left: Sequence[int], right: Sequence[int],
    lc: Sequence[int], rc: Sequence[int], lb: Sequence[int], rb: Sequence[int],
) -> None:  # fmt: skip
    for what, here, there in (("contracting", lc, rc), ("batch", lb, rb)):
        sizes = tuple(left[d] for d in here), tuple(right[d] for d in there)
        if sizes[0] != sizes[1]:
            raise TypeError(
                f"dot_general requires {what} dimensions to have the same shape, got {sizes[0]} "
                f"and {sizes[1]}."
            )


def _require_axes(mat: BCOO, contract: Sequence[int], batch: Sequence[int]) -> None:
    if any(d >= mat.n_batch + mat.n_sparse for d in contract):
        raise NotImplementedError("bcoo_dot_general: contracting over dense dimensions.")
    if any(d >= mat.n_batch for d in batch):
        raise NotImplementedError(
            "bcoo_dot_general: batch dimensions must be among the batch dimensions of the sparse "
            f"operand, got {tuple(batch)} for n_batch={mat.n_batch}"
        )


def _sparse_dense(
    mat: BCOO, x: Any, mc: Sequence[int], xc: Sequence[int], mb: Sequence[int], xb: Sequence[int]
) -> Any:
    """The product, with the axes batch, free axes of `mat`, free axes of `x`."""
    _require_axes(mat, mc, mb)
    n, sizes = mat.n_batch, sparse_sizes(mat)
    dtype = jnp.result_type(mat.data, x)
    data, indices = full_batch(mat)
    data, x = data.astype(dtype), x.astype(dtype)
    partner = dict(zip((*mc, *mb), (*xc, *xb), strict=True))
    # x gets the axes: partners of batch axes, partners of sparse axes, free ones
    outer = [partner[d] for d in range(n) if d in partner]
    inner = [d for d in mc if d >= n]
    free = [d for d in range(x.ndim) if d not in partner.values()]
    x = x.transpose((*outer, *(partner[d] for d in inner), *free))
    columns = [d - n for d in inner]
    left = [i for i in range(len(sizes)) if i not in columns]

    def kernel(values: Any, at: Any, x: Any) -> Any:
        at, valid = placed(at, sizes)
        where = tuple(at[:, i] for i in columns)
        picked = x.at[where].get(mode="fill", fill_value=0) if where else x[None]
        n_dense, n_free = values.ndim - 1, x.ndim - len(where)
        values = values.reshape(values.shape + (1,) * n_free)
        picked = picked.reshape(picked.shape[:1] + (1,) * n_dense + picked.shape[1:])
        product = masked(values * picked, valid)
        if not left:
            return product.sum(0, dtype=product.dtype)
        out = jnp.zeros((*(sizes[i] for i in left), *product.shape[1:]), product.dtype)
        return out.at[tuple(at[:, i] for i in left)].add(product, mode="drop")

    for d in reversed(range(n)):
        kernel = vmap(kernel, in_axes=(0, 0, 0 if d in partner else None))
    found = kernel(data, indices, x)
    summed = tuple(d for d in range(n) if d in mc)
    found = found.sum(summed, dtype=found.dtype) if summed else found
    kept = [d for d in range(n) if d not in summed]
    order = [kept.index(d) for d in mb]
    rest = [i for i in range(found.ndim) if i not in order]
    return found.transpose((*order, *rest))


def _sparse_sparse(
    lhs: BCOO, rhs: BCOO, lc: Sequence[int], rc: Sequence[int], lb: Sequence[int], rb: Sequence[int]
) -> BCOO:
    for mat, contract, batch in ((lhs, lc, lb), (rhs, rc, rb)):
        _require_axes(mat, contract, batch)
        if mat.n_dense or any(d < mat.n_batch for d in contract):
            raise NotImplementedError(
                "bcoo_dot_general of two sparse arrays: no dense axes, and sums over sparse axes "
                f"only, got n_batch={mat.n_batch}, n_dense={mat.n_dense}, contracting dimensions "
                f"{tuple(contract)}"
            )
    left_batch = [d for d in range(lhs.n_batch) if d not in lb]
    right_batch = [d for d in range(rhs.n_batch) if d not in rb]
    left_free = [d - lhs.n_batch for d in range(lhs.n_batch, lhs.ndim) if d not in lc]
    right_free = [d - rhs.n_batch for d in range(rhs.n_batch, rhs.ndim) if d not in rc]
    if right_batch and left_free:
        raise NotImplementedError(
            "bcoo_dot_general of two sparse arrays: batch axes of rhs that are no batch dimensions "
            "would follow sparse axes of lhs"
        )
    sizes, others = sparse_sizes(lhs), sparse_sizes(rhs)
    sparse = (*(sizes[i] for i in left_free), *(others[i] for i in right_free))
    columns, partners = [d - lhs.n_batch for d in lc], [d - rhs.n_batch for d in rc]
    index_dtype = jnp.promote_types(lhs.indices.dtype, rhs.indices.dtype)

    def kernel(a: Any, i: Any, b: Any, j: Any) -> tuple[Any, Any]:
        i, valid = placed(i, sizes)
        j, other = placed(j, others)
        match = valid[:, None] & other[None]
        for c, d in zip(columns, partners, strict=True):
            match &= i[:, None, c] == j[None, :, d]
        product = masked(a[:, None] * b[None], match).reshape(-1)
        rows = jnp.broadcast_to(i[:, None], (*match.shape, i.shape[1]))
        rest = jnp.broadcast_to(j[None], (*match.shape, j.shape[1]))
        at = [rows[..., k] for k in left_free] + [rest[..., k] for k in right_free]
        count = match.size
        if not at:
            return product, jnp.zeros((count, 0), index_dtype)
        stacked = jnp.stack(at, axis=-1).astype(index_dtype)
        stacked = jnp.where(match[..., None], stacked, limits(sparse, stacked))
        return product, stacked.reshape(count, len(at))

    (a, i), (b, j) = full_batch(lhs), full_batch(rhs)
    a, i = (x.transpose((*lb, *left_batch, *range(lhs.n_batch, x.ndim))) for x in (a, i))
    b, j = (x.transpose((*rb, *right_batch, *range(rhs.n_batch, x.ndim))) for x in (b, j))
    for _ in right_batch:
        kernel = vmap(kernel, in_axes=(None, None, 0, 0))
    for _ in left_batch:
        kernel = vmap(kernel, in_axes=(0, 0, None, None))
    data, indices = over_batch(kernel, len(lb))(a, i, b, j)
    batch = [lhs.shape[d] for d in (*lb, *left_batch)] + [rhs.shape[d] for d in right_batch]
    found = lhs.like(data, indices, (*batch, *sparse))
    most = math.prod(sparse)
    if found.nse <= most:
        return found
    return sum_duplicates(found, most, remove_zeros=False)


def matmul(lhs: Any, rhs: Any) -> Any:
    """`lhs @ rhs` of operands with one axis or two, in which the common case needs no tracing.

    None where it is for `numpy.matmul`'s general rules.
    """
    if lhs.ndim not in (1, 2) or rhs.ndim not in (1, 2):
        return None
    return bcoo_dot_general(lhs, rhs, dimension_numbers=(([lhs.ndim - 1], [0]), ([], [])))
