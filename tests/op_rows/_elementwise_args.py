"""Operands and tolerances that the rows of elementwise primitives share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.op_row import SHAPES, Arrays, all_pairs, random_values, special_values

Args = Callable[[np.random.Generator, np.dtype[Any]], Arrays]

# A few ulp; absolutely, the least normal number, since denormal results become 0.
FEW_ULP: dict[str, tuple[float, float]] = {
    "float64": (2e-15, 2.3e-308),
    "float32": (1e-6, 1.2e-38),
    "float16": (1e-3, 6e-8),
    "bfloat16": (8e-3, 1.2e-38),
    "complex64": (2e-6, 1e-6),
    "complex128": (4e-15, 4e-15),
}
ROUNDED_ONCE: dict[str, tuple[float, float]] = {
    "float64": (0.0, 2.3e-308),
    "float32": (0.0, 1.2e-38),
    "float16": (0.0, 0.0),
    "bfloat16": (0.0, 1.2e-38),
    "complex64": (5e-7, 1.2e-38),
    "complex128": (1e-15, 2.3e-308),
}


def normal_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Special values without denormals, which compiled programs take for 0."""
    values = special_values(dtype)
    if dtype.kind in "biu":
        return values
    if dtype.kind == "c":
        tiny = np.finfo(dtype).tiny
        parts = np.stack([np.abs(values.real), np.abs(values.imag)])
        return values[~np.any((parts > 0) & (parts < tiny), axis=0)]
    size = np.abs(values.astype(np.float64))
    return values[(size == 0) | ~(size < float(ml_dtypes.finfo(dtype).tiny))]


def unary(*ranges: tuple[float, float]) -> Args:
    """Special values (finite ones of complex types) and random ones in each range."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        values = normal_values(dtype)
        if dtype.kind == "c":
            # Numbers whose squares overflow lose all accuracy in some references.
            part = np.maximum(np.abs(values.real), np.abs(values.imag))
            values = values[part < 1e15]
        pieces = [values] + [random_values(rng, dtype, (64,), *r) for r in ranges or [(-4.0, 4.0)]]
        return (np.concatenate(pieces),)

    return args


def binary(low: float = -4.0, high: float = 4.0) -> Args:
    """All pairs of special values (finite ones of complex types), and random pairs."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        values = normal_values(dtype)
        if dtype.kind == "c":
            part = np.maximum(np.abs(values.real), np.abs(values.imag))
            values = values[part < 1e15][::3]
        first, second = all_pairs(values)
        more = (random_values(rng, dtype, (64,), low, high) for _ in range(2))
        return tuple(np.concatenate(p) for p in zip((first, second), more, strict=True))

    return args


def of_shapes(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """One operand of each shape that elementwise operations should see."""
    return tuple(random_values(rng, dtype, shape, 0.25, 4.0) for shape in SHAPES)


def over_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of each operand alone."""
    return lambda *arrays: tuple(function(x) for x in arrays)


def broadcasts(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
    """Pairs of shapes that go together, one after the other."""
    shapes: Sequence[Sequence[tuple[int, ...]]] = (
        ((), (2, 3)),
        ((2, 3), ()),
        ((2, 1), (2, 3)),
        ((1, 3), (2, 1)),
        ((0, 1), (0, 4)),
        ((), ()),
        ((), (0,)),
    )
    return tuple(random_values(rng, dtype, s, 1.0, 4.0) for pair in shapes for s in pair)


def over_pairs(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of each two neighbouring operands."""
    return lambda *a: tuple(function(a[i], a[i + 1]) for i in range(0, len(a), 2))


def widely(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function as an oracle: computed in long double, where that is longer."""

    def oracle(*arrays: np.ndarray[Any, Any]) -> Any:
        complex_ = arrays[0].dtype.kind == "c"
        wide = np.clongdouble if complex_ else np.longdouble
        arguments = [
            a.astype(np.float64 if a.dtype.itemsize == 2 else a.dtype).astype(wide) for a in arrays
        ]
        result = np.asarray(function(*arguments))
        narrow = np.complex128 if result.dtype.kind == "c" else np.float64
        if complex_ and result.dtype.kind != "c":
            return result.astype(narrow)
        return result.astype(narrow).astype(arrays[0].dtype)

    return oracle


def by_element(function: Callable[..., Any]) -> Callable[..., Any]:
    """An oracle from a function of Python numbers."""

    def oracle(*arrays: np.ndarray[Any, Any]) -> Any:
        dtype = arrays[0].dtype
        plain = np.broadcast_arrays(*arrays)
        numbers = zip(*(a.ravel().tolist() for a in plain), strict=True)
        return np.array([function(dtype, *v) for v in numbers]).reshape(plain[0].shape)

    return oracle
