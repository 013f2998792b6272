"""Patches of convolutions and kernels that differ by place, against loops over the places."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import xpr
from xpr import lax
from xpr.test_util import check_grads

NUMBERS: list[tuple[str, str, str]] = [
    ("NCHW", "OIHW", "NCHW"),
    ("NHWC", "HWIO", "NHWC"),
    ("CNHW", "WHIO", "NHCW"),
]
# Padding and dilations; strides are (2, 1) and the window is 3 high and 2 wide.
OPTIONS: list[tuple[Any, tuple[int, int], tuple[int, int]]] = [
    ("VALID", (1, 1), (1, 1)),
    (((1, 2), (0, 1)), (1, 1), (2, 1)),
    (((1, 0), (2, -1)), (2, 3), (1, 2)),
]
WINDOW, STRIDES = {"H": 3, "W": 2}, {"H": 2, "W": 1}


def by_letters(x: np.ndarray, spec: str, wanted: str) -> np.ndarray:
    return x.transpose([spec.index(c) for c in wanted])


def patches_by_loop(
    x: np.ndarray, letters: str, padding: Any, spread: Any, apart: Any
) -> np.ndarray:
    """Patches [N, C, *window, *places] of x [N, C, *spatial], spatial axes in the given order."""
    window, strides = [WINDOW[c] for c in letters], [STRIDES[c] for c in letters]
    pads = [(0, 0), (0, 0)] if padding == "VALID" else padding
    sizes = [
        (n - 1) * d + 1 + a + b for n, d, (a, b) in zip(x.shape[2:], spread, pads, strict=True)
    ]
    wide = np.zeros((*x.shape[:2], *sizes), x.dtype)
    for i in np.ndindex(*x.shape[2:]):
        at = [k * d + a for k, d, (a, _) in zip(i, spread, pads, strict=True)]
        if all(0 <= p < n for p, n in zip(at, sizes, strict=True)):
            wide[:, :, at[0], at[1]] = x[:, :, i[0], i[1]]
    reach = [(k - 1) * d + 1 for k, d in zip(window, apart, strict=True)]
    places = [(n - r) // s + 1 for n, r, s in zip(sizes, reach, strides, strict=True)]
    out = np.zeros((*x.shape[:2], *window, *places), x.dtype)
    for place in np.ndindex(*places):
        for tap in np.ndindex(*window):
            at = [p * s + t * d for p, s, t, d in zip(place, strides, tap, apart, strict=True)]
            out[:, :, tap[0], tap[1], place[0], place[1]] = wide[:, :, at[0], at[1]]
    return out


def test_patches_and_local_kernels_are_loops() -> None:
    rng = np.random.default_rng(3)
    programs, arguments, expected = [], [], []
    for numbers, options in itertools.product(NUMBERS, OPTIONS):
        padding, spread, apart = options
        letters = "".join(c for c in numbers[1] if c not in "OI")
        x = rng.integers(-3, 4, (2, 3, 7, 6)).astype(np.float32)
        patches = patches_by_loop(x, letters, padding, spread, apart)
        flat = patches.reshape(2, 18, *patches.shape[-2:])
        kernels = rng.integers(-3, 4, (4, 18, *flat.shape[2:])).astype(np.float32)
        local = np.einsum("oiab,niab->noab", kernels, flat)
        out_spec = "NC" + letters
        expected += [
            by_letters(flat, out_spec, numbers[2]),
            by_letters(local, out_spec, numbers[2]),
        ]
        arguments.append(
            (
                by_letters(x, "NC" + letters, numbers[0]),
                by_letters(kernels, "OI" + letters, numbers[1]),
            )
        )
        window, strides = [WINDOW[c] for c in letters], [STRIDES[c] for c in letters]

        def both(
            x: Any, kernels: Any, numbers=numbers, options=options, w=window, s=strides
        ) -> Any:
            padding, *dilations = options
            return [
                lax.conv_general_dilated_patches(x, w, s, padding, *dilations, numbers),
                lax.conv_general_dilated_local(x, kernels, s, padding, w, *dilations, numbers),
            ]

        programs.append(both)

    def everything(arguments: Any) -> Any:
        return [y for f, args in zip(programs, arguments, strict=True) for y in f(*args)]

    for found in (everything(arguments), xpr.jit(everything)(arguments)):
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)


def test_derivatives_and_batches() -> None:
    rng = np.random.default_rng(4)
    with xpr.enable_x64(True):
        x, kernels = rng.standard_normal((2, 1, 2, 4)), rng.standard_normal((3, 4, 3))

        def local(x: Any, kernels: Any) -> Any:
            return lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))

        check_grads(local, (x[0], kernels), order=2)
        stacked = xpr.vmap(local, (0, None))(x, kernels)
        for one, want in zip(x, stacked, strict=True):
            np.testing.assert_allclose(local(one, kernels), want, rtol=1e-12)


def test_errors_of_patches() -> None:
    x = np.ones((1, 2, 5), np.float32)
    with pytest.raises(TypeError, match="lhs and rhs ndim to be equal, got 3 and 4"):
        lax.conv_general_dilated_patches(x, (2, 2), (1,), "VALID")
    with pytest.raises(TypeError, match=r"to have the same shape.* Sizes 3 \(lhs axis 1\)"):
        lax.conv_general_dilated_local(x, np.ones((1, 3, 4), np.float32), (1,), "VALID", (2,))
    with pytest.raises(TypeError, match=r"batch dimensions to have the same shape.* Sizes 5"):
        lax.conv_general_dilated_local(x, np.ones((1, 4, 5), np.float32), (1,), "VALID", (2,))
