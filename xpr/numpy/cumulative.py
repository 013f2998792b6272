"""Sums and products of all prefixes along an axis."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.numpy._promote import as_operand, convert, refuse_out
from xpr.numpy._typing import Array, ArrayLike, DTypeLike
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.reductions import without_nan
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.creation import full
from xpr.primitives.cumulative import cumprod_p, cumsum_p
from xpr.primitives.joining import concatenate
from xpr.primitives.shape import reshape


def _prefixes(name: str, fold: Primitive, a: Any, axis: Any, dtype: DTypeLike) -> Array:
    x = as_operand(name, a)
    if axis is None:
        x, axis = reshape(x, (get_aval(x).size,)), 0
    aval = get_aval(x)
    place = canonicalize_axis(operator.index(axis), aval.ndim)
    wanted = aval.dtype if dtype is None else requested_dtype(dtype, name)
    truth = wanted == dtypes.BOOL and dtype is not None
    if truth:  # whether any element is not zero, or all are
        x = convert(x, wanted)
    if wanted == dtypes.BOOL:
        wanted = dtypes.default_dtype("i")
    if truth or aval.dtype != wanted or aval.weak_type:
        x = convert(x, wanted)
    found = fold.bind(x, axis=place, reverse=False)
    return convert(found, dtypes.BOOL) if truth else found


def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The sums of all prefixes along `axis` (of the flattened array for None).

    In the dtype of `a`, int32 for booleans, unless `dtype` is given; in booleans, whether any
    element so far is not zero.

    >>> import xpr.numpy as jnp
    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    refuse_out("cumsum", out)
    return _prefixes("cumsum", cumsum_p, a, axis, dtype)


def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The products of all prefixes along `axis` (of the flattened array for None).

    >>> import xpr.numpy as jnp
    >>> jnp.cumprod(jnp.array([2, 3, 4]))
    Array([ 2,  6, 24], dtype=int32)
    """
    refuse_out("cumprod", out)
    return _prefixes("cumprod", cumprod_p, a, axis, dtype)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The sums of all prefixes along `axis`, NaN counted as 0.

    >>> import xpr.numpy as jnp
    >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 2.0]))
    Array([1., 1., 3.], dtype=float32)
    """
    refuse_out("nancumsum", out)
    return _prefixes("nancumsum", cumsum_p, without_nan("nancumsum", a, 0), axis, dtype)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """The products of all prefixes along `axis`, NaN counted as 1.

    >>> import xpr.numpy as jnp
    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    refuse_out("nancumprod", out)
    return _prefixes("nancumprod", cumprod_p, without_nan("nancumprod", a, 1), axis, dtype)


def _cumulative(
    name: str, what: str, fold: Primitive, neutral: int, x: Any, axis: Any, dtype: DTypeLike,
    include_initial: bool,
) -> Array:  # fmt: skip
    value = as_operand(name, x)
    aval = get_aval(value)
    if not aval.shape:
        raise ValueError(
            f"The input must be non-scalar to take {what}, "
            "however a scalar value or scalar array was given."
        )
    if axis is None and aval.ndim != 1:
        raise ValueError(
            f"The input array has rank {aval.ndim}, however axis was not set to an explicit value. "
            "The axis argument is only optional for one-dimensional arrays."
        )
    place = canonicalize_axis(operator.index(0 if axis is None else axis), aval.ndim)
    if dtype is None and fold is cumsum_p and dtypes.kind(aval.dtype) in "biu":
        kind = "u" if dtypes.kind(aval.dtype) == "u" else "i"
        default = dtypes.default_dtype(kind)
        dtype = default if aval.dtype.itemsize < default.itemsize else aval.dtype
    found = _prefixes(name, fold, value, place, dtype)
    if not include_initial:
        return found
    shape = (*found.shape[:place], 1, *found.shape[place + 1 :])
    return concatenate([full(shape, np.asarray(neutral, found.dtype)[()]), found], place)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The sums of all prefixes along `axis`, of the empty one too with `include_initial`.

    Small integers add up in int32 or uint32 (64 bits with enable_x64), unless `dtype` is given.
    Raises ValueError for arrays without axes, and for several axes without `axis`.

    >>> import xpr.numpy as jnp
    >>> jnp.cumulative_sum(jnp.array([1, 2]), include_initial=True)
    Array([0, 1, 3], dtype=int32)
    """
    return _cumulative(
        "cumulative_sum", "a cumulative sum", cumsum_p, 0, x, axis, dtype, include_initial
    )


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """The products of all prefixes along `axis`, of the empty one too with `include_initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.cumulative_prod(jnp.array([2, 3, 4]), include_initial=True)
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    return _cumulative(
        "cumulative_prod", "a cumulative product", cumprod_p, 1, x, axis, dtype, include_initial
    )
