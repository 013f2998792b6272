"""Rows of dequantize: each layout, all bits random."""

from __future__ import annotations

import numpy as np

from tests.nn.block_layouts import SIZES, decoded, random_blocks
from tests.op_row import OpRow
from xpr.primitives.blocks import dequantize


def _row(layout: str) -> OpRow:
    numbers, _ = SIZES[layout]
    return OpRow(
        "dequantize",
        lambda x: dequantize(x, layout),
        lambda rng, dtype: (random_blocks(rng, layout, (3, 2, 2 * numbers)),),
        ("uint8",),
        case=layout,
        oracle=lambda x: decoded(layout, x).astype(np.float32),
        tolerance={"float32": (1e-6, 1e-6)},
        no_derivative_check="its operand is of integers",
    )


ROWS: list[OpRow] = [_row(layout) for layout in SIZES]
