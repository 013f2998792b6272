"""What the distributions share: operands, standard forms, supports.

The rules behind all of them: invalid parameters make the standardised argument NaN, and NaN is in
no `outside`, so that it runs through every formula; what lies outside the support is replaced
before the formula as well as after it, so that derivatives there are 0 and not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.core.array import Array as AnyArray
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import promote_args_inexact, without_weak_type
from xpr.numpy._typing import Array
from xpr.scipy.special import betaln

LOG_2PI = math.log(2 * math.pi)


# Whose formulas have constants with the type of the operand, which make what is computed from a
# weakly typed array with axes a strongly typed one, in JAX and so here.
_STRONG = frozenset(
    f"{family}.{name}"
    for family, names in {
        "bernoulli": "cdf logpmf pmf",
        "beta": "cdf logcdf logpdf logsf pdf sf",
        "betabinom": "logpmf pmf",
        "cauchy": "cdf isf logcdf logpdf logsf pdf ppf sf",
        "chi2": "cdf logcdf logpdf logsf pdf sf",
        "gamma": "cdf logcdf logpdf pdf",
        "geom": "logpmf pmf",
        "gumbel_r": "sf",
        "laplace": "cdf logpdf pdf",
        "logistic": "isf logpdf pdf ppf",
        "nbinom": "logpmf pmf",
        "norm": "logpdf pdf",
        "pareto": "cdf logpdf logsf pdf ppf sf",
        "poisson": "cdf",
        "t": "logpdf pdf",
    }.items()
    for name in names.split()
)


def promoted(name: str, x: Any, *parameters: Any) -> list[Array]:
    """`x` as an array and the parameters, all of one floating dtype; TypeError for complex ones.

    Parameters that are numbers stay numbers, which are literals in a traced program; their type
    says Array since they are used as one.
    """
    (x, *rest), dtype = promote_args_inexact(name, x, *parameters)
    if dtypes.is_complex(dtype):
        raise TypeError(f"{name} does not accept dtype {dtype}: it requires real arguments")
    x = as_array(x)
    if name in _STRONG and get_aval(x).shape:
        x, *rest = (without_weak_type(v) for v in (x, *rest))
    return [x, *(as_array(p) if isinstance(p, np.ndarray) else p for p in rest)]


def valid(x: Array, *conditions: Any) -> Array:
    """`x` where all conditions hold, NaN elsewhere; conditions on numbers are decided at once."""
    for condition in conditions:
        if isinstance(condition, AnyArray):
            x = jnp.where(condition, x, math.nan)
        elif not condition:
            x = jnp.full_like(x, math.nan)
    return x


def standardized(name: str, x: Any, loc: Any, scale: Any, *positive: Any) -> list[Array]:
    """`[(x - loc) / scale, scale, *positive]`.

    The first is NaN where the scale or one of the parameters `positive` is not above 0.
    """
    x, loc, scale, *others = promoted(name, x, loc, scale, *positive)
    z = valid((x - loc) / scale, *(p > 0 for p in (scale, *others)))
    return [z, scale, *others]


def quantile_of(name: str, q: Any, loc: Any, scale: Any, *positive: Any) -> list[Array]:
    """`[q, loc, scale, *positive]`; `q` is NaN outside [0, 1] and for invalid parameters."""
    q, loc, scale, *others = promoted(name, q, loc, scale, *positive)
    q = valid(q, (q >= 0) & (q <= 1), *(p > 0 for p in (scale, *others)))
    return [q, loc, scale, *others]


def counts(name: str, k: Any, loc: Any, *parameters: Any) -> list[Array]:
    """`[k - loc, *parameters]` of one inexact dtype."""
    k, loc, *others = promoted(name, k, loc, *parameters)
    return [k - loc, *others]


def no_count(k: Array, first: int = 0) -> Array:
    """Where `k` is not one of the integers from `first` on; False for NaN."""
    return (k < first) | (k - jnp.floor(k) > 0) | (k == math.inf)


def masked(
    outside: Array, fill: float, inside: float, formula: Callable[[Array], Array], z: Array
) -> Array:
    """`formula(z)`, and `fill` where `outside`; there the formula sees the number `inside`."""
    return jnp.where(outside, fill, formula(jnp.where(outside, inside, z)))


def times_log(c: Any, log: Callable[[Any], Any], z: Any, end: float) -> Array:
    """c log(z), where log is infinite at the `end`: 0 there for a `c` of 0.

    Where that is the case the derivative is 0 too, and not 0 / 0.
    """
    corner = jnp.logical_and(z == end, c == 0)
    return jnp.where(corner, 0.0, c * log(jnp.where(corner, 0.5, z)))


def log_complement(z: Any) -> Array:
    """log(1 - z)."""
    return jnp.log1p(-z)


def log_binomial(n: Any, k: Array) -> Array:
    """The logarithm of the number of ways to choose `k` of `n`, for 0 <= k <= n."""
    return -betaln(k + 1, n - k + 1) - jnp.log1p(n)
