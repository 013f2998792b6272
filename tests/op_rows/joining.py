"""Rows of concatenate, stack, unstack, split and tile."""

from __future__ import annotations

import numpy as np

from tests.op_row import OpRow
from tests.op_rows.shape import row, shaped, special
from xpr.primitives import joining as j

ROWS: list[OpRow] = [
    row(
        "concatenate",
        "three",
        lambda x, y, z: j.concatenate([x, y, z], 1),
        shaped((2, 3), (2, 0), (2, 4)),
        lambda x, y, z: np.concatenate([x, y, z], 1),
    ),
    row(
        "concatenate",
        "empty",
        lambda x, y: j.concatenate([x, y], 0),
        shaped((0, 3), (0, 3)),
        lambda x, y: np.concatenate([x, y]),
    ),
    row(
        "concatenate", "special", lambda x: j.concatenate([x, x], 0), special, lambda x: np.r_[x, x]
    ),
    row(
        "stack",
        "last",
        lambda x, y: j.stack([x, y], -1),
        shaped((2, 3), (2, 3)),
        lambda x, y: np.stack([x, y], -1),
    ),
    row(
        "stack",
        "scalars",
        lambda x, y, z: j.stack([x, y, z]),
        shaped((), (), ()),
        lambda x, y, z: np.array([x, y, z]),
    ),
    row("stack", "empty", lambda x: j.stack([x], 1), shaped((2, 0)), lambda x: x[:, None]),
    row(
        "unstack",
        "axis1",
        lambda x: j.unstack(x, 1),
        shaped((2, 3, 2)),
        lambda x: [x[:, i] for i in range(3)],
    ),
    row("unstack", "to-scalars", j.unstack, shaped((2,)), lambda x: [x[0], x[1]]),
    row(
        "split",
        "axis1",
        lambda x: j.split(x, (0, 3, 1), 1),
        shaped((2, 4)),
        lambda x: [x[:, :0], x[:, :3], x[:, 3:]],
    ),
    row("split", "whole", lambda x: j.split(x, (2,)), shaped((2, 0)), lambda x: [x]),
    row("tile", "both", lambda x: j.tile(x, (2, 3)), shaped((2, 3)), lambda x: np.tile(x, (2, 3))),
    row("tile", "zero", lambda x: j.tile(x, (0, 3)), shaped((2, 3)), lambda x: np.tile(x, (0, 3))),
    row("tile", "scalar", lambda x: j.tile(x, ()), shaped(()), lambda x: x),
]
