"""Operations that work element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr import lax
from xpr.core import dtypes
from xpr.core.primitive import get_primitive
from xpr.export.stablehlo.importer import Rule, Site, dtype_of, shape_of
from xpr.export.stablehlo.rules.elements import over_elements


def _unary(function: Callable[[Any], Any]) -> Rule:
    return lambda site: function(site.operand(0))


def _binary(function: Callable[[Any, Any], Any]) -> Rule:
    return lambda site: function(site.operand(0), site.operand(1))


def _bind(name: str) -> Callable[..., Any]:
    return lambda *xs: get_primitive(name).bind(*xs)


def _logical(numbers: Callable[[Any, Any], Any], booleans: Callable[[Any, Any], Any]) -> Any:
    """An operation that is a logical one on booleans."""

    def apply(x: Any, y: Any) -> Any:
        return (booleans if dtype_of(x) == np.bool_ else numbers)(x, y)

    return apply


add = _logical(_bind("add"), _bind("or"))
multiply = _logical(_bind("mul"), _bind("and"))
maximum = _logical(_bind("max"), _bind("or"))
minimum = _logical(_bind("min"), _bind("and"))


def power(x: Any, y: Any) -> Any:
    """x to the power of y; of integers by squaring, 0 or 1 or -1 where y is negative."""
    if dtypes.kind(dtype_of(x)) not in "iu":
        return lax.pow(x, y)
    dtype = dtype_of(x)
    one = np.ones((), dtype)[()]
    result = lax.full_like(x, 1)
    base, left = x, y
    for _ in range(8 * dtype.itemsize):
        odd = lax.ne(lax.bitwise_and(left, lax.full_like(left, 1)), lax.full_like(left, 0))
        result = lax.select(odd, lax.mul(result, base), result)
        base = lax.mul(base, base)
        left = lax.shift_right_logical(left, lax.full_like(left, one))
    if dtypes.kind(dtype) == "u":
        return result
    zero, ones = lax.full_like(x, 0), lax.full_like(x, 1)
    minus = lax.full_like(x, -1)
    sign = lax.select(lax.eq(lax.bitwise_and(y, ones), zero), ones, minus)
    inverse = lax.select(lax.eq(x, ones), ones, lax.select(lax.eq(x, minus), sign, zero))
    inverse = lax.select(lax.eq(x, zero), minus, inverse)
    return lax.select(lax.lt(y, zero), inverse, result)


_DIRECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "GE": lax.ge,
    "GT": lax.gt,
    "LE": lax.le,
    "LT": lax.lt,
}


def compare(x: Any, y: Any, direction: str, kind: str) -> Any:
    """A comparison; TOTALORDER distinguishes -0 from 0, and orders NaN beyond all numbers."""
    if kind == "TOTALORDER" and dtypes.kind(dtype_of(x)) == "f":
        x, y = total_order(x), total_order(y)
    return _DIRECTIONS[direction](x, y)


def total_order(x: Any) -> Any:
    """Integers that are ordered as IEEE's total order orders the floats."""
    width = 8 * dtype_of(x).itemsize
    signed = np.dtype(f"int{width}")
    bits = lax.bitcast_convert_type(x, signed)
    mask = lax.full_like(bits, np.iinfo(signed).max)
    flipped = lax.bitwise_xor(bits, mask)
    return lax.select(lax.lt(bits, lax.full_like(bits, 0)), flipped, bits)


def _compare(site: Site) -> Any:
    return compare(
        site.operand(0),
        site.operand(1),
        site.need("comparison_direction"),
        site.get("compare_type", "NOTYPE"),
    )


def convert(x: Any, dtype: np.dtype[Any]) -> Any:
    """A conversion by value; of complex numbers to others the real part."""
    if dtype_of(x) == dtype:
        return x
    if dtypes.is_complex(dtype_of(x)) and not dtypes.is_complex(dtype):
        x = lax.real(x)
    return lax.convert_element_type(x, dtype)


def _select(site: Site) -> Any:
    which, on_true, on_false = (site.operand(i) for i in range(3))
    return lax.select(which, on_true, on_false)


def _clamp(site: Site) -> Any:
    return lax.clamp(site.operand(0), site.operand(1), site.operand(2))


def _bitcast(site: Site) -> Any:
    x, dtype = site.operand(0), site.tensor().dtype
    if dtype_of(x) == dtype:
        return x
    if {dtype_of(x).kind, dtype.kind} & {"b", "c"}:
        return _from_words(_words(x), dtype, len(site.tensor().shape))
    return lax.bitcast_convert_type(x, dtype)


def _words(x: Any) -> Any:
    """The bits of booleans and of complex numbers: along one more axis, least significant first."""
    dtype = dtype_of(x)
    if dtype == np.bool_:
        return x
    if dtype.kind == "c":
        x = lax.stack([lax.real(x), lax.imag(x)], -1)
    byte = lax.bitcast_convert_type(x, np.uint8)
    if dtype.kind == "c":
        byte = lax.reshape(byte, (*shape_of(byte)[:-2], dtype.itemsize))
    elif dtype.itemsize == 1:
        byte = lax.expand_dims(byte, (len(shape_of(byte)),))
    places = lax.broadcasted_iota(np.uint8, (*shape_of(byte), 8), len(shape_of(byte)))
    wide = lax.broadcast_in_dim(byte, shape_of(places), range(len(shape_of(byte))))
    bits = lax.bitwise_and(lax.shift_right_logical(wide, places), lax.full_like(places, 1))
    shape = shape_of(bits)
    flat = lax.reshape(bits, (*shape[:-2], shape[-2] * shape[-1]))
    return lax.ne(flat, lax.full_like(flat, 0))


def _from_words(bits: Any, dtype: np.dtype[Any], rank: int) -> Any:
    """Elements of a dtype from bits along the last axis; of rank `rank`."""
    if dtype == np.bool_:
        return bits
    width = 8 * dtype.itemsize
    shape = shape_of(bits)
    count = shape[-1] // width
    grouped = lax.reshape(bits, (*shape[:-1], count, dtype.itemsize, 8))
    weights = lax.broadcasted_iota(np.uint8, shape_of(grouped), len(shape_of(grouped)) - 1)
    ones = lax.shift_left(lax.convert_element_type(grouped, np.uint8), weights)
    byte = lax.reduce_sum(ones, (len(shape_of(grouped)) - 1,))
    if dtype.kind == "c":
        half = np.dtype(f"f{dtype.itemsize // 2}")
        parts = lax.reshape(byte, (*shape_of(byte)[:-1], 2, dtype.itemsize // 2))
        values = lax.bitcast_convert_type(parts, half)
        last = len(shape_of(values)) - 1
        found = lax.complex(
            lax.index_in_dim(values, 0, last, keepdims=False),
            lax.index_in_dim(values, 1, last, keepdims=False),
        )
    else:
        if dtype.itemsize == 1:
            byte = lax.reshape(byte, shape_of(byte)[:-1])
        found = lax.bitcast_convert_type(byte, dtype)
    return found if len(shape_of(found)) == rank else lax.reshape(found, shape_of(found)[:-1])


def _cbrt(x: Any) -> Any:
    """Of complex numbers the principal root."""
    return lax.pow(x, lax.full_like(x, 1 / 3)) if dtypes.is_complex(dtype_of(x)) else lax.cbrt(x)


def _reduce_precision(site: Site) -> Any:
    return lax.reduce_precision(
        site.operand(0), site.int("exponent_bits"), site.int("mantissa_bits")
    )


def _sign_bit(x: Any) -> Any:
    return lax.imag(x) if dtypes.is_complex(dtype_of(x)) else lax.full_like(x, 0)


def _real(x: Any) -> Any:
    return lax.real(x) if dtypes.is_complex(dtype_of(x)) else x


def _map(site: Site) -> Any:
    return over_elements(site.region(0), site.operands)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": lax.abs,
    "cbrt": _cbrt,
    "ceil": lax.ceil,
    "cosine": lax.cos,
    "count_leading_zeros": lax.clz,
    "exponential": lax.exp,
    "exponential_minus_one": lax.expm1,
    "floor": lax.floor,
    "imag": _sign_bit,
    "is_finite": lax.is_finite,
    "log": lax.log,
    "log_plus_one": lax.log1p,
    "logistic": lax.logistic,
    "negate": lax.neg,
    "not": lax.bitwise_not,
    "popcnt": lax.population_count,
    "real": _real,
    "round_nearest_afz": lax.round,
    "round_nearest_even": functools.partial(
        lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN
    ),
    "rsqrt": lax.rsqrt,
    "sign": lax.sign,
    "sine": lax.sin,
    "sqrt": lax.sqrt,
    "tan": lax.tan,
    "tanh": lax.tanh,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "add": add,
    "and": lax.bitwise_and,
    "atan2": lax.atan2,
    "complex": lax.complex,
    "divide": lax.div,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": multiply,
    "or": lax.bitwise_or,
    "power": power,
    "remainder": lax.rem,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "subtract": lax.sub,
    "xor": lax.bitwise_xor,
}

RULES: dict[str, Rule] = {f"stablehlo.{n}": _unary(f) for n, f in _FUNCTIONS.items()}
RULES |= {f"stablehlo.{n}": _binary(f) for n, f in _BINARY.items()}
RULES |= {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": lambda site: convert(site.operand(0), site.tensor().dtype),
    "stablehlo.map": _map,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.select": _select,
}
