"""Operations that are linear, linear in each of two operands, or piecewise so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr.core.jaxpr import JaxprEqn, bind_equation
from xpr.core.trace import get_aval
from xpr.experimental.jet import _series as ps
from xpr.experimental.jet._series import Series

Rule = Callable[..., Any]

LINEAR = (
    "add", "sub", "add_any", "neg", "real", "imag", "conj", "complex", "convert_element_type",
    "reduce_precision", "copy", "device_put", "optimization_barrier", "concatenate", "stack",
    "unstack", "split", "tile", "broadcast_in_dim", "reshape", "transpose", "squeeze", "rev", "pad",
    "select_n", "scatter-add", "scatter-sub", "slice", "dynamic_slice", "dynamic_update_slice",
    "scatter", "gather", "reduce_sum", "cumsum", "fft", "reduce_window_sum", "psum", "pvary",
    "all_gather", "all_to_all", "ppermute", "reduce_scatter", "sharding_constraint", "reshard",
    "mesh_cast", "name", "place", "select_and_scatter_add",
)  # fmt: skip
BILINEAR = ("mul", "dot_general", "conv_general_dilated")
CONSTANT = ("floor", "ceil", "round", "sign", "stop_gradient", "nextafter")


def _results(eqn: JaxprEqn, columns: list[list[Any]]) -> list[Any]:
    """The series of each result from the results for each coefficient."""
    found = [Series(row) for row in zip(*columns, strict=True)]
    return [s if ps.is_inexact(s) else s.primal for s in found]


def _linear(eqn: JaxprEqn, *operands: Any) -> list[Any]:
    order = next(x.order for x in operands if isinstance(x, Series))
    columns = [list(bind_equation(eqn, [ps.primal(x) for x in operands]))]
    others = [
        x if isinstance(x, Series) or not ps.is_inexact(x) else ps.zeros_like(x) for x in operands
    ]
    for k in range(1, order + 1):
        row = [x.coefficients[k] if isinstance(x, Series) else x for x in others]
        columns.append(list(bind_equation(eqn, row)))
    return _results(eqn, columns)


def _bilinear(eqn: JaxprEqn, x: Any, y: Any) -> list[Series]:
    def multiply(a: Any, b: Any) -> Any:
        return bind_equation(eqn, [a, b])[0]

    if not isinstance(y, Series):
        return [Series([multiply(a, y) for a in x.coefficients])]
    if not isinstance(x, Series):
        return [Series([multiply(x, b) for b in y.coefficients])]
    return [Series(ps.convolved(multiply, x.coefficients, y.coefficients))]


def _div(eqn: JaxprEqn, x: Any, y: Any) -> list[Series]:
    if not isinstance(y, Series):
        return [Series([bind_equation(eqn, [a, y])[0] for a in x.coefficients])]
    a, b = ps.coefficients(x, y.order), y.coefficients
    found = ps.quotient(a, b)
    return [Series([bind_equation(eqn, [a[0], b[0]])[0], *found[1:]])]


def _constant(eqn: JaxprEqn, *operands: Any) -> list[Any]:
    return list(bind_equation(eqn, [ps.primal(x) for x in operands]))


def _abs(eqn: JaxprEqn, x: Series) -> list[Series]:
    dtype = get_aval(x.primal).dtype
    if np.issubdtype(dtype, np.complexfloating):
        real, imaginary = ([f(c) for c in x.coefficients] for f in (jnp.real, jnp.imag))
        squares = zip(ps.product(real, real), ps.product(imaginary, imaginary), strict=True)
        size = bind_equation(eqn, [x.primal])[0]
        return [Series(ps.square_root([p + q for p, q in squares], size))]
    sign = jnp.sign(x.primal)
    return [Series([bind_equation(eqn, [x.primal])[0], *(sign * c for c in x.coefficients[1:])])]


def _extremum(eqn: JaxprEqn, x: Any, y: Any) -> list[Series]:
    """Of the larger or smaller operand; where both are equal, the mean of both."""
    order = (x if isinstance(x, Series) else y).order
    a, b = ps.coefficients(x, order), ps.coefficients(y, order)
    found = bind_equation(eqn, [a[0], b[0]])[0]
    first = (a[0] > b[0]) if eqn.primitive.name == "max" else (a[0] < b[0])
    even = a[0] == b[0]
    rest = [
        jnp.where(even, (p + q) / 2, jnp.where(first, p, q))
        for p, q in zip(a[1:], b[1:], strict=True)
    ]
    return [Series([found, *rest])]


RULES: dict[str, Rule] = {
    **dict.fromkeys(LINEAR, _linear),
    **dict.fromkeys(BILINEAR, _bilinear),
    **dict.fromkeys(CONSTANT, _constant),
    "div": _div,
    "abs": _abs,
    "max": _extremum,
    "min": _extremum,
}
