"""Elements of arrays at given indices alone: what `bcoo_extract` does, for other sources."""

from __future__ import annotations

from typing import Any

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse._parts import masked, over_batch, placed
from xpr.experimental.sparse._rows import BCSR
from xpr.experimental.sparse.arithmetic import bcoo_extract
from xpr.experimental.sparse.rows import bcsr_to_bcoo
from xpr.primitives.dot_general import DotDims, dot_general


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The data of a BCSR array with these `indices` and `indptr`, from the array `mat`.

    >>> import xpr.numpy as jnp
    >>> m = BCSR.fromdense(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> bcsr_extract(m.indices, m.indptr, jnp.array([[1, 2], [3, 4]]))
    Array([2, 3], dtype=int32)
    """
    mat, indices = jnp.asarray(mat), jnp.asarray(indices)
    n_batch = indices.ndim - 1
    dense = mat.shape[n_batch + 2 :]
    data = jnp.zeros((*indices.shape, *dense), mat.dtype)
    places = bcsr_to_bcoo(BCSR((data, indices, jnp.asarray(indptr)), shape=mat.shape))
    return bcoo_extract(places, mat, assume_unique=True).data


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Any:
    """The elements of `lax.dot_general(A, B, dimension_numbers)` at BCOO `indices`: their data.

    Without batch axes each element is a product of two vectors, and only those of the elements
    asked for are computed; otherwise all are.

    Raises ValueError for indices of more axes than the product has, and what `dot_general` raises.

    >>> import xpr.numpy as jnp
    >>> a, b = jnp.arange(6.0).reshape(2, 3), jnp.arange(6.0).reshape(3, 2)
    >>> at = jnp.array([[0, 1], [1, 0]])
    >>> bcoo_dot_general_sampled(a, b, at, dimension_numbers=(([1], [0]), ([], [])))
    Array([13., 28.], dtype=float32)
    """
    A, B, indices = jnp.asarray(A), jnp.asarray(B), jnp.asarray(indices)
    (lc, rc), (lb, rb) = dimension_numbers
    numbers = ((tuple(lc), tuple(rc)), (tuple(lb), tuple(rb)))
    dims = DotDims.of(numbers)
    dims.check_shapes(A.shape, B.shape)
    shape = dims.out_shape(A.shape, B.shape)
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    if n_batch < 0 or n_batch + n_sparse > len(shape):
        raise ValueError(
            "bcoo_dot_general_sampled requires indices [*batch, nse, n] for a product of at least "
            f"batch + n axes, got {indices.shape} for {shape}"
        )
    if n_batch or n_sparse != len(shape) or dims.lhs_batch:
        whole = dot_general(A, B, numbers)
        nse = indices.shape[-2]
        data = jnp.zeros((*indices.shape[:-2], nse, *shape[n_batch + n_sparse :]), whole.dtype)
        return bcoo_extract(BCOO((data, indices), shape=shape), whole, assume_unique=True).data
    left, right = dims.free_axes(0, A.ndim), dims.free_axes(1, B.ndim)
    rows = A.transpose((*left, *dims.lhs_contract))
    columns = B.transpose((*right, *dims.rhs_contract))
    at, valid = placed(indices, shape)
    x = rows[tuple(at[:, i] for i in range(len(left)))]
    y = columns[tuple(at[:, len(left) + i] for i in range(len(right)))]
    if not left:
        x = jnp.broadcast_to(x, (len(at), *x.shape))
    if not right:
        y = jnp.broadcast_to(y, (len(at), *y.shape))
    return masked(over_batch(jnp.vdot, 1)(x.conj(), y), valid)
