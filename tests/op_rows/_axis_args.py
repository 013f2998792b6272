"""Operands of rows that fold, scan or sort axes, and loops over the lines of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.op_row import Arrays
from tests.op_rows._elementwise_args import normal_values

Args = Callable[[np.random.Generator, np.dtype[Any]], Arrays]


def _of_shapes(
    make: Callable[[np.random.Generator, np.dtype[Any], Sequence[int]], Any],
    shapes: Sequence[Sequence[int]],
) -> Args:
    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        return tuple(make(rng, dtype, shape) for shape in shapes)

    return args


def _wholes(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, tuple(shape), dtype, endpoint=True)
    if dtype == np.bool_:
        return rng.random(tuple(shape)) > 0.5
    real = rng.integers(-3, 4, tuple(shape))
    if dtype.kind == "c":
        return (real + 1j * rng.integers(-3, 4, tuple(shape))).astype(dtype)
    return real.astype(dtype)


def wholes(*shapes: Sequence[int]) -> Args:
    """Whole numbers: small ones as floats, so that sums are exact; any integers, to wrap around."""
    return _of_shapes(_wholes, shapes)


def positive(*shapes: Sequence[int]) -> Args:
    """Real numbers in [1, 2): their sums and products are well conditioned."""
    return _of_shapes(lambda rng, dtype, s: rng.uniform(1, 2, tuple(s)).astype(dtype), shapes)


def _picks(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    values = normal_values(dtype)
    size = math.prod(shape)
    rounds = [rng.permutation(values) for _ in range(size // len(values) + 1)]
    return np.concatenate(rounds)[:size].reshape(tuple(shape)).astype(dtype)


def picks(*shapes: Sequence[int]) -> Args:
    """Special values but denormal ones, in random order."""
    return _of_shapes(_picks, shapes)


def numbers(*shapes: Sequence[int]) -> Args:
    """Special values but denormal ones and NaN, in random order."""

    def make(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
        x = _picks(rng, dtype, shape)
        return x if dtype.kind in "biu" else np.where(x != x, np.ones((), dtype), x)

    return _of_shapes(make, shapes)


def ties(*shapes: Sequence[int]) -> Args:
    """Few different values, each many times."""

    def make(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
        return rng.integers(0, 3, tuple(shape)).astype(dtype)

    return _of_shapes(make, shapes)


def plain(x: Any) -> list[Any]:
    """The elements as Python numbers, in order."""
    if x.dtype.kind in "biuc":
        return x.ravel().tolist()
    return x.astype(np.float64).ravel().tolist()


def order_key(value: Any) -> tuple[Any, ...]:
    """A key that orders numbers as `sort` does: NaN last, complex by real, then imaginary part."""
    if isinstance(value, complex):
        return (*order_key(value.real), *order_key(value.imag))
    return (1, 0) if value != value else (0, value)


def fold_lines(x: Any, axes: Sequence[int], fold: Callable[[list[Any]], Any]) -> Any:
    """`fold` of the Python numbers of each line along `axes`, in order, as an array of objects."""
    axes = sorted(axes)
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(x.shape[i] for i in kept)
    count = math.prod(x.shape[i] for i in axes)
    lines = x.transpose((*kept, *axes)).reshape((math.prod(shape), count))
    return np.array([fold(plain(line)) for line in lines], object).reshape(shape)


def scan_lines(
    x: Any, axis: int, reverse: bool, function: Callable[[list[Any]], list[Any]], dtype: Any = None
) -> Any:
    """`function` of the Python numbers of each line along `axis`, to numbers of its own line."""
    moved = np.moveaxis(x, axis, -1)
    lines = moved.reshape((-1, x.shape[axis])) if x.size else moved.reshape((0, 0))
    step = -1 if reverse else 1
    found = [function(plain(line)[::step])[::step] for line in lines]
    length = len(function([0] * x.shape[axis]))
    out = np.array(found, dtype or x.dtype).reshape((*moved.shape[:-1], length))
    return np.moveaxis(out, -1, axis)
