"""Rows of the sorting operations, against Python's own stable sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import COMPLEX, FLOATS, INTEGERS, Arrays, OpRow
from tests.op_rows._axis_args import Args, order_key, picks, plain, scan_lines, ties, wholes
from xpr.primitives import sort as p

_REAL = ("bool", *INTEGERS, *FLOATS)
_TYPES = (*_REAL, *COMPLEX)


def _order(*keys: Any) -> list[int]:
    """The stable order of lists of numbers, the first list foremost."""
    columns = [[order_key(v) for v in key] for key in keys]
    return sorted(range(len(columns[0])), key=lambda i: [c[i] for c in columns])


def _sorted(axis: int) -> Callable[[Any], Any]:
    def oracle(x: Any) -> Any:
        return scan_lines(x, axis, False, lambda line: [line[i] for i in _order(line)])

    return oracle


def _together(axis: int, num_keys: int) -> Callable[..., list[Any]]:
    """All operands in the order of the first `num_keys`, line by line."""

    def oracle(*operands: Any) -> list[Any]:
        moved = [np.moveaxis(x, axis, -1) for x in operands]
        out = [x.copy() for x in moved]
        for index in np.ndindex(*moved[0].shape[:-1]):
            order = _order(*(plain(x[index]) for x in moved[:num_keys]))
            for x, found in zip(moved, out, strict=True):
                found[index] = x[index][order]
        return [np.moveaxis(x, -1, axis) for x in out]

    return oracle


def _top(k: int, axis: int = -1, sign: int = 1) -> Callable[[Any], list[Any]]:
    """The `k` first of a stable sort, NaN first, then by descending (1) or ascending (-1) value."""

    def order(line: list[Any]) -> list[int]:
        keys = [(v == v, 0 if v != v else -sign * v) for v in line]
        return sorted(range(len(line)), key=keys.__getitem__)[:k]

    def oracle(x: Any) -> list[Any]:
        return [
            scan_lines(x, axis, False, lambda line: [line[i] for i in order(line)]),
            scan_lines(x, axis, False, order, np.int32),
        ]

    return oracle


def _with_payload(*others: str) -> Callable[[Args], Args]:
    """The operands that are given, and one more of each of the other dtypes, of the same shape."""

    def extended(keys: Args) -> Args:
        def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
            made = keys(rng, dtype)
            shape = made[0].shape
            return (*made, *(wholes(shape)(rng, np.dtype(o))[0] for o in others))

        return args

    return extended


def _apart(shape: tuple[int, ...]) -> Args:
    """Numbers in random order that differ by more than steps of finite differences."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return (rng.permutation(np.arange(1.0, 1 + np.prod(shape))).reshape(shape).astype(dtype),)

    return args


def _row(
    case: str,
    axis: int,
    args: Args,
    dtypes: Sequence[str] = _TYPES,
    smooth: Args | None = None,
) -> OpRow:
    return OpRow(
        "sort",
        lambda x: p.sort(x, dimension=axis),
        args,
        dtypes,
        case=case,
        oracle=_sorted(axis),
        exact=True,
        smooth=smooth,
    )


def _key_row(
    case: str, axis: int, num_keys: int, args: Args, no_derivative_check: str = ""
) -> OpRow:
    return OpRow(
        "sort",
        lambda *xs: p.sort(xs, dimension=axis, num_keys=num_keys),
        args,
        _TYPES,
        case=case,
        oracle=_together(axis, num_keys),
        exact=True,
        no_derivative_check=no_derivative_check,
    )


def _top_row(case: str, k: int, args: Args, axis: int = -1) -> OpRow:
    return OpRow(
        "top_k",
        lambda x: p.top_k(x, k, axis=axis),
        args,
        _REAL,
        case=case,
        oracle=_top(k, axis),
        exact=True,
    )


def _approximate(case: str, least: bool, whole: bool, args: Args) -> OpRow:
    function = p.approx_min_k if least else p.approx_max_k
    return OpRow(
        "approx_top_k",
        lambda x: function(x, 3, reduction_dimension=1, aggregate_to_topk=not whole),
        args,
        FLOATS,
        case=case,
        oracle=_top(20 if whole else 3, 1, -1 if least else 1),
        exact=True,
    )


_COARSE = "single precision is too coarse for finite differences"

ROWS = [
    _row("vector", 0, wholes((9,))),
    _row("special values", 0, picks((70,))),
    _row("columns", 0, picks((11, 4))),
    _row("rows", -1, picks((4, 11))),
    _row("middle", 1, wholes((2, 9, 3))),
    _row("ties", 1, ties((3, 30))),
    _row("one", 0, wholes((1,))),
    _row("size 1", 1, wholes((3, 1))),
    _row("empty axis", 1, wholes((2, 0))),
    _row("empty kept", 1, wholes((0, 3))),
    _row(
        "long",
        0,
        wholes((700,)),
        ("int8", "int64", "uint64", "float16", "float32", "float64"),
        _apart((700,)),
    ),
    _key_row("key and value", 0, 1, _with_payload("int32")(ties((40,)))),
    _key_row("special keys", 0, 1, _with_payload("int32")(picks((60,)))),
    _key_row("three operands", 1, 1, _with_payload("float32", "uint8")(ties((3, 12))), _COARSE),
    _key_row("one key of two", 1, 1, ties((3, 12), (3, 12))),
    _key_row("columns with values", 0, 1, _with_payload("bool")(ties((12, 3)))),
    _key_row("two keys", 0, 2, _with_payload("int32")(ties((50,), (50,)))),
    _key_row("two special keys", 0, 2, _with_payload("int32")(picks((50,), (50,)))),
    _key_row("keys alone", 0, 2, ties((20, 2), (20, 2))),
    _key_row("mixed keys", 0, 2, _with_payload("uint8", "complex64")(ties((30,))), _COARSE),
    _key_row("no rows", 0, 1, _with_payload("int32")(ties((0, 3)))),
    _top_row("vector", 3, picks((70,))),
    _top_row("ties", 5, ties((4, 20))),
    _top_row("all", 6, wholes((3, 6))),
    _top_row("none", 0, wholes((3, 6))),
    _top_row("first axis", 2, picks((9, 4)), 0),
    _top_row("one of one", 1, wholes((3, 1))),
    _top_row("no rows", 2, wholes((0, 3))),
    # Rows that are cut into blocks: evenly, with a rest, along another axis, and of few values.
    _top_row("blocks", 4, wholes((3, 640))),
    _top_row("blocks and a rest", 8, ties((3, 1031))),
    _top_row("special values in blocks", 5, picks((2, 530))),
    _top_row("blocks of columns", 2, wholes((600, 3)), 0),
    _approximate("greatest", False, False, picks((3, 20))),
    _approximate("least", True, False, picks((3, 20))),
    _approximate("greatest of ties", False, False, ties((3, 20))),
    _approximate("least, all", True, True, ties((3, 20))),
]
