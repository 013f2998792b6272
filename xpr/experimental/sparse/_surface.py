"""The functions behind the methods of sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpr.experimental.sparse._array import BCOO
from xpr.experimental.sparse._rows import BCSR
from xpr.experimental.sparse.arithmetic import sum_over as _sum_over
from xpr.experimental.sparse.creation import bcoo_empty as bcoo_empty
from xpr.experimental.sparse.creation import bcoo_from_scipy as bcoo_from_scipy
from xpr.experimental.sparse.creation import bcoo_fromdense as bcoo_fromdense
from xpr.experimental.sparse.layout import bcoo_update_layout as bcoo_update_layout
from xpr.experimental.sparse.pieces import getitem as _getitem
from xpr.experimental.sparse.reordering import bcoo_sort_indices as bcoo_sort_indices
from xpr.experimental.sparse.reordering import bcoo_transpose
from xpr.experimental.sparse.reordering import reshape as reshape
from xpr.experimental.sparse.reordering import sum_duplicates as sum_duplicates
from xpr.experimental.sparse.rows import bcsr_empty as bcsr_empty
from xpr.experimental.sparse.rows import bcsr_from_bcoo as bcsr_from_bcoo
from xpr.experimental.sparse.rows import bcsr_from_scipy as bcsr_from_scipy
from xpr.experimental.sparse.rows import bcsr_fromdense as bcsr_fromdense
from xpr.experimental.sparse.rows import bcsr_sum_duplicates as bcsr_sum_duplicates
from xpr.experimental.sparse.rows import bcsr_to_bcoo as bcsr_to_bcoo
from xpr.experimental.sparse.rows import todense as todense
from xpr.experimental.sparse.transform import apply as apply
from xpr.experimental.sparse.transform import matmul as matmul


def _entries(mat: Any) -> BCOO:
    return bcsr_to_bcoo(mat) if isinstance(mat, BCSR) else mat


def transpose(mat: Any, axes: Sequence[int] | None) -> Any:
    """The axes in another order; those of the batch stay in front when all are reversed."""
    order = tuple(range(mat.ndim))[::-1] if axes is None else tuple(axes)
    found = bcoo_transpose(_entries(mat), permutation=order)
    return bcsr_from_bcoo(found) if isinstance(mat, BCSR) else found


def sum_over(mat: Any, axis: Any) -> Any:
    """The sum; of BCSR arrays a BCOO array."""
    return _sum_over(_entries(mat), axis)


def getitem(mat: Any, index: Any) -> Any:
    """`mat[index]`; of BCSR arrays a BCOO array."""
    return _getitem(_entries(mat), index)
