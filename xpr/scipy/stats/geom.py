"""The geometric distribution: how many trials of probability `p` until the first succeeds.

>>> from xpr.scipy import stats
>>> stats.geom.pmf(3, 0.5)
Array(0.125, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats._common import counts, log_complement, masked, no_count, times_log, valid


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`; -inf unless `k - loc` is one of 1, 2, ...

    NaN where `p` is not in (0, 1].
    """
    k, p = counts("geom.logpmf", k, loc, p)
    k = valid(k, p > 0, p <= 1)
    log_p = jnp.log(p)

    def formula(k: Array) -> Array:
        return times_log(k - 1, log_complement, p, 1.0) + log_p

    return masked(no_count(k, 1), -math.inf, 1.0, formula, k)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return jnp.exp(logpmf(k, p, loc))
