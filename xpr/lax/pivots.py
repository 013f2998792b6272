"""Exchanges of rows, as LU factorisations give them, and the permutation that they make."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.primitive import check_operands
from xpr.core.trace import get_aval
from xpr.lax.loops import fori_loop
from xpr.primitives import compare as cmp
from xpr.primitives import reduce as red
from xpr.primitives import shape as sh
from xpr.primitives.convert import convert_element_type
from xpr.primitives.creation import broadcasted_iota
from xpr.primitives.slicing import dynamic_index_in_dim

_INT32 = np.dtype(np.int32)


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Array:
    """The permutation [..., m] that exchanges row i with row `pivots`[..., i], in order of i.

    `pivots` [..., k] are int32, as `lu` gives them, and m is `permutation_size`, at least k. Raises
    TypeError for another dtype, ValueError for no axis or a smaller size.

    >>> lu_pivots_to_permutation(np.array([1, 2, 2], np.int32), 3)
    Array([1, 2, 0], dtype=int32)
    """
    check_operands("lu_pivots_to_permutation", pivots)
    aval = get_aval(pivots)
    if aval.dtype != _INT32:
        raise TypeError(f"lu_pivots_to_permutation requires int32 pivots, got {aval.dtype}")
    if not aval.ndim or aval.shape[-1] > permutation_size:
        raise ValueError(
            "lu_pivots_to_permutation requires pivots [..., k] with k of at most the size of the "
            f"permutation, got shape {aval.shape} and size {permutation_size}"
        )
    shape = (*aval.shape[:-1], permutation_size)
    last = len(shape) - 1
    rows = broadcasted_iota(_INT32, shape, last)

    def spread(x: Any) -> Any:
        return sh.broadcast_in_dim(x, shape, tuple(range(len(shape))))

    def exchange(i: Any, order: Any) -> Any:
        i = convert_element_type(i, _INT32)
        other = cmp.eq(rows, spread(dynamic_index_in_dim(pivots, i, last)))
        here = spread(dynamic_index_in_dim(order, i, last))
        zero = sh.broadcast(_INT32.type(0), shape)
        there = red.reduce_sum(cmp.select(other, order, zero), (last,))
        there = sh.broadcast_in_dim(there, shape, tuple(range(last)))
        return cmp.select(cmp.eq(rows, i), there, cmp.select(other, here, order))

    return fori_loop(_INT32.type(0), _INT32.type(aval.shape[-1]), exchange, rows)
