"""What the operations on sparse arrays have in common: batches, valid indices, order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core.trace import Tracer
from xpr.experimental.sparse._array import BCOO
from xpr.lax import sort
from xpr.transforms.vmap import vmap


class SparseEfficiencyError(ValueError):
    """What is asked for would need much more memory than the array; see `bcoo_update_layout`.

    >>> issubclass(SparseEfficiencyError, ValueError)
    True
    """


class SparseEfficiencyWarning(UserWarning):
    """What is asked for needs much more memory than the array.

    >>> issubclass(SparseEfficiencyWarning, UserWarning)
    True
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """What JAX warns of on a GPU; xpr never does.

    >>> issubclass(CuSparseEfficiencyWarning, SparseEfficiencyWarning)
    True
    """


def require_bcoo(name: str, mat: Any) -> BCOO:
    """TypeError unless `mat` is a BCOO array."""
    if not isinstance(mat, BCOO):
        raise TypeError(f"{name} requires a BCOO array, got {type(mat).__name__}")
    return mat


def sparse_sizes(mat: BCOO) -> tuple[int, ...]:
    """The sizes of the sparse axes."""
    return mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]


def over_batch(kernel: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """The function for arrays with `n_batch` leading axes that `kernel` knows nothing of."""
    for _ in range(n_batch):
        kernel = vmap(kernel)
    return kernel


def full_batch(mat: BCOO) -> tuple[Any, Any]:
    """Data and indices, the batch axes of size 1 that stand for all repeated."""
    batch = mat.shape[: mat.n_batch]
    data, indices = mat.data, mat.indices
    if data.shape[: mat.n_batch] != batch:
        data = jnp.broadcast_to(data, (*batch, *data.shape[mat.n_batch :]))
    if indices.shape[: mat.n_batch] != batch:
        indices = jnp.broadcast_to(indices, (*batch, *indices.shape[mat.n_batch :]))
    return data, indices


def limits(sizes: Sequence[int], indices: Any) -> Any:
    """The sizes as numbers of the dtype and with as many axes as `indices`."""
    shape = (1,) * (indices.ndim - 1) + (len(sizes),)
    return jnp.asarray(np.array(sizes, dtype=np.dtype(indices.dtype)).reshape(shape))


def placed(indices: Any, sizes: Sequence[int]) -> tuple[Any, Any]:
    """Indices [..., nse, n] that count from the front, and which of them are within bounds.

    Those that are not are the sizes themselves.
    """
    bound = limits(sizes, indices)
    counted = jnp.where(indices < 0, indices + bound, indices)
    valid = ((counted >= 0) & (counted < bound)).all(-1)
    return jnp.where(valid[..., None], counted, bound), valid


def masked(data: Any, valid: Any) -> Any:
    """The elements [..., nse, *dense] with zeros where they do not count."""
    more = data.ndim - valid.ndim
    return jnp.where(valid.reshape(valid.shape + (1,) * more), data, jnp.zeros((), data.dtype))


def sorting(indices: Any) -> tuple[Any, Any]:
    """Indices [nse, n] in order, and the permutation that brings them there."""
    nse, n = indices.shape
    order = jnp.arange(nse, dtype=np.int32)
    if n == 0:
        return indices, order
    *columns, order = sort((*(indices[:, i] for i in range(n)), order), num_keys=n)
    return jnp.stack(columns, axis=1), order


def starts(indices: Any) -> Any:
    """Of sorted indices [nse, n], which differ from the one before."""
    nse = indices.shape[0]
    if nse == 0:
        return jnp.zeros((0,), bool)
    differ = (indices[1:] != indices[:-1]).any(-1)
    return jnp.concatenate([jnp.ones((1,), bool), differ])


def known_number(x: Any, name: str) -> int:
    """A number that must be known; ValueError under `jit` and `vmap`."""
    if isinstance(x, Tracer):
        raise ValueError(
            f"{name}: nse must be specified when using the function within jit, vmap, and other "
            "transformations requiring abstract evaluation."
        )
    return int(x)
