"""The Poisson distribution: counts of mean `mu`, of probability exp(-mu) mu^k / k!.

>>> from xpr.scipy import stats
>>> stats.poisson.pmf(2, 1.0)
Array(0.18394, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import numpy as np

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import gammaincc, gammaln
from xpr.scipy.stats._common import counts, masked, no_count, times_log, valid

# The entropy less log(2πe mu) / 2 is the sum of these over mu, mu², ... (asymptotic).
_ENTROPY_SERIES = (-1 / 12, -1 / 24, -19 / 360, -9 / 80, -863 / 2520, -1375 / 1008, -33953 / 5040)
_LARGE = 100.0
# Counts beyond this one have no part in the entropy for a mu of at most _LARGE.
_MOST = 220


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of `k`; -inf unless `k - loc` is one of 0, 1, ...

    NaN where `mu` is not 0 or more.
    """
    k, mu = counts("poisson.logpmf", k, loc, mu)
    k = valid(k, mu >= 0)

    def formula(k: Array) -> Array:
        return times_log(k, jnp.log, mu, 0.0) - gammaln(k + 1) - mu

    return masked(no_count(k), -math.inf, 0.0, formula, k)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of `k`."""
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of at most `k`."""
    k, mu = counts("poisson.cdf", k, loc, mu)
    k = valid(k, mu >= 0)
    outside = (k < 0) | (k == math.inf)
    inner = masked(outside, 0.0, 0.0, lambda k: gammaincc(jnp.floor(k) + 1, mu), k)
    return jnp.where(k == math.inf, 1.0, inner)


def _entropy_of_small(mu: Array) -> Array:
    """The sum of -p log p over all counts that matter."""
    k = np.arange(_MOST).astype(mu.dtype)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in range(_MOST)]).astype(mu.dtype)
    positive = mu > 0
    safe = jnp.where(positive, mu, 1.0)[..., None]
    k, log_factorial = (v.reshape((1,) * mu.ndim + (_MOST,)) for v in (k, log_factorial))
    log_p = k * jnp.log(safe) - log_factorial - safe
    return jnp.where(positive, -jnp.sum(jnp.exp(log_p) * log_p, axis=-1), 0.0)


def _entropy_of_large(mu: Array) -> Array:
    """Half of log(2πe mu) and the asymptotic series of the rest."""
    series = jnp.zeros_like(mu)
    for coefficient in reversed(_ENTROPY_SERIES):
        series = (series + coefficient) / mu
    return 0.5 * (math.log(2 * math.pi * math.e) + jnp.log(mu)) + series


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy in nats, which does not depend on `loc`; NaN where `mu` is not 0 or more.

    Up to 100 a sum over counts, beyond the asymptotic series (R. Evans, J. Boersma, "The entropy
    of a Poisson distribution", SIAM Review 30, 1988).
    """
    mu, _ = counts("poisson.entropy", mu, 0, loc)
    mu = valid(mu, mu >= 0)
    large = mu > _LARGE
    small = _entropy_of_small(jnp.where(large, 1.0, mu))
    found = jnp.where(large, _entropy_of_large(jnp.where(large, mu, _LARGE)), small)
    return jnp.where(jnp.isnan(mu), mu, found)
