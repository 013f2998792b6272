"""Rows of the cumulative operations, against loops over Python's numbers.

Sums of small whole numbers and products of powers of two are exact in any order. A sum of n
positive numbers in a type of unit roundoff u is within n u of the true value, relatively.
"""

from __future__ import annotations

import cmath
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import COMPLEX, FLOATS, INEXACT, INTEGERS, NUMERIC, Arrays, OpRow
from tests.op_rows._axis_args import (
    Args,
    numbers,
    order_key,
    picks,
    positive,
    scan_lines,
    ties,
    wholes,
)
from xpr.primitives import cumulative as p

Lines = Callable[[list[Any]], list[Any]]

# case: (shape, axis, reverse)
_SHAPES: dict[str, tuple[tuple[int, ...], int, bool]] = {
    "vector": ((7,), 0, False),
    "reversed columns": ((5, 4), 0, True),
    "rows": ((3, 13), 1, False),
    "middle": ((2, 5, 4), 1, False),
    "reversed middle": ((2, 5, 4), 1, True),
    "empty axis": ((0, 3), 0, False),
    "empty kept": ((3, 0), 0, True),
    "one": ((1,), 0, True),
    "size 1": ((3, 1), 1, False),
}
# Long enough for the blocks of the lowering, with a rest and without.
_LONG: dict[str, tuple[tuple[int, ...], int, bool]] = {
    "long": ((2, 384), 1, False),
    "long with rest": ((331,), 0, False),
    "long reversed": ((331, 2), 0, True),
    "two levels": ((1031,), 0, True),
}


def _scanned(fold: Callable[[Any, Any], Any]) -> Lines:
    return lambda line: list(itertools.accumulate(line, fold))


def _extremum(sign: int) -> Lines:
    """The greatest (1) or least (-1) so far, the first of equal ones; the first NaN from it on."""

    def better(a: Any, b: Any) -> Any:
        if a != a or b != b:
            return a if a != a else b
        x, y = order_key(a), order_key(b)
        return b if (y > x if sign > 0 else y < x) else a

    return _scanned(better)


def _log_sums(line: list[Any]) -> list[Any]:
    """Logarithms of exact sums of exponentials, of moderate numbers."""
    parts = [cmath.exp(v) for v in line]
    sums = [
        complex(
            math.fsum(v.real for v in parts[: i + 1]), math.fsum(v.imag for v in parts[: i + 1])
        )
        for i in range(len(parts))
    ]
    logs = [cmath.log(v) for v in sums]
    return logs if line and isinstance(line[0], complex) else [v.real for v in logs]


def _row(
    name: str,
    case: str,
    args: Args,
    axis: int,
    reverse: bool,
    lines: Lines,
    dtypes: Sequence[str],
    tolerance: dict[str, tuple[float, float]] | None = None,
) -> OpRow:
    """A row of which zeros have no certain sign; exact without a tolerance."""
    function = getattr(p, name)

    def oracle(x: Any) -> Any:
        if x.dtype.kind not in "iu":
            wide = np.complex128 if x.dtype.kind == "c" else np.float64
            return scan_lines(x, axis, reverse, lines, wide).astype(x.dtype)
        # Integers modulo the size of their type.
        size = 1 << 8 * x.dtype.itemsize
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        wrapped = scan_lines(x, axis, reverse, lambda v: [w % size for w in lines(v)], unsigned)
        return wrapped.view(x.dtype)

    return OpRow(
        name,
        lambda x: function(x, axis=axis, reverse=reverse),
        args,
        dtypes,
        case=case,
        oracle=oracle,
        exact=tolerance is None,
        tolerance=tolerance or {},
        signed_zero=False,
    )


def _rounding(n: int) -> dict[str, tuple[float, float]]:
    """n roundings of the type that is computed in; 16-bit types: one more, in either direction."""
    return {
        "float16": (2.0**-10, 0.0),
        "bfloat16": (2.0**-7, 0.0),
        "float32": (n * 2.0**-24, 0.0),
        "float64": (n * 2.0**-53, 0.0),
    }


def _powers(shape: tuple[int, ...]) -> Args:
    """2 and 1/2 by turns, with random signs; or any odd integers."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        if dtype.kind in "iu":
            return (wholes(shape)(rng, dtype)[0] | 1,)
        # Products stay between 1/2 and 2.
        turns = np.indices(shape).sum(axis=0)
        signs = rng.choice([-1.0, 1.0], shape)
        return ((np.where(turns % 2, 2.0, 0.5) * signs).astype(dtype),)

    return args


def _turns(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Complex numbers of modulus 1."""
    return (np.exp(1j * rng.uniform(-3, 3, (331,))).astype(dtype),)


def _moderate(shape: tuple[int, ...]) -> Args:
    """Numbers in [0, 4), with small imaginary parts: no sum's logarithm is near 0 but the first."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        x = rng.uniform(0, 4, shape)
        return ((x + 0.5j * rng.random(shape) if dtype.kind == "c" else x).astype(dtype),)

    return args


def _infinities(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    inf, nan = np.inf, np.nan
    rows = [
        [-inf, -inf, 0.0, -inf, 0.0, inf, 1.0, -inf],
        [0.0, inf, inf, 3.0, -inf, nan, inf, 0.0],
        [nan, 0.0, 1.0, inf, -inf, 2.0, 3.0, 4.0],
        [-inf, 1000.0, 1000.0, -1000.0, 0.0, 10.0, 1000.0, 5.0],
    ]
    return (np.array(rows).astype(dtype),)


def _log_sums_of_infinities(line: list[Any]) -> list[Any]:
    """One term at a time, with the greater one taken out."""

    def fold(a: float, b: float) -> float:
        high, low = (a, b) if not a < b else (b, a)
        if math.isnan(a) or math.isnan(b):
            return math.nan
        return (
            high if math.isinf(high) or math.isinf(low) else high + math.log1p(math.exp(low - high))
        )

    return list(itertools.accumulate(line, fold))


def _some_complex(case: str) -> tuple[str, ...]:
    """All types, complex ones only in some cases: their scans by doubling take long to compile."""
    some = case in ("vector", "reversed columns", "empty axis", "one")
    return NUMERIC if some else (*INTEGERS, *FLOATS)


# Every step of a scan of n rounds about three times, in parts no greater than the result; a chain
# is no longer than n in the compiled program, and n in the reference.
def _log_rounding(n: int) -> dict[str, tuple[float, float]]:
    single, double = 6 * n * 2.0**-24, 6 * n * 2.0**-53
    return _rounding(6 * n) | {"complex64": (single, single), "complex128": (double, double)}


_EXTREMA = {"cummax": _extremum(1), "cummin": _extremum(-1)}

ROWS = [
    *(
        _row("cumsum", case, wholes(shape), axis, reverse, _scanned(operator.add), NUMERIC)
        for case, (shape, axis, reverse) in (_SHAPES | _LONG).items()
    ),
    *(
        _row(
            "cumsum",
            f"positive, {case}",
            positive(shape),
            axis,
            reverse,
            _scanned(operator.add),
            FLOATS,
            # The oracle's sums round as well, but in float64.
            _rounding(2 * shape[axis]),
        )
        for case, (shape, axis, reverse) in _LONG.items()
    ),
    _row(
        "cumsum",
        "infinities",
        lambda rng, dtype: (rng.choice(np.array([np.inf, 1, 2, -np.inf], dtype), (9, 20)),),
        0,
        False,
        _scanned(operator.add),
        FLOATS,
    ),
    *(
        _row(
            "cumprod",
            case,
            _powers(shape),
            axis,
            reverse,
            _scanned(operator.mul),
            (*INTEGERS, *FLOATS),
        )
        for case, (shape, axis, reverse) in (_SHAPES | _LONG).items()
    ),
    *(
        _row(
            "cumprod",
            case,
            wholes(shape),
            axis,
            reverse,
            _scanned(operator.mul),
            COMPLEX,
        )
        for case, (shape, axis, reverse) in _SHAPES.items()
    ),
    _row(
        "cumprod",
        "complex, long",
        _turns,
        0,
        True,
        _scanned(operator.mul),
        COMPLEX,
        # A product rounds by sqrt(5) u of its modulus (R. Brent, C. Percival, P. Zimmermann,
        # 2007), which is 1.
        {
            "complex64": (0.0, 331 * 2.3 * 2.0**-24),
            "complex128": (0.0, 2 * 331 * 2.3 * 2.0**-53),
        },
    ),
    *(
        _row(name, case, numbers(shape), axis, reverse, lines, _some_complex(case))
        for name, lines in _EXTREMA.items()
        for case, (shape, axis, reverse) in _SHAPES.items()
    ),
    *(
        _row(name, f"NaN, {case}", picks(shape), axis, reverse, lines, INEXACT)
        for name, lines in _EXTREMA.items()
        for case, (shape, axis, reverse) in _SHAPES.items()
        if case in ("rows", "reversed columns", "reversed middle")
    ),
    *(
        _row(name, "long", wholes((1100,)), 0, name == "cummin", lines, (*INTEGERS, *FLOATS))
        for name, lines in _EXTREMA.items()
    ),
    *(
        _row(name, "ties", ties((30, 3)), 0, name == "cummax", lines, NUMERIC)
        for name, lines in _EXTREMA.items()
    ),
    *(
        _row(
            "cumlogsumexp",
            case,
            _moderate(shape),
            axis,
            reverse,
            _log_sums,
            tuple(d for d in _some_complex(case) if d in INEXACT),
            _log_rounding(shape[axis]),
        )
        for case, (shape, axis, reverse) in _SHAPES.items()
    ),
    _row(
        "cumlogsumexp",
        "long",
        _moderate((170,)),
        0,
        False,
        _log_sums,
        FLOATS,
        _log_rounding(170),
    ),
    _row(
        "cumlogsumexp",
        "infinities",
        _infinities,
        1,
        False,
        _log_sums_of_infinities,
        FLOATS,
        _log_rounding(8),
    ),
]
