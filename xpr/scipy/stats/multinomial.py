"""The multinomial distribution: how many of `n` draws fall on each of K outcomes.

>>> from xpr.scipy import stats
>>> import xpr.numpy as jnp
>>> stats.multinomial.pmf(jnp.array([1, 1]), 2, jnp.array([0.5, 0.5]))
Array(0.5, dtype=float32)
"""

from __future__ import annotations

import math

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand, promote_dtypes_inexact
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special import gammaln
from xpr.scipy.stats._common import times_log


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts `x`, `[..., K]`, among `n` draws, `[...]`.

    `p`, `[..., K]`, are the probabilities of the outcomes. -inf where a count is negative or their
    sum is not `n`. Raises ValueError unless `x` and `n` are integers.
    """
    counts, total, p = (
        as_array(as_operand("multinomial.logpmf", a, i)) for i, a in enumerate((x, n, p))
    )
    if not all(dtypes.is_integer(a.dtype) for a in (counts, total)):
        raise ValueError(
            f"x and n must be of integer type; got x.dtype={counts.dtype}, n.dtype={total.dtype}"
        )
    chances = as_array(promote_dtypes_inexact(p)[0])
    outside = jnp.any(counts < 0, axis=-1) | (jnp.sum(counts, axis=-1) != total)
    k, draws = counts.astype(chances.dtype), total.astype(chances.dtype)
    # Where the answer is -inf no counts are seen by the formula, so that derivatives are 0 there.
    k = jnp.where(outside[..., None], 0.0, k)
    terms = times_log(k, jnp.log, chances, 0.0) - gammaln(k + 1)
    found = gammaln(draws + 1) + jnp.sum(terms, axis=-1)
    return jnp.where(outside, -math.inf, found)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of the counts `x`; see `logpmf`."""
    return jnp.exp(logpmf(x, n, p))
