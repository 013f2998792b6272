"""Rows of reshape, transpose, broadcast_in_dim, squeeze, rev and pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import ALL, Arrays, OpRow, random_values, special_values
from xpr.primitives import shape as s

STORED = (*ALL, "float8_e4m3fn", "float8_e5m2")
Args = Callable[[np.random.Generator, np.dtype[Any]], Arrays]


def shaped(*shapes: Sequence[int]) -> Args:
    """One operand of each shape."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return tuple(random_values(rng, dtype, shape) for shape in shapes)

    return args


def special(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """One operand in one axis: moving data keeps every special value."""
    if dtype.name.startswith("float8"):
        return (np.arange(256, dtype=np.uint8).view(dtype),)
    return (special_values(dtype),)


def row(
    primitive: str,
    case: str,
    function: Callable[..., Any],
    args: Args,
    oracle: Callable[..., Any] | None = None,
    dtypes: Sequence[str] = STORED,
) -> OpRow:
    """A row whose results are exact."""
    return OpRow(primitive, function, args, dtypes, case=case, oracle=oracle, exact=True)


def _padded(x: Any, value: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """Padding one axis at a time, one element at a time."""
    for axis, (low, high, interior) in enumerate(config):
        lines = list(np.moveaxis(x, axis, 0))
        gap = [np.full_like(lines[0], value)] if lines else []
        spread: list[Any] = []
        for i, line in enumerate(lines):
            spread += (gap * interior if i else []) + [line]
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        blank = np.full(shape, value, x.dtype)
        spread = [blank] * max(low, 0) + spread[max(-low, 0) :]
        spread = spread[: len(spread) - max(-high, 0)] + [blank] * max(high, 0)
        stacked = np.array(spread, x.dtype).reshape((len(spread), *shape))
        x = np.moveaxis(stacked, 0, axis)
    return x


_CONFIGS: dict[str, tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]] = {
    "edges": ((3, 4), ((1, 2, 0), (0, 3, 0))),
    "interior": ((3, 4), ((0, 0, 1), (2, 1, 3))),
    "negative": ((5, 4), ((-1, -2, 0), (2, -3, 0))),
    "negative-interior": ((4,), ((-5, 2, 2),)),
    "negative-high": ((4,), ((3, -5, 2),)),
    "all-cut": ((4,), ((-4, 0, 0),)),
    "nothing": ((2, 2), ((0, 0, 0), (0, 0, 0))),
    "empty": ((0, 3), ((2, 1, 1), (0, 0, 0))),
    "scalar": ((), ()),
}


def _pad_row(case: str) -> OpRow:
    shape, config = _CONFIGS[case]
    return row(
        "pad",
        case,
        lambda x, v: s.pad(x, v, config),
        shaped(shape, ()),
        lambda x, v: _padded(x, v, config),
    )


_EIGHT = (2, 1, 2, 1, 2, 1, 1, 3)

ROWS: list[OpRow] = [
    row("reshape", "flat", lambda x: s.reshape(x, (12,)), shaped((3, 4)), np.ravel),
    row(
        "reshape",
        "permuted",
        lambda x: s.reshape(x, (6, 2), (1, 0)),
        shaped((3, 4)),
        lambda x: x.T.reshape(6, 2),
    ),
    row(
        "reshape",
        "empty",
        lambda x: s.reshape(x, (0, 7)),
        shaped((3, 0)),
        lambda x: x.reshape(0, 7),
    ),
    row("reshape", "to-scalar", lambda x: s.reshape(x, ()), shaped((1, 1)), lambda x: x[0, 0]),
    row(
        "reshape",
        "from-scalar",
        lambda x: s.reshape(x, (1, 1)),
        shaped(()),
        lambda x: x.reshape(1, 1),
    ),
    row("reshape", "special", lambda x: s.reshape(x, (x.size, 1)), special, lambda x: x[:, None]),
    row(
        "transpose",
        "rank3",
        lambda x: s.transpose(x, (2, 0, 1)),
        shaped((3, 4, 5)),
        lambda x: np.moveaxis(x, 2, 0),
    ),
    row("transpose", "empty", lambda x: s.transpose(x, (1, 0)), shaped((3, 0)), np.transpose),
    row(
        "transpose",
        "rank8",
        lambda x: s.transpose(x, range(7, -1, -1)),
        shaped(_EIGHT),
        np.transpose,
    ),
    row(
        "broadcast_in_dim",
        "front",
        lambda x: s.broadcast_in_dim(x, (2, 3, 4), (1, 2)),
        shaped((3, 4)),
        lambda x: np.broadcast_to(x, (2, 3, 4)),
    ),
    row(
        "broadcast_in_dim",
        "permuted",
        lambda x: s.broadcast_in_dim(x, (4, 3), (1, 0)),
        shaped((3, 1)),
        lambda x: np.broadcast_to(x.T, (4, 3)),
    ),
    row(
        "broadcast_in_dim",
        "scalar",
        lambda x: s.broadcast_in_dim(x, (4, 3), ()),
        shaped(()),
        lambda x: np.broadcast_to(x, (4, 3)),
    ),
    row(
        "broadcast_in_dim",
        "empty",
        lambda x: s.broadcast_in_dim(x, (0, 3), (1,)),
        shaped((3,)),
        lambda x: np.broadcast_to(x, (0, 3)),
    ),
    row(
        "broadcast_in_dim",
        "special",
        lambda x: s.broadcast_in_dim(x, (2, x.size), (1,)),
        special,
        lambda x: np.stack([x, x]),
    ),
    row(
        "squeeze",
        "some",
        lambda x: s.squeeze(x, (0, 2)),
        shaped((1, 3, 1, 1)),
        lambda x: x[0, :, 0],
    ),
    row("squeeze", "all", lambda x: s.squeeze(x, (0, 1)), shaped((1, 1)), lambda x: x[0, 0]),
    row("squeeze", "empty", lambda x: s.squeeze(x, (1,)), shaped((0, 1)), lambda x: x[:, 0]),
    row(
        "rev", "two-axes", lambda x: s.rev(x, (0, 2)), shaped((2, 3, 4)), lambda x: x[::-1, :, ::-1]
    ),
    row("rev", "empty", lambda x: s.rev(x, (0,)), shaped((0, 4)), lambda x: x),
    row("rev", "no-axis", lambda x: s.rev(x, ()), shaped(()), lambda x: x),
    row("rev", "special", lambda x: s.rev(x, (0,)), special, lambda x: x[::-1]),
    *(_pad_row(case) for case in _CONFIGS),
]
