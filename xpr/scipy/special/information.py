"""Functions of information theory: x log(y), entropies and divergences, with their limits at 0."""

from __future__ import annotations

import numpy as np

import xpr.numpy as jnp
from xpr.numpy._typing import Array, ArrayLike
from xpr.scipy.special._numerics import floats, reals, strong_with_axes, with_tangents


def _times_log(x: Array, log_of_y: Array) -> Array:
    nothing = x == 0
    return jnp.where(nothing, jnp.zeros_like(x), x * log_of_y)


def _quotient(x: Array, y: Array) -> Array:
    """x / y, and 0 for 0 / 0."""
    nothing = (x == 0) & (y == 0)
    return jnp.where(nothing, jnp.zeros_like(x), x / jnp.where(nothing, jnp.ones_like(y), y))


_xlogy = with_tangents(
    lambda x, y: jnp.where(jnp.isnan(y), y, _times_log(x, jnp.log(jnp.where(x == 0, 1.0, y)))),
    lambda tangent, out, x, y: tangent * jnp.log(y),
    lambda tangent, out, x, y: tangent * _quotient(x, y),
)
_xlog1py = with_tangents(
    lambda x, y: jnp.where(jnp.isnan(y), y, _times_log(x, jnp.log1p(jnp.where(x == 0, 0.0, y)))),
    lambda tangent, out, x, y: tangent * jnp.log1p(y),
    lambda tangent, out, x, y: tangent * _quotient(x, 1 + y),
)


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), and 0 where `x` is 0 unless `y` is NaN.

    >>> import xpr.scipy.special as special
    >>> special.xlogy(0.0, 0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*jnp.broadcast_arrays(*floats("xlogy", x, y)))


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), accurate for small `y`, and 0 where `x` is 0 unless `y` is NaN.

    >>> import xpr.numpy as jnp
    >>> from xpr.scipy import special
    >>> special.xlog1py(jnp.array([0.0, 2.0]), jnp.array([-1.0, 0.0]))
    Array([0., 0.], dtype=float32)
    """
    return _xlog1py(*jnp.broadcast_arrays(*floats("xlog1py", x, y)))


def entr(x: ArrayLike) -> Array:
    """-x log(x): 0 at 0, -inf for negative `x`.

    >>> import xpr.scipy.special as special
    >>> special.entr(0.5)
    Array(0.3465736, dtype=float32, weak_type=True)
    """
    (x,) = reals("entr", x)
    return jnp.where(x < 0, -np.inf, -_xlogy(x, x))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) for p > 0 and q > 0; 0 for p == 0 and q >= 0; inf elsewhere.

    >>> import xpr.scipy.special as special
    >>> special.rel_entr(2.0, 1.0)
    Array(1.3862944, dtype=float32, weak_type=True)
    """
    return _rel_entr(*jnp.broadcast_arrays(*strong_with_axes(*reals("rel_entr", p, q))))


def _rel_entr(p: Array, q: Array) -> Array:
    positive = (p > 0) & (q > 0)
    undefined = jnp.isnan(p) | jnp.isnan(q)
    p_safe, q_safe = jnp.where(positive, p, 1.0), jnp.where(positive, q, 1.0)
    border = jnp.where((p == 0) & (q >= 0), 0.0, np.inf)
    border = jnp.where(undefined, np.nan, border)
    # log(p / q) has fewer rounding errors than the difference of logarithms, where the quotient
    # neither overflows nor vanishes.
    quotient = p_safe / q_safe
    plain = (quotient > 1e-30) & (quotient < 1e30)
    log = jnp.where(
        plain, jnp.log(jnp.where(plain, quotient, 1.0)), jnp.log(p_safe) - jnp.log(q_safe)
    )
    return jnp.where(positive, p_safe * log, border)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) - p + q for p > 0 and q > 0; q for p == 0 and q >= 0; inf elsewhere.

    >>> import xpr.scipy.special as special
    >>> special.kl_div(2.0, 1.0)
    Array(0.38629436, dtype=float32, weak_type=True)
    """
    p, q = jnp.broadcast_arrays(*strong_with_axes(*reals("kl_div", p, q)))
    return _rel_entr(p, q) - p + q
