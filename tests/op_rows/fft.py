"""Rows of the Fourier transform, against sums over the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.op_row import COMPLEX, Arrays, OpRow, random_values
from xpr.primitives.fft import fft

_REAL = ("float32", "float64")
# Compiled code calls the same transform, but sees operands with another alignment.
_TOLERANCE = {
    "float32": (1e-5, 1e-5),
    "complex64": (1e-5, 1e-5),
    "float64": (1e-14, 1e-13),
    "complex128": (1e-14, 1e-13),
}


def _sums(x: Any, axis: int, sign: int) -> Any:
    n = x.shape[axis]
    k = np.arange(n)
    matrix = np.exp(sign * 2j * np.pi * (np.outer(k, k) % max(n, 1)) / max(n, 1))
    return np.moveaxis(np.tensordot(x, matrix, (axis, 0)), -1, axis)


def _oracle(kind: str, lengths: tuple[int, ...]) -> Callable[[Any], Any]:
    axes = range(-len(lengths), 0)

    def oracle(x: Any) -> Any:
        wide = np.asarray(x, np.complex128)
        sign = 1 if kind.startswith("i") else -1
        if kind == "irfft":
            for axis in axes[:-1]:
                wide = _sums(wide, axis, 1)
            # Frequency k and n - k are conjugate; those that are their own conjugates are real.
            n = lengths[-1]
            wide[..., 0].imag = 0
            whole = np.zeros((*wide.shape[:-1], n), np.complex128)
            for k in range(n):
                whole[..., k] = wide[..., k] if k <= n // 2 else wide[..., n - k].conj()
            wide, axes_left = whole, axes[-1:]
        else:
            axes_left = axes
        for axis in axes_left:
            wide = _sums(wide, axis, sign)
        if kind == "rfft":
            return wide[..., : lengths[-1] // 2 + 1]
        wide = wide / max(np.prod(lengths), 1) if sign > 0 else wide
        return wide.real if kind == "irfft" else wide

    return oracle


def _row(kind: str, outer: tuple[int, ...], lengths: tuple[int, ...]) -> OpRow:
    last = lengths[-1] // 2 + 1 if kind == "irfft" else lengths[-1]
    shape = (*outer, *lengths[:-1], last)

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return (random_values(rng, dtype, shape, -1, 1),)

    return OpRow(
        "fft",
        lambda x: fft(x, kind, lengths),
        args,
        _REAL if kind == "rfft" else COMPLEX,
        case=f"{kind} {shape} of {lengths}",
        oracle=_oracle(kind, lengths),
        tolerance=_TOLERANCE,
        signed_zero=False,
        smooth=args,
    )


_SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), (1,)),
    ((), (2,)),
    ((), (5,)),
    ((), (6,)),
    ((2,), (8,)),
    ((2, 1), (3,)),
    ((), (3, 4)),
    ((2,), (2, 3)),
    ((), (2, 3, 4)),
    ((0,), (4,)),
    ((2,), (0, 3)),
)

ROWS = [_row(kind, *s) for kind in ("fft", "ifft", "rfft", "irfft") for s in _SHAPES]
