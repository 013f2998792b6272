"""Polynomials, given by their coefficients from the highest power down."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    convert,
    promote_dtypes,
    promote_dtypes_inexact,
    scalar_type,
    to_inexact,
    without_weak_type,
)
from xpr.numpy._static import concrete
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.convolution import convolve
from xpr.numpy.extraction import trim_zeros
from xpr.numpy.ufuncs import add, multiply, negative, true_divide
from xpr.primitives import elementwise as el
from xpr.primitives import joining as jn
from xpr.primitives import shape as sh
from xpr.primitives import slicing as sl
from xpr.primitives.creation import full


def _vectors(name: str, *args: Any) -> list[Any]:
    """The operands as vectors of one dtype; a number is a polynomial of degree 0."""
    found = []
    for i, a in enumerate(args):
        x = as_operand(name, a, i)
        ndim = get_aval(x).ndim
        if ndim > 1:
            raise ValueError(f"{name} requires vectors of coefficients, got {get_aval(x).shape}")
        found.append(sh.reshape(x, (1,)) if not ndim else x)
    return promote_dtypes(*found)


def _inexact(name: str, x: Any, i: int = 0) -> Any:
    x = as_operand(name, x, i)
    return convert(x, to_inexact(get_aval(x).dtype))


def _order(name: str, m: Any, what: str) -> int:
    order = operator.index(concrete(m, f"'m' argument of jnp.{name}").item())
    if order < 0:
        raise ValueError(f"Order of {what} must be positive, got {order}")
    return order


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value of a polynomial at each element of `x`, by Horner's rule.

    The first axis of `p` holds the coefficients, the highest power first; further axes, a batch of
    polynomials, are broadcast against `x`. `unroll` is there for programs that give it; the rule is
    always written out. Raises ValueError for a scalar `p` and a negative `unroll`.

    >>> import xpr.numpy as jnp
    >>> jnp.polyval(jnp.array([1, 0, 2]), jnp.array([1, 2, 3]))
    Array([ 3,  6, 11], dtype=int32)
    """
    if not isinstance(unroll, bool) and operator.index(unroll) < 0:
        raise ValueError(f"`unroll` must be a `bool` or a non-negative `int`. Got {unroll}.")
    coefficients, at = as_operand("polyval", p, 0), as_operand("polyval", x, 1)
    if get_aval(coefficients).ndim == 0:
        raise ValueError("polyval requires a vector of coefficients, got a scalar")
    coefficients, at = (without_weak_type(v) for v in promote_dtypes(coefficients, at))
    dtype = get_aval(at).dtype
    count, *batch = get_aval(coefficients).shape
    shape = sh.broadcast_shapes(tuple(batch), get_aval(at).shape)
    value: Any = full(shape, dtype.type(0))
    for i in range(count):
        term = sl.index_in_dim(coefficients, i, keepdims=False)
        value = add(multiply(value, at), term) if i else broadcast_to(term, shape)
    return as_array(value)


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> import xpr.numpy as jnp
    >>> jnp.polyadd(jnp.array([1, 2, 3]), jnp.array([4, 5]))
    Array([1, 6, 8], dtype=int32)
    """
    return _added(*_vectors("polyadd", a1, a2))


def _added(x: Any, y: Any) -> Array:
    size = max(get_aval(x).size, get_aval(y).size)
    zero = scalar_type(x)(0)
    longer = [sh.pad(v, zero, [(size - get_aval(v).size, 0, 0)]) for v in (x, y)]
    return add(*longer)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> import xpr.numpy as jnp
    >>> jnp.polysub(jnp.array([1, 2, 3]), jnp.array([4, 5]))
    Array([ 1, -2, -2], dtype=int32)
    """
    x, y = _vectors("polysub", a1, a2)
    return _added(x, negative(y))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, floating; with leading zeros trimmed if wanted (concrete).

    >>> import xpr.numpy as jnp
    >>> jnp.polymul(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([1., 5., 6.], dtype=float32)
    """
    x, y = _vectors("polymul", a1, a2)
    if trim_leading_zeros and min(get_aval(x).size, get_aval(y).size) > 1:
        x, y = trim_zeros(x, "f"), trim_zeros(y, "f")
    if not get_aval(x).size:
        x = full((1,), get_aval(x).dtype.type(0))
    if not get_aval(y).size:
        y = full((1,), get_aval(y).dtype.type(0))
    return convolve(x, y)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Quotient and remainder of two polynomials, floating.

    The remainder has as many coefficients as `u`, unless leading zeros are trimmed (concrete).

    >>> import xpr.numpy as jnp
    >>> jnp.polydiv(jnp.array([1, 5, 6]), jnp.array([1, 2]))[0]
    Array([1., 3.], dtype=float32)
    """
    x, y = _vectors("polydiv", u, v)
    dtype = to_inexact(get_aval(x).dtype)
    weak = get_aval(x).weak_type
    x, y = convert(x, dtype, weak), convert(y, dtype, weak)
    rows, columns = get_aval(x).size, get_aval(y).size
    if not columns:
        raise ValueError("polydiv requires a divisor with at least one coefficient")
    steps = rows - columns + 1
    terms = []
    lead = sl.index_in_dim(y, 0, keepdims=False)
    for i in range(steps):
        term = true_divide(sl.index_in_dim(x, i, keepdims=False), lead)
        part = sl.slice_in_dim(x, i, i + columns)
        rest = el.sub(part, multiply(term, y))
        pieces = [sl.slice_in_dim(x, 0, i), rest, sl.slice_in_dim(x, i + columns, rows)]
        x = jn.concatenate(pieces, 0)
        terms.append(sh.reshape(term, (1,)))
    quotient = jn.concatenate(terms, 0) if terms else full((1,), dtype.type(0))
    if trim_leading_zeros:
        x = trim_zeros(x, "f")
    return as_array(without_weak_type(quotient)), as_array(x)


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The `m`-th derivative of a polynomial, floating. Raises ValueError for negative `m`.

    >>> import xpr.numpy as jnp
    >>> jnp.polyder(jnp.array([3, 2, 1]))
    Array([6., 2.], dtype=float32)
    """
    x = _inexact("polyder", p)
    order = _order("polyder", m, "derivative")
    count = get_aval(x).shape[0]
    kept = max(count - order, 0)
    # The power n becomes n (n - 1) ... (n - m + 1) times the power n - m.
    powers = np.arange(count - 1, order - 1, -1, dtype=np.float64)[:kept]
    factors = np.ones(kept)
    for k in range(order):
        factors *= powers - k
    return multiply(sl.slice_in_dim(x, 0, kept), factors.astype(get_aval(x).dtype))


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The `m`-th integral of a polynomial, floating, with the integration constants `k` (0).

    `k` is one number or one for each integration, in their order. Raises ValueError for another
    number of constants and for negative `m`.

    >>> import xpr.numpy as jnp
    >>> jnp.polyint(jnp.array([3, 2, 1]))
    Array([1., 1., 1., 0.], dtype=float32)
    """
    order = _order("polyint", m, "integral")
    given = 0 if k is None else as_operand("polyint", k, 2)
    x, constants = promote_dtypes_inexact(as_operand("polyint", p), given)
    x = as_array(x)
    if get_aval(constants).size == 1:
        constants = broadcast_to(sh.reshape(constants, (1,)), (order,))
    if get_aval(constants).shape != (order,):
        raise ValueError(
            "k must be a scalar or a rank-1 array of length 1 or m, got shape "
            f"{get_aval(constants).shape} for m={order}."
        )
    if not order:
        return as_array(x)
    dtype = get_aval(x).dtype
    whole = jn.concatenate([x, constants], 0)
    count = get_aval(whole).shape[0]
    # A coefficient of power n (after m integrations) was divided by n, n - 1, ..., as far as its
    # own integrations go: m for those of p, fewer for the later constants.
    powers = np.arange(count - 1, -1, -1, dtype=np.float64)
    divisors = np.ones(count)
    for step in range(order):
        left = powers - step
        divisors *= np.where(left > 0, left, 1.0)
    return true_divide(whole, divisors.astype(dtype))


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The coefficients of the polynomial with those zeros and leading coefficient 1.

    Of a square matrix it is the characteristic polynomial, complex: its zeros are the eigenvalues.
    Raises ValueError for other arrays of several axes.

    >>> import xpr.numpy as jnp
    >>> jnp.poly(jnp.array([1, 2]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    x = _inexact("poly", seq_of_zeros)
    shape = get_aval(x).shape
    if len(shape) == 2 and shape[0] == shape[1] != 0:
        # Not every program needs eigenvalues.
        from xpr.numpy import linalg  # noqa: PLC0415

        return poly(linalg.eigvals(x))
    if len(shape) > 1:
        raise ValueError(f"input must be 1d or non-empty square 2d array, got shape {shape}.")
    if not shape:
        x = sh.reshape(x, (1,))
    dtype = get_aval(x).dtype
    if not get_aval(x).size:
        return as_array(convert(1, dtype))
    one = dtype.type(1)
    found: Any = full((1,), one)
    for i in range(get_aval(x).size):
        factor = sl.slice_in_dim(x, i, i + 1)
        # Times (x - zero): the coefficients moved up, less the zero times them.
        longer = sh.pad(found, dtype.type(0), [(0, 1, 0)])
        found = el.sub(longer, sh.pad(multiply(found, factor), dtype.type(0), [(1, 0, 0)]))
    return found
