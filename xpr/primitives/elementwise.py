"""Elementwise arithmetic: signs, sums, products, quotients, extremes, parts and rounding.

Unless a function says otherwise, operands have one dtype and equal shapes (axes of size 1 and
rank-0 operands are broadcast), the result has that dtype, and TypeError is raised for other
dtypes or shapes. Arithmetic on integers wraps around.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotDifferentiable, define
from xpr.primitives import _elementwise_rules as rules
from xpr.primitives import _ops as ops
from xpr.primitives._complex import complex_dtype, divide, from_parts, maximum, minimum, real_dtype
from xpr.primitives.convert import convert_element_type
from xpr.primitives.families import (
    FLOATING,
    INEXACT,
    NUMERIC,
    REAL,
    binary,
    elementwise_shape,
    in_float32,
    require_kind,
    unaccepted,
    unary,
)
from xpr.primitives.rules import (
    ElementwiseBatch,
    LinearJVP,
    NoTangent,
    Partials,
    full_like,
)

__all__ = [
    "RoundingMethod",
    "abs",
    "add",
    "ceil",
    "complex",
    "conj",
    "div",
    "floor",
    "imag",
    "max",
    "min",
    "mul",
    "neg",
    "nextafter",
    "real",
    "rem",
    "round",
    "sign",
    "sub",
]

_FAMILY = "elementwise"
_NdArray = np.ndarray[Any, Any]


class RoundingMethod(enum.IntEnum):
    """Where `round` takes values half-way between two integers.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.round(jnp.array([0.5, 1.5]), lax.RoundingMethod.AWAY_FROM_ZERO)
    Array([1., 2.], dtype=float32)
    >>> lax.round(jnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# ---- sums and products


add_p = binary(
    "add",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="x + y.",
    reference=np.add,
    jvp=Partials(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=rules.add_transpose,
)
sub_p = binary(
    "sub",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="x - y.",
    reference=np.subtract,
    jvp=Partials(lambda t, out, x, y: t, lambda t, out, x, y: ops.neg(t)),
    transpose=rules.sub_transpose,
)
mul_p = binary(
    "mul",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="x * y.",
    reference=np.multiply,
    jvp=Partials(lambda t, out, x, y: ops.mul(t, y), lambda t, out, x, y: ops.mul(x, t)),
    transpose=rules.mul_transpose,
)
add_any_p = binary(
    "add_any",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="x + y, the sum of two cotangents of one value.",
    reference=np.add,
    jvp=Partials(lambda t, out, x, y: t, lambda t, out, x, y: t),
    transpose=rules.add_transpose,
)


def add(x: Any, y: Any) -> Array:
    """The sum `x + y` of integer, floating or complex arrays.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.add(jnp.arange(3), 2)
    Array([2, 3, 4], dtype=int32)
    """
    return add_p.bind(x, y)


def sub(x: Any, y: Any) -> Array:
    """The difference `x - y` of integer, floating or complex arrays.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.sub(jnp.array([5, 3]), 1)
    Array([4, 2], dtype=int32)
    """
    return sub_p.bind(x, y)


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Array:
    """The product `x * y` of integer, floating or complex arrays.

    With `out_dtype` both operands are converted to that dtype first.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.mul(jnp.arange(3), 2)
    Array([0, 2, 4], dtype=int32)
    """
    if out_dtype is not None:
        x, y = convert_element_type(x, out_dtype), convert_element_type(y, out_dtype)
    return mul_p.bind(x, y)


# ---- quotients


def _div_reference(x: _NdArray, y: _NdArray) -> Any:
    if x.dtype.kind == "c":
        return divide(x, y)
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    zero = np.asarray(y == 0)
    some = zero.any()
    divisor = np.where(zero, y.dtype.type(1), y) if some else y
    quotient = np.floor_divide(x, divisor)
    if x.dtype.kind == "i":
        # Floor division rounds a negative quotient down; truncation rounds it up.
        inexact = quotient * divisor != x
        quotient = (quotient + (inexact & ((x < 0) != (divisor < 0)))).astype(x.dtype)
    return np.where(zero, np.invert(np.zeros_like(y)), quotient) if some else quotient


def _rem_reference(x: _NdArray, y: _NdArray) -> Any:
    if x.dtype.kind not in "iu":
        return in_float32(np.fmod)(x, y)
    # The remainder by -1 is 0, and by 0 the dividend; neither reaches the machine's division.
    unsafe = (y == 0) | (y == -1) if x.dtype.kind == "i" else y == 0
    result = np.fmod(x, np.where(unsafe, y.dtype.type(1), y))
    return np.where(y == 0, x, result)


div_p = binary(
    "div",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="x / y; integer quotients are truncated.",
    reference=_div_reference,
    jvp=Partials(
        lambda t, out, x, y: ops.div(t, y),
        lambda t, out, x, y: ops.mul(ops.neg(t), ops.div(out, y)),
    ),
    transpose=rules.div_transpose,
)


rem_p = binary(
    "rem",
    family=_FAMILY,
    kinds=REAL,
    doc="The remainder of x / y, with the sign of x.",
    reference=_rem_reference,
    jvp=Partials(lambda t, out, x, y: t, rules.rem_by_divisor),
)


def div(x: Any, y: Any) -> Array:
    """The quotient `x / y` of integer, floating or complex arrays.

    Integer quotients are rounded towards zero. An integer divided by 0 is -1 (all bits set), and
    the least integer divided by -1 is itself.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.div(jnp.array([7, -7, 7]), jnp.array([2, 2, 0]))
    Array([ 3, -3, -1], dtype=int32)
    """
    return div_p.bind(x, y)


def rem(x: Any, y: Any) -> Array:
    """The remainder `x - trunc(x / y) * y` of integer or floating arrays, with the sign of `x`.

    An integer's remainder by 0 is the integer itself; a float's is NaN.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.rem(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """
    return rem_p.bind(x, y)


# ---- extremes


max_p = binary(
    "max",
    jvp=Partials(
        lambda t, out, x, y: ops.mul(t, rules.share(x, out, y)),
        lambda t, out, x, y: ops.mul(t, rules.share(y, out, x)),
    ),
    family=_FAMILY,
    kinds="biufc",
    doc="The greater of x and y; NaN if either is.",
    reference=maximum,
)
min_p = binary(
    "min",
    jvp=Partials(
        lambda t, out, x, y: ops.mul(t, rules.share(x, out, y)),
        lambda t, out, x, y: ops.mul(t, rules.share(y, out, x)),
    ),
    family=_FAMILY,
    kinds="biufc",
    doc="The lesser of x and y; NaN if either is.",
    reference=minimum,
)


def max(x: Any, y: Any) -> Array:
    """The greater of `x` and `y`, which may have any dtype.

    NaN if either operand is. Complex numbers are compared by their real parts, then by their
    imaginary parts. Which zero `max(-0.0, 0.0)` gives is not specified.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.max(jnp.array([1.0, 5.0]), 2.0)
    Array([2., 5.], dtype=float32)
    """
    return max_p.bind(x, y)


def min(x: Any, y: Any) -> Array:
    """The lesser of `x` and `y`; as `max` otherwise.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.min(jnp.array([1.0, 5.0]), 2.0)
    Array([1., 2.], dtype=float32)
    """
    return min_p.bind(x, y)


# ---- signs and parts


def _sign_reference(x: _NdArray) -> Any:
    kind = dtypes.kind(x.dtype)
    if kind in "iu":
        return np.sign(x)
    if kind == "f":
        return np.where((x == 0) | np.isnan(x), x, np.copysign(x.dtype.type(1), x))
    size = np.abs(x)
    size = np.where(size == 0, size.dtype.type(1), size)
    return from_parts(x.real / size, x.imag / size, x.dtype)


def _conj_abstract(x: ShapedArray, *, input_dtype: Any) -> ShapedArray:
    require_kind("conj", x, INEXACT)
    if x.dtype.itemsize < 4:
        raise unaccepted("conj", x, "float32, float64, complexfloating", None)
    return ShapedArray(x.shape, complex_dtype(x.dtype), x.weak_type)


def _conj_reference(x: _NdArray, *, input_dtype: Any) -> Any:
    return np.conj(x) if x.dtype.kind == "c" else x.astype(complex_dtype(x.dtype))


def _complex_abstract(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    for i, aval in enumerate((x, y)):
        if aval.dtype not in (np.float32, np.float64):
            raise unaccepted("complex", aval, "float32, float64", i)
    if x.dtype != y.dtype:
        raise TypeError(
            f"lax.complex requires arguments to have the same dtypes, got {x.dtype}, {y.dtype}."
        )
    return ShapedArray(
        elementwise_shape("complex", x, y), complex_dtype(x.dtype), x.weak_type and y.weak_type
    )


def _complex_reference(x: _NdArray, y: _NdArray) -> Any:
    return from_parts(x, y, complex_dtype(x.dtype))


neg_p = unary(
    "neg",
    family=_FAMILY,
    kinds=NUMERIC,
    doc="-x.",
    reference=np.negative,
    jvp=LinearJVP(),
    transpose=lambda ct, x: [ops.neg(ct)],
)
sign_p = unary(
    "sign",
    jvp=Partials(rules.sign_tangent),
    family=_FAMILY,
    kinds=NUMERIC,
    doc="-1, 0 or 1 by the sign of x; x / |x| for complex x.",
    reference=_sign_reference,
)
abs_p = unary(
    "abs",
    jvp=Partials(rules.abs_tangent),
    family=_FAMILY,
    kinds="ifc",
    doc="The absolute value of x.",
    reference=np.abs,
    result=real_dtype,
)
real_p = unary(
    "real",
    jvp=LinearJVP(),
    transpose=lambda ct, x: [ops.bind("complex", ct, full_like(ct, 0))],
    family=_FAMILY,
    kinds="c",
    doc="The real part of x.",
    reference=np.real,
    result=real_dtype,
)
imag_p = unary(
    "imag",
    jvp=LinearJVP(),
    # Transposition does not conjugate: the real-linear map z -> Im z has Im(z) = Re(-i z).
    transpose=lambda ct, x: [ops.bind("complex", full_like(ct, 0), ops.neg(ct))],
    family=_FAMILY,
    kinds="c",
    doc="The imaginary part of x.",
    reference=np.imag,
    result=real_dtype,
)


conj_p = define(
    "conj",
    jvp=LinearJVP(),
    transpose=rules.conj_transpose,
    batch=ElementwiseBatch(),
    family=_FAMILY,
    doc="The complex conjugate of x.",
    abstract=_conj_abstract,
    reference=_conj_reference,
)
complex_p = define(
    "complex",
    jvp=LinearJVP(),
    transpose=rules.complex_transpose,
    batch=ElementwiseBatch(),
    family=_FAMILY,
    doc="x + iy.",
    abstract=_complex_abstract,
    reference=_complex_reference,
)


def neg(x: Any) -> Array:
    """The negative `-x` of an integer, floating or complex array; unsigned integers wrap around.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.neg(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return neg_p.bind(x)


def sign(x: Any) -> Array:
    """The sign of an integer, floating or complex array.

    Real: -1, 0 or 1; -0.0 and NaN stay as they are. Complex: `x / abs(x)`, and 0 for 0.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.sign(jnp.array([-2.5, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return sign_p.bind(x)


def abs(x: Any) -> Array:
    """The absolute value of a signed integer, floating or complex array.

    Of a complex array it is the modulus, a real array, computed without overflow. The least
    integer is its own absolute value.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.abs(jnp.array([3 + 4j, -2]))
    Array([5., 2.], dtype=float32)
    """
    return abs_p.bind(x)


def real(x: Any) -> Array:
    """The real part of a complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    return real_p.bind(x)


def imag(x: Any) -> Array:
    """The imaginary part of a complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    return imag_p.bind(x)


def conj(x: Any) -> Array:
    """The complex conjugate of a complex, float32 or float64 array; always complex.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.conj(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    dtype = x.dtype if hasattr(x, "dtype") else dtypes.default_dtype(dtypes.scalar_kind(x) or "f")
    return conj_p.bind(x, input_dtype=dtype)


def complex(x: Any, y: Any) -> Array:
    """The complex array `x + iy` of two float32 or two float64 arrays.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.complex(jnp.array([1.0]), jnp.array([2.0]))
    Array([1.+2.j], dtype=complex64)
    """
    return complex_p.bind(x, y)


# ---- rounding


def _round_reference(x: _NdArray, *, rounding_method: RoundingMethod) -> Any:
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return np.rint(x)
    whole = np.trunc(x)
    # Adding one half and truncating would round 0.49999997 up; the difference below is exact.
    away = np.abs(x - whole) >= x.dtype.type(0.5)
    return np.where(away, whole + np.copysign(x.dtype.type(1), x), whole)


floor_p = unary(
    "floor",
    jvp=NoTangent(),
    family=_FAMILY,
    kinds=FLOATING,
    doc="The greatest whole number <= x.",
    reference=in_float32(np.floor),
)
ceil_p = unary(
    "ceil",
    jvp=NoTangent(),
    family=_FAMILY,
    kinds=FLOATING,
    doc="The least whole number >= x.",
    reference=in_float32(np.ceil),
)
round_p = unary(
    "round",
    jvp=NoTangent(),
    family=_FAMILY,
    kinds=FLOATING,
    doc="The whole number nearest to x.",
    reference=in_float32(_round_reference),
)


def floor(x: Any) -> Array:
    """The greatest whole number not above `x`, a floating array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.floor(jnp.array([1.7, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """
    return floor_p.bind(x)


def ceil(x: Any) -> Array:
    """The least whole number not below `x`, a floating array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.ceil(jnp.array([1.2, -1.7]))
    Array([ 2., -1.], dtype=float32)
    """
    return ceil_p.bind(x)


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The whole number nearest to `x`, a floating array.

    `rounding_method` says where halves go. Raises ValueError for an unknown method.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.round(jnp.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


# ---- neighbours


def _nextafter_reference(x: _NdArray, y: _NdArray) -> Any:
    return np.where(x == y, y, np.nextafter(x, y))


nextafter_p = binary(
    "nextafter",
    jvp=NotDifferentiable("it maps to the neighbouring number, not continuously"),
    family=_FAMILY,
    kinds=FLOATING,
    doc="The next representable number from x towards y.",
    reference=_nextafter_reference,
)


def nextafter(x1: Any, x2: Any) -> Array:
    """The next representable number from `x1` towards `x2`, floating arrays.

    Equal operands give `x2`; NaN if either operand is.

    >>> from xpr import lax
    >>> lax.nextafter(1.0, 2.0) - 1.0 == 2.0**-23
    Array(True, dtype=bool, weak_type=True)
    """
    return nextafter_p.bind(x1, x2)
