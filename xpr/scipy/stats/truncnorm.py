"""The normal distribution cut off outside [a, b], bounds of z = (x - loc) / scale with a < b.

The bounds may be infinite, and far out in a tail.

>>> from xpr.scipy import stats
>>> stats.truncnorm.pdf(0.0, -1.0, 1.0)
Array(0.58437, dtype=float32)
"""

from __future__ import annotations

import math
from typing import Any

import xpr.numpy as jnp
from xpr.nn.activations import log1mexp
from xpr.numpy._typing import Array, ArrayLike
from xpr.primitives.special import erf
from xpr.scipy.special import log_ndtr, ndtr
from xpr.scipy.stats import norm
from xpr.scipy.stats._common import promoted, valid


def _log_mass(a: Array, b: Array) -> Array:
    """The logarithm of the probability that a standard normal number is between a < b."""
    # By symmetry an interval on the right is one on the left, where probabilities are small.
    right = a > 0
    a, b = jnp.where(right, -b, a), jnp.where(right, -a, b)
    left = b <= 0
    low, high = (log_ndtr(jnp.where(left, x, default)) for x, default in ((a, -2.0), (b, -1.0)))
    in_tail = high + log1mexp(high - low)
    # Around 0: most of the probability is 1 less the tails, little of it a sum of error functions.
    a, b = jnp.where(left, -1.0, a), jnp.where(left, 1.0, b)
    tails = ndtr(a) + ndtr(-b)
    most = tails < 0.5
    root = math.sqrt(0.5)
    little = jnp.log(jnp.where(most, 0.5, 0.5 * (erf(root * b) - erf(root * a))))
    around = jnp.where(most, jnp.log1p(-jnp.where(most, tails, 0.0)), little)
    return jnp.where(left, in_tail, around)


def _operands(name: str, x: Any, a: Any, b: Any, loc: Any, scale: Any) -> list[Array]:
    """`[z, a, b, scale]`; z is NaN for invalid parameters."""
    x, a, b, loc, scale = promoted(name, x, a, b, loc, scale)
    z = valid((x - loc) / scale, scale > 0, a < b)
    return [z, *jnp.broadcast_arrays(a, b, z)[:2], scale]


def _log_below(z: Array, a: Array, b: Array) -> Array:
    """The logarithm of the probability of less than `z`.

    Near 1 it is made of the probability of more than `z`.
    """
    outside = (z <= a) | (z >= b)
    low, high = jnp.where(outside, -1.0, a), jnp.where(outside, 1.0, b)
    middle = jnp.where(outside, 0.0, z)
    total = _log_mass(low, high)
    below = _log_mass(low, middle) - total
    near_one = below > -0.1
    above = _log_mass(middle, high) - total
    found = jnp.where(near_one, log1mexp(jnp.where(near_one, -above, 1.0)), below)
    return jnp.where(z <= a, -math.inf, jnp.where(z >= b, 0.0, found))


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density at `x`; -inf outside the bounds."""
    z, a, b, scale = _operands("truncnorm.logpdf", x, a, b, loc, scale)
    outside = (z < a) | (z > b)
    low, high = jnp.where(outside, -1.0, a), jnp.where(outside, 1.0, b)
    inside = norm.logpdf(jnp.where(outside, 0.0, z)) - jnp.log(scale) - _log_mass(low, high)
    return jnp.where(outside, -math.inf, inside)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density at `x`; 0 outside the bounds."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability of at most `x`."""
    z, a, b, _ = _operands("truncnorm.logcdf", x, a, b, loc, scale)
    return _log_below(z, a, b)


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of at most `x`."""
    return jnp.exp(logcdf(x, a, b, loc, scale))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability of more than `x`."""
    z, a, b, _ = _operands("truncnorm.logsf", x, a, b, loc, scale)
    return _log_below(-z, -b, -a)


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return jnp.exp(logsf(x, a, b, loc, scale))
