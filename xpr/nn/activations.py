"""Activation functions: what a layer does to each of its elements.

All take an array of any shape, or a number, and give one of the same shape. Integers become floats
where the formula makes them so. A function with a corner says what its derivative is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core.trace import is_eager
from xpr.nn._operands import array_of
from xpr.numpy._promote import one_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.elementary import logistic
from xpr.primitives.special import erfc
from xpr.transforms.custom_jvp import custom_jvp

# The fixed point of means 0 and variances 1 (Klambauer et al. 2017, equation 14).
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
# The coefficient of the cubic term in the approximation of GELU (Hendrycks and Gimpel 2016).
_GELU_CUBIC = 0.044715


def _where_true(condition: Array, tangent: Any) -> Array:
    """The tangent where `condition` holds, 0 elsewhere: the derivative of a clipped identity."""
    return jnp.where(condition, tangent, jnp.zeros_like(tangent))


def _with_derivative(
    name: str, value: Callable[[Any], Array], derivative: Callable[[Any, Array, Any], Array]
) -> Callable[[Any], Array]:
    """`value` with the rule `derivative(tangent, out, x)`.

    Where nothing is traced the rule is not needed, and `value` alone takes a fifth of the time.
    """
    value.__name__ = name
    ruled = custom_jvp(value)
    ruled.defjvps(derivative)
    return lambda x: value(x) if is_eager() else ruled(x)


def identity(x: ArrayLike) -> Array:
    """`x` itself, as an array.

    >>> import xpr
    >>> xpr.nn.identity(2.5)
    Array(2.5, dtype=float32, weak_type=True)
    """
    return array_of("identity", x)


# ---- rectifiers


def relu(x: ArrayLike) -> Array:
    """max(x, 0), the rectified linear unit; its derivative at 0 is 0.

    Why 0: Bertoin et al., "Numerical influence of ReLU'(0) on backpropagation", NeurIPS 2021.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.relu(jnp.array([-2.0, 0.0, 3.0]))
    Array([0., 0., 3.], dtype=float32)
    >>> xpr.grad(xpr.nn.relu)(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _relu(x)


_relu = _with_derivative(
    "relu", lambda x: jnp.maximum(x, 0), lambda tangent, out, x: _where_true(x > 0, tangent)
)


def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6): a rectifier that saturates; its derivative at 0 and at 6 is 0.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.relu6(jnp.array([-2.0, 3.0, 8.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    return _relu6(x)


_relu6 = _with_derivative(
    "relu6",
    lambda x: jnp.minimum(jnp.maximum(x, 0), 6.0),
    lambda tangent, out, x: _where_true((x > 0) & (x < 6), tangent),
)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """`x` from 0 on, `negative_slope * x` below; its derivative at 0 is 1.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.leaky_relu(jnp.array([-2.0, 3.0]))
    Array([-0.02,  3.  ], dtype=float32)
    """
    x = array_of("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` above 0, `alpha (exp(x) - 1)` elsewhere, the exponential linear unit.

    Clevert, Unterthiner and Hochreiter, 2016. The derivative at 0 is `alpha`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.elu(jnp.array([-1.0, 3.0]))
    Array([-0.63212055,  3.        ], dtype=float32)
    """
    x = array_of("elu", x)
    positive = x > 0
    # Large elements are kept away from the exponential: its overflow would reach the gradient.
    return jnp.where(positive, x, alpha * jnp.expm1(jnp.where(positive, 0.0, x)))


def selu(x: ArrayLike) -> Array:
    """`elu` scaled so that layers tend to mean 0 and variance 1.

    Klambauer et al., "Self-Normalizing Neural Networks", 2017.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.selu(jnp.array([-1.0, 1.0]))
    Array([-1.1113307,  1.050701 ], dtype=float32)
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` above 0, `alpha (exp(x / alpha) - 1)` elsewhere: as `elu`, with derivative 1 at 0.

    Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.celu(jnp.array([-1.0, 3.0]), alpha=2.0)
    Array([-0.7869387,  3.       ], dtype=float32)
    """
    below = jnp.minimum(x, 0.0)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(below / alpha)


# ---- smooth rectifiers


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.softplus(jnp.array([-1000.0, 0.0, 1000.0]))
    Array([0.000000e+00, 6.931472e-01, 1.000000e+03], dtype=float32)
    """
    return jnp.logaddexp(x, 0)


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x^2 + b)) / 2, an algebraic relative of `softplus` of smoothness `b`.

    Barron, "Squareplus: A Softplus-Like Algebraic Rectifier", 2021.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.squareplus(jnp.array([-1.5, 0.0, 1.5]))
    Array([0.5, 1. , 2. ], dtype=float32)
    """
    x, b = array_of("squareplus", x), array_of("squareplus", b, 1)
    return (x + jnp.sqrt(jnp.square(x) + b)) / 2


def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, `x` from 1 on, and (x + 1)^2 / 4 between: a `softplus` with exact zeros.

    Its derivative is `sparse_sigmoid`.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = array_of("sparse_plus", x)
    middle = jnp.square(x + 1.0) / 4
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, middle))


def silu(x: ArrayLike) -> Array:
    """x sigmoid(x), known as SiLU and as swish.

    Elfwing, Uchibe and Doya, 2018; Ramachandran, Zoph and Le, 2017.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.silu(jnp.array([-1.0, 0.0, 1.0]))
    Array([-0.2689414,  0.       ,  0.7310586], dtype=float32)
    """
    x = array_of("silu", x)
    return x * logistic(x)


swish = silu


def mish(x: ArrayLike) -> Array:
    """x tanh(softplus(x)).

    Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.mish(jnp.array([-1.0, 0.0, 1.0])).round(4)
    Array([-0.3034,  0.    ,  0.8651], dtype=float32)
    """
    x = array_of("mish", x)
    return x * jnp.tanh(softplus(x))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the probability that a standard normal number is below `x`.

    With `approximate`, by the formula of section 2 in Hendrycks and Gimpel, "Gaussian Error Linear
    Units (GELUs)", 2016: x/2 (1 + tanh(sqrt(2/π) (x + 0.044715 x^3))); else by erfc.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.gelu(jnp.array([-1.0, 0.0, 1.0]))
    Array([-0.158808,  0.      ,  0.841192], dtype=float32)
    """
    x = array_of("gelu", one_inexact("gelu", x))
    dtype = x.dtype
    if approximate:
        inner = dtype.type(math.sqrt(2 / math.pi)) * (x + _GELU_CUBIC * (x * x * x))
        return x * (0.5 * (1.0 + jnp.tanh(inner)))
    return 0.5 * x * erfc(-x * dtype.type(math.sqrt(0.5)))


# ---- sigmoids


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)). TypeError for integers.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sigmoid(jnp.array([-1.0, 0.0, 1.0]))
    Array([0.2689414, 0.5      , 0.7310586], dtype=float32)
    """
    return logistic(x)


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without the loss of small values.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log_sigmoid(jnp.array([-1000.0, 0.0]))
    Array([-1.000000e+03, -6.931472e-01], dtype=float32)
    """
    x = array_of("log_sigmoid", x)
    return -softplus(-x)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """(x + 1) / 2 limited to [0, 1]; its derivative at the two corners is 1/4.

    Blondel, Martins and Niculae, "Learning with Fenchel-Young Losses", 2019, section 6.2.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 0.5, 2.0]))
    Array([0.  , 0.5 , 0.75, 1.  ], dtype=float32)
    """
    return 0.5 * jnp.clip(array_of("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6: a sigmoid of straight lines; its derivative at -3 and at 3 is 0.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_sigmoid(jnp.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(array_of("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """x hard_sigmoid(x), also known as hard swish.

    Howard et al., "Searching for MobileNetV3", 2019.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_silu(jnp.array([-4.0, -1.5, 4.0]))
    Array([-0.   , -0.375,  4.   ], dtype=float32)
    """
    x = array_of("hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


def hard_tanh(x: ArrayLike) -> Array:
    """`x` limited to [-1, 1]; its derivative at -1 and at 1 is 1.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.hard_tanh(jnp.array([-2.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = array_of("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


def soft_sign(x: ArrayLike) -> Array:
    """x / (|x| + 1).

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.soft_sign(jnp.array([-1.0, 0.0, 3.0]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    x = array_of("soft_sign", x)
    return x / (jnp.abs(x) + 1)


# ---- gates and logarithms


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of `x` along `axis` times the sigmoid of the second, the gated linear unit.

    Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2017. Shape
    [..., 2n, ...] becomes [..., n, ...]. ValueError for an axis of odd size or out of range.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.glu(jnp.array([1.0, 2.0, 0.0, 0.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    x = array_of("glu", x)
    place = canonicalize_axis(axis, x.ndim)
    if x.shape[place] % 2:
        raise ValueError(
            f"glu requires an axis size divisible by 2, got {x.shape[place]} for axis {axis} of "
            f"shape {x.shape}"
        )
    values, gates = jnp.split(x, 2, place)
    return values * logistic(gates)


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x >= 0, accurate near 0 and far from it; NaN for negative `x`.

    Mächler, "Accurately Computing log(1 − exp(−|a|))", 2012: by expm1 below log 2, by log1p from
    there on.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.nn.log1mexp(jnp.array([0.0, 1e-10, 50.0]))
    Array([         -inf, -2.3025850e+01, -1.9287499e-22], dtype=float32)
    """
    return _log1mexp(x)


def _log1mexp_of(x: ArrayLike) -> Array:
    x = array_of("log1mexp", x)
    near, far = jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x))
    limit = np.asarray(np.log(2.0), x.dtype)
    return jnp.where(x < limit, near, far)


_log1mexp = _with_derivative(
    "log1mexp", _log1mexp_of, lambda tangent, out, x: tangent / jnp.expm1(x)
)
