"""The beta-binomial distribution: binomial, with a `p` drawn from the beta distribution of a, b.

>>> from xpr.scipy import stats
>>> stats.betabinom.pmf(1, 3, 1.0, 1.0)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import betaln
from xpr.scipy.stats._common import counts, log_binomial, no_count, valid


def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`; -inf unless `k - loc` is one of 0, 1, ..., n.

    NaN where `n` is not one of 0, 1, ... or `a` or `b` is not above 0.
    """
    k, n, a, b = counts("betabinom.logpmf", k, loc, n, a, b)
    k = valid(k, n >= 0, jnp.floor(n) == n, a > 0, b > 0)
    outside = no_count(k) | (k > n)
    hits, trials = jnp.where(outside, 0.0, k), jnp.where(outside, 1.0, n)
    found = log_binomial(trials, hits) + betaln(hits + a, trials - hits + b) - betaln(a, b)
    return jnp.where(outside, -math.inf, found)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return jnp.exp(logpmf(k, n, a, b, loc))
