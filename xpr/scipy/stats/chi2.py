"""The chi-squared distribution: gamma with a = df / 2 and twice the scale.

>>> from xpr.scipy import stats
>>> stats.chi2.sf(2.0, 2.0)
Array(0.367879, dtype=float32, weak_type=True)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.stats import gamma
from xpr.scipy.stats._common import promoted


def _as_gamma(name: str, x: Any, df: Any, loc: Any, scale: Any) -> list[Array]:
    """The arguments of the gamma distribution's functions."""
    x, df, loc, scale = promoted(name, x, df, loc, scale)
    return [x, _times(df, 0.5), loc, _times(scale, 2)]


def _times(number: Any, factor: float) -> Any:
    """The product in the dtype of `number`, which NumPy's product of a bfloat16 is not in."""
    return number * (number.dtype.type(factor) if isinstance(number, np.generic) else factor)


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at `x`; -inf below `loc`."""
    return gamma.logpdf(*_as_gamma("chi2.logpdf", x, df, loc, scale))


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at `x`; 0 below `loc`."""
    return gamma.pdf(*_as_gamma("chi2.pdf", x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of at most `x`."""
    return gamma.cdf(*_as_gamma("chi2.cdf", x, df, loc, scale))


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of at most `x`."""
    return gamma.logcdf(*_as_gamma("chi2.logcdf", x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of more than `x`."""
    return gamma.sf(*_as_gamma("chi2.sf", x, df, loc, scale))


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability of more than `x`."""
    return gamma.logsf(*_as_gamma("chi2.logsf", x, df, loc, scale))
