"""Polynomials and what is best computed as one: their own rules keep derivatives accurate."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.trace import get_aval
from xpr.lax.loops import scan
from xpr.primitives import elementary as fn
from xpr.primitives import elementwise as el
from xpr.primitives import shape as sh
from xpr.primitives.convert import convert_element_type
from xpr.primitives.creation import full_like
from xpr.primitives.joining import stack
from xpr.primitives.rules import const_like
from xpr.transforms.custom_jvp import SymbolicZero, custom_jvp

__all__ = ["log2", "one_minus_square", "polynomial"]

_WRITTEN_OUT = 8


def log2(x: Any, *, accuracy: Any = None) -> Array:
    """The logarithm to base 2 of a floating or complex array: `log(x) / log(2)`.

    Real: -inf at 0, NaN below. Complex: the imaginary part lies in [-pi, pi] / log(2). Raises
    TypeError for other dtypes, naming `log`.

    >>> from xpr import lax
    >>> import xpr.numpy as jnp
    >>> lax.log2(jnp.array([8.0, 0.0, -1.0]))
    Array([  3., -inf,  nan], dtype=float32)
    """
    found = fn.log(x, accuracy=accuracy)
    if dtypes.is_complex(get_aval(found).dtype):
        parts = (el.real(found), el.imag(found))
        return el.complex(*(el.div(part, const_like(part, math.log(2))) for part in parts))
    # A quotient: the product with 1 / log(2) is off for more powers of two.
    return el.div(found, const_like(found, math.log(2)))


def _is_inexact(x: Any) -> bool:
    dtype = get_aval(x).dtype
    return dtypes.is_float(dtype) or dtypes.is_complex(dtype)


def _factors(x: Any) -> Array:
    one = const_like(x, 1)
    return el.mul(el.add(one, x), el.sub(one, x))


@custom_jvp
def _one_minus_square(x: Any) -> Array:
    return _factors(x)


@_one_minus_square.defjvp
def _one_minus_square_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (t,) = primals, tangents
    # The product rule would give (1 - x) - (1 + x), which is 0 for small x.
    return _one_minus_square(x), el.mul(t, el.mul(const_like(x, -2), x))


def one_minus_square(x: Any) -> Array:
    """`1 - x**2` of an array of numbers, accurate for `x` near 1 and -1 too; its slope is `-2 x`.

    >>> from xpr import lax
    >>> lax.one_minus_square(3.0)
    Array(-8., dtype=float32, weak_type=True)
    """
    return _one_minus_square(x) if _is_inexact(x) else _factors(x)


# ---- polynomials


def _common_shape(x: Any, coefficients: Sequence[Any]) -> tuple[int, ...]:
    """Of operands without axes and operands of one rank, whose axes of size 1 are stretched."""
    shapes = [get_aval(v).shape for v in (x, *coefficients)]
    ranks = {len(s) for s in shapes if s}
    if len(ranks) > 1:
        raise TypeError(
            "polynomial requires coefficients without axes, or with as many as the other operands: "
            f"got x of shape {shapes[0]} and coefficients of shapes {shapes[1:]}"
        )
    return sh.broadcast_shapes(*shapes)


def _stretched(x: Any, shape: tuple[int, ...]) -> Any:
    own = get_aval(x).shape
    if own == shape:
        return x
    return sh.broadcast_in_dim(x, shape, tuple(range(len(shape))) if own else ())


def _horner(limit: int, x: Any, *coefficients: Any) -> Array:
    """The polynomial, lowest power first: written out up to `limit` terms, else a scan."""
    shape = _common_shape(x, coefficients)
    at = _stretched(x, shape)
    terms = [_stretched(c, shape) for c in reversed(coefficients)]
    if len(terms) <= max(limit, 1):
        return functools.reduce(lambda total, c: el.add(el.mul(total, at), c), terms)

    def step(total: Any, c: Any) -> tuple[Any, None]:
        return el.add(el.mul(total, at), c), None

    return scan(step, full_like(at, 0), stack(terms), unroll=max(limit, 1))[0]


_polynomial = custom_jvp(_horner, nondiff_argnums=(0,))


def _polynomial_jvp(
    limit: int, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[Array, Array]:
    x, *coefficients = primals
    by_x, *by_coefficients = tangents
    out = _polynomial(limit, x, *coefficients)
    moved: Any = full_like(out, 0)
    if not isinstance(by_x, SymbolicZero):
        slopes = [el.mul(const_like(c, k), c) for k, c in enumerate(coefficients[1:], 1)]
        slope = _polynomial(limit, x, *slopes)
        moved = el.add(moved, el.mul(_stretched(by_x, get_aval(out).shape), slope))
    if not all(isinstance(t, SymbolicZero) for t in by_coefficients):
        given = [
            full_like(c, 0) if isinstance(t, SymbolicZero) else t
            for c, t in zip(coefficients, by_coefficients, strict=True)
        ]
        # Linear in the tangents, and to be transposed: no function with a rule of its own.
        moved = el.add(moved, _horner(limit, x, *given))
    return out, moved


_polynomial.defjvp(_polynomial_jvp, symbolic_zeros=True)


def polynomial(x: Any, coeffs: Sequence[Any], *, unroll: int | None = None) -> Array:
    """`coeffs[0] + coeffs[1] * x + coeffs[2] * x**2 + ...`, by Horner's rule.

    The coefficients, the lowest power first, take the dtype of `x`, a numeric one. They have no
    axes, or as many as `x`; axes of size 1 are stretched. Without coefficients the value is 0.
    The derivative in `x` is a polynomial too. More than `unroll` terms (8 for None) are a loop of
    which so many steps are written out. Raises TypeError for other ranks, ValueError for shapes
    that do not fit and for a negative `unroll`.

    >>> from xpr import lax
    >>> lax.polynomial(3.0, [1.0, 5.0, 2.0])
    Array(34., dtype=float32, weak_type=True)
    """
    limit = _WRITTEN_OUT if unroll is None else operator.index(unroll)
    if limit < 0:
        raise ValueError(f"polynomial requires an unroll of 0 or more, got {unroll}")
    terms = [_coefficient(x, c) for c in coeffs]
    if not terms:
        return full_like(x, 0)
    if len(terms) == 1:
        return convert_element_type(
            _stretched(terms[0], _common_shape(x, terms)), get_aval(x).dtype
        )
    return (_polynomial if _is_inexact(x) else _horner)(limit, x, *terms)


def _coefficient(x: Any, c: Any) -> Any:
    if isinstance(c, np.generic):
        c = c.item()
    if isinstance(c, (bool, int, float, complex)):
        return const_like(x, c)
    return convert_element_type(c, get_aval(x).dtype)
