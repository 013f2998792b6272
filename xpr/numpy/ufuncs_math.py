"""Elementwise mathematical functions: exponentials, logarithms, roots, angles.

Operands are arrays or numbers; integers and booleans become floats first. Floating results have
the operand's dtype, complex operands give complex results unless a function says otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.numpy._promote import literal_type, one_inexact, promote_args_inexact, without_weak_type
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import power as pw


def scaled(x: Any, factor: float) -> Array:
    """`x` times a constant in the dtype of `x`; complex numbers part by part.

    A product with the constant as a complex number would make a NaN of an infinite part.
    """
    if dtypes.is_complex(get_aval(x).dtype):
        return el.complex_p.bind(*(scaled(part.bind(x), factor) for part in (el.real_p, el.imag_p)))
    return el.mul_p.bind(x, literal_type(x)(factor))


# ---- exponentials and logarithms


def exp(x: ArrayLike, /) -> Array:
    """e to the power of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.exp(jnp.array([0.0, 1.0]))
    Array([1.      , 2.718282], dtype=float32)
    """
    return fn.exp_p.bind(one_inexact("exp", x))


def exp2(x: ArrayLike, /) -> Array:
    """2 to the power of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.exp2(jnp.array([3.0, -1.0]))
    Array([8. , 0.5], dtype=float32)
    """
    return fn.exp2_p.bind(one_inexact("exp2", x))


def expm1(x: ArrayLike, /) -> Array:
    """`exp(x) - 1`, accurate near 0.

    >>> import xpr.numpy as jnp
    >>> jnp.expm1(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    return fn.expm1_p.bind(one_inexact("expm1", x))


def log(x: ArrayLike, /) -> Array:
    """The natural logarithm: -inf at 0, NaN for negative real numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.log(jnp.array([1.0, 0.0, -1.0]))
    Array([  0., -inf,  nan], dtype=float32)
    """
    return fn.log_p.bind(one_inexact("log", x))


def log1p(x: ArrayLike, /) -> Array:
    """`log(1 + x)`, accurate near 0.

    >>> import xpr.numpy as jnp
    >>> jnp.log1p(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    return fn.log1p_p.bind(one_inexact("log1p", x))


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    >>> import xpr.numpy as jnp
    >>> jnp.log2(jnp.array([1.0, 8.0]))
    Array([0., 3.], dtype=float32)
    """
    x = one_inexact("log2", x)
    dtype = get_aval(x).dtype
    if dtypes.is_complex(dtype):
        return scaled(without_weak_type(fn.log_p.bind(x)), 1 / math.log(2))
    # A quotient, unlike a product, is exact for powers of two.
    return el.div_p.bind(fn.log_p.bind(x), dtype.type(math.log(2)))


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10.

    >>> import xpr.numpy as jnp
    >>> jnp.log10(jnp.array([1.0, 100.0]))
    Array([0., 2.], dtype=float32)
    """
    return scaled(without_weak_type(fn.log_p.bind(one_inexact("log10", x))), 1 / math.log(10))


# ---- roots and lengths


def sqrt(x: ArrayLike, /) -> Array:
    """The square root, NaN for negative real numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.sqrt(jnp.array([4, 9]))
    Array([2., 3.], dtype=float32)
    """
    return pw.sqrt_p.bind(one_inexact("sqrt", x))


def cbrt(x: ArrayLike, /) -> Array:
    """The real cube root. Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.cbrt(jnp.array([8.0, -27.0])).round(5)
    Array([ 2., -3.], dtype=float32)
    """
    return pw.cbrt_p.bind(one_inexact("cbrt", x))


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`sqrt(x1**2 + x2**2)` without overflow on the way; inf if either is, even beside NaN.

    Raises ValueError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.hypot(3.0, jnp.array([4.0, 0.0]))
    Array([5., 3.], dtype=float32)
    """
    (x, y), dtype = promote_args_inexact("hypot", x1, x2)
    if dtypes.is_complex(dtype):
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. "
            f"Please convert to real values first, got {dtype}"
        )
    number = literal_type(x if get_aval(x).shape else y)
    zero, one, inf = number(0), number(1), number(np.inf)
    x, y = el.abs_p.bind(x), el.abs_p.bind(y)
    infinite = bits.or_p.bind(cmp.eq_p.bind(x, inf), cmp.eq_p.bind(y, inf))
    greater, lesser = el.max_p.bind(x, y), el.min_p.bind(x, y)
    at_zero = cmp.eq_p.bind(greater, zero)
    ratio = el.div_p.bind(lesser, select_where(at_zero, one, greater))
    length = pw.sqrt_p.bind(el.add_p.bind(one, pw.square_p.bind(ratio)))
    length = select_where(at_zero, greater, el.mul_p.bind(greater, length))
    return select_where(infinite, inf, length)


# ---- angles


def sin(x: ArrayLike, /) -> Array:
    """The sine of `x`, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.sin(jnp.array([0.0, jnp.pi / 2]))
    Array([0., 1.], dtype=float32)
    """
    return fn.sin_p.bind(one_inexact("sin", x))


def cos(x: ArrayLike, /) -> Array:
    """The cosine of `x`, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.cos(jnp.array([0.0, jnp.pi]))
    Array([ 1., -1.], dtype=float32)
    """
    return fn.cos_p.bind(one_inexact("cos", x))


def tan(x: ArrayLike, /) -> Array:
    """The tangent of `x`, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.tan(jnp.array([0.0, jnp.pi / 4])).round(3)
    Array([0., 1.], dtype=float32)
    """
    return fn.tan_p.bind(one_inexact("tan", x))


def arcsin(x: ArrayLike, /) -> Array:
    """The angle in radians whose sine is `x`, NaN outside [-1, 1] for real numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.asin(jnp.array([0.0, 1.0, 2.0]))
    Array([0.       , 1.5707964,       nan], dtype=float32)
    """
    return fn.asin_p.bind(one_inexact("arcsin", x))


def arccos(x: ArrayLike, /) -> Array:
    """The angle in radians whose cosine is `x`, NaN outside [-1, 1] for real numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.acos(jnp.array([1.0, -1.0, 2.0]))
    Array([0.       , 3.1415927,       nan], dtype=float32)
    """
    return fn.acos_p.bind(one_inexact("arccos", x))


def arctan(x: ArrayLike, /) -> Array:
    """The angle in radians whose tangent is `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.atan(jnp.array([0.0, jnp.inf]))
    Array([0.       , 1.5707964], dtype=float32)
    """
    return fn.atan_p.bind(one_inexact("arctan", x))


def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle of the point (x2, x1) in (-pi, pi]. Raises TypeError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.arctan2(1.0, -1.0)
    Array(2.3561945, dtype=float32, weak_type=True)
    """
    (x, y), _ = promote_args_inexact("arctan2", x1, x2)
    return fn.atan2_p.bind(x, y)


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """
    return fn.sinh_p.bind(one_inexact("sinh", x))


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.543081], dtype=float32)
    """
    return fn.cosh_p.bind(one_inexact("cosh", x))


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent of `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.tanh(jnp.array([0.0, 1.0, jnp.inf]))
    Array([0.       , 0.7615942, 1.       ], dtype=float32)
    """
    return fn.tanh_p.bind(one_inexact("tanh", x))


def arcsinh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic sine is `x`.

    >>> import xpr.numpy as jnp
    >>> jnp.asinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """
    return fn.asinh_p.bind(one_inexact("arcsinh", x))


def arccosh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic cosine is `x`, NaN below 1 for real numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.acosh(jnp.array([1.0, 0.0]))
    Array([ 0., nan], dtype=float32)
    """
    return fn.acosh_p.bind(one_inexact("arccosh", x))


def arctanh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic tangent is `x`, NaN outside [-1, 1] for real numbers.

    >>> import xpr.numpy as jnp
    >>> jnp.atanh(jnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """
    return fn.atanh_p.bind(one_inexact("arctanh", x))


def degrees(x: ArrayLike, /) -> Array:
    """The angle `x`, in radians, in degrees.

    >>> import xpr.numpy as jnp
    >>> jnp.degrees(jnp.array([0.0, jnp.pi]))
    Array([  0., 180.], dtype=float32)
    """
    x = one_inexact("degrees", x)
    return scaled(x, 180 / math.pi)


def radians(x: ArrayLike, /) -> Array:
    """The angle `x`, in degrees, in radians.

    >>> import xpr.numpy as jnp
    >>> jnp.radians(jnp.array([0.0, 180.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """
    x = one_inexact("radians", x)
    return scaled(x, math.pi / 180)


def sinc(x: ArrayLike, /) -> Array:
    """`sin(pi x) / (pi x)`, 1 at 0.

    >>> import xpr.numpy as jnp
    >>> jnp.sinc(jnp.array([0.0, 0.5]))
    Array([1.       , 0.63661975], dtype=float32)
    """
    x = one_inexact("sinc", x)
    number = literal_type(x)
    angle = scaled(x, math.pi)
    at_zero = cmp.eq_p.bind(x, number(0))
    safe = select_where(at_zero, number(1), angle)
    near = el.sub_p.bind(number(1), scaled(pw.square_p.bind(angle), 1 / 6))
    return select_where(at_zero, near, el.div_p.bind(fn.sin_p.bind(safe), safe))


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0, of a real number.

    Raises ValueError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.i0(jnp.array([0.0, 1.0]))
    Array([1.      , 1.266066], dtype=float32)
    """
    from xpr.primitives.special import bessel_i0e_p  # noqa: PLC0415  no other function needs it

    x = one_inexact("i0", x)
    dtype = get_aval(x).dtype
    if dtypes.is_complex(dtype):
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {dtype}")
    size = el.abs_p.bind(x)
    return el.mul_p.bind(fn.exp_p.bind(size), bessel_i0e_p.bind(size))
