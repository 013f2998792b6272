"""The older formats `COO`, `CSR` and `CSC`: matrices that are turned, multiplied and made dense."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

import xpr.numpy as jnp
from xpr.experimental.sparse._array import BCOO, JAXSparse, SparseInfo, sizes_of
from xpr.experimental.sparse._parts import known_number
from xpr.experimental.sparse._rows import BCSR
from xpr.experimental.sparse.creation import bcoo_fromdense
from xpr.experimental.sparse.rows import bcsr_from_bcoo, bcsr_to_bcoo
from xpr.experimental.sparse.transform import matmul
from xpr.lax import sort
from xpr.tree_util import register_pytree_node_class


def _refused(name: str) -> Callable[..., Any]:
    def method(self: JAXSparse, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{type(self)}.{name}: matrices of this format have products, transposes and todense "
            "only; BCOO has the rest"
        )

    return method


class Matrix(JAXSparse):
    """What `COO`, `CSR` and `CSC` have in common: two axes, and products with arrays."""

    @property
    def n_batch(self) -> int:
        """There are no batch axes."""
        return 0

    @property
    def n_dense(self) -> int:
        """There are no dense axes."""
        return 0

    @property
    def nse(self) -> int:
        """The number of elements that are specified."""
        return self.data.size

    def entries(self) -> BCOO:
        """The same elements in the format that has all operations."""
        raise self._is_base("entries")

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> Matrix:
        raise NotImplementedError(f"{cls.__name__} has no matrices: its subclasses do")

    def todense(self) -> Any:
        """The array with all its elements."""
        return self.entries().todense()

    def _require_no_axes(self, axes: Any) -> None:
        if axes is not None:
            raise NotImplementedError(
                f"axes argument to transpose(): the axes of {type(self).__name__} are reversed "
                f"only, got axes={axes}"
            )

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, JAXSparse):
            raise NotImplementedError("matmul between two sparse objects.")
        other = jnp.asarray(other)
        if other.ndim not in (1, 2):
            raise NotImplementedError(f"matmul with object of shape {other.shape}")
        return matmul(self.entries(), other)

    sum = _refused("sum")
    __rmatmul__ = _refused("__rmatmul__")
    __neg__ = _refused("__neg__")
    __pos__ = _refused("__pos__")
    __abs__ = _refused("__abs__")
    __mul__ = _refused("__mul__")
    __rmul__ = _refused("__rmul__")
    __add__ = _refused("__add__")
    __radd__ = _refused("__radd__")
    __sub__ = _refused("__sub__")
    __rsub__ = _refused("__rsub__")
    __truediv__ = _refused("__truediv__")
    __rtruediv__ = _refused("__rtruediv__")
    __pow__ = _refused("__pow__")
    __getitem__ = _refused("__getitem__")
    __iter__ = _refused("__iter__")
    __lt__ = _refused("__lt__")
    __le__ = _refused("__le__")
    __gt__ = _refused("__gt__")
    __ge__ = _refused("__ge__")
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        """Whether both are the same object."""
        return self is other

    def __ne__(self, other: object) -> bool:
        """Whether they are two objects."""
        return self is not other


class COOInfo(NamedTuple):
    """What is known of a COO matrix beside its arrays."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


def _sizes(shape: Any, name: str) -> tuple[int, ...]:
    found = sizes_of(shape, name)
    if len(found) != 2:
        raise ValueError(f"{name} must have ndim=2; got shape={found}")
    return found


def _diagonal(n_rows: int, n_cols: int, k: int) -> np.ndarray:
    """The rows that the k-th diagonal of a matrix goes through."""
    return np.arange(max(0, -k), max(0, -k, min(n_rows, n_cols - k)))


@register_pytree_node_class
class COO(Matrix):
    """A matrix of elements that are specified each by its row and its column.

    `COO((data, row, col), shape=shape)`, three arrays [nse]. Elements out of bounds do not count,
    and those at the same place are added. `BCOO` is the format that has all operations.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.COO.fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> m, m.row, m.col
    (COO(float32[2, 2], nse=2), Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    >>> m @ jnp.ones(2)
    Array([1., 2.], dtype=float32)
    """

    row: Any
    col: Any

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        self.data, self.row, self.col = map(jnp.asarray, args)
        self.info = COOInfo(_sizes(shape, "COO"), rows_sorted, cols_sorted)

    def _children(self) -> tuple[Any, ...]:
        return self.data, self.row, self.col

    def _set(self, children: Sequence[Any]) -> None:
        self.data, self.row, self.col = children

    def entries(self) -> BCOO:
        """The same elements as a BCOO array."""
        return BCOO((self.data, jnp.stack([self.row, self.col], axis=1)), shape=self.shape)

    def with_data(self, data: Any) -> COO:
        """The matrix with other elements at the same places."""
        return type(self).tree_unflatten(self.info, (data, self.row, self.col))

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
        """The sparse form of a matrix: `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32) -> COO:
        index = jnp.empty(0, index_dtype)
        args = (jnp.empty(0, dtype), index, index)
        return cls(args, shape=_sizes(shape, "COO"), rows_sorted=True, cols_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32) -> COO:
        row = _diagonal(N, M, k)
        parts = (jnp.ones(row.size, dtype), row.astype(index_dtype), (row + k).astype(index_dtype))
        return cls(parts, shape=(N, M), rows_sorted=True, cols_sorted=True)

    def _sort_indices(self) -> COO:
        """The matrix with its elements in the order of their rows, and of columns in a row."""
        if self.info.rows_sorted:
            return self
        row, col, data = sort((self.row, self.col, self.data), num_keys=2)
        return COO((data, row, col), shape=self.shape, rows_sorted=True)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The matrix with rows for columns. NotImplementedError for `axes`."""
        self._require_no_axes(axes)
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self.info.cols_sorted,
            cols_sorted=self.info.rows_sorted,
        )


class Compressed(Matrix):
    """What `CSR` and `CSC` have in common."""

    indices: Any
    indptr: Any

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(jnp.asarray, args)
        self.info = SparseInfo(_sizes(shape, type(self).__name__))

    def _children(self) -> tuple[Any, ...]:
        return self.data, self.indices, self.indptr

    def _set(self, children: Sequence[Any]) -> None:
        self.data, self.indices, self.indptr = children

    def with_data(self, data: Any) -> Self:
        """The matrix with other elements at the same places."""
        return type(self).tree_unflatten(self.info, (data, self.indices, self.indptr))

    @classmethod
    def _empty(
        cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = np.int32
    ) -> Self:
        shape = _sizes(shape, cls.__name__)
        lines = shape[1] if cls is CSC else shape[0]
        start = jnp.zeros(lines + 1, index_dtype)
        return cls((jnp.empty(0, dtype), jnp.empty(0, index_dtype), start), shape=shape)


@register_pytree_node_class
class CSR(Compressed):
    """A matrix of which some elements are specified, row by row.

    `CSR((data, indices, indptr), shape=shape)`: the elements of row `i` are
    `data[indptr[i]:indptr[i + 1]]`, in the columns `indices[indptr[i]:indptr[i + 1]]`. What stands
    behind the last row does not count. `BCSR` and `BCOO` have more operations.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.CSR.fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> m, m.indptr
    (CSR(float32[2, 2], nse=2), Array([0, 1, 2], dtype=int32))
    """

    def entries(self) -> BCOO:
        """The same elements as a BCOO array."""
        return bcsr_to_bcoo(BCSR(self._parts(), shape=self.shape))

    def _parts(self) -> tuple[Any, Any, Any]:
        return self.data, self.indices, self.indptr

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
        """The sparse form of a matrix: `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32) -> CSR:
        row = _diagonal(N, M, k)
        start = np.searchsorted(row, np.arange(N + 1)).astype(index_dtype)
        return cls((jnp.ones(row.size, dtype), (row + k).astype(index_dtype), start), shape=(N, M))

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """The matrix with rows for columns. NotImplementedError for `axes`."""
        self._require_no_axes(axes)
        return CSC(self._parts(), shape=self.shape[::-1])


@register_pytree_node_class
class CSC(Compressed):
    """A matrix of which some elements are specified, column by column: a `CSR` matrix, transposed.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.CSC.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> m.data, m.indptr
    (Array([2., 1., 3.], dtype=float32), Array([0, 1, 3], dtype=int32))
    """

    def entries(self) -> BCOO:
        """The same elements as a BCOO array."""
        return self.T.entries().T

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSC:
        """The sparse form of a matrix, of `nse` elements, column by column."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = np.int32) -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).T

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """The matrix with rows for columns. NotImplementedError for `axes`."""
        self._require_no_axes(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def _matrix(mat: Any, name: str) -> Any:
    mat = jnp.asarray(mat)
    if mat.ndim != 2:
        raise ValueError(f"{name} requires a matrix, got an array of shape {mat.shape}")
    return mat


def _number(nse: Any, mat: Any, name: str) -> int:
    number = known_number(jnp.sum(mat != 0) if nse is None else nse, name)
    if number < 0:
        raise ValueError(f"{name} requires nse to be at least 0, got {number}")
    return operator.index(number)


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """The sparse form of a matrix, of `nse` elements: as many as are not zero, by default.

    ValueError for an array that is no matrix, and under `jit` without `nse`.

    >>> import xpr.numpy as jnp
    >>> coo_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).data
    Array([1., 2.], dtype=float32)
    """
    mat = _matrix(mat, "coo_fromdense")
    nse = _number(nse, mat, "coo_fromdense")
    found = bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype)
    row, col = found.indices[:, 0], found.indices[:, 1]
    return COO((found.data, row, col), shape=mat.shape, rows_sorted=True)


def coo_todense(mat: COO) -> Any:
    """The array with all its elements.

    >>> from xpr.experimental import sparse
    >>> coo_todense(sparse.eye(2, sparse_format="coo")).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return mat.todense()


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """The form by rows of a matrix, of `nse` elements: as many as are not zero, by default.

    ValueError for an array that is no matrix, and under `jit` without `nse`.

    >>> import xpr.numpy as jnp
    >>> csr_fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]])).indices
    Array([1, 0, 1], dtype=int32)
    """
    mat = _matrix(mat, "csr_fromdense")
    nse = _number(nse, mat, "csr_fromdense")
    found = bcsr_from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))
    return CSR((found.data, found.indices, found.indptr), shape=mat.shape)


def csr_todense(mat: CSR) -> Any:
    """The array with all its elements.

    >>> from xpr.experimental import sparse
    >>> csr_todense(sparse.eye(2, k=1, sparse_format="csr")).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return mat.todense()


def _product(mat: Any, other: Any, transpose: bool, name: str, ndim: int) -> Any:
    other = jnp.asarray(other)
    if other.ndim != ndim:
        raise ValueError(f"{name} requires an array of {ndim} axes, got the shape {other.shape}")
    return (mat.T if transpose else mat) @ other


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Any:
    """The product of a matrix, or its transpose, and a vector.

    >>> import xpr.numpy as jnp
    >>> coo_matvec(COO.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]])), jnp.ones(2), transpose=True)
    Array([2., 4.], dtype=float32)
    """
    return _product(mat, v, transpose, "coo_matvec", 1)


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Any:
    """The product of a matrix, or its transpose, and an array of two axes.

    >>> import xpr.numpy as jnp
    >>> coo_matmat(COO.fromdense(jnp.array([[0.0, 1.0]])), jnp.ones((2, 1)))
    Array([[1.]], dtype=float32)
    """
    return _product(mat, B, transpose, "coo_matmat", 2)


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Any:
    """The product of a matrix, or its transpose, and a vector.

    >>> import xpr.numpy as jnp
    >>> csr_matvec(CSR.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]])), jnp.ones(2))
    Array([1., 5.], dtype=float32)
    """
    return _product(mat, v, transpose, "csr_matvec", 1)


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Any:
    """The product of a matrix, or its transpose, and an array of two axes.

    >>> import xpr.numpy as jnp
    >>> csr_matmat(CSR.fromdense(jnp.array([[0.0, 1.0]])), jnp.ones((2, 1)))
    Array([[1.]], dtype=float32)
    """
    return _product(mat, B, transpose, "csr_matmat", 2)
