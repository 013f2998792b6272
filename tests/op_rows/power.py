"""Rows of the powers and roots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import COMPLEX, FLOATS, INEXACT, INTEGERS, Arrays, OpRow
from tests.op_rows._elementwise_args import (
    FEW_ULP,
    ROUNDED_ONCE,
    Args,
    broadcasts,
    by_element,
    normal_values,
    of_shapes,
    over_pairs,
    over_shapes,
    unary,
    widely,
)
from xpr.primitives import power as e


def _wrapped(dtype: np.dtype[Any], value: int) -> Any:
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return dtype.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)


def _of_integers(function: Callable[..., int]) -> Callable[..., Any]:
    """An oracle on Python integers, cut to the bits of the type."""
    return by_element(lambda dtype, *numbers: _wrapped(dtype, function(*numbers)))


def _row(
    name: str,
    function: Callable[..., Any],
    args: Args,
    dtypes: Sequence[str],
    oracle: Callable[..., Any] | None = None,
    tolerance: dict[str, tuple[float, float]] = FEW_ULP,
    case: str = "",
    **options: Any,
) -> OpRow:
    return OpRow(
        name, function, args, dtypes, case=case, oracle=oracle, tolerance=tolerance, **options
    )


def _powers(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    base = np.concatenate([normal_values(dtype), rng.uniform(0.1, 8.0, 100).astype(dtype)])
    exponent = np.concatenate([normal_values(dtype), rng.uniform(-9.0, 9.0, 100).astype(dtype)])
    first, second = np.meshgrid(base[: base.size - 100], exponent[: exponent.size - 100])
    return (
        np.concatenate([first.ravel(), base[-100:]]),
        np.concatenate([second.ravel(), exponent[-100:]]),
    )


def _integer_exponents(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    (base,) = unary()(rng, dtype)
    return base, rng.integers(-6, 7, base.shape).astype(np.int32)


def _plain_complex(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    parts = rng.uniform(0.2, 2.0, (4, 100))
    return (parts[0] + 1j * parts[1]).astype(dtype), (parts[2] - 1j * parts[3]).astype(dtype)


def _integer_power(y: int) -> Callable[[Any], Any]:
    return lambda x: e.integer_pow(x, y)


# The rounding of w log(z) is magnified by the exponential.
_COMPLEX_POWER = {"complex64": (1e-5, 4e-6), "complex128": (2e-14, 1e-14)}


ROWS: list[OpRow] = [
    _row("square", e.square, unary(), FLOATS, widely(np.square), ROUNDED_ONCE),
    OpRow(
        "square", e.square, unary(), INTEGERS, case="integer", oracle=_of_integers(lambda x: x * x)
    ),
    _row(
        "square", e.square, unary(), COMPLEX, widely(np.square), case="complex", signed_zero=False
    ),
    _row("sqrt", e.sqrt, unary((0, 9), (0, 6e4)), FLOATS, widely(np.sqrt)),
    _row("sqrt", e.sqrt, unary(), COMPLEX, widely(np.sqrt), case="complex"),
    _row("rsqrt", e.rsqrt, unary((0, 9)), FLOATS, widely(lambda x: 1 / np.sqrt(x))),
    _row("rsqrt", e.rsqrt, unary(), COMPLEX, case="complex", signed_zero=False),
    _row("cbrt", e.cbrt, unary((-9, 9), (-6e4, 6e4)), FLOATS, widely(np.cbrt)),
    *(
        _row("integer_pow", _integer_power(y), unary(), FLOATS, case=str(y), signed_zero=False)
        for y in (0, 1, 2, 3, 7, 16, 17, 60, -1, -2, -3, -20)
    ),
    *(
        _row(
            "integer_pow",
            _integer_power(y),
            unary((-2, 2)),
            COMPLEX,
            case=f"complex-{y}",
            signed_zero=False,
        )
        for y in (0, 1, 2, 5, -1, -3)
    ),
    *(
        OpRow(
            "integer_pow",
            _integer_power(y),
            unary(),
            INTEGERS,
            case=f"integer-{y}",
            oracle=_of_integers(lambda x, y=y: x**y),
            exact=True,
        )
        for y in (0, 1, 2, 3, 9)
    ),
    _row("pow", e.pow, _powers, FLOATS, widely(np.power)),
    _row("pow", e.pow, _integer_exponents, FLOATS, case="integer", signed_zero=False),
    _row("pow", e.pow, _plain_complex, COMPLEX, widely(np.power), _COMPLEX_POWER, case="complex"),
    _row("cbrt", over_shapes(e.cbrt), of_shapes, ("float32",), case="shapes"),
    _row("sqrt", over_shapes(e.sqrt), of_shapes, INEXACT, case="shapes"),
    _row("pow", over_pairs(e.pow), broadcasts, INEXACT, None, _COMPLEX_POWER, case="broadcast"),
]
