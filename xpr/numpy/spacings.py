"""Numbers at even distances between two ends, and powers at such: `linspace` and its kin."""

from __future__ import annotations

import operator
from typing import Any, Literal, overload

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_all,
    convert,
    promote_args,
    to_inexact,
    wide_dtype,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DType, DTypeLike
from xpr.numpy.creation import placed
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.manipulation import moveaxis
from xpr.numpy.ufuncs import power
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives.creation import full, iota
from xpr.primitives.joining import concatenate
from xpr.primitives.shape import expand_dims, reshape


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Array: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = None,
    axis: int = 0,
    device: Any = None,
) -> tuple[Array, Array]: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any: ...
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, which is left out without `endpoint`.

    Arrays as ends give their steps along a new axis, which stands at `axis`. Floating or complex,
    unless `dtype` is given; for integers the numbers are rounded down. With `retstep` a pair of
    the numbers and the step. Raises ValueError for a negative `num`.

    >>> import xpr.numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    (low, high), common = promote_args("linspace", start, stop)
    result = to_inexact(common) if dtype is None else requested_dtype(dtype, "linspace")
    # Integers are reached from floats that can hold them.
    compute = wide_dtype(dtypes.joined(to_inexact(common), to_inexact(result)))
    low, high = broadcast_all(convert(low, compute), convert(high, compute))
    steps = count - 1 if endpoint else count
    if count == 1:
        found = expand_dims(as_array(low), (0,))
        width = compute.type(np.nan) if endpoint else el.sub_p.bind(high, low)
    elif count == 0:
        found = full((0, *get_aval(low).shape), compute.type(0))
        width = compute.type(np.nan)
    else:
        found = _between(low, high, steps, endpoint, compute)
        width = el.div_p.bind(el.sub_p.bind(high, low), compute.type(steps))
    if not dtypes.is_inexact(result):
        found = el.floor_p.bind(found)
    found = moveaxis(convert(found, result), 0, axis)
    found = placed(found, device)
    return (found, as_array(convert(width, to_inexact(result)))) if retstep else found


def _between(low: Any, high: Any, steps: int, endpoint: bool, dtype: DType) -> Any:
    shape = get_aval(low).shape
    part = reshape(iota(dtype, steps), (steps, *(1,) * len(shape)))
    part = el.div_p.bind(part, dtype.type(steps))
    first, last = expand_dims(low, (0,)), expand_dims(high, (0,))
    rest = el.sub_p.bind(dtype.type(1), part)
    # A weighted mean never leaves the interval, unlike low + i * step.
    found = el.add_p.bind(el.mul_p.bind(first, rest), el.mul_p.bind(last, part))
    return concatenate([found, last], 0) if endpoint else found


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`base` to the powers `linspace(start, stop, num)`.

    >>> import xpr.numpy as jnp
    >>> jnp.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    found = power(as_operand("logspace", base, 4), exponents)
    if dtype is None:
        return found
    return convert(found, requested_dtype(dtype, "logspace"))


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before.

    The ends have the same sign and are not 0; otherwise the numbers are NaN.

    >>> import xpr.numpy as jnp
    >>> jnp.geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float32)
    """
    (low, high), common = promote_args("geomspace", start, stop)
    result = to_inexact(common) if dtype is None else requested_dtype(dtype, "geomspace")
    compute = wide_dtype(dtypes.joined(to_inexact(common), to_inexact(result)))
    low, high = broadcast_all(convert(low, compute), convert(high, compute))
    sign = el.sign_p.bind(low)
    logs = [fn.log_p.bind(el.mul_p.bind(v, _conjugate(sign))) for v in (low, high)]
    exponents = linspace(logs[0], logs[1], num, endpoint)
    found = el.mul_p.bind(fn.exp_p.bind(exponents), _spread_like(sign, exponents))
    found = _with_exact_ends(found, low, high, endpoint)
    return moveaxis(convert(found, result), 0, axis)


def _conjugate(x: Any) -> Any:
    return el.conj(x) if dtypes.is_complex(get_aval(x).dtype) else x


def _spread_like(x: Any, like: Any) -> Any:
    return broadcast_all(expand_dims(as_array(x), (0,)), like)[0]


def _with_exact_ends(found: Any, low: Any, high: Any, endpoint: bool) -> Any:
    """`found` with its first and last element replaced, for exp(log(x)) is not quite x."""
    count = found.shape[0]
    place = reshape(iota(np.int32, count), (count, *(1,) * (found.ndim - 1)))
    if count > 0:
        at_first = cmp.eq_p.bind(place, np.int32(0))
        found = select_where(at_first, expand_dims(as_array(low), (0,)), found)
    if count > 1 and endpoint:
        at_last = cmp.eq_p.bind(place, np.int32(count - 1))
        found = select_where(at_last, expand_dims(as_array(high), (0,)), found)
    return found
