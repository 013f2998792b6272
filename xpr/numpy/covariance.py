"""Covariance and correlation of variables."""

from __future__ import annotations

from typing import Any

from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, convert, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import squeeze, transpose
from xpr.numpy.products import dot
from xpr.numpy.reductions import sum
from xpr.numpy.selection import clip
from xpr.numpy.triangular import diagonal
from xpr.primitives import elementwise as el
from xpr.primitives import power as pw
from xpr.primitives.joining import concatenate
from xpr.primitives.shape import broadcast_in_dim, reshape


def _variables(v: Any, rowvar: bool, name: str) -> Any:
    """A matrix with a variable in each row."""
    if v.ndim > 2:
        raise ValueError(f"{name} has more than 2 dimensions, got {v.ndim}")
    if v.ndim < 2:
        return reshape(v, (1, v.size))
    return v if rowvar else transpose(v)


def _sample_weights(fweights: Any, aweights: Any, count: int, x: Any) -> Any:
    """The product of both kinds of weights in the real dtype of `x`, or None."""
    found: Any = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        w = as_array(as_operand("cov", given))
        if w.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}, got {w.ndim} dimensions")
        if w.shape != (count,):
            raise RuntimeError(f"incompatible numbers of samples and {name}: {count} and {w.shape}")
        if name == "fweights":
            if not dtypes.is_integer(w.dtype):
                raise TypeError(f"fweights must be integer, got {w.dtype}.")
            w = el.abs_p.bind(w) if dtypes.kind(w.dtype) == "i" else w
        elif dtypes.is_inexact(w.dtype):
            w = el.abs_p.bind(w)
        w = convert(w, el.real_dtype(x.dtype))
        found = w if found is None else el.mul_p.bind(found, w)
    return found


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of the rows of `m` (its columns without `rowvar`), and those of `y`.

    Sums over n samples are divided by `n - ddof`; `ddof` is 1, or 0 with `bias`. `fweights` says
    how often each sample counts, `aweights` how much. Floating or complex; without axes for one
    variable. Raises ValueError for more than two axes, RuntimeError for weights that do not fit.

    >>> import xpr.numpy as jnp
    >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    parts = [as_operand("cov", m)] + ([] if y is None else [as_operand("cov", y, 1)])
    parts = [as_array(p) for p in promote_dtypes_inexact(*parts)]
    if dtype is not None:
        wanted = requested_dtype(dtype, "cov")
        parts = [convert(p, wanted) for p in parts]
    rows = [_variables(p, rowvar, n) for p, n in zip(parts, ("m", "y"), strict=False)]
    x = concatenate(rows, 0) if len(rows) > 1 else rows[0]
    freedom = (0 if bias else 1) if ddof is None else ddof
    count = x.shape[1]
    part = el.real_dtype(x.dtype)
    weights = _sample_weights(fweights, aweights, count, x)
    spread: Any = None
    if weights is None:
        mean = el.div_p.bind(sum(x, axis=1, keepdims=True), x.dtype.type(count))
        divisor: Any = part.type(max(count - freedom, 0))
    else:
        total = sum(weights)
        spread = convert(broadcast_in_dim(weights, x.shape, (1,)), x.dtype)
        mean = el.div_p.bind(
            sum(el.mul_p.bind(x, spread), axis=1, keepdims=True), convert(total, x.dtype)
        )
        if aweights is None:
            lost: Any = convert(freedom, part)
        else:
            squares = sum(el.mul_p.bind(weights, convert(aweights, part)))
            lost = el.mul_p.bind(convert(freedom, part), el.div_p.bind(squares, total))
        divisor = el.max_p.bind(el.sub_p.bind(total, lost), part.type(0))
    away = el.sub_p.bind(x, mean)
    other = away if spread is None else el.mul_p.bind(away, spread)
    other = transpose(el.conj(other) if dtypes.is_complex(x.dtype) else other)
    return squeeze(el.div_p.bind(dot(away, other), convert(divisor, x.dtype)))


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """The correlation matrix of the rows of `x` (its columns without `rowvar`), and those of `y`.

    The real and the imaginary parts are limited to [-1, 1].

    >>> import xpr.numpy as jnp
    >>> jnp.corrcoef(jnp.array([1.0, 2.0, 3.0]), jnp.array([3.0, 2.0, 1.0]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return el.div_p.bind(c, c)
    variance = diagonal(c)
    if dtypes.is_complex(c.dtype):
        variance = el.real_p.bind(variance)
    deviation = convert(pw.sqrt_p.bind(variance), c.dtype)
    c = el.div_p.bind(c, broadcast_in_dim(deviation, c.shape, (0,)))
    c = el.div_p.bind(c, broadcast_in_dim(deviation, c.shape, (1,)))
    if not dtypes.is_complex(c.dtype):
        return clip(c, -1, 1)
    return el.complex_p.bind(clip(el.real_p.bind(c), -1, 1), clip(el.imag_p.bind(c), -1, 1))
