"""The generalised normal distribution: density β exp(-|x|^β) / (2 Γ(1/β)).

>>> from xpr.scipy import stats
>>> stats.gennorm.pdf(0.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.special import lgamma
from xpr.scipy.special import gammaincc
from xpr.scipy.stats._common import promoted, valid


def _operands(name: str, x: Any, beta: Any) -> tuple[Array, Array]:
    x, beta = promoted(name, x, beta)
    return x, valid(jnp.asarray(beta), beta > 0)


def _log_peak(beta: Array) -> Array:
    """The logarithm of the density at 0."""
    return jnp.log(beta) - math.log(2) - lgamma(1 / beta)


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The logarithm of the density at `x`."""
    x, beta = _operands("gennorm.logpdf", x, beta)
    return _log_peak(beta) - jnp.power(jnp.abs(x), beta)


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The density at `x`."""
    return jnp.exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """The probability of at most `x`."""
    x, beta = _operands("gennorm.cdf", x, beta)
    middle = x == 0
    size = jnp.abs(jnp.where(middle, 1.0, x))
    tail = 0.5 * gammaincc(1 / beta, jnp.power(size, beta))
    # At 0 the derivative of the formula is infinity times 0: the line with the right slope is not.
    near = 0.5 + x * jnp.exp(_log_peak(beta))
    return jnp.where(middle, near, jnp.where(x < 0, tail, 1 - tail))
