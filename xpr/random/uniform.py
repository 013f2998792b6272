"""Bits, uniform numbers, integers and coins: equal to JAX's bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.placing import takes_out_sharding
from xpr.core.trace import get_aval
from xpr.numpy._promote import as_operand
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bit
from xpr.primitives.convert import bitcast_convert_type, convert_type
from xpr.primitives.random import random_bits, random_split
from xpr.random._sampling import (
    DType,
    Shape,
    as_dtype,
    checked_dtype,
    checked_shape,
    common_shape,
    draw,
    fitting_shape,
    float_dtype,
    spread,
)
from xpr.random.keys import single_key

_INT32 = np.dtype(np.int32)


# ---- bits


@takes_out_sharding
def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Random bits: uniform over all values of the unsigned `dtype` (default uint32).

    Raises ValueError for another dtype.

    >>> import xpr
    >>> xpr.random.bits(xpr.random.key(0), (2,), "uint8")
    Array([167, 146], dtype=uint8)
    """
    data = single_key("bits", key)
    wanted = dtypes.default_dtype("u") if dtype is None else dtype
    found = checked_dtype("bits", wanted, int, "u", "an unsigned int")
    sizes = checked_shape("bits", shape)
    return draw(sizes, random_bits, data, bit_width=8 * found.itemsize, shape=sizes)


# ---- uniform


def unit_floats(key: Any, shape: Shape, dtype: DType) -> Any:
    """Multiples of the spacing of floats below 2, uniform over [0, 1).

    Random bits become the mantissa of a number in [1, 2), from which 1 is taken.
    """
    width = 8 * dtype.itemsize
    if width < 16:
        raise TypeError(f"random floats have a dtype of 16, 32 or 64 bits, got {dtype}")
    mantissa = int(dtypes.finfo(dtype).nmant)
    drawn_width = width if mantissa >= 8 else 8
    unsigned = np.dtype(f"u{width // 8}")
    words = convert_type(random_bits(key, drawn_width, shape), unsigned)
    low = bit.shift_right_logical(words, unsigned.type(drawn_width - mantissa))
    one = np.ones((), dtype)
    floats = bitcast_convert_type(bit.bitwise_or(low, one.view(unsigned)[()]), dtype)
    return el.sub(floats, one[()])


def uniform_in(key: Any, low: Any, high: Any, *, shape: Shape, dtype: DType) -> Any:
    """Uniform numbers in [low, high), which are scalars or fit `shape`."""
    floats = unit_floats(key, shape, dtype)
    if type(low) is type(high) is float and (low, high) == (0.0, 1.0):
        return floats
    low, high = (spread(as_dtype(x, dtype), shape) for x in (low, high))
    return el.max(el.add(el.mul(floats, el.sub(high, low)), low), low)


def unit_uniform(key: Any, *, shape: Shape, dtype: DType) -> Any:
    """Uniform numbers in [0, 1)."""
    return unit_floats(key, shape, dtype)


@takes_out_sharding
def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers uniform over [minval, maxval), which are scalars or broadcast to `shape`.

    `dtype` is a float type. Raises ValueError for another, and for bounds that do not fit.

    >>> import xpr
    >>> xpr.random.uniform(xpr.random.key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    data = single_key("uniform", key)
    found = float_dtype("uniform", dtype)
    sizes = checked_shape("uniform", shape)
    bounds = [get_aval(as_operand("uniform", x)).shape for x in (minval, maxval)]
    fitting_shape("uniform", sizes, *bounds)
    if (
        type(minval) in (int, float)
        and type(maxval) in (int, float)
        and minval == 0
        and maxval == 1
    ):
        return draw(sizes, unit_uniform, data, shape=sizes, dtype=found)
    return draw(sizes, uniform_in, data, minval, maxval, shape=sizes, dtype=found)


# ---- randint


def _whole(name: str, x: Any) -> Any:
    """A bound of `randint` as an integer array."""
    x = jnp.asarray(as_operand("randint", x))
    if dtypes.is_complex(x.dtype):
        raise TypeError(f"randint requires {name} to be real, got {x.dtype}")
    return x if dtypes.is_integer(x.dtype) else x.astype(int)


def _clipped(x: Any, dtype: DType) -> Any:
    """Integers converted to `dtype`, those beyond its range to its ends."""
    source, target = np.iinfo(x.dtype), np.iinfo(dtype)
    low, high = (
        x.dtype.type(v) for v in (max(source.min, target.min), min(source.max, target.max))
    )
    return convert_type(cmp.clamp(low, x, high), dtype)


def _randint_body(key: Any, low: Any, high: Any, *, shape: Shape, dtype: DType) -> Any:
    """`low` plus the remainder of a number of twice as many bits by the span.

    With h and l of n bits each, h 2**n + l is reduced modulo the span s by computing
    (h mod s) (2**n mod s) + (l mod s); sums and products wrap, as JAX's do.
    """
    width = 8 * dtype.itemsize
    unsigned = np.dtype(f"u{dtype.itemsize}")
    greatest = _clipped(jnp.asarray(np.iinfo(dtype).max, dtype), high.dtype)
    # The span of [low, 2**n) is one more than that of [low, 2**n - 1), which `high` becomes.
    beyond = cmp.gt(high, greatest)
    low, high = _clipped(low, dtype), _clipped(high, dtype)
    some = cmp.gt(high, low) if low.shape == high.shape else high > low
    span = jnp.where(some, convert_type(jnp.subtract(high, low), unsigned), unsigned.type(1))
    span = jnp.where(beyond & some, span + unsigned.type(1), span)
    half = bit_remainder(unsigned.type(1 << width // 2), span)
    factor = bit_remainder(half * half, span)
    span, factor, low = (spread(x, shape) for x in (span, factor, low))
    keys = random_split(key, (2,))
    first, second = (random_bits(keys[i], width, shape) for i in (0, 1))
    offset = el.add(el.mul(el.rem(first, span), factor), el.rem(second, span))
    return el.add(low, convert_type(el.rem(offset, span), dtype))


def bit_remainder(x: Any, y: Any) -> Any:
    """x mod y of unsigned integers; x where y is 0."""
    return el.rem(jnp.broadcast_to(x, get_aval(y).shape), y)


@takes_out_sharding
def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Integers uniform over [minval, maxval), which are scalars or broadcast to `shape`.

    Where `maxval <= minval` the result is `minval`. Bounds beyond the range of `dtype` (default
    int32) are clipped; a `maxval` one beyond it makes its greatest value possible. Raises
    TypeError for a dtype that is no integer, ValueError for bounds that do not fit `shape`.

    >>> import xpr
    >>> xpr.random.randint(xpr.random.key(0), (4,), 0, 10)
    Array([9, 0, 2, 3], dtype=int32)
    """
    data = single_key("randint", key)
    wanted = checked_integer("randint", dtype)
    sizes = checked_shape("randint", shape)
    drawn = wanted
    low, high = _whole("minval", minval), _whole("maxval", maxval)
    if wanted.itemsize < 4:
        info, drawn = np.iinfo(wanted), _INT32
        low = jnp.clip(low.astype(_INT32), int(info.min), int(info.max))
        high = jnp.clip(high.astype(_INT32), int(info.min), int(info.max) + 1)
    fitting_shape("randint", sizes, low.shape, high.shape)
    found = draw(sizes, _randint_body, data, low, high, shape=sizes, dtype=drawn)
    return convert_type(found, wanted)


def checked_integer(name: str, dtype: Any) -> DType:
    """The integer dtype asked for, or the default one; TypeError for another."""
    try:
        return checked_dtype(name, dtype, int, "iu", "an int")
    except ValueError:
        raise TypeError(
            f"{name} only accepts integer dtypes, got {dtypes.canonicalize(dtype)}"
        ) from None


# ---- coins


def _bernoulli_low(key: Any, p: Any, *, shape: Shape, dtype: DType) -> Any:
    return cmp.lt(unit_floats(key, shape, dtype), spread(p, shape))


def _bernoulli_high(key: Any, p: Any, *, shape: Shape, dtype: DType) -> Any:
    high, low = unit_floats(key, (2, *shape), dtype)
    least = dtype.type(2.0 ** -int(dtypes.finfo(dtype).nmant))
    return cmp.lt(el.mul(low, least), el.sub(spread(p, shape), high))


@takes_out_sharding
def bernoulli(
    key: Any,
    p: Any = 0.5,
    shape: Any = None,
    mode: str = "low",
    *,
    out_sharding: Any = None,
) -> Array:
    """Booleans that are True with probability `p`, of the shape of `p` or of `shape`.

    `mode="high"` takes twice as many bits, so that small probabilities are exact. A `p` of 0 or
    less is never True, of 1 or more always, a NaN never. Raises TypeError for a `p` that is no
    float, ValueError for one that does not fit `shape` and for another `mode`.

    >>> import xpr
    >>> xpr.random.bernoulli(xpr.random.key(0), 0.3, (3,))
    Array([False, False, False], dtype=bool)
    """
    if mode not in ("low", "high"):
        raise ValueError(f"got mode={mode!r}, expected 'high' or 'low' (bernoulli)")
    data = single_key("bernoulli", key)
    dtype = get_aval(as_operand("bernoulli", p)).dtype
    if not dtypes.is_float(dtype):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}.")
    sizes = common_shape("bernoulli", shape, p)
    body = _bernoulli_low if mode == "low" else _bernoulli_high
    return draw(sizes, body, data, as_dtype(p, dtype), shape=sizes, dtype=dtype)


def rademacher_body(key: Any, *, shape: Shape, dtype: DType) -> Any:
    """+1 or -1 with equal probability."""
    coin = dtypes.default_dtype("f")
    heads = convert_type(_bernoulli_low(key, coin.type(0.5), shape=shape, dtype=coin), dtype)
    return el.sub(el.mul(heads, dtype.type(2)), dtype.type(1))


@takes_out_sharding
def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """1 or -1 with equal probability, in any numeric dtype (default int32).

    >>> import xpr
    >>> xpr.random.rademacher(xpr.random.key(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    data = single_key("rademacher", key)
    found = checked_dtype("rademacher", dtype, int, "iufc", "a numeric")
    sizes = checked_shape("rademacher", shape)
    return draw(sizes, rademacher_body, data, shape=sizes, dtype=found)
