"""`OpRow`: how one primitive is exercised; the table's tests are driven by these rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

Arrays = tuple[np.ndarray[Any, Any], ...]

# Relative and absolute tolerance of compiled against reference results, by result dtype.
DEFAULT_TOLERANCE: dict[str, tuple[float, float]] = {
    "float64": (1e-14, 0.0),
    "float32": (1e-6, 0.0),
    "float16": (2e-3, 0.0),
    "bfloat16": (1.6e-2, 0.0),
    "complex64": (2e-6, 1e-6),
    "complex128": (2e-14, 1e-14),
}

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INEXACT = (*FLOATS, *COMPLEX)
NUMERIC = (*INTEGERS, *INEXACT)
ALL = (*BOOL, *NUMERIC)


@dataclass(frozen=True)
class OpRow:
    """One case of one primitive for each dtype.

    `function` takes arrays and calls the primitive's public wrapper; `args(rng, dtype)` makes its
    NumPy operands. The reference rule is compared with `oracle` (a NumPy, SciPy or mpmath function
    of the operands, written independently) where one is given, and the compiled result with the
    reference. `exact` asks for equal bits (NaNs counted equal).
    """

    primitive: str
    function: Callable[..., Any]
    args: Callable[[np.random.Generator, np.dtype[Any]], Arrays]
    dtypes: Sequence[str]
    case: str = ""
    oracle: Callable[..., Any] | None = None
    tolerance: dict[str, tuple[float, float]] = field(default_factory=dict)
    exact: bool = False
    signed_zero: bool = True
    smooth: Callable[[np.random.Generator, np.dtype[Any]], Arrays] | None = None
    """Operands at which to check derivatives; by default those of `args` with random values."""
    domain: tuple[float, float] = (0.2, 0.9)
    """Where the default's values (the parts of complex ones) lie."""
    no_derivative_check: str = ""
    """The reason for which the row's derivatives are not checked: another row does, say."""
    no_batching_check: str = ""
    """The reason for which the row is not checked under vmap."""

    compiled_in: Sequence[str] = ()
    """The dtypes in which it is compiled, if not in all: another row compiles the primitive."""

    @property
    def id(self) -> str:
        return f"{self.primitive}{'-' + self.case if self.case else ''}"

    def tolerance_for(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """(rtol, atol) for results of `dtype`."""
        if self.exact or dtype.name not in DEFAULT_TOLERANCE:
            return (0.0, 0.0)
        return self.tolerance.get(dtype.name, DEFAULT_TOLERANCE[dtype.name])


def np_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype called `name`, bfloat16 and the 8-bit floats included."""
    return np.dtype(getattr(ml_dtypes, name, name))


def special_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Zeros, ones, halves, extremes, denormals, infinities and NaN, as far as `dtype` has them."""
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
        if info.min < 0:
            values += [-1, -2, -3, -7]
        return np.array(values, dtype)
    if dtype.kind == "c":
        part = special_values(np.dtype(np.float32 if dtype.itemsize == 8 else np.float64))
        few = np.concatenate([part[:6], part[-5:]])
        re, im = np.meshgrid(few, few)
        return _complex(re, im, dtype)
    info = ml_dtypes.finfo(dtype)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.0, 2.5, -2.5, 3.0, 10.0, -10.0, 100.0]
    extremes = [
        float(info.max),
        float(info.min),
        float(info.tiny),
        -float(info.tiny),
        float(info.smallest_subnormal),
        -float(info.smallest_subnormal),
        float(info.eps),
    ]
    return np.array([*values, *extremes, np.inf, -np.inf, np.nan]).astype(dtype)


def _complex(re: Any, im: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    out = np.empty(re.size, dtype)
    out.real, out.imag = re.ravel(), im.ravel()
    return out


def all_pairs(values: np.ndarray[Any, Any]) -> Arrays:
    """Every pair of `values`, as two arrays."""
    a, b = np.meshgrid(values, values)
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


def random_values(
    rng: np.random.Generator,
    dtype: np.dtype[Any],
    shape: Sequence[int],
    low: float = -4.0,
    high: float = 4.0,
) -> np.ndarray[Any, Any]:
    """Seeded values in [low, high] of any dtype; unsigned integers from its positive part."""
    shape = tuple(shape)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        least = max(int(low), 0) if dtype.kind == "u" else int(low)
        return rng.integers(least, int(high) + 1, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


# Shapes that every elementwise row should see besides its special values.
SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (0,),
    (1,),
    (3, 0, 2),
    (1, 5),
    (4, 3),
    (2, 1, 2, 1, 2, 1, 1, 3),
)


def elementwise_args(
    arity: int, low: float = -4.0, high: float = 4.0, special: bool = True
) -> Callable[[np.random.Generator, np.dtype[Any]], Arrays]:
    """Operands of an elementwise row: special values (all pairs for two operands), random ones."""

    def args(rng: np.random.Generator, dtype: np.dtype[Any]) -> Arrays:
        pieces: list[Arrays] = []
        if special:
            values = special_values(dtype)
            if arity == 2:
                values = values if dtype.kind != "c" else values[::7]
                pieces.append(all_pairs(values))
            else:
                pieces.append((values,) * arity)
        pieces.append(tuple(random_values(rng, dtype, (64,), low, high) for _ in range(arity)))
        return tuple(np.concatenate([p[i] for p in pieces]) for i in range(arity))

    return args
