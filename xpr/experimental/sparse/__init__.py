"""Sparse arrays, under the name of `jax.experimental.sparse`.

>>> import xpr.numpy as jnp
>>> from xpr.experimental import sparse
>>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]))
>>> m
BCOO(float32[2, 3], nse=3)
>>> m @ jnp.ones(3)
Array([1., 5.], dtype=float32)

`BCOO` arrays hold an index for each element that is specified, `BCSR` arrays hold their elements
row by row; the older formats `COO`, `CSR` and `CSC` are matrices with products only. All are
pytrees: they go through `jit`, and through `vmap` along their batch axes. Their products with
arrays read and write each specified element once. Derivatives are taken with respect to `data`, as
`sparse.grad` does. `docs/sparse.md` says more.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.experimental.sparse import _surface
from xpr.experimental.sparse import linalg as linalg
from xpr.experimental.sparse._array import BCOO, JAXSparse, install
from xpr.experimental.sparse._missing import missing_names
from xpr.experimental.sparse._parts import (
    CuSparseEfficiencyWarning,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from xpr.experimental.sparse._rows import BCSR
from xpr.experimental.sparse.arithmetic import (
    bcoo_extract,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
)
from xpr.experimental.sparse.convolution import bcoo_conv_general_dilated
from xpr.experimental.sparse.creation import (
    bcoo_eye,
    bcoo_fromdense,
    bcoo_todense,
    random_bcoo,
)
from xpr.experimental.sparse.layout import bcoo_update_layout
from xpr.experimental.sparse.matrices import (
    COO,
    CSC,
    CSR,
    Matrix,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from xpr.experimental.sparse.pieces import (
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_rev,
    bcoo_slice,
)
from xpr.experimental.sparse.products import bcoo_dot_general
from xpr.experimental.sparse.reordering import (
    bcoo_broadcast_in_dim,
    bcoo_reshape,
    bcoo_sort_indices,
    bcoo_squeeze,
    bcoo_sum_duplicates,
    bcoo_transpose,
)
from xpr.experimental.sparse.rows import (
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_from_bcoo,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_todense,
    todense,
)
from xpr.experimental.sparse.samples import bcoo_dot_general_sampled, bcsr_extract
from xpr.experimental.sparse.transform import (
    grad,
    jacfwd,
    jacobian,
    jacrev,
    sparsify,
    value_and_grad,
)
from xpr.transforms.vmap import register_container

__all__ = [
    "BCOO",
    "BCSR",
    "COO",
    "CSC",
    "CSR",
    "CuSparseEfficiencyWarning",
    "JAXSparse",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_sampled",
    "bcoo_dynamic_slice",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "bcoo_update_layout",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_extract",
    "bcsr_fromdense",
    "bcsr_sum_duplicates",
    "bcsr_todense",
    "coo_fromdense",
    "coo_matmat",
    "coo_matvec",
    "coo_todense",
    "csr_fromdense",
    "csr_matmat",
    "csr_matvec",
    "csr_todense",
    "empty",
    "eye",
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "linalg",
    "random_bcoo",
    "sparsify",
    "todense",
    "value_and_grad",
]

# JAX's modules, which most programs do not name.
_MODULES = ("ad", "api", "bcoo", "bcsr", "coo", "csr", "random", "util")
_missing = missing_names(__name__)


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}") if name in _MODULES else _missing(name)


install(_surface)
register_container(JAXSparse)


_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def _format(sparse_format: str) -> Any:
    if sparse_format not in _FORMATS:
        raise ValueError(
            f"sparse_format={sparse_format!r} not recognized; must be one of {list(_FORMATS)}"
        )
    return _FORMATS[sparse_format]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = np.int32,
    sparse_format: str = "bcoo",
    **kwds: int,
) -> JAXSparse:
    """A sparse array of zeros, float32 unless `dtype` is given.

    The format is "bcoo", "bcsr", "coo", "csr" or "csc". The first two have `n_batch`, `n_dense` and
    `nse`, 0 by default.

    >>> empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    make = _format(sparse_format)._empty
    return make(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = np.int32,
    sparse_format: str = "bcoo",
    **kwds: int,
) -> JAXSparse:
    """The matrix [N, M] with ones on its k-th diagonal.

    The format is "bcoo", "bcsr", "coo", "csr" or "csc". The first two have `n_batch` and `n_dense`,
    0 by default.

    >>> eye(2).todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    kind = _format(sparse_format)
    if issubclass(kind, Matrix):
        n, k = operator.index(N), operator.index(k)
        m = n if M is None else operator.index(M)
        return kind._eye(n, m, k, dtype=dtype, index_dtype=index_dtype, **kwds)
    found = _entries_eye(N, M, k, dtype, index_dtype, **kwds)
    return bcsr_from_bcoo(found) if kind is BCSR else found


def _entries_eye(
    N: int,
    M: int | None,
    k: int,
    dtype: Any,
    index_dtype: Any,
    n_batch: int = 0,
    n_dense: int = 0,
) -> BCOO:
    return bcoo_eye(N, M, k, dtype, index_dtype, n_batch, n_dense)


_export_functions(__name__)
