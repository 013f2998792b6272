"""Programs on series: equations one by one, and those that hold programs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xpr.numpy as jnp
from xpr import lax
from xpr.core.jaxpr import ClosedJaxpr, JaxprEqn, bind_equation, eval_jaxpr
from xpr.experimental.jet import _series as ps
from xpr.experimental.jet import elementary, linear
from xpr.experimental.jet._series import Series
from xpr.transforms.derivatives import jvp

Rule = Callable[..., Any]


def evaluate(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    """A program on operands some of which are series."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *operands, bind=_bind)


def _bind(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    if not any(isinstance(x, Series) for x in operands):
        return bind_equation(eqn, operands)
    rule = _RULES.get(eqn.primitive.name)
    if rule is not None:
        return rule(eqn, *operands)
    return _by_derivatives(eqn, operands)


def _by_derivatives(eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    """By derivatives of derivatives along the curve: for what has no rule of its own.

    The work doubles with each order.
    """
    first = next(x for x in operands if isinstance(x, Series))
    values = list(bind_equation(eqn, [ps.primal(x) for x in operands]))
    smooth = [i for i, v in enumerate(values) if ps.is_inexact(v)]
    if not smooth:
        return values
    start = jnp.zeros((), jnp.real(first.primal).dtype)

    def at(t: Any) -> list[Any]:
        points = []
        for x in operands:
            if isinstance(x, Series):
                point = x.coefficients[-1]
                for c in reversed(x.coefficients[:-1]):
                    point = point * t.astype(point.dtype) + c
                points.append(point)
            else:
                points.append(x)
        found = bind_equation(eqn, points)
        return [found[i] for i in smooth]

    def derivative_of(f: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
        return lambda t: jvp(f, (t,), (jnp.ones_like(t),))[1]

    columns, function = [[values[i] for i in smooth]], at
    scales = ps.factorials(first.order + 1)
    for k in range(1, first.order + 1):
        function = derivative_of(function)
        columns.append([d / scales[k] for d in function(start)])
    for i, row in zip(smooth, zip(*columns, strict=True), strict=True):
        values[i] = Series(row)
    return values


def _inlined(eqn: JaxprEqn, *operands: Any) -> list[Any]:
    """Of a call: the program itself, whatever derivative the user gave it."""
    closed = eqn.params["jaxpr"] if "jaxpr" in eqn.params else eqn.params["call_jaxpr"]
    return evaluate(closed, operands)


def _order(operands: Sequence[Any]) -> int:
    return next(x.order for x in operands if isinstance(x, Series))


def _cond(eqn: JaxprEqn, index: Any, *operands: Any) -> list[Any]:
    order = _order(operands)
    full = [ps.as_series(x, order) for x in operands]

    def branch(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
        return lambda *xs: [ps.as_series(y, order) for y in evaluate(closed, xs)]

    return lax.switch(index, [branch(b) for b in eqn.params["branches"]], *full)


def _scan(eqn: JaxprEqn, *operands: Any) -> list[Any]:
    params = eqn.params
    order = _order(operands)
    n, m = params["num_consts"], params["num_consts"] + params["num_carry"]
    consts, xs = operands[:n], operands[m:]
    init = [ps.as_series(x, order) for x in operands[n:m]]

    def body(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        found = evaluate(params["jaxpr"], [*consts, *carry, *x])
        found = [ps.as_series(y, order) for y in found]
        return found[: m - n], found[m - n :]

    carry, ys = lax.scan(
        body, init, list(xs), params["length"], params["reverse"], params["unroll"]
    )
    return [*carry, *ys]


def _while(eqn: JaxprEqn, *operands: Any) -> list[Any]:
    params = eqn.params
    order = _order(operands)
    n = params["cond_nconsts"]
    m = n + params["body_nconsts"]
    consts = [ps.primal(x) for x in operands[:n]]

    def goes_on(carry: list[Any]) -> Any:
        return evaluate(params["cond_jaxpr"], [*consts, *map(ps.primal, carry)])[0]

    def body(carry: list[Any]) -> list[Any]:
        found = evaluate(params["body_jaxpr"], [*operands[n:m], *carry])
        return [ps.as_series(y, order) for y in found]

    init = [ps.as_series(x, order) for x in operands[m:]]
    return lax.while_loop(goes_on, body, init)


_RULES: dict[str, Rule] = {
    **elementary.RULES,
    **linear.RULES,
    "jit": _inlined,
    "remat2": _inlined,
    "custom_jvp_call": _inlined,
    "custom_vjp_call": _inlined,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
