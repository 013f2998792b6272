"""Counts: Poisson, binomial and multinomial numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import get_aval
from xpr.lax.loops import scan, while_loop
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.primitives._collective_sums import vary_together
from xpr.primitives.convert import convert_type
from xpr.primitives.cumulative import cumsum
from xpr.primitives.random import random_split
from xpr.primitives.special import lgamma
from xpr.random._sampling import (
    DType,
    Shape,
    checked_dtype,
    checked_shape,
    common_shape,
    draw_compiled,
    fitting_shape,
    float_dtype,
    integer_dtype,
)
from xpr.random.keys import single_key
from xpr.random.uniform import unit_floats

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)


def _steps(greatest: float) -> Any:
    """The most rounds of a loop whose results are at most `greatest`."""
    return np.int32(min(greatest, np.iinfo(_INT32).max))


# ---- Poisson


def _poisson_by_products(key: Any, rate: Any, dtype: DType, limit: Any) -> Any:
    """How many uniform numbers have a product of at least exp(-rate) (D. Knuth, TAOCP 3.4.1)."""
    shape = get_aval(rate).shape

    def step(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        i, k, key, log_product = state
        keys = random_split(key, (2,))
        k = jnp.where(log_product > -rate, k + dtype.type(1), k)
        u = unit_floats(keys[1], shape, _FLOAT32)
        return i + np.int32(1), k, keys[0], log_product + jnp.log(u)

    def unfinished(state: tuple[Any, Any, Any, Any]) -> Any:
        return (state[3] > -rate).any() & (state[0] < limit)

    start = (jnp.asarray(np.int32(0)), jnp.zeros(shape, dtype), key, jnp.zeros(shape, _FLOAT32))
    return while_loop(unfinished, step, vary_together(start, rate))[1] - dtype.type(1)


def _poisson_by_rejection(key: Any, rate: Any, dtype: DType, limit: Any) -> Any:
    """Transformed rejection with squeeze for rates of 10 and more.

    W. Hörmann, "The transformed rejection method for generating Poisson random variables", 1993,
    algorithm PTRS.
    """
    shape = get_aval(rate).shape
    log_rate = jnp.log(rate)
    b = 0.931 + 2.53 * jnp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def step(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        i, found, accepted, key = state
        keys = random_split(key, (3,))
        u = unit_floats(keys[1], shape, _FLOAT32) - 0.5
        v = unit_floats(keys[2], shape, _FLOAT32)
        edge = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / edge + b) * u + rate + 0.43)
        s = jnp.log(v * inverse_alpha / (a / (edge * edge) + b))
        bound = -rate + k * log_rate - lgamma(k + 1)
        surely = (edge >= 0.07) & (v <= v_r)
        never = (k < 0) | ((edge < 0.013) & (v > edge))
        accept = surely | (~never & (s <= bound))
        return i + np.int32(1), jnp.where(accept, k, found), accepted | accept, keys[0]

    def unfinished(state: tuple[Any, Any, Any, Any]) -> Any:
        return (~state[2]).any() & (state[0] < limit)

    start = (
        jnp.asarray(np.int32(0)),
        jnp.full(shape, -1, _FLOAT32),
        jnp.zeros(shape, bool),
        key,
    )
    return while_loop(unfinished, step, vary_together(start, rate))[1].astype(dtype)


def _poisson_body(key: Any, lam: Any, *, shape: Shape, dtype: DType) -> Any:
    rate = jnp.broadcast_to(convert_type(jnp.asarray(lam), _FLOAT32), shape)
    small = jnp.isnan(rate) | (rate < 10)
    limit = _steps(np.iinfo(dtype).max)
    low = _poisson_by_products(key, jnp.where(small, rate, 0.0), dtype, limit)
    high = _poisson_by_rejection(key, jnp.where(small, 1e5, rate), dtype, limit)
    return jnp.where(rate == 0, dtype.type(0), jnp.where(small, low, high))


@takes_out_sharding
def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Counts k with probability lam**k exp(-lam) / k!, as integers (default int32).

    Where `lam` is NaN the result is -1. Raises ValueError for a `lam` that does not fit `shape`
    and for a dtype that is no integer.

    >>> import xpr
    >>> xpr.random.poisson(xpr.random.key(0), 4.0, (3,)).shape
    (3,)
    """
    data = single_key("poisson", key)
    found = integer_dtype("poisson", dtype)
    sizes = common_shape("poisson", shape, lam)
    return draw_compiled(_poisson_body, data, lam, shape=sizes, dtype=found)


# ---- binomial


def _binomial_by_waiting(key: Any, count: Any, p: Any, limit: Any) -> Any:
    """How many geometric waiting times fit into `count` trials.

    Devroye, "Non-Uniform Random Variate Generation", 1986, X.4, second waiting time algorithm.
    """
    shape, dtype = get_aval(p).shape, get_aval(p).dtype
    log_failure = jnp.log1p(-p)

    def step(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        i, number, total, key = state
        keys = random_split(key, (2,))
        number = jnp.where(total <= count, number + dtype.type(1), number)
        waited = jnp.ceil(jnp.log(unit_floats(keys[0], shape, dtype)) / log_failure)
        return i + np.int32(1), number, total + waited, keys[1]

    def unfinished(state: tuple[Any, Any, Any, Any]) -> Any:
        return (state[2] <= count).any() & (state[0] < limit)

    zeros = jnp.zeros(shape, dtype)
    start = (jnp.asarray(np.int32(0)), zeros, zeros, key)
    return while_loop(unfinished, step, vary_together(start, count, p))[1] - dtype.type(1)


def _stirling_errors() -> np.ndarray[Any, Any]:
    """What Stirling's formula lacks of log k!, for k = 0 .. 9."""
    return np.array(
        [
            math.lgamma(k + 1)
            - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
            for k in range(10)
        ]
    )


_STIRLING_ERRORS = _stirling_errors()


def _stirling_error(k: Any) -> Any:
    """`_stirling_errors` for any k >= 0, by its series in 1/(k + 1) beyond the table."""
    table = jnp.asarray(_STIRLING_ERRORS.astype(k.dtype))
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    place = jnp.floor(jnp.clip(k, 0.0, 9.0)).astype(_INT32)
    return jnp.where(k <= 9, table[place], series)


def _binomial_by_rejection(key: Any, count: Any, p: Any, limit: Any) -> Any:
    """Transformed rejection with squeeze where count * p is 10 or more.

    W. Hörmann, "The generation of binomial random variates", 1993, algorithm BTRS.
    """
    shape, dtype = get_aval(p).shape, get_aval(p).dtype
    deviation = jnp.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = jnp.floor((count + 1) * p)
    top = (
        (m + 0.5) * jnp.log((m + 1) / (odds * (count - m + 1)))
        + _stirling_error(m)
        + _stirling_error(count - m)
    )

    def step(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        i, found, accepted, key = state
        keys = random_split(key, (3,))
        u = unit_floats(keys[1], shape, dtype) - 0.5
        v = unit_floats(keys[2], shape, dtype)
        edge = 0.5 - jnp.abs(u)
        surely = (edge >= 0.07) & (v <= v_r)
        k = jnp.floor((2 * a / edge + b) * u + c)
        outside = (k < 0) | (k > count)
        height = jnp.log(v * alpha / (a / (edge * edge) + b))
        bound = (
            top
            + (count + 1) * jnp.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * jnp.log(odds * (count - k + 1) / (k + 1))
            - _stirling_error(k)
            - _stirling_error(count - k)
        )
        accept = surely | (~outside & (height <= bound))
        return i + np.int32(1), jnp.where(accept, k, found), accepted | accept, keys[0]

    def unfinished(state: tuple[Any, Any, Any, Any]) -> Any:
        return (~state[2]).any() & (state[0] < limit)

    start = (
        jnp.asarray(np.int32(0)),
        jnp.full(shape, -1, dtype),
        jnp.zeros(shape, bool),
        key,
    )
    return while_loop(unfinished, step, vary_together(start, count, odds))[1]


def _binomial_body(key: Any, n: Any, p: Any, *, shape: Shape, dtype: DType) -> Any:
    (p,) = promote_dtypes_inexact(jnp.asarray(p))
    p = jnp.broadcast_to(p, shape)
    count = jnp.broadcast_to(convert_type(jnp.asarray(n), p.dtype), shape)
    below_half = p < 0.5
    # The rarer outcome is counted.
    q = jnp.where(below_half, p, 1 - p)
    no_count = jnp.isnan(count) | (count < 0)
    endless = jnp.isinf(count)
    no_p = jnp.isnan(q) | (q < 0)
    q = jnp.where(no_p, 0.01, q)
    few = no_count | (count * q <= 10)
    count = jnp.floor(count)
    limit = _steps(float(dtypes.finfo(dtype).max))
    waiting = _binomial_by_waiting(key, jnp.where(few, count, 0.0), q, limit)
    rejection = _binomial_by_rejection(
        key, jnp.where(few, 1e4, count), jnp.where(few, 0.5, q), limit
    )
    found = jnp.where(few, waiting, rejection).astype(dtype)
    invalid = no_p | no_count
    found = jnp.where(invalid, dtype.type(np.nan), found)
    found = jnp.where(endless & ~invalid, dtype.type(np.inf), found)
    keep = below_half | no_count | jnp.isnan(p) | endless
    return jnp.where(keep, found, count.astype(dtype) - found)


def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """How many of `n` trials with probability `p` succeed, as floats.

    NaN where `n` is negative or NaN or `p` outside [0, 1], infinite where `n` is. Raises ValueError
    for parameters that do not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.binomial(xpr.random.key(0), 10, 0.3, (3,)).shape
    (3,)
    """
    data = single_key("binomial", key)
    found = float_dtype("binomial", dtype)
    sizes = common_shape("binomial", shape, n, p)
    return draw_compiled(_binomial_body, data, n, p, shape=sizes, dtype=found)


def _multinomial_body(
    key: Any, n: Any, p: Any, *, shape: Shape, dtype: DType, unroll: int | bool
) -> Any:
    n, p = promote_dtypes_inexact(jnp.asarray(n), jnp.asarray(p))
    rest = jnp.broadcast_to(n, shape[:-1])
    columns = jnp.moveaxis(jnp.broadcast_to(p, shape), -1, 0)
    remaining = cumsum(columns, 0, reverse=True)
    shares = columns / jnp.where(remaining == 0, columns.dtype.type(1), remaining)

    def step(left: Any, share_and_key: tuple[Any, Any]) -> tuple[Any, Any]:
        share, key = share_and_key
        share = jnp.clip(share, 0, 1)
        count = _binomial_body(key, left, share, shape=shape[:-1], dtype=left.dtype)
        return left - count, count

    keys = random_split(key, (shape[-1],))
    rest = vary_together(rest, shares, keys)
    _, counts = scan(step, rest, (shares, keys), unroll=unroll)
    return jnp.moveaxis(counts, 0, -1).astype(dtype)


def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Any = None,
    dtype: Any = None,
    unroll: int | bool = 1,
) -> Array:
    """How often each of the outcomes with probabilities `p` [..., k] occurs in `n` [...] trials.

    The result has the shape of `p`, or `shape`, to which `p` broadcasts; the counts along the last
    axis are floats whose sum is n. Raises ValueError for a `p` without axes and for parameters
    that do not fit.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.random.multinomial(xpr.random.key(0), 10, jnp.array([0.2, 0.5, 0.3])).sum()
    Array(10., dtype=float32)
    """
    data = single_key("multinomial", key)
    found = checked_dtype("multinomial", dtype, float, "iuf", "a real")
    n, p = as_operand("multinomial", n), as_operand("multinomial", p, 1)
    p_shape, n_shape = get_aval(p).shape, get_aval(n).shape
    sizes = p_shape if shape is None else checked_shape("multinomial", shape)
    if not p_shape or not sizes:
        raise ValueError("multinomial requires p.ndim >= 1, got a scalar p or an empty shape")
    fitting_shape("multinomial", sizes, p_shape)
    fitting_shape("multinomial", sizes[:-1], n_shape)
    options: Any = {"shape": sizes, "dtype": found, "unroll": unroll}
    return draw_compiled(_multinomial_body, data, n, p, **options)
