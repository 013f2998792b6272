"""Elementary functions of series: from the differential equations that they solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import xpr.numpy as jnp
from xpr import lax
from xpr.core.jaxpr import JaxprEqn
from xpr.experimental.jet import _series as ps
from xpr.experimental.jet._series import Coefficients, Series

Rule = Callable[..., Any]


def value(eqn: JaxprEqn, *operands: Any) -> Any:
    """The primitive on values at t = 0."""
    return eqn.primitive.bind(*operands, **eqn.params)


def _explicit(derivative: Callable[[Coefficients], Coefficients]) -> Rule:
    """Of a function of one operand whose derivative is a function of that operand."""

    def rule(eqn: JaxprEqn, x: Series) -> list[Series]:
        a = x.coefficients
        return [Series(ps.composed(value(eqn, a[0]), a, derivative(a)))]

    return rule


def _implicit(derivative: Callable[[Coefficients], Coefficients]) -> Rule:
    """Of a function of one operand whose derivative is a function of its value."""

    def rule(eqn: JaxprEqn, x: Series) -> list[Series]:
        a = x.coefficients
        return [Series(ps.along(a, [value(eqn, a[0])], derivative))]

    return rule


def _inverse(a: Coefficients) -> Coefficients:
    return ps.integer_power(a, -1)


def _root(a: Coefficients) -> Coefficients:
    return ps.square_root(a, lax.sqrt(a[0]))


def _inverse_root(a: Coefficients) -> Coefficients:
    return _inverse(_root(a))


def _square(a: Coefficients) -> Coefficients:
    return ps.product(a, a)


def _one_minus(a: Coefficients) -> Coefficients:
    return ps.plus(ps.scaled(a, -1.0), 1.0)


def _gauss(factor: float, sign: float) -> Callable[[Coefficients], Coefficients]:
    """factor exp(sign a^2)."""

    def function(a: Coefficients) -> Coefficients:
        exponent = ps.scaled(_square(a), sign)
        return ps.scaled(ps.exponential(exponent, lax.exp(exponent[0])), factor)

    return function


def _pair(
    first: Callable[[Any], Any], second: Callable[[Any], Any], sign: float, which: int
) -> Rule:
    """Of s and c with s' = c and c' = sign s."""

    def rule(eqn: JaxprEqn, x: Series) -> list[Series]:
        del eqn
        a = x.coefficients
        s, c = [first(a[0])], [second(a[0])]
        moves = ps.slope(a)
        for k in range(1, len(a)):
            up = ps.total([moves[j] * c[k - 1 - j] for j in range(k)]) / k
            across = ps.total([moves[j] * s[k - 1 - j] for j in range(k)]) * (sign / k)
            s.append(up)
            c.append(across)
        return [Series((s, c)[which])]

    return rule


def _atan2(eqn: JaxprEqn, y: Any, x: Any) -> list[Series]:
    order = (y if isinstance(y, Series) else x).order
    a, b = ps.coefficients(y, order), ps.coefficients(x, order)
    turning = [
        p - q for p, q in zip(ps.product(ps.slope(a), b), ps.product(a, ps.slope(b)), strict=True)
    ]
    size = [p + q for p, q in zip(_square(a), _square(b), strict=True)]
    return [Series(ps.integral(value(eqn, a[0], b[0]), ps.quotient(turning, size)))]


def _sqrt(eqn: JaxprEqn, x: Series) -> list[Series]:
    return [Series(ps.square_root(x.coefficients, value(eqn, x.primal)))]


def _constant_power(exponent: float) -> Rule:
    def rule(eqn: JaxprEqn, x: Series) -> list[Series]:
        return [Series(ps.power(x.coefficients, exponent, value(eqn, x.primal)))]

    return rule


def _integer_pow(eqn: JaxprEqn, x: Series) -> list[Series]:
    return [Series(ps.integer_power(x.coefficients, eqn.params["y"]))]


def _pow(eqn: JaxprEqn, x: Any, y: Any) -> list[Series]:
    if isinstance(x, Series) and not isinstance(y, Series):
        if not ps.is_inexact(y):
            y = y.astype(jnp.result_type(x.primal))
        return [Series(ps.power(x.coefficients, y, lax.pow(x.primal, y)))]
    order = y.order
    a = ps.coefficients(x, order)
    logarithm = ps.composed(lax.log(a[0]), a, _inverse(a))
    exponent = ps.product(logarithm, ps.coefficients(y, order))
    return [Series(ps.exponential(exponent, value(eqn, a[0], ps.primal(y))))]


_TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)

RULES: dict[str, Rule] = {
    "exp": _implicit(lambda y: y),
    "exp2": _implicit(lambda y: ps.scaled(y, math.log(2))),
    "expm1": _implicit(lambda y: ps.plus(y, 1.0)),
    "log": _explicit(_inverse),
    "log1p": _explicit(lambda a: _inverse(ps.plus(a, 1.0))),
    "logistic": _implicit(lambda y: ps.product(y, _one_minus(y))),
    "sin": _pair(lax.sin, lax.cos, -1.0, 0),
    "cos": _pair(lax.sin, lax.cos, -1.0, 1),
    "sinh": _pair(lax.sinh, lax.cosh, 1.0, 0),
    "cosh": _pair(lax.sinh, lax.cosh, 1.0, 1),
    "tan": _implicit(lambda y: ps.plus(_square(y), 1.0)),
    "tanh": _implicit(lambda y: _one_minus(_square(y))),
    "asin": _explicit(lambda a: _inverse_root(_one_minus(_square(a)))),
    "acos": _explicit(lambda a: ps.scaled(_inverse_root(_one_minus(_square(a))), -1.0)),
    "atan": _explicit(lambda a: _inverse(ps.plus(_square(a), 1.0))),
    "asinh": _explicit(lambda a: _inverse_root(ps.plus(_square(a), 1.0))),
    "acosh": _explicit(
        lambda a: ps.product(_inverse_root(ps.plus(a, -1.0)), _inverse_root(ps.plus(a, 1.0)))
    ),
    "atanh": _explicit(lambda a: _inverse(_one_minus(_square(a)))),
    "erf": _explicit(_gauss(_TWO_BY_ROOT_PI, -1.0)),
    "erfc": _explicit(_gauss(-_TWO_BY_ROOT_PI, -1.0)),
    "erf_inv": _implicit(_gauss(1 / _TWO_BY_ROOT_PI, 1.0)),
    "atan2": _atan2,
    "square": lambda eqn, x: [Series(_square(x.coefficients))],
    "sqrt": _sqrt,
    "rsqrt": _constant_power(-0.5),
    "cbrt": _constant_power(1 / 3),
    "integer_pow": _integer_pow,
    "pow": _pow,
}
