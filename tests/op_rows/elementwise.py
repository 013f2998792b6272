"""Rows of the arithmetic operations, extremes, parts and roundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.op_row import COMPLEX, FLOATS, INTEGERS, NUMERIC, SIGNED, Arrays, OpRow
from tests.op_rows._elementwise_args import (
    FEW_ULP,
    ROUNDED_ONCE,
    Args,
    binary,
    broadcasts,
    by_element,
    over_pairs,
    unary,
    widely,
)
from xpr.primitives import elementwise as e

_FLOAT_PARTS = ("float32", "float64")


def _wrapped(dtype: np.dtype[Any], value: int) -> Any:
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return dtype.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)


def _of_integers(function: Callable[..., int]) -> Callable[..., Any]:
    """An oracle on Python integers, cut to the bits of the type."""
    return by_element(lambda dtype, *numbers: _wrapped(dtype, function(*numbers)))


def _quotient(x: int, y: int) -> int:
    return int(Fraction(x, y)) if y else -1


def _remainder(x: int, y: int) -> int:
    return x - y * int(Fraction(x, y)) if y else x


def _half_away(_: np.dtype[Any], x: float) -> float:
    if not math.isfinite(x):
        return x
    return math.copysign(math.floor(Fraction(abs(x)) + Fraction(1, 2)), x)


def _half_even(_: np.dtype[Any], x: float) -> float:
    return math.copysign(round(Fraction(abs(x))), x) if math.isfinite(x) else x


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


def _arithmetic(name: str, on_floats: Any, on_integers: Callable[[int, int], int]) -> list[OpRow]:
    function = getattr(e, name)
    return [
        _row(name, function, binary(), FLOATS, widely(on_floats), ROUNDED_ONCE),
        _row(name, function, binary(), COMPLEX, case="complex", signed_zero=False),
        OpRow(
            name,
            function,
            binary(-100, 100),
            INTEGERS,
            case="integer",
            oracle=_of_integers(on_integers),
            exact=True,
        ),
        OpRow(name, over_pairs(function), broadcasts, ("int32", "float32"), case="broadcast"),
    ]


def _divisors(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Remainders of quotients of every size."""
    first, second = binary()(rng, dtype)
    largest = 15 if dtype == np.float16 else 100
    sizes = np.ldexp(rng.uniform(1, 2, (2, 200)), rng.integers(-largest, largest, (2, 200)))
    return np.concatenate([first, sizes[0].astype(dtype)]), np.concatenate(
        [second, sizes[1].astype(dtype)]
    )


def _normal_remainder(x: Any, y: Any) -> Any:
    return np.fmod(x, y)


ROWS: list[OpRow] = [
    *_arithmetic("add", np.add, lambda x, y: x + y),
    _row("add_any", e.add_any_p.bind, binary(), FLOATS, widely(np.add), ROUNDED_ONCE),
    _row("add_any", e.add_any_p.bind, binary(), COMPLEX, case="complex", signed_zero=False),
    *_arithmetic("sub", np.subtract, lambda x, y: x - y),
    *_arithmetic("mul", np.multiply, lambda x, y: x * y),
    *_arithmetic("div", np.divide, _quotient),
    _row("rem", e.rem, _divisors, FLOATS, _normal_remainder, ROUNDED_ONCE),
    OpRow(
        "rem",
        e.rem,
        binary(-100, 100),
        INTEGERS,
        case="integer",
        oracle=_of_integers(_remainder),
        exact=True,
    ),
    *(
        OpRow(
            name,
            getattr(e, name),
            binary(),
            (*NUMERIC, "bool"),
            oracle=oracle,
            exact=True,
            signed_zero=False,
        )
        for name, oracle in (("max", np.maximum), ("min", np.minimum))
    ),
    OpRow("max", over_pairs(e.max), broadcasts, NUMERIC, case="broadcast", exact=True),
    OpRow("neg", e.neg, unary(), NUMERIC, oracle=lambda x: 0 - x if x.dtype.kind in "iu" else -x),
    OpRow(
        "sign",
        e.sign,
        unary(),
        (*INTEGERS, *FLOATS),
        oracle=by_element(lambda _, x: x if x != x or x == 0 else math.copysign(1, x)),
        exact=True,
    ),
    _row("sign", e.sign, unary(), COMPLEX, case="complex"),
    OpRow("abs", e.abs, unary(), (*SIGNED, *FLOATS), oracle=lambda x: np.where(x < 0, -x, x) + 0),
    _row("abs", e.abs, unary((-1e14, 1e14)), COMPLEX, widely(np.abs), case="complex"),
    *(
        OpRow(name, getattr(e, name), unary(), COMPLEX, oracle=oracle, exact=True)
        for name, oracle in (("real", lambda z: z.real), ("imag", lambda z: z.imag))
    ),
    OpRow("conj", e.conj, unary(), (*_FLOAT_PARTS, *COMPLEX), oracle=lambda z: z - 2j * z.imag),
    OpRow("complex", e.complex, binary(), _FLOAT_PARTS, exact=True),
    OpRow(
        "floor",
        e.floor,
        unary(),
        FLOATS,
        oracle=by_element(lambda _, x: math.floor(x) if abs(x) < 1e4 and x else x),
        signed_zero=True,
        exact=True,
    ),
    OpRow("ceil", e.ceil, unary(), FLOATS, oracle=widely(np.ceil), exact=True),
    OpRow("round", e.round, unary(), FLOATS, oracle=by_element(_half_away), exact=True),
    OpRow(
        "round",
        lambda x: e.round(x, e.RoundingMethod.TO_NEAREST_EVEN),
        unary(),
        FLOATS,
        case="even",
        oracle=by_element(_half_even),
        exact=True,
    ),
    OpRow(
        "nextafter",
        e.nextafter,
        binary(),
        ("float16", *_FLOAT_PARTS),
        oracle=lambda x, y: np.where(x == y, y, np.nextafter(x, y)),
        exact=True,
    ),
    OpRow("nextafter", e.nextafter, binary(), ("bfloat16",), case="bfloat16", exact=True),
]
