"""`BCSR`: sparse arrays whose elements are specified row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO, JAXSparse, SparseInfo, sizes_of, surface
from xpr.tree_util import register_pytree_node_class


@register_pytree_node_class
class BCSR(JAXSparse):
    """An array of which some elements are specified, row by row.

    `BCSR((data, indices, indptr), shape=shape)`: the axes are `n_batch` batch axes, two sparse
    axes and `n_dense` dense axes. The elements of row `i` are `data[indptr[i]:indptr[i + 1]]`, and
    stand in the columns `indices[indptr[i]:indptr[i + 1]]`. `data` has the shape
    [*batch, nse, *dense], `indices` [*batch, nse] and `indptr` [*batch, rows + 1]. A column that
    is not less than their number does not count, nor what stands behind the last row.

    Raises ValueError for shapes that do not fit, TypeError for indices that are no integers.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCSR.fromdense(jnp.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]))
    >>> m
    BCSR(float32[2, 3], nse=3)
    >>> m.indices, m.indptr
    (Array([1, 0, 2], dtype=int32), Array([0, 1, 3], dtype=int32))
    >>> m @ jnp.ones(3)
    Array([1., 5.], dtype=float32)
    """

    indices: Any
    indptr: Any
    n_sparse = 2

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        data, indices, indptr = args
        self.data, self.indices = jnp.asarray(data), jnp.asarray(indices)
        self.indptr = jnp.asarray(indptr)
        self.info = SparseInfo(sizes_of(shape, "BCSR"), indices_sorted, unique_indices)
        self._check()

    def _check(self) -> None:
        for name, x in (("indices", self.indices), ("indptr", self.indptr)):
            if not jnp.issubdtype(x.dtype, jnp.integer):
                raise TypeError(f"BCSR requires {name} of integers, got {x.dtype.name}")
        n_batch, n_dense = self.n_batch, self.n_dense
        rows = self.shape[n_batch] if n_batch < self.ndim else -1
        fits = (
            n_batch >= 0
            and n_dense >= 0
            and n_batch + 2 + n_dense == self.ndim
            and self.data.shape[: n_batch + 1] == self.indices.shape
            and self.indptr.shape == (*self.indices.shape[:-1], rows + 1)
            and self.indices.shape[:-1] == self.shape[:n_batch]
            and self.data.shape[n_batch + 1 :] == self.shape[n_batch + 2 :]
        )
        if not fits:
            raise ValueError(
                f"Invalid data.shape={self.data.shape}, indices.shape={self.indices.shape} and "
                f"indptr.shape={self.indptr.shape} for a BCSR array of shape {self.shape}: data "
                "are [*batch, nse, *dense], indices [*batch, nse] and indptr [*batch, rows + 1]"
            )

    def _children(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    def _set(self, children: Sequence[Any]) -> None:
        self.data, self.indices, self.indptr = children

    @property
    def nse(self) -> int:
        """The number of elements that are specified, for each element of the batch."""
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 1

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - self.indices.ndim

    def with_data(self, data: Any) -> BCSR:
        """The array with other elements at the same indices."""
        return BCSR((data, self.indices, self.indptr), shape=self.shape, **self.known())

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The sparse form of an array: `bcsr_fromdense`."""
        return surface().bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """A BCOO array with two sparse axes, whose indices are sorted if they are not."""
        return surface().bcsr_from_bcoo(arr)

    def to_bcoo(self) -> BCOO:
        """The same elements with an index for each."""
        return surface().bcsr_to_bcoo(self)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """A matrix or array of `scipy.sparse`. NotImplementedError for batch or dense axes."""
        return surface().bcsr_from_scipy(mat, index_dtype, n_dense, n_batch)

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32, **layout: int
    ) -> BCSR:
        return surface().bcsr_empty(shape, dtype, index_dtype, **layout)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array in which no index occurs twice; see `bcoo_sum_duplicates`."""
        return surface().bcsr_sum_duplicates(self, nse, remove_zeros)
