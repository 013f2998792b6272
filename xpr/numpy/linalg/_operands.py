"""Operands of the functions of matrices, and what all of them do with matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, broadcast_to, one_inexact, promote_dtypes_inexact
from xpr.numpy._typing import Array, DType
from xpr.numpy.manipulation import matrix_transpose
from xpr.numpy.products import matmul
from xpr.numpy.triangular import eye
from xpr.numpy.ufuncs_float import conjugate, real
from xpr.primitives._index_dims import canonicalize_axes
from xpr.primitives._precision import Precision

Axes = int | Sequence[int] | None


def matrices(name: str, a: Any) -> Array:
    """The operand `a`, floating; TypeError unless it has two axes or more."""
    x = as_array(one_inexact(f"jnp.linalg.{name}", a))
    if x.ndim < 2:
        raise TypeError(f"Input 0 to {name} must have rank at least 2, but got shape={x.shape}")
    return x


def square_matrices(name: str, a: Any) -> Array:
    """The operand `a`, floating; ValueError unless it is of shape [..., n, n]."""
    x = as_array(one_inexact(f"jnp.linalg.{name}", a))
    check_square(name, x)
    return x


# JAX's words where its functions do not say "Argument to ... must have shape [..., n, n]".
_NOT_SQUARE = {
    "cholesky": "The input to cholesky must be a square matrix. Got shape {}.",
    "cho_factor": "The input to cholesky must be a square matrix. Got shape {}.",
    "eig": "The input to eig must be a square matrix. Got shape {}.",
    "eigvals": "The input to eig must be a square matrix. Got shape {}.",
    "expm": "Expected A to be a (batched) square matrix, got A.shape={}.",
    "expm_frechet": "expected A to be a (batched) square matrix, got A.shape={}",
    "funm": "expected square array_like input, got shape {}",
    "hessenberg": "Argument to Hessenberg reduction must have shape [..., n, n], got shape {}",
    "matrix_power": "Last 2 dimensions of the array must be square, got shape {}",
    "rsf2csf": "Input 'T' must be square, got shape {}",
    "schur": "The input to schur must be a square matrix. Got shape {}.",
    "sqrtm": "The input to schur must be a square matrix. Got shape {}.",
}


def check_square(name: str, x: Array) -> None:
    """Raises ValueError (of `matrix_power` TypeError) unless `x` is of shape [..., n, n]."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        text = _NOT_SQUARE.get(name, f"Argument to {name} must have shape [..., n, n], got {{}}.")
        raise (TypeError if name == "matrix_power" else ValueError)(text.format(x.shape))


def two_inexact(name: str, a: Any, b: Any) -> tuple[Array, Array]:
    """Both operands in one floating dtype; shapes stay as they are."""
    given = as_operand(f"jnp.linalg.{name}", a), as_operand(f"jnp.linalg.{name}", b, 1)
    x, y = promote_dtypes_inexact(*given)
    return as_array(x), as_array(y)


def canonical_axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """`axis`, one or several, counted from 0; all axes without it."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, Sequence) else (axis,)
    return canonicalize_axes(tuple(map(operator.index, given)), ndim)


def product(x: Array, y: Array) -> Array:
    """Products of stacks of matrices, as precise as the device offers."""
    return matmul(x, y, precision=Precision.HIGHEST)


def adjoint(x: Array) -> Array:
    """The conjugate transposes of matrices."""
    return conjugated(matrix_transpose(x))


def conjugated(x: Array) -> Array:
    """The conjugates of complex elements, others as they are."""
    return conjugate(x) if dtypes.is_complex(x.dtype) else x


def real_part(x: Array) -> Array:
    """The real parts of complex elements, others as they are."""
    return real(x) if dtypes.is_complex(x.dtype) else x


def identities(x: Array, n: int) -> Array:
    """Identity matrices [..., n, n] of the dtype and the leading axes of `x`."""
    return broadcast_to(eye(n, dtype=x.dtype), (*x.shape[:-2], n, n))


def real_dtype(x: Array) -> DType:
    """The dtype of absolute values."""
    return np.dtype(f"f{x.dtype.itemsize // 2}") if dtypes.is_complex(x.dtype) else x.dtype


def epsilon(x: Array) -> float:
    """The relative distance of neighbouring numbers of the dtype."""
    return float(np.finfo(get_aval(x).dtype).eps)
