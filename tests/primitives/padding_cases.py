"""Windows, convolutions and transposed convolutions under every kind of padding and dilation.

Written with the functions of a `lax` that is given, so that JAX computes the golden results of the
same calls (`make_padding_golden.py`). All numbers are small integers: results are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

PADS = ("SAME", "VALID", "SAME_LOWER", ((1, 2), (0, 3)), ((-1, 0), (2, -1)))
_RNG = np.random.default_rng(0)
X = _RNG.integers(-4, 5, (4, 5)).astype(np.float32)
IMAGES = _RNG.integers(-4, 5, (2, 2, 5, 4)).astype(np.float32)
KERNEL = _RNG.integers(-4, 5, (2, 2, 3, 2)).astype(np.float32)


def windows() -> list[tuple[Any, ...]]:
    """Sizes, strides, padding, base and window dilations."""
    return list(
        itertools.product(
            [(2, 3), (3, 2)],
            [(1, 1), (2, 3), (3, 1)],
            PADS,
            [None, (2, 3), (3, 1)],
            [None, (2, 1)],
        )
    )


def convolutions() -> list[tuple[Any, ...]]:
    """Strides, padding, dilations of the images and of the kernel.

    Images that are spread want their padding in numbers.
    """
    cases = itertools.product([(1, 1), (2, 3)], PADS, [None, (2, 3)], [None, (2, 1)])
    return [case for case in cases if case[2] is None or not isinstance(case[1], str)]


def transposed() -> list[tuple[Any, ...]]:
    """Strides, padding and dilations of the kernel."""
    pads = ("SAME", "VALID", ((1, 2), (0, 3)))
    return list(itertools.product([(1, 1), (2, 3)], pads, [None, (2, 1)]))


def results(lax: Any) -> Iterator[tuple[str, Any]]:
    """Each case by its name, and its array."""
    for case in windows():
        size, strides, pads, base, window = case
        for name, start, op in (("sum", 0.0, lax.add), ("max", -np.inf, lax.max)):
            yield (
                f"{name} {case}",
                lax.reduce_window(X, np.float32(start), op, size, strides, pads, base, window),
            )
    for case in convolutions():
        strides, pads, images, kernel = case
        yield (
            f"convolution {case}",
            lax.conv_general_dilated(
                IMAGES, KERNEL, strides, pads, lhs_dilation=images, rhs_dilation=kernel
            ),
        )
    for case in transposed():
        strides, pads, kernel = case
        numbers = ("NCHW", "OIHW", "NCHW")
        yield (
            f"transposed {case}",
            lax.conv_transpose(
                IMAGES, KERNEL, strides, pads, rhs_dilation=kernel, dimension_numbers=numbers
            ),
        )
