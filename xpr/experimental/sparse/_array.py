"""Sparse arrays: their base class and `BCOO`, its layout and what it offers as methods.

What the methods do stands in the other files of this folder, which make sparse arrays from sparse
arrays; they hand their functions down once, through `install`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

import xpr.numpy as jnp
from xpr.core.trace import Tracer
from xpr.tree_util import register_pytree_node_class

_surface: list[Any] = []


def install(operations: Any) -> None:
    """Gives sparse arrays their methods: `operations` is the module that has them all."""
    _surface[:] = [operations]


def surface() -> Any:
    """The functions behind the methods."""
    return _surface[0]


class SparseInfo(NamedTuple):
    """What is known of a sparse array beside its arrays."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class JAXSparse:
    """The base class of sparse arrays.

    >>> from xpr.experimental import sparse
    >>> isinstance(sparse.eye(2), sparse.JAXSparse)
    True
    """

    data: Any
    info: Any  # of BCOO and BCSR a SparseInfo

    # `dense @ sparse` is computed here.
    __array_priority__ = 200
    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes of the array that is meant."""
        return self.info.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.info.shape)

    @property
    def size(self) -> int:
        """The number of elements of the array that is meant, zeros too."""
        return int(np.prod(self.info.shape, dtype=object))

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.data.dtype

    @property
    def nse(self) -> int:
        """The number of elements that are specified."""
        raise self._is_base("nse")

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        raise self._is_base("n_batch")

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        raise self._is_base("n_dense")

    @property
    def indices_sorted(self) -> bool:
        """Whether the indices are known to be in order."""
        return self.info.indices_sorted

    @property
    def unique_indices(self) -> bool:
        """Whether no index is known to occur twice."""
        return self.info.unique_indices

    def known(self) -> dict[str, bool]:
        """What is known of the indices."""
        return {"indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}

    def _is_base(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} has no {what}: it is a base of the classes that have them"
        )

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return self.transpose()

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            nse, n_batch, n_dense, dtype = self.nse, self.n_batch, self.n_dense, self.data.dtype
        except (AttributeError, IndexError):
            return f"{name}(<invalid>)"
        more = f", n_batch={n_batch}" if n_batch else ""
        more += f", n_dense={n_dense}" if n_dense else ""
        sizes = ", ".join(map(str, self.shape))
        text = f"{name}({dtype.name}[{sizes}], nse={nse}{more})"
        return f"{type(self.data).__name__}[{text}]" if isinstance(self.data, Tracer) else text

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(len(self))

    def todense(self) -> Any:
        """The array with all its elements."""
        return surface().todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its axes in another order, reversed by default.

        Batch axes, sparse axes and dense axes keep to themselves: NotImplementedError otherwise.
        """
        return surface().transpose(self, axes)

    def sum(self, axis: int | Sequence[int] | None = None) -> Any:
        """The sum over `axis`, a sparse array; over all axes, an array."""
        return surface().sum_over(self, axis)

    def block_until_ready(self) -> Self:
        """Waits for the arrays."""
        for leaf in self._children():
            leaf.block_until_ready()
        return self

    def _children(self) -> tuple[Any, ...]:
        raise self._is_base("arrays")

    def tree_flatten(self) -> tuple[tuple[Any, ...], SparseInfo]:
        """The arrays, and what is known of them beside."""
        return self._children(), self.info

    @classmethod
    def tree_unflatten(cls, info: SparseInfo, children: Sequence[Any]) -> Self:
        """The inverse of `tree_flatten`, for whatever stands in the place of arrays."""
        made = object.__new__(cls)
        made._set(children)
        made.info = info
        return made

    def _set(self, children: Sequence[Any]) -> None:
        raise self._is_base("arrays")

    def without_axis(self, axis: int) -> Self:
        """Under `vmap`: one element of the batch, whose arrays are those of the whole batch."""
        if not 0 <= axis < self.n_batch:
            raise ValueError(
                f"Cannot map in_axis={axis} for {type(self).__name__} array with "
                f"n_batch={self.n_batch}. in_axes for batched {type(self).__name__} operations "
                "must correspond to a batch dimension."
            )
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        return type(self).tree_unflatten(self.info._replace(shape=shape), self._children())

    def with_axis(self, axis: int, size: int) -> Self:
        """Under `vmap`: the batch whose elements are like this one."""
        if not 0 <= axis < self.n_batch:
            raise ValueError(
                f"vmap out_axes={axis} for a {type(self).__name__} array with "
                f"n_batch={self.n_batch}: it must be that of a batch dimension"
            )
        shape = (*self.shape[:axis], size, *self.shape[axis:])
        return type(self).tree_unflatten(self.info._replace(shape=shape), self._children())

    def __getitem__(self, index: Any) -> Any:
        return surface().getitem(self, index)

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __neg__(self) -> Any:
        return surface().apply(operator.neg, self)

    def __pos__(self) -> Any:
        return surface().apply(operator.pos, self)

    def __abs__(self) -> Any:
        return surface().apply(operator.abs, self)

    def __matmul__(self, other: Any) -> Any:
        return surface().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return surface().matmul(other, self)

    def __mul__(self, other: Any) -> Any:
        return surface().apply(jnp.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return surface().apply(jnp.multiply, other, self)

    def __add__(self, other: Any) -> Any:
        return surface().apply(jnp.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return surface().apply(jnp.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return surface().apply(jnp.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return surface().apply(jnp.subtract, other, self)

    def __truediv__(self, other: Any) -> Any:
        return surface().apply(jnp.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return surface().apply(jnp.true_divide, other, self)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, (int, float)):  # known while the function is traced
            return surface().apply(lambda x: x**other, self)
        return surface().apply(jnp.power, self, other)

    def __eq__(self, other: object) -> Any:
        return surface().apply(jnp.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return surface().apply(jnp.not_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return surface().apply(jnp.less, self, other)

    def __le__(self, other: Any) -> Any:
        return surface().apply(jnp.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return surface().apply(jnp.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return surface().apply(jnp.greater_equal, self, other)


def sizes_of(shape: Any, name: str) -> tuple[int, ...]:
    """A shape, as a tuple of Python numbers."""
    try:
        return tuple(operator.index(n) for n in shape)
    except TypeError:
        raise TypeError(f"{name} requires a shape, a sequence of integers, got {shape!r}") from None


@register_pytree_node_class
class BCOO(JAXSparse):
    """An array of which some elements are specified by their index, and all others are zero.

    `BCOO((data, indices), shape=shape)`. The axes are, in this order, `n_batch` batch axes, for
    each of which elements of their own are specified, `n_sparse` sparse axes and `n_dense` dense
    axes, whose elements are specified together. `data` has the shape
    [*batch, nse, *dense] and the integers `indices` the shape [*batch, nse, n_sparse]; a batch
    axis of theirs may have the size 1, for all.

    What an index names twice is the sum. A specified element one of whose indices is not less than
    the size of its axis does not count; this is how `nse` can be larger than needed. Negative
    indices count from the end.

    `indices_sorted` and `unique_indices` say what is known of `indices`, and are not checked.

    Raises ValueError for shapes that do not fit, TypeError for indices that are no integers.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental import sparse
    >>> m = sparse.BCOO((jnp.array([1.0, 2.0]), jnp.array([[0, 1], [1, 0]])), shape=(2, 3))
    >>> m
    BCOO(float32[2, 3], nse=2)
    >>> m.todense()
    Array([[0., 1., 0.],
           [2., 0., 0.]], dtype=float32)
    >>> m @ jnp.ones(3)
    Array([1., 2.], dtype=float32)
    """

    indices: Any

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        data, indices = args
        self.data, self.indices = jnp.asarray(data), jnp.asarray(indices)
        self.info = SparseInfo(sizes_of(shape, "BCOO"), indices_sorted, unique_indices)
        self._check()

    def _check(self) -> None:
        if not jnp.issubdtype(self.indices.dtype, jnp.integer):
            raise TypeError(f"BCOO requires indices of integers, got {self.indices.dtype.name}")
        what = (
            f"Invalid data.shape={self.data.shape} and indices.shape={self.indices.shape} for a "
            f"BCOO array of shape {self.shape}"
        )
        if self.indices.ndim < 2:
            raise ValueError(f"{what}: indices are [*batch, nse, n_sparse]")
        n_batch, n_dense = self.n_batch, self.n_dense
        if n_dense < 0 or n_batch + self.n_sparse + n_dense != self.ndim:
            raise ValueError(
                f"{what}: {n_batch} batch, {self.n_sparse} sparse and {n_dense} dense axes are not "
                f"its {self.ndim} axes"
            )
        if self.data.shape[n_batch] != self.nse:
            raise ValueError(f"{what}: {self.nse} indices for {self.data.shape[n_batch]} elements")
        for part in (self.data.shape[:n_batch], self.indices.shape[:n_batch]):
            if any(n not in (1, m) for n, m in zip(part, self.shape, strict=False)):
                raise ValueError(f"{what}: the batch axes are {self.shape[:n_batch]}, or 1")
        if self.data.shape[n_batch + 1 :] != self.shape[self.ndim - n_dense :]:
            raise ValueError(f"{what}: the dense axes are {self.shape[self.ndim - n_dense :]}")

    def _children(self) -> tuple[Any, ...]:
        return self.data, self.indices

    def _set(self, children: Sequence[Any]) -> None:
        self.data, self.indices = children

    @property
    def nse(self) -> int:
        """The number of elements that are specified, for each element of the batch."""
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""
        return self.data.ndim - 1 - self.n_batch

    def like(self, data: Any, indices: Any, shape: Sequence[int], **known: bool) -> BCOO:
        """Another sparse array; nothing is known of its indices unless it is said."""
        return BCOO((data, indices), shape=shape, **known)

    def with_data(self, data: Any) -> BCOO:
        """The array with other elements at the same indices."""
        return BCOO((data, self.indices), shape=self.shape, **self.known())

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The sparse form of an array: `bcoo_fromdense`."""
        return surface().bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """A matrix or array of `scipy.sparse`. NotImplementedError for batch or dense axes."""
        return surface().bcoo_from_scipy(mat, index_dtype, n_dense, n_batch)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        return surface().bcoo_empty(shape, dtype, index_dtype, n_dense, n_batch, nse)

    def astype(self, dtype: Any) -> BCOO:
        """The array with elements of another dtype."""
        return self.with_data(self.data.astype(dtype))

    def sort_indices(self) -> BCOO:
        """The array with its indices in order."""
        return surface().bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array in which no index occurs twice; see `bcoo_sum_duplicates`."""
        return surface().sum_duplicates(self, nse, remove_zeros)

    def reshape(self, *args: Any, **kwargs: Any) -> BCOO:
        """The array with its sparse axes in another shape; see `bcoo_reshape`."""
        return surface().reshape(self, *args, **kwargs)

    def update_layout(
        self,
        *,
        n_batch: int | None = None,
        n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> BCOO:
        """The array with other numbers of batch and dense axes: `bcoo_update_layout`."""
        return surface().bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )
