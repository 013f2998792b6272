"""The normal distribution's functions, logistic functions and the Box-Cox transformation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax, nn
from xpr.core import dtypes
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import _coefficients as tables
from xpr.scipy.special._numerics import (
    exp_neg_square,
    floats,
    only_32_or_64,
    ratio,
    strong_reals,
    strong_with_axes,
    with_tangents,
)
from xpr.scipy.special.error_functions import erfcx

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_QUADRATURE = {"float32": 14, "float64": 30}
# exp(-x**2 / 2) is negligible from here on.
_NEGLIGIBLE = {"float32": 6.5, "float64": 9.5}


# ---- the normal distribution


def _upper_tail(x: Array) -> Array:
    """The probability of more than x >= 0."""
    return 0.5 * erfcx(_ROOT_HALF * x) * exp_neg_square(x, 0.5)


def _density(x: Array) -> Array:
    return exp_neg_square(x, 0.5) / _ROOT_TWO_PI


def _ndtr_value(x: Array) -> Array:
    tail = _upper_tail(jnp.abs(x))
    return jnp.where(x < 0, tail, 1.0 - tail)


_ndtr = with_tangents(_ndtr_value, lambda tangent, out, x: tangent * _density(x))


def ndtr(x: ArrayLike) -> Array:
    """The probability that a standard normal variable is at most `x`.

    float32 and float64 only: TypeError for other dtypes.

    >>> import xpr.scipy.special as special
    >>> special.ndtr(0.0)
    Array(0.5, dtype=float32)
    """
    return _ndtr(only_32_or_64("ndtr", x))


def _log_ndtr_value(x: Array) -> Array:
    y = jnp.abs(x)
    below = x < 0
    scaled = erfcx(_ROOT_HALF * y)
    left = jnp.where(below, y, 0.0)
    lower = jnp.log(0.5 * jnp.where(below, scaled, 1.0)) - 0.5 * left * left
    return jnp.where(below, lower, jnp.log1p(-0.5 * scaled * exp_neg_square(y, 0.5)))


def _log_ndtr_slope(tangent: Any, out: Any, x: Array) -> Any:
    # The density over the probability: below 0 the exponentials are cancelled by hand.
    y = jnp.abs(x)
    lower = math.sqrt(2 / math.pi) / erfcx(_ROOT_HALF * y)
    return tangent * jnp.where(x < 0, lower, _density(y) / (1.0 - _upper_tail(y)))


_log_ndtr = with_tangents(_log_ndtr_value, _log_ndtr_slope)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of `ndtr(x)`, accurate where that vanishes or is near 1.

    `series_order`, an integer from 0 to 30, is accepted for compatibility: no asymptotic series
    is needed. float32 and float64 only. Raises TypeError and ValueError otherwise.

    >>> import xpr.scipy.special as special
    >>> special.log_ndtr(-100.0)
    Array(-5005.5244, dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError("series_order must be a Python integer.")
    if not 0 <= series_order <= 30:
        raise ValueError(f"series_order must be from 0 to 30, got {series_order}")
    return _log_ndtr(only_32_or_64("log_ndtr", x))


def _ndtri_value(p: Array) -> Array:
    q = p - 0.5
    tail = jnp.where(q < 0, p, 1.0 - p)
    central = jnp.abs(q) <= 0.375
    inner = jnp.where(central, q, 0.0)
    value = inner * ratio(inner * inner * (128 / 9) - 1.0, tables.NDTRI_CENTRE)
    safe = jnp.where(central | ~(tail > 0), 0.1, tail)
    radius = jnp.sqrt(-2.0 * jnp.log(safe))
    outer = jnp.where(radius < 6, radius, 6.0)
    far = jnp.where(radius < 6, 6.0, radius)
    size = radius * jnp.where(
        radius < 6, ratio(outer, tables.NDTRI_TAIL), ratio(far, tables.NDTRI_FAR)
    )
    size = jnp.where(tail == 0, np.inf, size)
    value = jnp.where(central, value, jnp.where(q < 0, -size, size))
    return jnp.where((p >= 0) & (p <= 1), value, np.nan)


_ndtri = with_tangents(
    _ndtri_value,
    lambda tangent, out, p: tangent * _ROOT_TWO_PI / exp_neg_square(out, 0.5),
)


def ndtri(p: ArrayLike) -> Array:
    """The inverse of `ndtr`: infinite at 0 and 1, NaN beyond.

    Rational approximations in p - 1/2 and, in the tails, in sqrt(-2 log(p)), the arrangement of
    M. J. Wichura, "Algorithm AS 241", Applied Statistics 37 (1988). float32 and float64 only.

    >>> import xpr.scipy.special as special
    >>> special.ndtri(0.975)
    Array(1.959964, dtype=float32)
    """
    return _ndtri(only_32_or_64("ndtri", p))


def _owens_t_quadrature(h: Array, a: Array) -> Array:
    """T(h, a) for h >= 0 and 0 <= a <= 1, by Gauss's rule where the integrand matters."""
    name = h.dtype.name
    nodes, weights = np.polynomial.legendre.leggauss(_QUADRATURE[name])
    end = jnp.minimum(a, _NEGLIGIBLE[name] / jnp.maximum(h, 1e-3))
    total = jnp.zeros_like(h)
    for node, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        t = end * float(node)
        scaled = h * t
        total = total + float(weight) * jnp.exp(-0.5 * scaled * scaled) / (1.0 + t * t)
    return (0.5 / math.pi) * end * exp_neg_square(h, 0.5) * total


def _owens_t_value(h: Array, a: Array) -> Array:
    size, slope = jnp.abs(h), jnp.abs(a)
    steep = slope > 1
    safe = jnp.where(steep, slope, 1.0)
    # (2.3) of Patefield and Tandy, "Fast and accurate calculation of Owen's T function", J. Stat.
    # Software 5 (2000), written with upper tails so that nothing is lost for large h.
    product = jnp.where(size == 0, 0.0, size * slope)
    first = jnp.where(steep, product, size)
    second = jnp.where(steep, 1.0 / safe, slope)
    finite = jnp.isfinite(first)
    value = _owens_t_quadrature(jnp.where(finite, first, 1.0), second)
    value = jnp.where(finite, value, 0.0)
    p, q = _upper_tail(size), _upper_tail(product)
    value = jnp.where(steep, 0.5 * (p + q) - p * q - value, value)
    undefined = jnp.isnan(h) | jnp.isnan(a)
    return jnp.where(undefined, np.nan, jnp.copysign(value, a))


def _owens_t_by_h(tangent: Any, out: Any, h: Array, a: Array) -> Any:
    return tangent * (-0.5 * _density(h) * lax.erf(_ROOT_HALF * a * h))


def _owens_t_by_a(tangent: Any, out: Any, h: Array, a: Array) -> Any:
    inverse = 1.0 + a * a
    return tangent * jnp.exp(-0.5 * h * h * inverse) / (2 * math.pi * inverse)


_owens_t = with_tangents(_owens_t_value, _owens_t_by_h, _owens_t_by_a)


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function: exp(-h**2 (1 + x**2) / 2) / (2 pi (1 + x**2)), from x = 0 to `a`.

    16-bit floats give float32. Raises ValueError for complex numbers.

    >>> import xpr.scipy.special as special
    >>> special.owens_t(1.0, 0.5)
    Array(0.04306469, dtype=float32)
    """
    operands = jnp.broadcast_arrays(*strong_reals("owens_t", h, a))
    if operands[0].dtype.itemsize < 4:
        operands = [x.astype(np.float32) for x in operands]
    return _owens_t(*operands)


# ---- logistic functions, softmax


def expit(x: ArrayLike) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    >>> import xpr.scipy.special as special
    >>> special.expit(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return lax.logistic(floats("expit", x)[0])


def _logit_value(x: Array) -> Array:
    if dtypes.is_complex(x.dtype):
        return jnp.log(x / (1 - x))
    # Around 1/2, 1 - 2x has no rounding error and log1p(-2 (1 - 2x) / ...) keeps its digits.
    middle = (x > 0.3) & (x < 0.65)
    gap = jnp.where(middle, x - 0.5, 0.0)
    centre = 2.0 * jnp.arctanh(2.0 * gap)
    outer = jnp.where(middle, 0.25, x)
    return jnp.where(middle, centre, jnp.log(outer) - jnp.log1p(-outer))


_logit = with_tangents(_logit_value, lambda tangent, out, x: tangent / (x * (1 - x)))


def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of `expit`; infinite at 0 and 1, NaN beyond.

    >>> import xpr.scipy.special as special
    >>> special.logit(0.5)
    Array(0., dtype=float32, weak_type=True)
    """
    return _logit(strong_with_axes(*floats("logit", x))[0])


def softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """exp(x) / sum(exp(x)) along `axis`, over all elements if it is None.

    >>> import xpr.scipy.special as special, xpr.numpy as jnp
    >>> special.softmax(jnp.zeros((2, 2)))
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    return nn.softmax(floats("softmax", x)[0], axis=axis)


def log_softmax(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    """log(softmax(x, axis=axis)), without the loss of small values.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.log_softmax(jnp.array([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return nn.log_softmax(floats("log_softmax", x)[0], axis=axis)


# ---- Box-Cox transformations


def _power_less_one(log: Array, lmbda: Array, power: Callable[[Array], Array]) -> Array:
    """(exp(lmbda log) - 1) / lmbda, and its limit `log` at lmbda = 0.

    `power(lmbda)` is exp(lmbda log), computed so that it is accurate where the product is large.
    """
    product = jnp.where(lmbda == 0, 0.0, log * lmbda)
    divisor = jnp.where(lmbda == 0, 1.0, lmbda)
    large = jnp.abs(product) > 1.0
    # By its root the power overflows only where the quotient does.
    root = power(jnp.where(large, 0.5 * lmbda, 1.0))
    powers = root / divisor * root - 1.0 / divisor
    value = jnp.where(large, powers, jnp.expm1(product) / divisor)
    return jnp.where(lmbda == 0, log, value)


def _power_of_one_more(x: Array, lmbda: Array) -> Array:
    """(1 + x)**lmbda, corrected for the rounding of the sum."""
    total = 1.0 + x
    part = total - 1.0
    lost = (1.0 - (total - part)) + (x - part)
    relative = jnp.where(jnp.isfinite(total) & (total > 0), lost / total, 0.0)
    return jnp.power(total, lmbda) * (1.0 + lmbda * relative)


def _boxcox_by_lmbda(log: Array, lmbda: Array) -> Array:
    """The derivative of (exp(lmbda log) - 1) / lmbda in lmbda."""
    t = log * lmbda
    # log**2 times ((t - 1) exp(t) + 1) / t**2, whose series is sum of t**k / (k! (k + 2)).
    near = jnp.abs(t) < 0.5
    inner = jnp.where(near, t, 0.0)
    total = jnp.zeros_like(t)
    for k in range(14, -1, -1):
        total = total * inner + 1.0 / (math.factorial(k) * (k + 2))
    outer = jnp.where(near, 1.0, t)
    closed = ((outer - 1.0) * jnp.exp(outer) + 1.0) / (outer * outer)
    return log * log * jnp.where(near, total, closed)


def _power(log: Array, x: Array, lmbda: Array) -> Array:
    """x**(lmbda - 1), given the logarithm of x."""
    return jnp.exp(lmbda * log) / x


_boxcox = with_tangents(
    lambda x, lmbda: _power_less_one(jnp.log(x), lmbda, lambda k: jnp.power(x, k)),
    lambda tangent, out, x, lmbda: tangent * _power(jnp.log(x), x, lmbda),
    lambda tangent, out, x, lmbda: tangent * _boxcox_by_lmbda(jnp.log(x), lmbda),
)
_boxcox1p = with_tangents(
    lambda x, lmbda: _power_less_one(jnp.log1p(x), lmbda, lambda k: _power_of_one_more(x, k)),
    lambda tangent, out, x, lmbda: tangent * _power(jnp.log1p(x), 1 + x, lmbda),
    lambda tangent, out, x, lmbda: tangent * _boxcox_by_lmbda(jnp.log1p(x), lmbda),
)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x**lmbda - 1) / lmbda, log(x) for lmbda = 0; NaN for negative `x`.

    >>> import xpr.scipy.special as special
    >>> special.boxcox(3.0, 2.0)
    Array(4., dtype=float32, weak_type=True)
    """
    return _boxcox(*jnp.broadcast_arrays(*floats("boxcox", x, lmbda)))


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """boxcox(1 + x, lmbda), accurate for small `x`.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.boxcox1p(jnp.array([0.0, 3.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    return _boxcox1p(*jnp.broadcast_arrays(*floats("boxcox1p", x, lmbda)))
