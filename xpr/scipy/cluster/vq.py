"""Vector quantization: which of some vectors is the nearest, under the name of `jax.scipy`."""

from __future__ import annotations

import xpr.numpy as jnp
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """For each row of `obs` [M, N] the nearest row of `code_book` [K, N], and its distance.

    Both results have shape [M]: indices, and Euclidean distances in the floating dtype of both
    arguments. Of several nearest rows the first counts. One-dimensional arguments are rows of one
    number each. `check_finite` is for SciPy's callers and changes nothing.

    Raises ValueError for arguments of different ranks, or of ranks other than 1 and 2.

    >>> import xpr.numpy as jnp
    >>> codes = jnp.array([[0.0, 0.0], [9.0, 6.0]])
    >>> vq(jnp.array([[0.0, 1.0], [9.0, 9.0]]), codes)
    (Array([0, 1], dtype=int32), Array([1., 3.], dtype=float32))
    """
    del check_finite
    rows, codes = promote_dtypes_inexact(
        as_operand("scipy.cluster.vq.vq", obs), as_operand("scipy.cluster.vq.vq", code_book, 1)
    )
    rows, codes = jnp.asarray(rows), jnp.asarray(codes)
    if rows.ndim != codes.ndim:
        raise ValueError(
            "vq: obs and code_book should have the same rank, got shapes "
            f"{rows.shape} and {codes.shape}"
        )
    if rows.ndim == 1:
        rows, codes = rows[:, None], codes[:, None]
    if rows.ndim != 2:
        raise ValueError(f"vq requires arrays of rank 1 or 2, got shape {rows.shape}")
    distances = jnp.linalg.norm(rows[:, None, :] - codes[None, :, :], axis=-1)
    nearest = jnp.argmin(distances, axis=-1)
    return nearest, jnp.take_along_axis(distances, nearest[:, None], axis=-1)[:, 0]
