"""Standard Gumbel numbers: the largest of many. Those of the smallest are the negative ones.

With t = exp(-z): log density -z - t, probability of at most z exp(-t), of more 1 - exp(-t).
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.nn.activations import log1mexp
from xpr.numpy._typing import Array
from xpr.scipy.stats._common import masked


def log_density(z: Array) -> Array:
    """-z - exp(-z); -inf at both infinities."""
    return masked(jnp.isinf(z), -math.inf, 0.0, lambda z: -z - jnp.exp(-z), z)


def log_below(z: Array) -> Array:
    """The logarithm of the probability of at most `z`."""
    return -jnp.exp(-z)


def above(z: Array) -> Array:
    """The probability of more than `z`."""
    return -jnp.expm1(-jnp.exp(-z))


def log_above(z: Array) -> Array:
    """The logarithm of the probability of more than `z`.

    For large `z`, where exp(-z) = t may underflow, log(1 - exp(-t)) = -z - t/2 + t²/24 - ...
    """
    far = z > 7
    t = jnp.exp(-jnp.where(far, 0.0, z))
    small = jnp.exp(-jnp.where(far, z, 7.0))
    return jnp.where(far, -z - small * (0.5 - small / 24), log1mexp(t))


def quantile(q: Array) -> Array:
    """The number that probability `q` lies below."""
    return -jnp.log(-jnp.log(q))


def upper_quantile(q: Array) -> Array:
    """The number that probability `q` lies above."""
    return -jnp.log(-jnp.log1p(-q))
