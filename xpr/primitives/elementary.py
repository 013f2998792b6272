"""Elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions.

They take floating arrays, and complex ones where the docstring says so, and raise TypeError for
other dtypes; results have the operand's dtype and shape. 16-bit floats are computed in float32 and
rounded once. Complex functions are the principal branches of ISO C99, Annex G, with its signed
zeros on the branch cuts. `accuracy` is an `AccuracyMode`, a `Tolerance` or None and changes
nothing here: every result is within a few ulp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core.array import Array
from xpr.core.primitive import Primitive, Rule
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._accuracy import AccuracyMode, accuracy_param
from xpr.primitives._complex import from_parts
from xpr.primitives.families import INEXACT, binary, in_float32, unary
from xpr.primitives.rules import Partials, const_like

__all__ = [
    "AccuracyMode",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "logistic",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

_FAMILY = "elementary"
_NdArray = np.ndarray[Any, Any]


def _elementary(name: str, doc: str, reference: Any, tangent: Rule) -> Primitive:
    """The primitive, whose tangent is `tangent(t, result, x, **params)`."""

    def of_array(x: _NdArray, **_: Any) -> Any:
        return reference(x)

    return unary(
        name,
        family=_FAMILY,
        kinds=INEXACT,
        doc=doc,
        reference=in_float32(of_array),
        jvp=Partials(tangent),
    )


def _logistic_reference(x: _NdArray) -> Any:
    return np.reciprocal(1 + np.exp(-x))


def _expm1_reference(x: _NdArray) -> Any:
    result: _NdArray = np.asarray(np.expm1(x))
    if x.dtype.kind != "c":
        return result
    # NumPy multiplies an infinite factor by the zero of a real number.
    on_axis = x.imag == 0
    real = np.where(on_axis, np.expm1(x.real), np.real(result))
    return from_parts(real, np.where(on_axis, x.imag, np.imag(result)), x.dtype)


def _log1p_reference(x: _NdArray) -> Any:
    if x.dtype.kind != "c":
        return np.log1p(x)
    wide = x.astype(np.complex128)
    re, im = wide.real, wide.imag
    size = np.hypot(re, im)
    # log|1 + z| from |1 + z|**2 - 1, whose terms are added exactly where they cancel.
    near = 0.5 * np.log1p(_sum_of_squares_less_one(re, im))
    real = np.where((size < 2.0) & (re > -0.5), near, np.log(np.abs(1 + wide)))
    return from_parts(real, np.arctan2(im, 1 + re), x.dtype)


def _sum_of_squares_less_one(re: _NdArray, im: _NdArray) -> Any:
    """`(1 + re)**2 + im**2 - 1` in doubled precision (Dekker's products, Knuth's sums)."""
    square_re, low_re = _exact_square(re)
    square_im, low_im = _exact_square(im)
    first = 2 * re
    total, low = _exact_sum(square_re, square_im)
    total, lower = _exact_sum(first, total)
    return total + (lower + low + low_re + low_im)


def _exact_square(x: _NdArray) -> tuple[Any, Any]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2 * high * low) + low * low


def _exact_sum(a: _NdArray, b: _NdArray) -> tuple[Any, Any]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _atan2_reference(x: _NdArray, y: _NdArray) -> Any:
    if x.dtype.kind != "c":
        return in_float32(np.arctan2)(x, y)
    return -1j * np.log((y + 1j * x) / np.sqrt(x * x + y * y))


# ---- derivatives


def _one_plus(x: Any) -> Any:
    return ops.add(x, const_like(x, 1))


def _one_minus(x: Any) -> Any:
    return ops.sub(const_like(x, 1), x)


def _square(x: Any) -> Any:
    return ops.bind("square", x)


def _rsqrt(x: Any) -> Any:
    return ops.bind("rsqrt", x)


def _is_accurate(x: Any, params: dict[str, Any]) -> bool:
    """Whether derivatives should be accurate where the usual formulas cancel, at some cost.

    So they are for float64, which is chosen for the sake of accuracy.
    """
    return params.get("accuracy") is AccuracyMode.HIGHEST or get_aval(x).dtype == np.float64


def _expm1_tangent(t: Any, out: Any, x: Any, **params: Any) -> Any:
    return ops.mul(t, exp_p.bind(x, **params) if _is_accurate(x, params) else _one_plus(out))


def _logistic_tangent(t: Any, out: Any, x: Any, **params: Any) -> Any:
    rest = logistic_p.bind(ops.neg(x), **params) if _is_accurate(x, params) else _one_minus(out)
    return ops.mul(t, ops.mul(out, rest))


def _tanh_tangent(t: Any, out: Any, x: Any, **params: Any) -> Any:
    if not _is_accurate(x, params):
        return ops.mul(ops.add(t, ops.mul(t, out)), _one_minus(out))
    twice = ops.mul(const_like(x, 2), x)
    sides = (logistic_p.bind(y, **params) for y in (twice, ops.neg(twice)))
    return ops.mul(t, ops.mul(const_like(x, 4), ops.mul(*sides)))


def _acosh_tangent(t: Any, out: Any, x: Any) -> Any:
    # Two roots: that of their product lies on the wrong branch where the real part is negative.
    roots = _rsqrt(ops.sub(x, const_like(x, 1))), _rsqrt(_one_plus(x))
    return ops.mul(t, ops.mul(*roots))


def _squared_radius(x: Any, y: Any) -> Any:
    return ops.add(_square(x), _square(y))


# ---- exponentials and logarithms

exp_p = _elementary("exp", "e to the power of x.", np.exp, lambda t, out, x, **_: ops.mul(t, out))
exp2_p = _elementary(
    "exp2",
    "2 to the power of x.",
    np.exp2,
    lambda t, out, x, **_: ops.mul(t, ops.mul(const_like(x, math.log(2)), out)),
)
expm1_p = _elementary("expm1", "exp(x) - 1.", _expm1_reference, _expm1_tangent)
log_p = _elementary(
    "log", "The natural logarithm of x.", np.log, lambda t, out, x, **_: ops.div(t, x)
)
log1p_p = _elementary(
    "log1p", "log(1 + x).", _log1p_reference, lambda t, out, x, **_: ops.div(t, _one_plus(x))
)
logistic_p = _elementary("logistic", "1 / (1 + exp(-x)).", _logistic_reference, _logistic_tangent)

# ---- trigonometric and hyperbolic functions

sin_p = _elementary(
    "sin",
    "The sine of x, in radians.",
    np.sin,
    lambda t, out, x, **params: ops.mul(t, cos_p.bind(x, **params)),
)
cos_p = _elementary(
    "cos",
    "The cosine of x, in radians.",
    np.cos,
    lambda t, out, x, **params: ops.neg(ops.mul(t, sin_p.bind(x, **params))),
)
tan_p = _elementary(
    "tan",
    "The tangent of x, in radians.",
    np.tan,
    lambda t, out, x, **_: ops.mul(t, _one_plus(_square(out))),
)
asin_p = _elementary(
    "asin",
    "The angle whose sine is x.",
    np.arcsin,
    lambda t, out, x: ops.mul(t, _rsqrt(_one_minus(_square(x)))),
)
acos_p = _elementary(
    "acos",
    "The angle whose cosine is x.",
    np.arccos,
    lambda t, out, x: ops.mul(t, ops.neg(_rsqrt(_one_minus(_square(x))))),
)
atan_p = _elementary(
    "atan",
    "The angle whose tangent is x.",
    np.arctan,
    lambda t, out, x: ops.div(t, _one_plus(_square(x))),
)
sinh_p = _elementary(
    "sinh",
    "The hyperbolic sine of x.",
    np.sinh,
    lambda t, out, x: ops.mul(t, cosh_p.bind(x)),
)
cosh_p = _elementary(
    "cosh",
    "The hyperbolic cosine of x.",
    np.cosh,
    lambda t, out, x: ops.mul(t, sinh_p.bind(x)),
)
tanh_p = _elementary("tanh", "The hyperbolic tangent of x.", np.tanh, _tanh_tangent)
asinh_p = _elementary(
    "asinh",
    "The number whose hyperbolic sine is x.",
    np.arcsinh,
    lambda t, out, x: ops.mul(t, _rsqrt(_one_plus(_square(x)))),
)
acosh_p = _elementary(
    "acosh", "The number whose hyperbolic cosine is x.", np.arccosh, _acosh_tangent
)
atanh_p = _elementary(
    "atanh",
    "The number whose hyperbolic tangent is x.",
    np.arctanh,
    lambda t, out, x: ops.div(t, ops.mul(_one_plus(x), _one_minus(x))),
)
atan2_p = binary(
    "atan2",
    family=_FAMILY,
    kinds=INEXACT,
    doc="The angle of the point (y, x), whose tangent is x / y.",
    reference=_atan2_reference,
    jvp=Partials(
        lambda t, out, x, y: ops.mul(t, ops.div(y, _squared_radius(x, y))),
        lambda t, out, x, y: ops.mul(t, ops.div(ops.neg(x), _squared_radius(x, y))),
    ),
)


def exp(x: Any, *, accuracy: Any = None) -> Array:
    """The exponential `e ** x` of a floating or complex array.

    >>> from xpr import lax
    >>> lax.exp(1.0)
    Array(2.718282, dtype=float32, weak_type=True)
    """
    return exp_p.bind(x, **accuracy_param(accuracy))


def exp2(x: Any, *, accuracy: Any = None) -> Array:
    """The power `2 ** x` of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.exp2(jnp.array([3.0, -1.0]))
    Array([8. , 0.5], dtype=float32)
    """
    return exp2_p.bind(x, **accuracy_param(accuracy))


def expm1(x: Any, *, accuracy: Any = None) -> Array:
    """`exp(x) - 1` of a floating or complex array, accurate for small `x` too.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.expm1(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    return expm1_p.bind(x, **accuracy_param(accuracy))


def log(x: Any, *, accuracy: Any = None) -> Array:
    """The natural logarithm of a floating or complex array.

    Real: -inf at 0, NaN below. Complex: the imaginary part lies in [-pi, pi].

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.log(jnp.array([1.0, 0.0, -1.0]))
    Array([  0., -inf,  nan], dtype=float32)
    """
    return log_p.bind(x, **accuracy_param(accuracy))


def log1p(x: Any, *, accuracy: Any = None) -> Array:
    """`log(1 + x)` of a floating or complex array, accurate for small `x` too.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.log1p(jnp.array([0.0, 1e-10]))
    Array([0.e+00, 1.e-10], dtype=float32)
    """
    return log1p_p.bind(x, **accuracy_param(accuracy))


def logistic(x: Any, *, accuracy: Any = None) -> Array:
    """The logistic function `1 / (1 + exp(-x))` of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.logistic(jnp.array([0.0, jnp.inf]))
    Array([0.5, 1. ], dtype=float32)
    """
    return logistic_p.bind(x, **accuracy_param(accuracy))


def sin(x: Any, *, accuracy: Any = None) -> Array:
    """The sine of a floating or complex array, in radians; accurate for arguments of any size.

    >>> from xpr import lax
    >>> lax.sin(0.5)
    Array(0.47942555, dtype=float32, weak_type=True)
    """
    return sin_p.bind(x, **accuracy_param(accuracy))


def cos(x: Any, *, accuracy: Any = None) -> Array:
    """The cosine of a floating or complex array, in radians; accurate for arguments of any size.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.cos(jnp.array([0.0, jnp.pi]))
    Array([ 1., -1.], dtype=float32)
    """
    return cos_p.bind(x, **accuracy_param(accuracy))


def tan(x: Any, *, accuracy: Any = None) -> Array:
    """The tangent of a floating or complex array, in radians.

    >>> from xpr import lax
    >>> lax.tan(0.5)
    Array(0.5463025, dtype=float32, weak_type=True)
    """
    return tan_p.bind(x, **accuracy_param(accuracy))


def asin(x: Any) -> Array:
    """The arc sine of a floating or complex array; real results lie in [-pi/2, pi/2].

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.asin(jnp.array([0.0, 1.0, 2.0]))
    Array([0.       , 1.5707964,       nan], dtype=float32)
    """
    return asin_p.bind(x)


def acos(x: Any) -> Array:
    """The arc cosine of a floating or complex array; real results lie in [0, pi].

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.acos(jnp.array([1.0, -1.0, 2.0]))
    Array([0.       , 3.1415927,       nan], dtype=float32)
    """
    return acos_p.bind(x)


def atan(x: Any) -> Array:
    """The arc tangent of a floating or complex array; real results lie in [-pi/2, pi/2].

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.atan(jnp.array([0.0, jnp.inf]))
    Array([0.       , 1.5707964], dtype=float32)
    """
    return atan_p.bind(x)


def atan2(x: Any, y: Any) -> Array:
    """The angle, in [-pi, pi], of the point with abscissa `y` and ordinate `x`.

    Floating or complex operands of one dtype. Signed zeros and infinities as in C's `atan2`. For
    complex operands it is `-i log((y + ix) / sqrt(x**2 + y**2))`.

    >>> from xpr import lax
    >>> lax.atan2(1.0, 0.0)
    Array(1.5707964, dtype=float32, weak_type=True)
    """
    return atan2_p.bind(x, y)


def sinh(x: Any) -> Array:
    """The hyperbolic sine of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """
    return sinh_p.bind(x)


def cosh(x: Any) -> Array:
    """The hyperbolic cosine of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.543081], dtype=float32)
    """
    return cosh_p.bind(x)


def tanh(x: Any, *, accuracy: Any = None) -> Array:
    """The hyperbolic tangent of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.tanh(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return tanh_p.bind(x, **accuracy_param(accuracy))


def asinh(x: Any) -> Array:
    """The inverse hyperbolic sine of a floating or complex array.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.asinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """
    return asinh_p.bind(x)


def acosh(x: Any) -> Array:
    """The inverse hyperbolic cosine of a floating or complex array; NaN for real `x < 1`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.acosh(jnp.array([1.0, 0.0]))
    Array([ 0., nan], dtype=float32)
    """
    return acosh_p.bind(x)


def atanh(x: Any) -> Array:
    """The inverse hyperbolic tangent of a floating or complex array; NaN for real `|x| > 1`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.atanh(jnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """
    return atanh_p.bind(x)
