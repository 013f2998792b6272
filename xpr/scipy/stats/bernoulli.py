"""The Bernoulli distribution: 1 with probability `p`, else 0.

>>> from xpr.scipy import stats
>>> stats.bernoulli.pmf(1, 0.25)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math
from typing import Any

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import counts, promoted, valid


def _checked(k: Array, p: Any) -> Array:
    return valid(k, p >= 0, p <= 1)


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`; -inf unless `k - loc` is 0 or 1."""
    k, p = counts("bernoulli.logpmf", k, loc, p)
    k, p = _checked(k, p), jnp.asarray(p)
    one = k == 1
    # Each logarithm is taken only where it is the answer: the other one may be infinite.
    yes, no = jnp.log(jnp.where(one, p, 1.0)), jnp.log1p(-jnp.where(one, 0.0, p))
    impossible = (k < 0) | (k > 1) | ((k > 0) & (k < 1))
    # 0 * k: NaN stays NaN.
    found = jnp.where(one, yes, no) + 0 * jnp.where(impossible, 0.0, k)
    return jnp.where(impossible, -math.inf, found)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """The probability of at most `k`."""
    k, p = promoted("bernoulli.cdf", k, p)
    k = _checked(k, p)
    steps = jnp.where(k < 0, 0.0, jnp.where(k < 1, 1 - jnp.asarray(p), 1.0))
    return valid(steps, ~jnp.isnan(k))


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The least of 0 and 1 whose `cdf` is `q` or more; NaN for a `q` outside [0, 1]."""
    q, p = promoted("bernoulli.ppf", q, p)
    q = valid(_checked(q, p), (q >= 0) & (q <= 1))
    return valid(jnp.where(q <= 1 - jnp.asarray(p), jnp.zeros_like(q), 1.0), ~jnp.isnan(q))
