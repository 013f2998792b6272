"""Logarithms of sums of powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval, is_eager
from xpr.numpy._promote import literal_type, promote_args_inexact
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.ufuncs_math import scaled
from xpr.primitives import compare as cmp
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.transforms.custom_jvp import custom_jvp


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log(exp(x1) + exp(x2))`, without overflow on the way.

    >>> import xpr.numpy as jnp
    >>> jnp.logaddexp(1000.0, 1000.0)
    Array(1000.6932, dtype=float32, weak_type=True)
    """
    (x, y), dtype = promote_args_inexact("logaddexp", x1, x2)
    if dtypes.is_complex(dtype):
        return _complex_logaddexp(x, y)
    return _add_powers_of_e(x, y) if is_eager() else _log_sum_e(x, y)


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log2(2**x1 + 2**x2)`, without overflow on the way.

    >>> import xpr.numpy as jnp
    >>> jnp.logaddexp2(jnp.array([3.0, 1000.0]), jnp.array([3.0, 1000.0]))
    Array([   4., 1001.], dtype=float32)
    """
    (x, y), dtype = promote_args_inexact("logaddexp2", x1, x2)
    if dtypes.is_complex(dtype):
        log_2 = math.log(2)
        return scaled(_complex_logaddexp(scaled(x, log_2), scaled(y, log_2)), 1 / log_2)
    return _add_powers_of_2(x, y) if is_eager() else _log_sum_2(x, y)


def _add_logarithms(x: Any, y: Any, power: Primitive, scale: float) -> Array:
    greater = el.max_p.bind(x, y)
    difference = el.sub_p.bind(x, y)
    tail = fn.log1p_p.bind(power.bind(el.neg_p.bind(el.abs_p.bind(difference))))
    if scale != 1.0:
        tail = scaled(tail, scale)
    # Where both are the same infinity their difference is NaN and their sum is the answer.
    undefined = cmp.ne_p.bind(difference, difference)
    return select_where(undefined, el.add_p.bind(x, y), el.add_p.bind(greater, tail))


def _add_powers_of_e(x: Any, y: Any) -> Array:
    return _add_logarithms(x, y, fn.exp_p, 1.0)


def _add_powers_of_2(x: Any, y: Any) -> Array:
    return _add_logarithms(x, y, fn.exp2_p, 1 / math.log(2))


def _share(power: Primitive, scale: float) -> Any:
    """The derivative of a logarithm of a sum by one of its two terms: the share of that term.

    The steps of the function itself have corners where its operands are equal. The share is a
    logistic function of their difference, whose own derivatives do not cancel.
    """

    def derivative(tangent: Any, out: Any, term: Any, other: Any) -> Any:
        scalar = get_aval(out).dtype.type
        difference = el.sub_p.bind(term, other)
        undefined = cmp.ne_p.bind(difference, difference)
        inner = select_where(undefined, scalar(0), difference)
        inner = inner if scale == 1.0 else scaled(inner, scale)
        # An infinite term has all of the sum, so +inf - inf counts as 0.
        finite = [select_where(cmp.eq_p.bind(v, scalar(np.inf)), scalar(0), v) for v in (term, out)]
        at_infinity = power.bind(el.sub_p.bind(*finite))
        share = select_where(undefined, at_infinity, fn.logistic_p.bind(inner))
        return el.mul_p.bind(tangent, share)

    return derivative


def _with_shares(function: Any, power: Primitive, scale: float) -> Any:
    """`function`, a logarithm of a sum of two powers, with the derivatives of `_share`."""
    share = _share(power, scale)
    found = custom_jvp(function)
    found.defjvps(
        lambda t, out, x, y: share(t, out, x, y), lambda t, out, x, y: share(t, out, y, x)
    )
    return found


_log_sum_e = _with_shares(_add_powers_of_e, fn.exp_p, 1.0)
_log_sum_2 = _with_shares(_add_powers_of_2, fn.exp2_p, math.log(2))


def _complex_logaddexp(x: Any, y: Any) -> Array:
    first = cmp.gt_p.bind(el.real_p.bind(x), el.real_p.bind(y))
    greater, lesser = select_where(first, x, y), select_where(first, y, x)
    tail = fn.log1p_p.bind(fn.exp_p.bind(el.sub_p.bind(lesser, greater)))
    total = el.add_p.bind(greater, tail)
    # A logarithm's imaginary part lies between -pi and pi.
    real, imag = el.real_p.bind(total), el.imag_p.bind(total)
    turn = literal_type(imag)(2 * math.pi)
    turns = el.round(el.div_p.bind(imag, turn), el.RoundingMethod.TO_NEAREST_EVEN)
    return el.complex_p.bind(real, el.sub_p.bind(imag, el.mul_p.bind(turns, turn)))
