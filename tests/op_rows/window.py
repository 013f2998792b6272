"""Rows of the window operations, against a plain loop over windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import Arrays, OpRow, random_values
from xpr.core.primitive import get_primitive
from xpr.primitives import elementwise as el
from xpr.primitives import window as p

_TYPES = ("int32", "uint8", "float16", "bfloat16", "float32", "float64")
_TOLERANCE = {"float32": (1e-5, 1e-5), "float16": (4e-3, 2e-2), "bfloat16": (2e-2, 1e-1)}

Pads = Sequence[tuple[int, int]]


def _windows(
    x: Any, fill: Any, sizes: Any, strides: Any, pads: Pads, base: Any, dilation: Any
) -> Any:
    """Yields the index of each result and the elements of its window, in row-major order."""
    spread = np.full(
        [(s - 1) * b + 1 if s else 0 for s, b in zip(x.shape, base, strict=True)], fill, x.dtype
    )
    spread[tuple(slice(None, None, b) for b in base)] = x
    whole = np.full(
        [s + a + b for s, (a, b) in zip(spread.shape, pads, strict=True)], fill, x.dtype
    )
    for index in np.ndindex(spread.shape):
        place = tuple(i + a for i, (a, _) in zip(index, pads, strict=True))
        if all(0 <= i < s for i, s in zip(place, whole.shape, strict=True)):
            whole[place] = spread[index]
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilation, strict=True)]
    counts = [
        max((s - n) // t + 1, 0) if s >= n else 0
        for s, n, t in zip(whole.shape, spans, strides, strict=True)
    ]
    for index in np.ndindex(*counts):
        offsets = itertools.product(*(range(0, n, d) for n, d in zip(spans, dilation, strict=True)))
        start = [i * t for i, t in zip(index, strides, strict=True)]
        yield (
            index,
            counts,
            [whole[tuple(a + o for a, o in zip(start, off, strict=True))] for off in offsets],
        )


def _oracle(fold: Callable[[list[Any]], Any], fill: Callable[[Any], Any], *window: Any) -> Any:
    def oracle(x: Any) -> Any:
        wide = x.astype("f8" if x.dtype.kind not in "iu" else "i8")
        out: Any = None
        for index, counts, elements in _windows(wide, fill(x.dtype), *window):
            if out is None:
                out = np.zeros(counts, wide.dtype)
            out[index] = fold(elements)
        return out if out is not None else np.zeros([0] * x.ndim, wide.dtype)

    return oracle


def _least(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _greatest(dtype: Any) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _args(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator, np.dtype[Any]], Arrays]:
    return lambda rng, dtype: tuple(random_values(rng, dtype, s, 0, 9) for s in shapes)


# Shape, window, strides, padding, base dilation, window dilation.
_CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((7,), (3,), (1,), ((0, 0),), (1,), (1,)),
    "strides": ((6, 8), (2, 3), (2, 2), ((0, 0), (1, 1)), (1, 1), (1, 1)),
    "negative padding": ((8,), (3,), (1,), ((-1, -2),), (1,), (1,)),
    "dilations": ((6, 5), (2, 2), (1, 2), ((1, 0), (0, 2)), (2, 1), (1, 3)),
    "whole": ((3, 4), (3, 4), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
}
_NAMED: dict[str, tuple[Any, ...]] = {
    "reduce_window_sum": (0, el.add, sum, lambda d: 0),
    "reduce_window_max": (_least, el.max, max, _least),
    "reduce_window_min": (_greatest, el.min, min, _greatest),
}


def _row(name: str, case: str) -> OpRow:
    shape, *window = _CASES[case]
    init, fold, plain, fill = _NAMED[name]

    def function(x: Any) -> Any:
        start = init(x.dtype) if callable(init) else init
        return p.reduce_window(x, x.dtype.type(start), fold, *window)

    return OpRow(
        name, function, _args(shape), _TYPES, case, _oracle(plain, fill, *window), _TOLERANCE
    )


def _general(x: Any) -> Any:
    """A fold that no named primitive is: the sum, started from 1."""
    return p.reduce_window(x, x.dtype.type(1), el.add, (2, 2), (1, 1), "VALID")


def _general_with_everything(x: Any) -> Any:
    case = _CASES["dilations"]
    return p.reduce_window(x, x.dtype.type(1), lambda a, b: a * b, *case[1:])


def _two_at_once(x: Any, y: Any, start: Any) -> Any:
    """Sums from a traced start, with sums of squares that belong to them."""

    def fold(a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1] + a[0] * b[0]

    zero = x.dtype.type(0)
    return p.reduce_window((x, y), (start, zero), fold, (3, 2), (2, 1), ((1, 0), (0, -1)))


_POOL = {
    "window_dimensions": (2, 2),
    "window_strides": (2, 2),
    "padding": ((0, 0), (0, 0)),
}


def _select_and_scatter(source: Any, operand: Any) -> Any:
    return get_primitive("select_and_scatter_add").bind(
        source, operand, select_prim=get_primitive("ge"), **_POOL
    )


def _scattered(source: Any, operand: Any) -> Any:
    out = np.zeros(operand.shape, "f8")
    for i, j in np.ndindex(source.shape):
        block = operand[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        a, b = np.unravel_index(np.argmax(block), block.shape)
        out[2 * i + a, 2 * j + b] += float(source[i, j])
    return out


def _select_and_gather(tangents: Any, operand: Any) -> Any:
    return get_primitive("select_and_gather_add").bind(
        tangents,
        operand,
        select_prim=get_primitive("ge"),
        base_dilation=(1, 1),
        window_dilation=(1, 1),
        **_POOL,
    )


def _gathered(tangents: Any, operand: Any) -> Any:
    out = np.zeros([s // 2 for s in operand.shape], "f8")
    for i, j in np.ndindex(out.shape):
        block = operand[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        a, b = np.unravel_index(np.argmax(block), block.shape)
        out[i, j] = float(tangents[2 * i + a, 2 * j + b])
    return out


# Overlapping windows in a padded operand with gaps.
_OVERLAP = {
    "window_dimensions": (2, 2),
    "window_strides": (1, 2),
    "padding": ((1, 0), (-1, 2)),
    "base_dilation": (2, 1),
    "window_dilation": (1, 3),
}


def _overlapping(name: str, comparison: str) -> Callable[..., Any]:
    return lambda x, operand: get_primitive(name).bind(
        x, operand, select_prim=get_primitive(comparison), **_OVERLAP
    )


ROWS = [
    *(_row(name, case) for name in _NAMED for case in _CASES),
    OpRow(
        "reduce_window",
        _general,
        _args((4, 5)),
        ("int32", "float32", "float64"),
        "from one",
        _oracle(
            lambda e: 1 + sum(e), lambda d: 0, (2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)
        ),
    ),
    OpRow(
        "select_and_scatter_add",
        _select_and_scatter,
        _args((2, 3), (4, 6)),
        ("float32", "float64"),
        "pool",
        _scattered,
    ),
    OpRow(
        "select_and_gather_add",
        _select_and_gather,
        _args((4, 6), (4, 6)),
        ("float32", "float64"),
        "pool",
        _gathered,
    ),
    OpRow(
        "reduce_window",
        _general_with_everything,
        _args((6, 5)),
        ("float32", "float64"),
        "products with dilations",
        _oracle(np.prod, lambda d: 1, *_CASES["dilations"][1:]),
        _TOLERANCE,
    ),
    OpRow(
        "reduce_window",
        _two_at_once,
        _args((6, 4), (6, 4), ()),
        ("float32", "float64"),
        "two operands",
        tolerance=_TOLERANCE,
    ),
    *(
        OpRow(
            name,
            _overlapping(name, comparison),
            _args((5, 2) if "scatter" in name else (3, 6), (3, 6)),
            ("float32", "float64"),
            f"{comparison} overlapping",
        )
        for name in ("select_and_scatter_add", "select_and_gather_add")
        for comparison in ("ge", "le")
    ),
]
