"""Rows of the conversions, bit patterns and reduced precisions: exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.op_row import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    Arrays,
    OpRow,
    np_dtype,
    random_values,
)
from tests.op_rows._elementwise_args import normal_values, of_shapes, over_shapes
from xpr.primitives import convert as v

_FLOAT8 = tuple(
    f"float8_{name}"
    for name in ("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)
_WIDE = ("float64", "complex128")
_STEPS = "differences of rounded numbers show the rounding; its derivative counts as 1"
_WIDTHS = {
    "int8": 1,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "float32": 4,
    "uint64": 8,
    "float64": 8,
}


def _values(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Special values and values around the limits of the integer types."""
    pieces = [normal_values(dtype), random_values(rng, dtype, (40,), -100.0, 100.0)]
    if dtype.kind not in "biu":
        powers = 2.0 ** np.array([7, 8, 15, 16, 31, 32, 63, 64])
        limits = np.concatenate([s * powers + e for s in (-1, 1) for e in (-1, 0, 1)])
        finite = limits[np.abs(limits) <= float(ml_dtypes.finfo(dtype).max)]
        pieces.append(finite.astype(dtype))
    return (np.concatenate(pieces),)


def _every_byte(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    return (np.arange(256, dtype=np.uint8).view(dtype),)


def _for_float8(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Numbers of every size that an 8-bit float has, halves between two of them included."""
    sizes = np.ldexp(rng.integers(64, 129, 2000) / 64.0, rng.integers(-24, 18, 2000))
    values = np.concatenate([sizes * rng.choice([-1.0, 1.0], 2000), [0.0, -0.0, np.inf, -np.inf]])
    with np.errstate(over="ignore"):
        return (np.concatenate([values, [np.nan]]).astype(dtype),)


def _converter(to: str) -> Callable[[Any], Any]:
    return lambda x: v.convert_type(x, np_dtype(to))


def _silent(to: str) -> Callable[[Any], Any]:
    """Complex numbers converted without the warning that they lose a part."""
    return lambda x: v.convert_element_type_p.bind(x, new_dtype=np_dtype(to), weak_type=False)


def _as_integers(to: str) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Python's truncation, bounded by the type's limits; integers lose their upper bits."""
    target = np.dtype(to)
    info = np.iinfo(target)

    def one(x: Any) -> int:
        if isinstance(x, (bool, int)):
            low = int(x) & ((1 << info.bits) - 1)
            return low - (1 << info.bits) if low > info.max else low
        number = x.real if isinstance(x, complex) else x
        if math.isnan(number):
            return 0
        if math.isinf(number):
            return int(info.max if number > 0 else info.min)
        return max(int(info.min), min(int(info.max), int(number)))

    def oracle(x: np.ndarray[Any, Any]) -> Any:
        wide = x.astype(np.float64) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
        return np.array([one(n) for n in wide.tolist()], target)

    return oracle


def _reduced(exponent_bits: int, mantissa_bits: int) -> Callable[[Any], Any]:
    return lambda x: v.reduce_precision(x, exponent_bits, mantissa_bits)


def _through(name: str) -> Callable[[np.ndarray[Any, Any]], Any]:
    """Rounded by storing as another type, whose denormals count as 0."""
    dtype = np_dtype(name)

    def oracle(x: np.ndarray[Any, Any]) -> Any:
        stored = x.astype(dtype)
        wide = stored.astype(np.float64)
        tiny = float(ml_dtypes.finfo(dtype).tiny)
        return np.where(np.abs(wide) < tiny, np.copysign(0.0, wide), wide)

    return oracle


def _bitcast_args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    last = 8 // dtype.itemsize
    raw = rng.integers(0, 256, (3, last * dtype.itemsize), np.uint8)
    return (raw.view(dtype).reshape(3, last),)


def _there_and_back(x: Any) -> Any:
    there = v.device_put_p.bind(x, memory_space="host")
    return v.device_put_p.bind(there, memory_space="device")


def _bitcast(to: str) -> Callable[[Any], Any]:
    return lambda x: v.bitcast_convert_type_p.bind(x, new_dtype=np.dtype(to))


def _viewed(to: str) -> Callable[[np.ndarray[Any, Any]], Any]:
    """The bytes of the operand, whose last axis holds 8 of them, as another type."""
    width = np.dtype(to).itemsize

    def oracle(x: np.ndarray[Any, Any]) -> Any:
        if x.dtype.itemsize == width:
            return x.view(to)
        if x.dtype.itemsize > width:
            return x.view(to).reshape(*x.shape, -1)
        return x.view(to).reshape(x.shape[0])

    return oracle


def _bitcast_rows() -> list[OpRow]:
    """To each type from those not narrower, and to the widest from all."""
    return [
        OpRow(
            "bitcast_convert_type",
            _bitcast(to),
            _bitcast_args,
            [d for d, w in _WIDTHS.items() if w >= width or width == 8],
            case=f"to-{to}",
            oracle=_viewed(to),
            exact=True,
            no_derivative_check="bits have no derivative" if to.startswith("float") else "",
        )
        for to, width in _WIDTHS.items()
    ]


def _convert_rows() -> list[OpRow]:
    rows = []
    for to in (*ALL, "float8_e4m3fn", "float8_e5m2"):
        oracle = _as_integers(to) if to in INTEGERS else None
        rows.append(
            OpRow(
                "convert_element_type",
                _silent(to),
                _values,
                (*BOOL, *INTEGERS, *FLOATS, *COMPLEX),
                case=f"to-{to}",
                oracle=oracle,
                tolerance={"float16": (0.0, 6e-8), "float32": (0.0, 1.2e-38)},
                no_derivative_check="" if to in (*BOOL, *INTEGERS, *_WIDE) else _STEPS,
            )
        )
    for to in ("float32", "bfloat16", "float64", "int32", "bool", "complex64"):
        rows.append(
            OpRow(
                "convert_element_type",
                _converter(to),
                _every_byte,
                _FLOAT8,
                case=f"to-{to}-of-8",
                exact=True,
            )
        )
    for to in _FLOAT8:
        rows.append(
            OpRow(
                "convert_element_type",
                _converter(to),
                _for_float8,
                ("float32", "float64", "bfloat16"),
                case=f"round-{to}",
                exact=True,
                no_derivative_check=_STEPS,
            )
        )
    return rows


ROWS: list[OpRow] = [
    *_convert_rows(),
    OpRow(
        "convert_element_type",
        over_shapes(_converter("int16")),
        of_shapes,
        ALL[:-2],
        case="shapes",
        exact=True,
    ),
    *_bitcast_rows(),
    OpRow(
        "reduce_precision",
        _reduced(5, 10),
        _for_float8,
        ("float32", "float64"),
        case="half",
        oracle=_through("float16"),
        exact=True,
        no_derivative_check=_STEPS,
    ),
    OpRow(
        "reduce_precision",
        _reduced(8, 7),
        _for_float8,
        ("float32",),
        case="bfloat16",
        oracle=_through("bfloat16"),
        exact=True,
    ),
    *(
        OpRow(
            "reduce_precision",
            _reduced(*bits),
            _for_float8,
            FLOATS,
            case=f"{bits[0]}-{bits[1]}",
            exact=True,
            no_derivative_check=_STEPS if bits < (11, 52) else "",
        )
        for bits in ((1, 0), (4, 3), (8, 0), (5, 2), (11, 52), (15, 63))
    ),
    OpRow("copy", v.copy_p.bind, _values, ALL, oracle=lambda x: x, exact=True),
    OpRow("device_put", _there_and_back, _values, ALL, oracle=lambda x: x, exact=True),
    OpRow(
        "optimization_barrier",
        lambda x: v.optimization_barrier((x, {"a": x}))[1]["a"],
        _values,
        ALL,
        oracle=lambda x: x,
        exact=True,
    ),
]
