"""Combinatorial functions: factorials, binomial coefficients, Bernoulli's numbers."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np

import xpr.numpy as jnp
from xpr import lax
from xpr.core import dtypes
from xpr.numpy._promote import with_weak_type_of
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special._numerics import (
    bernoulli_fractions,
    reals,
    rounded_once,
    with_tangents,
)
from xpr.scipy.special.gamma_functions import beta, gamma

# Binomial coefficients with up to so many factors are products.
_MOST_FACTORS = 20


def bernoulli(n: int) -> Array:
    """Bernoulli's numbers B_0 to B_n, an array of n + 1 floats; B_1 is -1/2.

    They are computed exactly and rounded once; those out of the dtype's range are infinite. Raises
    ValueError for negative `n`, TypeError unless it is an integer.

    >>> import xpr.scipy.special as special
    >>> special.bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    count = operator.index(n)
    if count < 0:
        raise ValueError(f"bernoulli requires a non-negative integer n, got {count}")
    values = [_to_float(b) for b in bernoulli_fractions(count)]
    with np.errstate(over="ignore"):
        return jnp.asarray(np.asarray(values).astype(dtypes.default_dtype("f")))


def _to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _factorial(n: Array) -> Array:
    return jnp.where(n < 0, 0.0, gamma(jnp.where(n < 0, 0.0, n) + 1.0)).astype(n.dtype)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n!, which is gamma(n + 1); 0 for negative `n`.

    Raises NotImplementedError if `exact`: arrays hold no integers of any size.

    >>> import xpr.scipy.special as special
    >>> special.factorial(4)
    Array(24., dtype=float32, weak_type=True)
    """
    if exact:
        raise NotImplementedError("factorial with exact=True is not offered: results are floats")
    (x,) = reals("factorial", n)
    return with_weak_type_of(x, rounded_once(_factorial, x))


def _comb_value(n: Array, k: Array) -> Array:
    valid = (k >= 0) & (k <= n)
    n_safe = jnp.where(valid, n, 4.0)
    k_safe = jnp.where(valid, k, 2.0)
    rest = n_safe - k_safe
    fewer = jnp.minimum(k_safe, rest)
    few = (fewer == jnp.floor(fewer)) & (fewer <= _MOST_FACTORS)
    product = jnp.ones_like(n)
    base = n_safe - jnp.where(few, fewer, 0.0)
    for j in range(1, _MOST_FACTORS + 1):
        # Divided in turn, each partial product of whole numbers is whole.
        product = jnp.where(fewer >= j, product * (base + float(j)) / float(j), product)
    inverse = (n_safe + 1.0) * beta(rest + 1.0, k_safe + 1.0)
    value = jnp.where(few, product, 1.0 / inverse)
    value = jnp.where(valid, value, 0.0)
    return jnp.where(jnp.isnan(n) | jnp.isnan(k), np.nan, value)


def _by_digamma(out: Array, first: Array, second: Array) -> Array:
    inside = out != 0
    first, second = jnp.where(inside, first, 1.0), jnp.where(inside, second, 1.0)
    return out * (lax.digamma(first) - lax.digamma(second))


_comb = with_tangents(
    _comb_value,
    lambda tangent, out, n, k: tangent * _by_digamma(out, n + 1.0, n - k + 1.0),
    lambda tangent, out, n, k: tangent * _by_digamma(out, n - k + 1.0, k + 1.0),
)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """The number of ways to choose `k` of `N` things, 0 unless 0 <= k <= N.

    With `repetition`, each thing may be chosen more than once. Both may be fractions: the result is
    gamma(N + 1) / (gamma(k + 1) gamma(N - k + 1)).

    >>> import xpr.scipy.special as special
    >>> special.comb(5, 2)
    Array(10., dtype=float32, weak_type=True)
    """
    n, chosen = jnp.broadcast_arrays(*reals("comb", N, k))
    things = n
    if repetition:
        none = (n == 0) & (chosen == 0)
        things = jnp.where(none, 1.0, n) + chosen - 1.0
    return with_weak_type_of(n, rounded_once(_comb, things, chosen))
