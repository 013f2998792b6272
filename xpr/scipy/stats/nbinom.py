"""The negative binomial distribution: failures before the `n`-th success of probability `p`.

`n` is any positive number.

>>> from xpr.scipy import stats
>>> stats.nbinom.pmf(1, 2, 0.5)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import betaln
from xpr.scipy.stats._common import counts, log_complement, masked, no_count, times_log, valid


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`; -inf unless `k - loc` is one of 0, 1, ...

    NaN where `n` is not above 0 or `p` is not in (0, 1].
    """
    k, n, p = counts("nbinom.logpmf", k, loc, n, p)
    k = valid(k, n > 0, p > 0, p <= 1)
    successes = n * jnp.log(p)

    def formula(k: Array) -> Array:
        # Γ(n + k) / (Γ(n) k!) = 1 / ((n + k) B(n, k + 1)).
        failures = times_log(k, log_complement, p, 1.0)
        return successes + failures - betaln(n, k + 1) - jnp.log(n + k)

    return masked(no_count(k), -math.inf, 1.0, formula, k)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return jnp.exp(logpmf(k, n, p, loc))
