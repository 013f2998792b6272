"""Rows of the special functions; tests/primitives/test_special_values.py compares with mpmath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import FLOATS, Arrays, OpRow, all_pairs
from tests.op_rows._elementwise_args import (
    Args,
    broadcasts,
    normal_values,
    of_shapes,
    over_pairs,
    over_shapes,
    unary,
)
from xpr.primitives import special as s

# Some ulp of compiled and reference results together; more where the functions are built of others.
_TOLERANCE = {
    "float64": (4e-15, 2.3e-308),
    "float32": (2e-6, 1.2e-38),
    "float16": (1e-3, 6e-8),
    "bfloat16": (8e-3, 1.2e-38),
}
# Near the zeros at negative numbers only the absolute error is small.
_AROUND_ZEROS = {k: (v[0], max(v[1], v[0])) for k, v in _TOLERANCE.items()}
_LOOPS = {
    "float64": (2e-13, 1e-290),
    "float32": (6e-5, 1e-35),
    "float16": (2e-3, 6e-8),
    "bfloat16": (1.6e-2, 1e-35),
}


def _pairs(first: Sequence[float], second: Sequence[float], *ranges: Any) -> Args:
    """Pairs of two lists of values, then random ones of ranges (low, high) for both operands."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        a, b = (v.ravel() for v in np.meshgrid(np.array(first), np.array(second)))
        random = [(rng.uniform(*r, 60), rng.uniform(*q, 60)) for r, q in ranges]
        columns = zip((a, b), *random, strict=True)
        return tuple(np.concatenate(c).astype(dtype) for c in columns)

    return args


_LAST_ONLY = "not every operand has a second derivative; a row of the last one checks that"
_INF, _NAN = float("inf"), float("nan")
_SHAPE_VALUES = (0.0, -1.0, 0.5, 1.0, 2.5, 20.5, _INF, -_INF, _NAN)


def _whole_orders(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    orders = np.concatenate([rng.integers(0, 5, 80), [1.5, -1.0, _NAN, 0.0, 1.0, 2.0]])
    x = np.concatenate([rng.uniform(0.5, 9.0, 80), [1.0, 1.0, 1.0, _NAN, -1.0, 0.25]])
    return orders.astype(dtype), x.astype(dtype)


def _beta_operands(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    special = np.array([0.0, -1.0, 0.5, 1.0, 20.0, _INF, _NAN])
    a, b = all_pairs(special)
    x = np.resize(np.array([0.0, 0.25, 1.0, -1.0, 2.0, _NAN, 0.5, 0.75]), a.shape)
    more = [rng.uniform(0.1, 12.0, 80), rng.uniform(0.1, 12.0, 80), rng.uniform(0.02, 0.98, 80)]
    columns = zip((a, b, x), more, strict=True)
    return tuple(np.concatenate(c).astype(dtype) for c in columns)


def _one(name: str, *ranges: tuple[float, float], tolerance: Any = None) -> OpRow:
    function: Callable[..., Any] = getattr(s, name)
    return OpRow(name, function, unary(*ranges), FLOATS, tolerance=tolerance or _TOLERANCE)


def _two(name: str, args: Args, tolerance: Any) -> OpRow:
    return OpRow(
        name,
        getattr(s, name),
        args,
        FLOATS,
        tolerance=tolerance,
        signed_zero=False,
        no_derivative_check=_LAST_ONLY,
    )


def _in_last(name: str, case: str, *first: float, domain: tuple[float, float]) -> OpRow:
    """The function of its last operand, in which it has derivatives of every order.

    The row of all operands compiles the same code in every dtype.
    """
    function = getattr(s, name)
    return OpRow(
        "regularized_incomplete_beta" if name == "betainc" else name,
        lambda x: function(*(np.asarray(v, x.dtype) for v in first), x),
        lambda rng, dtype: (rng.uniform(*domain, (40,)).astype(dtype),),
        FLOATS,
        case=case,
        tolerance=_LOOPS,
        domain=domain,
        compiled_in=("float32",),
    )


def _zeta_args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    values = normal_values(np.dtype(np.float32))
    few = values[np.abs(values.astype(np.float64)) < 20]
    a, b = all_pairs(np.concatenate([few, [_INF, _NAN]]))
    random = (rng.uniform(1.1, 9.0, 80), rng.uniform(0.3, 9.0, 80))
    columns = zip((a, b), random, strict=True)
    return tuple(np.concatenate(c).astype(dtype) for c in columns)


_GAMMA_ARGS = _pairs(
    _SHAPE_VALUES, _SHAPE_VALUES, ((0.1, 3.0), (0.05, 6.0)), ((3.0, 40.0), (2.0, 60.0))
)
_POSITIVE = _pairs((0.5, 1.0, 7.0), (0.0, 0.5, 3.0), ((0.2, 3.0), (0.1, 6.0)), ((3, 30), (3, 30)))

ROWS: list[OpRow] = [
    _one("erf", (-6.0, 6.0), (-1e-2, 1e-2)),
    _one("erfc", (-6.0, 9.0), (-1e-2, 1e-2), tolerance=_TOLERANCE | {"float64": (2e-14, 2.3e-308)}),
    _one("erf_inv", (-1.0, 1.0), (-1e-2, 1e-2), (0.99, 1.0)),
    _one("lgamma", (0.0, 4.0), (4.0, 100.0), (-6.0, 0.0), tolerance=_AROUND_ZEROS),
    _one("digamma", (0.0, 4.0), (4.0, 100.0), (-6.0, 0.0), tolerance=_AROUND_ZEROS),
    _one("bessel_i0e", (-30.0, 30.0)),
    _one("bessel_i1e", (-30.0, 30.0)),
    _two("zeta", _zeta_args, _TOLERANCE | {"float64": (1e-14, 2.3e-308)}),
    _two("polygamma", _whole_orders, _TOLERANCE | {"float64": (1e-14, 2.3e-308)}),
    _two("igamma", _GAMMA_ARGS, _LOOPS),
    _two("igammac", _GAMMA_ARGS, _LOOPS),
    _two("igamma_grad_a", _GAMMA_ARGS, _LOOPS),
    _two("random_gamma_grad", _POSITIVE, _LOOPS),
    OpRow(
        "regularized_incomplete_beta",
        s.betainc,
        _beta_operands,
        FLOATS,
        tolerance=_LOOPS,
        signed_zero=False,
        no_derivative_check=_LAST_ONLY,
    ),
    _in_last("zeta", "offset", 2.5, domain=(0.5, 3.0)),
    _in_last("polygamma", "value", 1.0, domain=(0.5, 3.0)),
    _in_last("igamma", "value", 1.7, domain=(0.5, 3.0)),
    _in_last("igammac", "value", 1.7, domain=(0.5, 3.0)),
    _in_last("igamma_grad_a", "value", 1.7, domain=(0.5, 3.0)),
    _in_last("random_gamma_grad", "sample", 1.7, domain=(0.5, 3.0)),
    _in_last("betainc", "value", 1.7, 2.3, domain=(0.2, 0.8)),
    OpRow("erf", over_shapes(s.erf), of_shapes, FLOATS, case="shapes", tolerance=_TOLERANCE),
    OpRow(
        "lgamma", over_shapes(s.lgamma), of_shapes, FLOATS, case="shapes", tolerance=_AROUND_ZEROS
    ),
    OpRow(
        "igamma", over_pairs(s.igamma), broadcasts, ("float32",), case="broadcast", tolerance=_LOOPS
    ),
    OpRow(
        "zeta",
        over_pairs(s.zeta),
        broadcasts,
        ("float32",),
        case="broadcast",
        tolerance=_TOLERANCE,
        signed_zero=False,
    ),
]
