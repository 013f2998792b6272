"""Samples made from one uniform number each, by inverting a distribution function."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.placing import takes_out_sharding
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bit
from xpr.primitives.convert import bitcast_convert_type, convert_type
from xpr.primitives.power import sqrt
from xpr.primitives.random import random_bits
from xpr.random._sampling import (
    DType,
    Shape,
    as_dtype,
    check_safe_casts,
    checked_shape,
    common_shape,
    draw,
    float_dtype,
    integer_dtype,
    spread,
)
from xpr.random.keys import single_key
from xpr.random.uniform import uniform_in, unit_floats

_FLOAT32 = np.dtype(np.float32)
_UINT32 = np.dtype(np.uint32)


def _info(dtype: DType, what: str) -> Any:
    """A property of a float type, as a scalar of it."""
    return dtype.type(getattr(dtypes.finfo(dtype), what))


def _plain(name: str, body: Any, key: Any, shape: Any, dtype: Any, **static: Any) -> Array:
    """A draw without parameters."""
    data = single_key(name, key)
    found = float_dtype(name, dtype)
    sizes = checked_shape(name, shape)
    return draw(sizes, body, data, shape=sizes, dtype=found, **static)


def _with_params(name: str, body: Any, key: Any, shape: Any, dtype: Any, *params: Any) -> Array:
    """A draw with parameters that broadcast to its shape."""
    data = single_key(name, key)
    found = float_dtype(name, dtype)
    sizes = common_shape(name, shape, *params)
    check_safe_casts(name, found, *params)
    return draw(sizes, body, data, *params, shape=sizes, dtype=found)


# ---- exponential and double exponential


def exponential_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    """-log(1 - u) of uniform u."""
    return el.neg(fn.log1p(el.neg(unit_floats(key, shape, dtype))))


@takes_out_sharding
def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers with density exp(-x) for x >= 0.

    Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.exponential(xpr.random.key(0), (2,)).round(2)
    Array([2.95, 3.84], dtype=float32)
    """
    return _plain("exponential", exponential_body, key, shape, dtype)


def _laplace_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    lowest = dtype.type(-1.0 + float(dtypes.finfo(dtype).epsneg))
    u = uniform_in(key, lowest, dtype.type(1), shape=shape, dtype=dtype)
    return el.mul(el.sign(u), fn.log1p(el.neg(el.abs(u))))


@takes_out_sharding
def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers with density exp(-|x|)/2. Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.laplace(xpr.random.key(0), (3,)).shape
    (3,)
    """
    return _plain("laplace", _laplace_body, key, shape, dtype)


# ---- logistic, Cauchy, Gumbel


def _logistic_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    u = uniform_in(key, _info(dtype, "tiny"), dtype.type(1), shape=shape, dtype=dtype)
    return el.sub(fn.log(u), fn.log1p(el.neg(u)))


@takes_out_sharding
def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers with distribution function 1/(1 + exp(-x)).

    Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.logistic(xpr.random.key(0), (3,)).shape
    (3,)
    """
    return _plain("logistic", _logistic_body, key, shape, dtype)


def _cauchy_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    u = uniform_in(key, _info(dtype, "eps"), dtype.type(1), shape=shape, dtype=dtype)
    return fn.tan(el.mul(dtype.type(np.pi), el.sub(u, dtype.type(0.5))))


@takes_out_sharding
def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers with density 1/(pi (1 + x**2)). Raises ValueError for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.cauchy(xpr.random.key(0), (3,)).shape
    (3,)
    """
    return _plain("cauchy", _cauchy_body, key, shape, dtype)


def _float_of_words(high: Any, low: Any) -> Any:
    """The fraction 0.high low, of 64 bits, as a float32: all mantissa bits, rounded down."""
    first, second = bit.clz(high), bit.clz(low)
    no_high = cmp.eq(first, np.uint32(32))
    tail = cmp.select(
        no_high,
        bit.shift_left(low, second),
        bit.shift_right_logical(low, el.sub(np.uint32(32), first)),
    )
    digits = bit.bitwise_or(bit.shift_left(high, first), tail)
    mantissa = bit.bitwise_and(bit.shift_right_logical(digits, np.uint32(8)), np.uint32(0x7FFFFF))
    zeros = cmp.select(no_high, el.add(second, np.uint32(32)), first)
    exponent = bit.shift_left(el.sub(np.uint32(126), zeros), np.uint32(23))
    exponent = bit.bitwise_and(exponent, np.uint32(0x3FC00000))
    return bitcast_convert_type(bit.bitwise_or(exponent, mantissa), _FLOAT32)


def gumbel_body(key: Any, *, shape: Shape, dtype: DType, mode: str) -> Any:
    """-log(-log(u)) of uniform u; both tails in full detail in the higher modes."""
    if mode == "low":
        u = uniform_in(key, _info(dtype, "tiny"), dtype.type(1), shape=shape, dtype=dtype)
        return el.neg(fn.log(el.neg(fn.log(u))))
    if mode == "high" or dtype != _FLOAT32:
        high, low = unit_floats(key, (2, *shape), dtype)
        least = dtype.type(2.0 ** -int(dtypes.finfo(dtype).nmant))
        fine = el.add(el.add(high, el.mul(least, low)), _info(dtype, "tiny"))
        u = jnp.where(high >= dtype.type(0.5), high, fine)
        return el.neg(fn.log(el.neg(fn.log1p(el.neg(u)))))
    words = random_bits(key, 32, (2, *shape))
    high, low = words[0], words[1]
    lower = cmp.lt(high, np.uint32(1 << 31))
    # The upper half is mirrored: the two's complement of all 64 bits.
    carry = convert_type(cmp.eq(bit.bitwise_not(low), np.uint32(0xFFFFFFFF)), _UINT32)
    mirrored = el.add(bit.bitwise_not(high), carry), el.add(bit.bitwise_not(low), np.uint32(1))
    pair = (cmp.select(lower, a, b) for a, b in zip((high, low), mirrored, strict=True))
    x = _float_of_words(*pair)
    of_lower = el.neg(fn.log(el.neg(fn.log1p(el.neg(x)))))
    return cmp.select(lower, of_lower, el.neg(fn.log(el.neg(fn.log(x)))))


def checked_mode(name: str, mode: str | None) -> str:
    """The mode of Gumbel numbers; ValueError for an unknown one."""
    if mode not in (None, "highest", "high", "low"):
        raise ValueError(
            f"Must provide valid mode for gumbel got: {mode}. {name} takes 'highest', 'high' or "
            "'low'"
        )
    return mode or "low"


@takes_out_sharding
def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers with distribution function exp(-exp(-x)).

    `mode` "high" takes twice as many bits for the upper tail, "highest" (float32) for both; the
    default is "low". Raises ValueError for another mode and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.gumbel(xpr.random.key(0), (3,)).shape
    (3,)
    """
    chosen = checked_mode("gumbel", mode)
    return _plain("gumbel", gumbel_body, key, shape, dtype, mode=chosen)


# ---- with parameters


def _pareto_body(key: Any, b: Any, *, shape: Shape, dtype: DType) -> Any:
    e = exponential_body(key, shape=shape, dtype=dtype)
    return fn.exp(el.div(e, spread(as_dtype(b, dtype), shape)))


@takes_out_sharding
def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers with density b / x**(b + 1) for x >= 1.

    Raises ValueError for a `b` that does not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> bool((xpr.random.pareto(xpr.random.key(0), 3.0, (9,)) >= 1).all())
    True
    """
    return _with_params("pareto", _pareto_body, key, shape, dtype, b)


def _weibull_min_body(
    key: Any, scale: Any, concentration: Any, *, shape: Shape, dtype: DType
) -> Any:
    e = exponential_body(key, shape=shape, dtype=dtype)
    return jnp.power(e, 1.0 / concentration) * scale


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Numbers with distribution function 1 - exp(-(x/scale)**concentration).

    The parameters broadcast with an array of `shape`. Raises ValueError for a dtype that is no
    float.

    >>> import xpr
    >>> xpr.random.weibull_min(xpr.random.key(0), 2.0, 1.5, (3,)).shape
    (3,)
    """
    data = single_key("weibull_min", key)
    found = float_dtype("weibull_min", dtype)
    params = [as_operand("weibull_min", p, i) for i, p in enumerate((scale, concentration))]
    sizes = checked_shape("weibull_min", shape)
    return draw(sizes, _weibull_min_body, data, *params, shape=sizes, dtype=found)


def _triangular_body(
    key: Any, left: Any, mode: Any, right: Any, *, shape: Shape, dtype: DType
) -> Any:
    left, mode, right = (jnp.broadcast_to(as_dtype(x, dtype), shape) for x in (left, mode, right))
    u = unit_floats(key, shape, dtype)
    rising = left + sqrt(u * (right - left) * (mode - left))
    falling = right - sqrt((1 - u) * (right - left) * (right - mode))
    return cmp.select(cmp.lt(u, (mode - left) / (right - left)), rising, falling)


@takes_out_sharding
def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers whose density is a triangle over [left, right] with its top at `mode`.

    Raises ValueError for parameters that do not fit `shape` and for a dtype that is no float.

    >>> import xpr
    >>> xpr.random.triangular(xpr.random.key(0), 0.0, 1.0, 3.0, (3,)).shape
    (3,)
    """
    params = (left, mode, right)
    return _with_params("triangular", _triangular_body, key, shape, dtype, *params)


def _geometric_body(key: Any, p: Any, *, shape: Shape, dtype: DType) -> Any:
    (p,) = promote_dtypes_inexact(jnp.asarray(p))
    u = unit_floats(key, shape, p.dtype)
    u = jnp.where(u == 0, p.dtype.type(1), u)
    failures = spread(fn.log1p(el.neg(p)), shape)
    return jnp.astype(el.floor(el.div(fn.log(u), failures)) + 1, dtype)


@takes_out_sharding
def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """How many trials of success probability `p` it takes to the first success: 1, 2, ...

    Raises ValueError for a `p` that does not fit `shape` and for a dtype that is no integer.

    >>> import xpr
    >>> bool((xpr.random.geometric(xpr.random.key(0), 0.3, (9,)) >= 1).all())
    True
    """
    data = single_key("geometric", key)
    found = integer_dtype("geometric", dtype)
    sizes = common_shape("geometric", shape, p)
    return draw(sizes, _geometric_body, data, p, shape=sizes, dtype=found)
