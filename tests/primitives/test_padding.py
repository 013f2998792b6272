"""Windows and convolutions under every kind of padding and dilation, against JAX's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
from tests.primitives import padding_cases
from xpr import lax

with np.load(Path(__file__).parent / "padding_golden.npz") as _file:
    SHAPES = {name: tuple(shape) for name, shape in json.loads(str(_file["shapes"])).items()}
    VALUES = _file["values"]


def test_shapes_and_values_are_those_of_jax() -> None:
    found = dict(padding_cases.results(lax))
    assert {name: x.shape for name, x in found.items()} == SHAPES
    values = np.concatenate([np.asarray(x).reshape(-1) for x in found.values()])
    np.testing.assert_array_equal(np.clip(values, -999, 999), VALUES)


@pytest.mark.parametrize("kind", ["sum", "max", "convolution"])
def test_some_of_them_compiled(kind: str) -> None:
    """One in eleven, among them all paddings and dilations."""

    def chosen() -> dict[str, object]:
        cases = [(n, x) for n, x in padding_cases.results(lax) if n.startswith(kind)]
        return dict(cases[::11])

    eager = chosen()
    for name, x in xpr.jit(chosen)().items():
        np.testing.assert_array_equal(x, np.asarray(eager[name]), err_msg=name)


@pytest.mark.parametrize("case", padding_cases.windows()[::11], ids=str)
def test_the_gradient_counts_the_windows_of_each_element(case: tuple[Any, ...]) -> None:
    size, strides, pads, base, window = case

    def total(x: Any) -> Any:
        return lax.reduce_window(x, 0.0, lax.add, size, strides, pads, base, window).sum()

    x = padding_cases.X
    units = np.eye(x.size, dtype=x.dtype).reshape(-1, *x.shape)
    counted = np.reshape([total(unit) for unit in units], x.shape)
    np.testing.assert_array_equal(xpr.grad(total)(x), counted)


def test_spread_images_want_their_padding_in_numbers() -> None:
    with pytest.raises(ValueError, match="String padding is not implemented"):
        lax.conv_general_dilated(
            padding_cases.IMAGES, padding_cases.KERNEL, (1, 1), "SAME", lhs_dilation=(2, 1)
        )


SINGLE = (
    *(((2, 3), (9, 1)), ((2, 3), (6, 2)), ((3, 3), (5, 4)), ((2, 2), (7, 7)), ((2, 1), (6, 2))),
    *(((3, 6), (1, 9)), ((1, 2), (7, 5)), ((7, 6), (2, 2)), ((6, 5), (2, 2))),
)


def test_an_axis_with_one_window_and_elements_beyond_it() -> None:
    """As in a pooling of 2 x 2 of an array of 3 x 3: the results once were uninitialized."""
    x = np.random.default_rng(5).integers(-9, 9, (2, 7, 6)).astype(np.float32)

    def program(x: Any) -> list[Any]:
        return [
            lax.reduce_window(x, start, op, (1, *size), (1, *strides), "VALID")
            for size, strides in SINGLE
            for start, op in ((0.0, lax.add), (-np.inf, lax.max), (np.inf, lax.min))
        ]

    found = iter(xpr.jit(program)(x))
    for size, (s, t) in SINGLE:
        windows = np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))[:, ::s, ::t]
        for reduce in (np.sum, np.max, np.min):
            np.testing.assert_array_equal(next(found), reduce(windows, (3, 4)), err_msg=f"{size}")
