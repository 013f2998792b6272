"""Powers and roots.

As for the other elementwise operations, operands have one dtype and equal shapes unless a function
says otherwise, and TypeError is raised for other dtypes or shapes.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotLinear, check_operands, define
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._accuracy import accuracy_param
from xpr.primitives._complex import divide
from xpr.primitives.families import (
    FLOATING,
    INEXACT,
    NUMERIC,
    elementwise_shape,
    in_float32,
    require_kind,
    unary,
)
from xpr.primitives.rules import (
    ElementwiseBatch,
    Partials,
    broadcast_to,
    const_like,
    full_like,
    shape_of,
    zero_tangent,
)

__all__ = [
    "cbrt",
    "integer_pow",
    "pow",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "square",
]

_FAMILY = "power"
_NdArray = np.ndarray[Any, Any]


def _power_by_squaring(x: _NdArray, exponent: int) -> Any:
    result, base = np.ones_like(x), x
    first = True
    while exponent:
        if exponent & 1:
            # Complex 1 * x would lose the sign of a zero.
            result, first = base if first else result * base, False
        exponent >>= 1
        if exponent:
            base = base * base
    return result


def _integer_pow_abstract(x: ShapedArray, *, y: int) -> ShapedArray:
    require_kind("integer_pow", x, NUMERIC)
    if y < 0 and dtypes.is_integer(x.dtype):
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({x.str_short()}, {y})"
        )
    return x


def _integer_pow_reference(x: _NdArray, *, y: int) -> Any:
    if x.dtype.kind in "iu":
        return _power_by_squaring(x, y)
    if x.dtype.kind == "c":
        power = _power_by_squaring(x, np.abs(y))
        return divide(np.ones_like(x), power) if y < 0 else power
    if x.dtype == np.float64:
        return np.power(x, np.float64(y))
    return np.power(x.astype(np.float64), np.float64(y)).astype(x.dtype)


def _pow_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    require_kind("pow", x, INEXACT, 0)
    require_kind("pow", y, NUMERIC, 1)
    if dtypes.is_inexact(y.dtype) and x.dtype != y.dtype:
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), and the "
            "second argument must have an inexact or integer dtype, and two inexact dtypes must "
            f"match, but got {x.dtype} and {y.dtype} respectively."
        )
    return ShapedArray(elementwise_shape("pow", x, y), x.dtype, x.weak_type and y.weak_type)


def _pow_reference(x: _NdArray, y: _NdArray) -> Any:
    if x.dtype.kind == "c":
        return np.power(x, y).astype(x.dtype)
    if x.dtype == np.float64:
        return np.power(x, y.astype(np.float64))
    return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def _rsqrt_reference(x: _NdArray) -> Any:
    if x.dtype.kind == "c":
        return divide(np.ones_like(x), np.sqrt(x))
    if x.dtype == np.float64:
        return np.reciprocal(np.sqrt(x))
    return np.reciprocal(np.sqrt(x.astype(np.float64))).astype(x.dtype)


def _integer_pow_tangent(t: Any, out: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return zero_tangent(out)
    if y == 1:
        return t
    lower = x if y == 2 else integer_pow_p.bind(x, y=y - 1)
    return ops.mul(t, ops.mul(const_like(x, y), lower))


def _pow_by_base(t: Any, out: Any, x: Any, y: Any) -> Any:
    zero, one = full_like(y, 0), full_like(y, 1)
    factor = y
    if dtypes.is_inexact(get_aval(y).dtype):
        lower = ops.sub(y, const_like(y, 1))
        if not _is_known_nonzero(y):
            # 0 * 0**-1 would be NaN. Only at x = 0, since elsewhere the slope depends on y at 0.
            vanishes = ops.bind("and", ops.eq(x, full_like(x, 0)), ops.eq(y, zero))
            factor = _replaced(vanishes, y, zero)
            lower = _replaced(vanishes, lower, zero)
    else:
        # The exponent stays an integer, and where it is 0 it stays 0, times a factor of 0: so x**0
        # and x**1 have the derivatives 0 and 1 at 0 too, and so on to any order.
        lower = ops.sub(ops.select(ops.eq(y, zero), one, y), one)
        factor = ops.convert(y, get_aval(x).dtype, get_aval(x).weak_type)
    return ops.mul(t, ops.mul(factor, pow_p.bind(x, lower)))


def _is_known_nonzero(y: Any) -> bool:
    return isinstance(y, (int, float, complex, np.generic)) and bool(y != 0)


def _replaced(which: Any, y: Any, value: Any) -> Any:
    """`y` with `value` in place of the elements that `which` marks, which may have more axes."""
    shape = shape_of(which)
    return ops.select(which, broadcast_to(value, shape), broadcast_to(y, shape))


def _pow_by_exponent(t: Any, out: Any, x: Any, y: Any) -> Any:
    # A power that is 0 stays 0 for exponents nearby, where log(x) is infinite, too. So does x**0
    # at x = 0, which is 1, by the convention that JAX chose.
    at_zero = ops.bind("and", ops.eq(x, full_like(x, 0)), ops.eq(y, full_like(y, 0)))
    constant = ops.bind("or", ops.eq(out, full_like(out, 0)), at_zero)
    base = _replaced(constant, x, full_like(x, 1))
    return ops.mul(t, ops.mul(ops.bind("log", base), out))


square_p = unary(
    "square",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="x * x.",
    reference=np.square,
    jvp=Partials(lambda t, out, x: ops.mul(t, ops.mul(const_like(x, 2), x))),
)
sqrt_p = unary(
    "sqrt",
    family=_FAMILY,
    kinds=INEXACT,
    doc="The square root of x.",
    reference=in_float32(np.sqrt),
    jvp=Partials(lambda t, out, x, **_: ops.mul(t, ops.div(const_like(x, 0.5), out))),
)
rsqrt_p = unary(
    "rsqrt",
    family=_FAMILY,
    kinds=INEXACT,
    doc="1 / sqrt(x).",
    reference=_rsqrt_reference,
    jvp=Partials(lambda t, out, x, **_: ops.mul(t, ops.mul(const_like(x, -0.5), ops.div(out, x)))),
)
cbrt_p = unary(
    "cbrt",
    family=_FAMILY,
    kinds=FLOATING,
    doc="The cube root of x.",
    reference=in_float32(np.cbrt),
    jvp=Partials(
        lambda t, out, x, **_: ops.mul(
            t, ops.mul(const_like(x, 1 / 3), integer_pow_p.bind(out, y=-2))
        )
    ),
)
integer_pow_p = define(
    "integer_pow",
    family=_FAMILY,
    doc="x to the power of a Python integer.",
    abstract=_integer_pow_abstract,
    reference=_integer_pow_reference,
    jvp=Partials(_integer_pow_tangent),
    transpose=NotLinear("it is not linear"),
    batch=ElementwiseBatch(),
)
pow_p = define(
    "pow",
    family=_FAMILY,
    doc="x to the power of y.",
    abstract=_pow_abstract,
    reference=_pow_reference,
    jvp=Partials(_pow_by_base, _pow_by_exponent),
    transpose=NotLinear("it is not linear"),
    batch=ElementwiseBatch(),
)


def square(x: Any) -> Array:
    """The product `x * x` of an integer, floating or complex array with itself.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.square(jnp.array([2, -3]))
    Array([4, 9], dtype=int32)
    """
    return square_p.bind(x)


def sqrt(x: Any, *, accuracy: Any = None) -> Array:
    """The square root of a floating or complex array, with its cut along the negative real axis.

    Negative real numbers give NaN. `accuracy` as in `exp`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.sqrt(jnp.array([4.0, -1.0]))
    Array([ 2., nan], dtype=float32)
    """
    return sqrt_p.bind(x, **accuracy_param(accuracy))


def rsqrt(x: Any, *, accuracy: Any = None) -> Array:
    """The reciprocal square root `1 / sqrt(x)` of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.rsqrt(jnp.array([4.0, 0.0]))
    Array([0.5, inf], dtype=float32)
    """
    return rsqrt_p.bind(x, **accuracy_param(accuracy))


def cbrt(x: Any, *, accuracy: Any = None) -> Array:
    """The real cube root of a floating array; negative numbers have negative roots.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.cbrt(jnp.array([8.0, -27.0])).round(5)
    Array([ 2., -3.], dtype=float32)
    """
    return cbrt_p.bind(x, **accuracy_param(accuracy))


def integer_pow(x: Any, y: int) -> Array:
    """The power `x ** y` of an integer, floating or complex array, for a Python integer `y`.

    `x ** 0` is 1 for every `x`. Raises TypeError for integers with negative `y`.

    >>> from xpr import lax
    >>> lax.integer_pow(2.0, -2)
    Array(0.25, dtype=float32, weak_type=True)
    """
    check_operands("integer_pow", x)
    return integer_pow_p.bind(x, y=operator.index(y))


def reciprocal(x: Any) -> Array:
    """The reciprocal `1 / x` of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.reciprocal(jnp.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


def pow(x: Any, y: Any) -> Array:
    """The power `x ** y` of a floating or complex array.

    `y` has the dtype of `x`, or any integer dtype. Special values are those of IEEE 754 `pow`
    (which NumPy has too): `pow(x, 0)` and `pow(1, y)` are 1 even where the other operand is NaN, a
    negative finite `x` gives NaN unless `y` is a whole number, and so on.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.pow(jnp.array([2.0, -2.0]), 3)
    Array([ 8., -8.], dtype=float32)
    """
    return pow_p.bind(x, y)
