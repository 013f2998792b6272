"""Rows of the reductions, against NumPy in higher precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import COMPLEX, FLOATS, INTEGERS, NUMERIC, Arrays, OpRow, random_values
from xpr.primitives import reduce as r
from xpr.primitives.elementwise import max as lax_max

_REAL = (*INTEGERS, *FLOATS)
_BITS = ("bool", *INTEGERS)

# A sum of n terms may be off by n roundings of its largest term.
_TOLERANCE = {
    "float64": (1e-13, 1e-13),
    "float32": (1e-5, 5e-5),
    "float16": (4e-3, 4e-2),
    "bfloat16": (2e-2, 2e-1),
    "complex64": (1e-5, 2e-4),
    "complex128": (1e-13, 1e-12),
}
_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((2, 3), ()),
    ((3, 4), (0,)),
    ((3, 4), (1,)),
    ((3, 4), (0, 1)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (1,)),
    ((1, 3, 1), (0, 2)),
    ((300, 3), (0,)),
    ((531, 2), (0,)),
    ((3, 400), (1,)),
]
_EMPTY: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((3, 0), (1,)), ((0, 3), (1,))]


def _values(shape: tuple[int, ...], low: float = -3, high: float = 3) -> Callable[..., Arrays]:
    return lambda rng, dtype: (random_values(rng, dtype, shape, low, high),)


def _special(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    pool = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, 3.0]).astype(dtype)
    return (rng.choice(pool, (4, 6)),)


def _wide(x: Any) -> Any:
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _folded(fold: Any, axes: tuple[int, ...]) -> Callable[[Any], Any]:
    def oracle(x: Any) -> Any:
        kept = {"dtype": x.dtype} if x.dtype.kind in "biu" else {}
        return fold.reduce(_wide(x), axis=axes, **kept)

    return oracle


def _row(name: str, fold: Any, shape: Any, axes: Any, dtypes: Any, near_one: bool = False) -> OpRow:
    function = getattr(r, name)
    return OpRow(
        name,
        lambda x: function(x, axes),
        _values(shape, 0.8, 1.2) if near_one else _values(shape),
        # A long product of such complex numbers overflows.
        [d for d in dtypes if not (near_one and d in COMPLEX and max(shape, default=0) > 100)],
        case=f"{shape} over {axes}",
        oracle=_folded(fold, axes),
        tolerance=_TOLERANCE,
        signed_zero=False,
    )


def _arg_row(name: str, fold: Any, axis: int, special: bool, index: str = "int32") -> OpRow:
    function = getattr(r, name)
    return OpRow(
        name,
        lambda x: function(x, axis, np.dtype(index)),
        _special if special else _values((5, 40)),
        ("float32", "float64") if special else _REAL,
        case=f"axis {axis} {index}{' special values' if special else ''}",
        oracle=lambda x: fold(_wide(x), axis=axis).astype(index),
        exact=True,
    )


def _over(name: str, axes: tuple[int, ...]) -> Callable[[Any], Any]:
    function = getattr(r, name)
    return lambda x: function(x, axes)


def _pairs(x: Any, y: Any, start: Any) -> Any:
    """Sums from an operand, with sums of the products of all pairs."""

    def fold(a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1] + a[0] * b[0]

    return r.reduce((x, y), (start, x.dtype.type(0)), fold, (0, 2))


def _pair_values(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    return tuple(random_values(rng, dtype, s, 0, 3) for s in ((3, 2, 5), (3, 2, 5), ()))


def _pairs_oracle(x: Any, y: Any, start: Any) -> Any:
    x, y, start = x.astype("f8"), y.astype("f8"), float(start)
    total = x.sum(axis=(0, 2))
    products = (total**2 - (x**2).sum(axis=(0, 2))) / 2
    return total + start, y.sum(axis=(0, 2)) + products + start * total


_FOLDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "reduce_sum": (np.add, NUMERIC),
    "reduce_prod": (np.multiply, NUMERIC),
    "reduce_max": (np.maximum, _REAL),
    "reduce_min": (np.minimum, _REAL),
    "reduce_and": (np.bitwise_and, _BITS),
    "reduce_or": (np.bitwise_or, _BITS),
    "reduce_xor": (np.bitwise_xor, _BITS),
}
# The identities that NumPy has as well; a maximum of nothing is ours alone.
_WITH_EMPTY = ("reduce_sum", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor")

ROWS = [
    *(
        _row(name, fold, shape, axes, dtypes, near_one=name == "reduce_prod")
        for name, (fold, dtypes) in _FOLDS.items()
        for shape, axes in (_SHAPES + _EMPTY if name in _WITH_EMPTY else _SHAPES)
    ),
    *(
        OpRow(
            name,
            _over(name, (0,)),
            _special,
            ("float32", "float64"),
            case="special values",
            oracle=_folded(fold, (0,)),
            signed_zero=False,
        )
        for name, fold in (("reduce_max", np.maximum), ("reduce_min", np.minimum))
    ),
    *(
        OpRow(
            name,
            _over(name, (1,)),
            _values((4, 5)),
            COMPLEX,
            case="complex",
            oracle=_folded(fold, (1,)),
            exact=True,
        )
        for name, fold in (("reduce_max", np.maximum), ("reduce_min", np.minimum))
    ),
    *(
        _arg_row(name, fold, axis, special)
        for name, fold in (("argmin", np.argmin), ("argmax", np.argmax))
        for axis in (0, 1)
        for special in (False, True)
    ),
    _arg_row("argmax", np.argmax, 1, False, "int64"),
    OpRow(
        "reduce",
        lambda x: r.reduce(x, np.zeros((), x.dtype), lax_max, (0,)),
        _values((4, 3)),
        ("int32", "float32", "float64"),
        case="maximum from zero",
        oracle=lambda x: np.maximum(x.max(axis=0), x.dtype.type(0)),
        exact=True,
    ),
    OpRow(
        "reduce",
        _pairs,
        _pair_values,
        ("float32", "float64"),
        case="two operands",
        oracle=_pairs_oracle,
        tolerance=_TOLERANCE,
    ),
]
