"""Rows of the comparisons, selections and clamps: exact."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import ALL, BOOL, COMPLEX, FLOATS, INTEGERS, Arrays, OpRow, random_values
from tests.op_rows._elementwise_args import (
    Args,
    binary,
    broadcasts,
    by_element,
    normal_values,
    of_shapes,
    over_pairs,
    over_shapes,
    unary,
)
from xpr.primitives import compare as c

_REAL = (*BOOL, *INTEGERS, *FLOATS)
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")


def _python(function: Callable[..., Any]) -> Callable[..., Any]:
    return by_element(lambda _, x, y: function(x, y))


def _every_byte(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    values = np.arange(256, dtype=np.uint8)
    return values.view(dtype), rng.permutation(values).view(dtype)


def _comparison(name: str, function: Any, oracle: Any, dtypes: Sequence[str]) -> OpRow:
    return OpRow(name, function, binary(), dtypes, oracle=_python(oracle), exact=True)


def _total(function: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    """An oracle for comparisons in total order, from the sign and the size of both numbers."""

    def key(x: Any) -> tuple[float, float]:
        if isinstance(x, int):
            return (x, 0.0)
        sign = math.copysign(1.0, x)
        size = math.inf if math.isnan(x) else abs(x)
        return (sign * size, sign * (2.0 if math.isnan(x) else 1.0))

    return _python(lambda x, y: function(key(x), key(y)))


def _cases(count: int, which: str) -> Args:
    """A selector and `count` cases."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        cases = [rng.permutation(normal_values(dtype)) for _ in range(count)]
        shape = cases[0].shape
        selector = (
            rng.integers(-2, count + 2, shape) if which != "bool" else rng.random(shape) > 0.5
        )
        return (selector.astype(which), *cases)

    return args


def _choose(which: np.ndarray[Any, Any], *cases: np.ndarray[Any, Any]) -> Any:
    chosen = np.clip(which.astype(np.int64), 0, len(cases) - 1)
    return np.array([cases[k][i] for i, k in enumerate(chosen)], cases[0].dtype)


def _scalar_selector(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    shape = (3, 2)
    return (np.array(True), random_values(rng, dtype, shape), random_values(rng, dtype, shape))


def _bounds(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    values = normal_values(dtype)
    return rng.permutation(values), values, rng.permutation(values)


def _scalar_bounds(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    low, high = np.sort(random_values(rng, dtype, (2,), -1.0, 2.0))
    return np.asarray(low), random_values(rng, dtype, (3, 2)), np.asarray(high)


def _clamped(low: Any, x: Any, high: Any) -> Any:
    """Python's own comparisons, one element at a time; NaN anywhere gives NaN."""

    def one(low: Any, x: Any, high: Any) -> Any:
        if any(v != v for v in (low, x, high)):
            return math.nan
        raised = low if low > x else x
        return high if high < raised else raised

    flat = [one(*v) for v in zip(low.tolist(), x.tolist(), high.tolist(), strict=True)]
    return np.array(flat).astype(x.dtype)


ROWS: list[OpRow] = [
    _comparison("eq", c.eq, operator.eq, ALL),
    _comparison("ne", c.ne, operator.ne, ALL),
    _comparison("lt", c.lt, operator.lt, _REAL),
    _comparison("le", c.le, operator.le, _REAL),
    _comparison("gt", c.gt, operator.gt, _REAL),
    _comparison("ge", c.ge, operator.ge, _REAL),
    *(
        OpRow(name, function, _every_byte, _FLOAT8, case="float8", exact=True)
        for name, function in (("eq", c.eq), ("lt", c.lt), ("ge", c.ge))
    ),
    *(
        OpRow(
            f"{name}_to",
            getattr(c, f"{name}_to_p").bind,
            binary(),
            (*INTEGERS, *FLOATS),
            oracle=_total(getattr(operator, name)),
            exact=True,
        )
        for name in ("eq", "lt", "le")
    ),
    OpRow(
        "is_finite",
        c.is_finite,
        unary(),
        FLOATS,
        oracle=by_element(lambda _, x: math.isfinite(x)),
        exact=True,
    ),
    *(
        OpRow(
            "select_n",
            c.select_n,
            _cases(count, which),
            ALL,
            case=f"{which}-{count}",
            oracle=_choose,
            exact=True,
        )
        for which, count in (("bool", 1), ("bool", 2), ("int32", 2), ("int32", 5), ("int8", 3))
    ),
    OpRow("select_n", c.select_n, _scalar_selector, ALL, case="scalar", exact=True),
    OpRow(
        "select_n",
        lambda w, x, y: c.select(w, x, y),
        _cases(2, "bool"),
        ALL,
        case="select",
        oracle=lambda w, x, y: _choose(~w, x, y),
        exact=True,
    ),
    OpRow(
        "clamp",
        c.clamp,
        _bounds,
        _REAL,
        oracle=_clamped,
        exact=True,
        signed_zero=False,
    ),
    OpRow("clamp", c.clamp, _bounds, COMPLEX, case="complex", exact=True),
    OpRow("clamp", c.clamp, _scalar_bounds, _REAL, case="scalars", exact=True, signed_zero=False),
    OpRow("eq", over_shapes(lambda x: c.eq(x, x)), of_shapes, ALL, case="shapes", exact=True),
    OpRow("le", over_pairs(c.le), broadcasts, _REAL, case="broadcast", exact=True),
]
