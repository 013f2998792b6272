"""The binomial distribution: how many of `n` trials of probability `p` succeed.

>>> from xpr.scipy import stats
>>> stats.binom.pmf(2, 4, 0.5)
Array(0.375, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import (
    counts,
    log_binomial,
    log_complement,
    no_count,
    times_log,
    valid,
)


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`; -inf unless `k - loc` is one of 0, 1, ..., n.

    NaN where `n` is not one of 0, 1, ... or `p` is outside [0, 1].
    """
    k, n, p = counts("binom.logpmf", k, loc, n, p)
    k = valid(k, n >= 0, jnp.floor(n) == n, p >= 0, p <= 1)
    outside = no_count(k) | (k > n)
    hits, trials = jnp.where(outside, 0.0, k), jnp.where(outside, 1.0, n)
    won = times_log(hits, jnp.log, p, 0.0)
    lost = times_log(trials - hits, log_complement, p, 1.0)
    found = log_binomial(trials, hits) + won + lost
    return jnp.where(outside, -math.inf, found)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return jnp.exp(logpmf(k, n, p, loc))
