"""Elementwise arithmetic with NumPy's names: sums, products, quotients, powers, signs, rounding.

Operands are arrays or numbers of any dtype, promoted to a common dtype and broadcast against each
other. Lists and None raise TypeError, shapes that do not fit ValueError or TypeError.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    convert,
    literal_type,
    one_inexact,
    one_operand,
    promote_args,
    promote_args_inexact,
    promote_args_numeric,
    promote_power,
    scalar_type,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike, DType
from xpr.numpy.operators import operator_of, reflected
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import power as pw
from xpr.primitives.convert import bitcast_convert_type_p

BOOL = dtypes.BOOL


# ---- sums and products


def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The sum `x + y`; of two boolean arrays the logical or.

    >>> import xpr.numpy as jnp
    >>> jnp.add(jnp.arange(3), 0.5)
    Array([0.5, 1.5, 2.5], dtype=float32, weak_type=True)
    """
    if type(x) is ArrayImpl and type(y) is ArrayImpl and x.aval is y.aval:
        return (bits.or_p if x.aval.dtype == BOOL else el.add_p).bind(x, y)
    (x, y), dtype = promote_args("add", x, y)
    return (bits.or_p if dtype == BOOL else el.add_p).bind(x, y)


def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The difference `x - y`. Raises TypeError for two boolean arrays.

    >>> import xpr.numpy as jnp
    >>> jnp.subtract(jnp.array([5, 3]), jnp.array([[1], [2]]))
    Array([[4, 2],
           [3, 1]], dtype=int32)
    """
    if type(x) is ArrayImpl and type(y) is ArrayImpl and x.aval is y.aval:
        return el.sub_p.bind(x, y)
    (x, y), _ = promote_args("subtract", x, y)
    return el.sub_p.bind(x, y)


def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The product `x * y`; of two boolean arrays the logical and.

    >>> import xpr.numpy as jnp
    >>> jnp.multiply(jnp.arange(3), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32, weak_type=True)
    """
    if type(x) is ArrayImpl and type(y) is ArrayImpl and x.aval is y.aval:
        return (bits.and_p if x.aval.dtype == BOOL else el.mul_p).bind(x, y)
    (x, y), dtype = promote_args("multiply", x, y)
    return (bits.and_p if dtype == BOOL else el.mul_p).bind(x, y)


# ---- quotients


def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient `x1 / x2`, floating or complex; integers become floats first.

    >>> import xpr.numpy as jnp
    >>> jnp.true_divide(jnp.array([1, 2]), 2)
    Array([0.5, 1. ], dtype=float32)
    """
    (x, y), _ = promote_args_inexact("divide", x1, x2)
    return el.div_p.bind(x, y)


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient `x1 / x2`, as `true_divide`.

    >>> import xpr.numpy as jnp
    >>> jnp.divide(jnp.array([1, 2]), 2)
    Array([0.5, 1. ], dtype=float32)
    """
    return true_divide(x1, x2)


def _no_complex(name: str, dtype: DType) -> None:
    if dtypes.is_complex(dtype):
        raise TypeError(f"{name} does not accept dtype {dtype}: it requires real arguments")


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient `x1 / x2` rounded down, in the operands' common dtype (booleans: int32).

    Of floats it agrees with `remainder`: `x1 == floor_divide(x1, x2) * x2 + remainder(x1, x2)` up
    to rounding. An integer divided by 0 gives an unspecified value. Raises TypeError for complex
    operands.

    >>> import xpr.numpy as jnp
    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """
    (x, y), dtype = promote_args_numeric("floor_divide", x1, x2)
    _no_complex("floor_divide", dtype)
    number = scalar_type(x)
    kind = dtypes.kind(dtype)
    if kind == "u":
        return el.div_p.bind(x, y)
    if kind == "i":
        quotient = el.div_p.bind(x, y)
        crossed = cmp.ne_p.bind(el.sign_p.bind(x), el.sign_p.bind(y))
        inexact = cmp.ne_p.bind(el.rem_p.bind(x, y), number(0))
        lower = el.sub_p.bind(quotient, number(1))
        return select_where(bits.and_p.bind(crossed, inexact), lower, quotient)
    return _float_divmod(x, y)[0]


def _float_divmod(x: Any, y: Any) -> tuple[Array, Array]:
    number = scalar_type(x)
    zero = number(0)
    rest = el.rem_p.bind(x, y)
    quotient = el.div_p.bind(el.sub_p.bind(x, rest), y)
    below = cmp.lt_p.bind(rest, zero)
    crossed = bits.and_p.bind(
        cmp.ne_p.bind(rest, zero), cmp.ne_p.bind(below, cmp.lt_p.bind(y, zero))
    )
    quotient = select_where(crossed, el.sub_p.bind(quotient, number(1)), quotient)
    rest = select_where(crossed, el.add_p.bind(rest, y), rest)
    # x - rest is a multiple of y up to rounding, so the nearest integer is the quotient.
    quotient = el.round(quotient, el.RoundingMethod.TO_NEAREST_EVEN)
    ratio = el.div_p.bind(x, y)
    # A quotient of zero keeps the sign that the ratio has: a quarter of it is nearer to zero than
    # to one.
    quarter = el.mul_p.bind(ratio, number(0.25))
    small = el.round(quarter, el.RoundingMethod.TO_NEAREST_EVEN)
    quotient = select_where(cmp.eq_p.bind(quotient, zero), small, quotient)
    by_zero = cmp.eq_p.bind(y, zero)
    return select_where(by_zero, ratio, quotient), _with_zeros_of(rest, y, zero)


def _with_zeros_of(rest: Any, y: Any, zero: Any) -> Array:
    """`rest` with zeros of the sign of `y`; by sums, which keep its derivative."""
    positive = el.add_p.bind(rest, zero)
    negative = el.neg_p.bind(el.add_p.bind(el.neg_p.bind(rest), zero))
    return select_where(cmp.lt_p.bind(y, zero), negative, positive)


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of `floor_divide`, with the sign of `x2`.

    An integer's remainder by 0 is 0, a float's NaN. Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    (x, y), dtype = promote_args_numeric("remainder", x1, x2)
    _no_complex("remainder", dtype)
    number = scalar_type(x)
    zero = number(0)
    if dtypes.is_integer(dtype):
        y_is_zero = cmp.eq_p.bind(y, zero)
        rest = el.rem_p.bind(x, select_where(y_is_zero, number(1), y))
        if dtypes.kind(dtype) == "u":
            return rest
    else:
        rest = el.rem_p.bind(x, y)
    crossed = cmp.ne_p.bind(cmp.lt_p.bind(rest, zero), cmp.lt_p.bind(y, zero))
    crossed = bits.and_p.bind(crossed, cmp.ne_p.bind(rest, zero))
    rest = select_where(crossed, el.add_p.bind(rest, y), rest)
    return rest if dtypes.is_integer(dtype) else _with_zeros_of(rest, y, zero)


def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of `floor_divide`, as `remainder`.

    >>> import xpr.numpy as jnp
    >>> jnp.mod(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """
    return remainder(x1, x2)


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of the quotient rounded towards zero, with the sign of `x1`.

    Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    (x, y), dtype = promote_args_numeric("fmod", x1, x2)
    _no_complex("fmod", dtype)
    number = scalar_type(x)
    if dtypes.is_integer(dtype):
        y = select_where(cmp.eq_p.bind(y, number(0)), number(1), y)
    return el.rem_p.bind(x, y)


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """The pair `(floor_divide(x1, x2), remainder(x1, x2))`.

    >>> import xpr.numpy as jnp
    >>> jnp.divmod(jnp.array([7.5, -7.5]), 2.0)
    (Array([ 3., -4.], dtype=float32), Array([1.5, 0.5], dtype=float32))
    """
    (x, y), dtype = promote_args_numeric("divmod", x1, x2)
    _no_complex("divmod", dtype)
    if dtypes.is_float(dtype):
        return _float_divmod(x, y)
    return floor_divide(x, y), remainder(x, y)


# ---- powers


def _static_exponent(y: Any) -> int | None:
    """The value of a rank-0 integer exponent that is known now."""
    if type(y) is int:
        return y
    if isinstance(y, Tracer):
        return None
    aval = get_aval(y)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        return None
    return operator.index(y)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` to the power `x2`, in their common dtype (booleans: int32).

    A single integer exponent that is known when the function is traced is multiplied out, which
    is exact for integers. Where an array of integers has a negative exponent the result is the
    true value rounded towards zero (0 unless the base is 1 or -1; 0 for the base 0). Raises
    TypeError for integers and one negative integer exponent.

    >>> import xpr.numpy as jnp
    >>> jnp.power(jnp.array([1, 2, 3]), 2)
    Array([1, 4, 9], dtype=int32)
    """
    if type(x2) is int and type(x1) is ArrayImpl and x1.aval.dtype != BOOL:
        return pw.integer_pow_p.bind(x1, y=x2)
    exponent = _static_exponent(as_operand("power", x2, 1))
    (x, y), dtype = promote_power("power", x1, x2)
    if exponent is not None:
        # Booleans are no weakly typed integers, whatever the type of the exponent is.
        is_bool = get_aval(x1).dtype == BOOL
        return pw.integer_pow(convert(x, dtype) if is_bool else x, exponent)
    if dtypes.is_integer(dtype):
        return _integer_power(x, y, dtype)
    return pw.pow_p.bind(x, y)


def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` to the power `x2`, as `power`.

    >>> import xpr.numpy as jnp
    >>> jnp.pow(jnp.array([2, 3]), 2)
    Array([4, 9], dtype=int32)
    """
    return power(x1, x2)


def _integer_power(x: Any, y: Any, dtype: DType) -> Array:
    """Powers of integer arrays by repeated squaring, modulo 2**bits as all integer arithmetic."""
    number = literal_type(y)
    one, zero = number(1), number(0)
    count = 8 * dtype.itemsize - (dtypes.kind(dtype) == "i")
    if not isinstance(y, Tracer):
        # Only as many squarings as the greatest exponent has bits.
        host = np.asarray(y)
        count = int(host.max()).bit_length() if host.size and host.max() > 0 else 0
    result = select_where(cmp.lt_p.bind(y, zero), _negative_power(x, y, one, zero), one)
    square, rest = x, y
    for i in range(count):
        odd = cmp.eq_p.bind(bits.and_p.bind(rest, one), one)
        use = bits.and_p.bind(odd, cmp.gt_p.bind(y, zero))
        result = select_where(use, el.mul_p.bind(result, square), result)
        if i + 1 < count:
            square = el.mul_p.bind(square, square)
            rest = bits.shift_right_logical_p.bind(rest, one)
    return result


def _negative_power(x: Any, y: Any, one: Any, zero: Any) -> Array:
    is_one = cmp.eq_p.bind(x, one)
    if dtypes.kind(get_aval(one).dtype) == "u":
        return select_where(is_one, one, zero)
    odd = cmp.eq_p.bind(bits.and_p.bind(y, one), one)
    sign = select_where(odd, -one, one)
    return select_where(is_one, one, select_where(cmp.eq_p.bind(x, -one), sign, zero))


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1` to the power `x2`, floating or complex; integers become floats first.

    >>> import xpr.numpy as jnp
    >>> jnp.float_power(jnp.array([2, 4]), -1)
    Array([0.5 , 0.25], dtype=float32)
    """
    (x, y), _ = promote_args_inexact("float_power", x1, x2)
    return pw.pow_p.bind(x, y)


def square(x: ArrayLike, /) -> Array:
    """The square `x * x`; of booleans as int32.

    >>> import xpr.numpy as jnp
    >>> jnp.square(jnp.array([2, -3]))
    Array([4, 9], dtype=int32)
    """
    (x,), _ = promote_args_numeric("square", x)
    return pw.square_p.bind(x)


def reciprocal(x: ArrayLike, /) -> Array:
    """The reciprocal `1 / x`, floating or complex; integers become floats first.

    >>> import xpr.numpy as jnp
    >>> jnp.reciprocal(jnp.array([2, 4]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return pw.integer_pow(one_inexact("reciprocal", x), -1)


# ---- signs


def negative(x: ArrayLike, /) -> Array:
    """The opposite `-x`. Raises TypeError for booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return el.neg_p.bind(one_operand("negative", x)[0])


def positive(x: ArrayLike, /) -> Array:
    """`x` itself, as an array.

    >>> import xpr.numpy as jnp
    >>> jnp.positive(jnp.array([1, -2]))
    Array([ 1, -2], dtype=int32)
    """
    return as_array(one_operand("positive", x)[0])


def absolute(x: ArrayLike, /) -> Array:
    """The absolute value of `x`; of complex numbers the modulus, a real array.

    >>> import xpr.numpy as jnp
    >>> jnp.absolute(jnp.array([-2, 3]))
    Array([2, 3], dtype=int32)
    """
    x, dtype = one_operand("absolute", x)
    return as_array(x) if dtypes.kind(dtype) in "bu" else el.abs_p.bind(x)


def abs(x: ArrayLike, /) -> Array:
    """The absolute value of `x`, as `absolute`.

    >>> import xpr.numpy as jnp
    >>> jnp.abs(jnp.array([1, -2]))
    Array([1, 2], dtype=int32)
    >>> jnp.abs(3 + 4j)
    Array(5., dtype=float32, weak_type=True)
    """
    return absolute(x)


def fabs(x: ArrayLike, /) -> Array:
    """The absolute value of `x` as a float. Raises TypeError for complex numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.fabs(jnp.array([1, -2]))
    Array([1., 2.], dtype=float32)
    """
    x = one_inexact("fabs", x)
    _no_complex("fabs", get_aval(x).dtype)
    return el.abs_p.bind(x)


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign of `x`; of a complex number `x / |x|`. NaN stays NaN.

    Raises TypeError for booleans.

    >>> import xpr.numpy as jnp
    >>> jnp.sign(jnp.array([5.0, 0.0, -3.0]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    return el.sign_p.bind(one_operand("sign", x)[0])


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: for negative numbers, -0.0 and NaNs of that sign.

    Raises ValueError for complex numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.signbit(jnp.array([-1.0, -0.0, 0.0]))
    Array([ True,  True, False], dtype=bool)
    """
    (x,), dtype = promote_args("signbit", x)
    kind = dtypes.kind(dtype)
    if kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {dtype}")
    if kind in "bu":
        return broadcast_to(as_array(np.False_), get_aval(x).shape)
    if kind == "i":
        return cmp.lt_p.bind(x, dtype.type(0))
    integer = np.dtype(f"i{dtype.itemsize}")
    pattern = bitcast_convert_type_p.bind(x, new_dtype=integer)
    return cmp.lt_p.bind(pattern, integer.type(0))


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The size of `x1` with the sign of `x2`, floating. Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.copysign(jnp.array([1, 2]), jnp.array([-3, 3]))
    Array([-1.,  2.], dtype=float32)
    """
    (x, y), dtype = promote_args_inexact("copysign", x1, x2)
    _no_complex("copysign", dtype)
    size = el.abs_p.bind(x)
    return select_where(signbit(y), el.neg_p.bind(size), size)


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The step function: 0 where `x1 < 0`, `x2` where it is 0, 1 above; NaN where it is NaN.

    Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    (x, y), dtype = promote_args_inexact("heaviside", x1, x2)
    _no_complex("heaviside", dtype)
    number = literal_type(x)
    zero, one = number(0), number(1)
    at_zero = select_where(cmp.ne_p.bind(x, x), x, y)
    above = select_where(cmp.gt_p.bind(x, zero), one, at_zero)
    return select_where(cmp.lt_p.bind(x, zero), zero, above)


# ---- extremes


def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of `x` and `y`, NaN if either is; complex numbers compare by real part first.

    >>> import xpr.numpy as jnp
    >>> jnp.maximum(jnp.array([1, 5]), 3)
    Array([3, 5], dtype=int32)
    """
    (x, y), _ = promote_args("maximum", x, y)
    return el.max_p.bind(x, y)


def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The lesser of `x` and `y`, NaN if either is; complex numbers compare by real part first.

    >>> import xpr.numpy as jnp
    >>> jnp.minimum(jnp.array([1.0, 5.0, jnp.nan]), 2.0)
    Array([ 1.,  2., nan], dtype=float32)
    """
    (x, y), _ = promote_args("minimum", x, y)
    return el.min_p.bind(x, y)


def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greater of `x1` and `x2`, leaving out NaN; NaN only where both are.

    >>> import xpr.numpy as jnp
    >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 2.0)
    Array([2., 2.], dtype=float32)
    """
    (x, y), dtype = promote_args("fmax", x1, x2)
    return _other_than_nan(x, y, el.max_p.bind(x, y), dtype)


def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The lesser of `x1` and `x2`, leaving out NaN; NaN only where both are.

    >>> import xpr.numpy as jnp
    >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 2.0)
    Array([1., 2.], dtype=float32)
    """
    (x, y), dtype = promote_args("fmin", x1, x2)
    return _other_than_nan(x, y, el.min_p.bind(x, y), dtype)


def _other_than_nan(x: Any, y: Any, chosen: Any, dtype: DType) -> Array:
    """`chosen`, but the other operand where one is NaN."""
    if not dtypes.is_inexact(dtype):
        return chosen
    chosen = select_where(cmp.ne_p.bind(y, y), x, chosen)
    return select_where(cmp.ne_p.bind(x, x), y, chosen)


# ---- Python's operators

op_add, op_radd = operator_of(add, "+"), reflected(add, "+")
op_sub, op_rsub = operator_of(subtract, "-"), reflected(subtract, "-")
op_mul, op_rmul = operator_of(multiply, "*"), reflected(multiply, "*")
op_truediv, op_rtruediv = operator_of(true_divide, "/"), reflected(true_divide, "/")
op_floordiv, op_rfloordiv = operator_of(floor_divide, "//"), reflected(floor_divide, "//")
op_mod, op_rmod = operator_of(remainder, "%"), reflected(remainder, "%")
op_divmod, op_rdivmod = operator_of(divmod, "divmod"), reflected(divmod, "divmod")
op_pow, op_rpow = operator_of(power, "**"), reflected(power, "**")
