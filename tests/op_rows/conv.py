"""Rows of `conv_general_dilated`: every parameter, floats, integers and complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.signal import correlate

from tests.op_row import COMPLEX, FLOATS, Arrays, OpRow, random_values
from xpr.primitives.conv import conv_general_dilated

_ALL = ("int8", "int32", *FLOATS, *COMPLEX)


def _args(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator, np.dtype[Any]], Arrays]:
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return tuple(random_values(rng, dtype, s, -2, 2) for s in shapes)

    return args


def _same_correlation(x: Any, w: Any) -> Any:
    """Stride 1, no padding, one group: SciPy's correlation, summed over the input features."""
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    x, w = x.astype(wide), w.astype(wide)
    return np.stack(
        [
            [
                sum(
                    correlate(x[n, c], w[o, c].conj(), mode="valid", method="direct")
                    for c in range(x.shape[1])
                )
                for o in range(w.shape[0])
            ]
            for n in range(x.shape[0])
        ]
    )


def _row(
    case: str,
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
    dtypes: tuple[str, ...] = ("float32", "float64"),
    oracle: Callable[..., Any] | None = None,
    **params: Any,
) -> OpRow:
    # The terms of a sum of up to a few hundred products of size 4 may cancel, so errors are
    # measured against the terms and not against the sum.
    return OpRow(
        primitive="conv_general_dilated",
        function=lambda x, w: conv_general_dilated(x, w, **params),
        args=_args(lhs, rhs),
        dtypes=dtypes,
        case=case,
        oracle=oracle,
        signed_zero=False,
        tolerance={
            "float64": (1e-13, 1e-13),
            "float32": (1e-5, 5e-5),
            "float16": (2e-3, 2e-2),
            "bfloat16": (1.6e-2, 1.6e-1),
            "complex64": (1e-5, 5e-5),
            "complex128": (1e-13, 1e-13),
        },
    )


ROWS = [
    _row(
        "valid",
        (2, 3, 6, 5),
        (4, 3, 3, 2),
        _ALL,
        _same_correlation,
        window_strides=(1, 1),
        padding="VALID",
    ),
    _row("same", (2, 3, 9, 8), (4, 3, 3, 3), ("float32",), window_strides=(1, 1), padding="SAME"),
    _row(
        "strides and negative padding",
        (2, 3, 9, 8),
        (4, 3, 3, 3),
        window_strides=(2, 1),
        padding=[(1, 2), (-1, 0)],
    ),
    _row(
        "both dilations",
        (2, 3, 9, 8),
        (4, 3, 3, 2),
        window_strides=(1, 2),
        padding=[(1, 0), (0, 2)],
        lhs_dilation=(2, 3),
        rhs_dilation=(2, 1),
    ),
    _row(
        "feature groups",
        (2, 4, 9, 8),
        (6, 2, 3, 3),
        ("int32", "float32", "float64", "complex64"),
        window_strides=(1, 1),
        padding="SAME",
        feature_group_count=2,
    ),
    _row(
        "depthwise",
        (2, 4, 9, 8),
        (8, 1, 3, 3),
        window_strides=(1, 1),
        padding="SAME",
        feature_group_count=4,
    ),
    _row(
        "batch groups",
        (4, 3, 9, 8),
        (6, 3, 3, 3),
        ("int32", "float32", "float64"),
        window_strides=(1, 1),
        padding="SAME",
        batch_group_count=2,
    ),
    _row(
        "batch groups with strides",
        (6, 2, 9),
        (6, 2, 3),
        window_strides=(2,),
        padding="SAME",
        batch_group_count=3,
        rhs_dilation=(2,),
    ),
    _row(
        "NHWC",
        (2, 9, 8, 3),
        (3, 3, 3, 4),
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ),
    _row(
        "mixed layouts",
        (9, 2, 8, 3),
        (3, 4, 3, 3),
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("HNWC", "HOWI", "CWNH"),
    ),
    # Strides that leave elements out, windows that start or end in gaps of the dilated operand.
    _row(
        "feature groups with everything",
        (5, 4, 2, 6),
        (3, 2, 6, 2),
        ("float32", "float64", "complex128"),
        window_strides=(3, 2),
        padding=[(-1, 2), (3, -2)],
        lhs_dilation=(2, 3),
        rhs_dilation=(2, 3),
        dimension_numbers=("HCNW", "HIOW", "NWCH"),
        feature_group_count=2,
    ),
    _row(
        "batch groups with everything",
        (5, 3, 4, 6),
        (3, 3, 6, 2),
        ("float32", "float64", "complex128"),
        window_strides=(3, 2),
        padding=[(-1, 2), (3, -2)],
        lhs_dilation=(2, 3),
        rhs_dilation=(2, 3),
        dimension_numbers=("HCNW", "HIOW", "NWCH"),
        batch_group_count=2,
    ),
    _row(
        "one axis",
        (2, 3, 20),
        (4, 3, 5),
        _ALL,
        _same_correlation,
        window_strides=(1,),
        padding="VALID",
    ),
    _row("three axes", (2, 3, 5, 6, 4), (4, 3, 2, 3, 2), window_strides=(1, 2, 1), padding="SAME"),
    _row("no spatial axes", (2, 3), (4, 3), window_strides=(), padding=[]),
    _row(
        "long kernel",
        (1, 1, 100),
        (1, 1, 50),
        ("int32", "float32"),
        window_strides=(1,),
        padding=[(49, 49)],
    ),
    _row(
        "long kernel in groups",
        (1, 4, 20, 20),
        (4, 2, 7, 7),
        ("float32",),
        window_strides=(1, 1),
        padding="VALID",
        feature_group_count=2,
    ),
    _row("kernel of one", (2, 3, 1, 1), (4, 3, 1, 1), window_strides=(1, 1), padding="VALID"),
    _row("empty batch", (0, 3, 4, 4), (4, 3, 3, 3), window_strides=(1, 1), padding="SAME"),
    _row("empty result", (2, 3, 2, 4), (4, 3, 3, 3), window_strides=(1, 1), padding="VALID"),
    _row("no features", (2, 0, 4, 4), (4, 0, 3, 3), window_strides=(1, 1), padding="SAME"),
]
