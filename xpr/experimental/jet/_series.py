"""Truncated power series, and their arithmetic.

A series holds the coefficients c[0], ..., c[n] of c[0] + c[1] t + ... + c[n] t^n, arrays of one
shape. The recurrences are those of Griewank and Walther, "Evaluating Derivatives", table 13.1 and
13.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.lax import convert_element_type
from xpr.tree_util import register_pytree_node_class

Coefficients = list[Any]


@register_pytree_node_class
class Series:
    """A power series, a pytree of its coefficients."""

    def __init__(self, coefficients: Sequence[Any]) -> None:
        self.coefficients = list(coefficients)

    @property
    def primal(self) -> Any:
        """The value at t = 0."""
        return self.coefficients[0]

    @property
    def order(self) -> int:
        """The highest power."""
        return len(self.coefficients) - 1

    def tree_flatten(self) -> tuple[Coefficients, None]:
        """The coefficients."""
        return self.coefficients, None

    @classmethod
    def tree_unflatten(cls, _: None, coefficients: Sequence[Any]) -> Series:
        """The series of such coefficients."""
        return cls(coefficients)


def primal(x: Any) -> Any:
    """The value of a series at t = 0, or of a constant."""
    return x.primal if isinstance(x, Series) else x


def is_inexact(x: Any) -> bool:
    """Whether a value has derivatives."""
    dtype = get_aval(primal(x)).dtype
    return not dtypes.is_extended(dtype) and dtypes.is_inexact(dtype)


def zeros_like(x: Any) -> Any:
    """Zeros of the type of `x`."""
    return jnp.zeros(get_aval(x).shape, get_aval(x).dtype)


def as_series(x: Any, order: int) -> Any:
    """A constant as a series, if it has derivatives; all coefficients of its own dtype."""
    if not is_inexact(x):
        return x
    if not isinstance(x, Series):
        x = Series([x, *[zeros_like(x)] * order])
    dtype = get_aval(x.primal).dtype
    return Series([convert_element_type(c, dtype) for c in x.coefficients])


def coefficients(x: Any, order: int) -> Coefficients:
    """The coefficients of a series or a constant."""
    return x.coefficients if isinstance(x, Series) else [x, *[zeros_like(x)] * order]


def total(terms: Sequence[Any]) -> Any:
    """The sum of one term or more."""
    found = terms[0]
    for term in terms[1:]:
        found = found + term
    return found


def convolved(multiply: Callable[[Any, Any], Any], a: Coefficients, b: Coefficients) -> Any:
    """The coefficients of a product that is linear in both factors."""
    return [
        total([multiply(a[j], b[k - j]) for j in range(k + 1)]) for k in range(min(len(a), len(b)))
    ]


def product(a: Coefficients, b: Coefficients) -> Coefficients:
    """a b."""
    return convolved(jnp.multiply, a, b)


def quotient(a: Coefficients, b: Coefficients) -> Coefficients:
    """a / b."""
    found: Coefficients = []
    for k in range(min(len(a), len(b))):
        rest = a[k]
        for j in range(1, k + 1):
            rest = rest - b[j] * found[k - j]
        found.append(rest / b[0])
    return found


def plus(a: Coefficients, number: float) -> Coefficients:
    """a + number."""
    return [a[0] + number, *a[1:]]


def scaled(a: Coefficients, number: float) -> Coefficients:
    """a times a number."""
    return [c * number for c in a]


def square_root(a: Coefficients, root: Any) -> Coefficients:
    """The square root of a series, given that of a[0]."""
    found = [root]
    for k in range(1, len(a)):
        rest = a[k]
        for j in range(1, k):
            rest = rest - found[j] * found[k - j]
        found.append(rest / (2 * root))
    return found


def power(a: Coefficients, exponent: Any, first: Any) -> Coefficients:
    """a to a constant power, given that of a[0], which must not be zero."""
    found = [first]
    for k in range(1, len(a)):
        terms = [(exponent * j - (k - j)) * a[j] * found[k - j] for j in range(1, k + 1)]
        found.append(total(terms) / (k * a[0]))
    return found


def integer_power(a: Coefficients, exponent: int) -> Coefficients:
    """a to an integer power, by squaring."""
    if exponent < 0:
        one = [jnp.ones_like(a[0]), *[jnp.zeros_like(c) for c in a[1:]]]
        return quotient(one, integer_power(a, -exponent))
    if exponent == 0:
        return [jnp.ones_like(a[0]), *[jnp.zeros_like(c) for c in a[1:]]]
    half = a if exponent == 1 else integer_power(a, exponent // 2)
    if exponent == 1:
        return half
    squared = product(half, half)
    return product(squared, a) if exponent % 2 else squared


def exponential(a: Coefficients, first: Any) -> Coefficients:
    """exp(a), given that of a[0]."""
    return along(a, [first], lambda y: y)


def slope(a: Coefficients) -> Coefficients:
    """The derivative with respect to t."""
    return [a[k] * k for k in range(1, len(a))]


def integral(first: Any, slopes: Coefficients) -> Coefficients:
    """What is `first` at t = 0 and has this derivative with respect to t."""
    return [first, *[s / (k + 1) for k, s in enumerate(slopes)]]


def composed(first: Any, a: Coefficients, derivative: Coefficients) -> Coefficients:
    """f(a), given f(a[0]) and the series f'(a)."""
    return integral(first, product(slope(a), derivative[: len(a) - 1]))


def along(
    a: Coefficients, start: Coefficients, derivative: Callable[[Coefficients], Coefficients]
) -> Coefficients:
    """y = f(a) where f'(a) is a function of y: the coefficients follow one from another."""
    found = list(start)
    moves = slope(a)
    for k in range(len(found), len(a)):
        slopes = derivative(found)
        found.append(total([moves[j] * slopes[k - 1 - j] for j in range(k)]) / k)
    return found


def factorials(count: int) -> list[float]:
    """0!, 1!, ..."""
    return [float(f) for f in np.cumprod([1.0, *range(1, count)])] if count else []
