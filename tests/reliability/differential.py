"""Random programs over all dtypes, written for whatever module is given: xpr, or JAX for results.

A program is a list of numbers, one for each step; a step takes arrays at hand and makes others.
What rounds differently when operations are fused or added in another order must not decide
anything: each array knows whether it is *exact*, the same to the last bit however it is computed,
and only exact arrays are compared, converted to integers, sorted by place or used as indices. Exact
floats are sums of few powers of two, whose number of digits is kept track of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import ml_dtypes
import numpy as np

T = TypeVar("T")
Rng = np.random.Generator

FLOATS = ("float32", "float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool", "complex64", "complex128")
SHAPES = ((), (1,), (3,), (4,), (3, 4), (4, 3), (2, 3, 4), (5, 1), (0, 3), (7,))
LARGEST = 96

# The binary digits behind the point with which an exact float of magnitude 8 still adds exactly.
DIGITS = {"float32": 16, "float64": 40, "float16": 4, "bfloat16": 1}


class Library(NamedTuple):
    """The modules that programs are written with."""

    jnp: Any
    lax: Any
    nn: Any
    jax: Any


class Val(NamedTuple):
    """An array; `exact` ones have at most `digits` binary digits behind the point."""

    x: Any
    exact: bool = True
    digits: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def kind(self) -> str:
        """One of b, i, u, f and c."""
        name = self.x.dtype.name
        if name == "bool":
            return "b"
        return {"i": "i", "u": "u", "c": "c"}.get(name[0], "f")

    @property
    def dtype(self) -> str:
        return self.x.dtype.name


Made = list[Val]
Step = Callable[["Run", Val], "Val | None"]
Table = dict[str, tuple[Step, ...]]
"""The steps by the kind of the array that they begin with."""


def one(rng: Rng, choices: Sequence[T]) -> T:
    """One of the choices."""
    return choices[int(rng.integers(len(choices)))]


def operands(rng: Rng) -> list[np.ndarray[Any, Any]]:
    """Three arrays; those of floats and complex numbers are eighths, or halves in narrow types."""
    found = []
    for _ in range(3):
        dtype, shape = one(rng, DTYPES), one(rng, SHAPES)
        found.append(_numbers(rng, dtype, shape))
    return found


def _numbers(rng: Rng, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("uint"):
        return rng.integers(0, 8, shape).astype(dtype)
    if dtype.startswith("int"):
        return rng.integers(-8, 8, shape).astype(dtype)
    unit = 2 if dtype in ("float16", "bfloat16") else 8
    real = rng.integers(-4 * unit, 4 * unit, shape) / unit
    if dtype.startswith("complex"):
        return (real + 1j * rng.integers(-16, 16, shape) / 8).astype(dtype)
    return real.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def start(x: Any) -> Val:
    """An operand as a value."""
    return Val(x, True, 3 if x.dtype.name not in ("float16", "bfloat16") else 1)


def steps(rng: Rng, most: int = 7) -> list[int]:
    """A program."""
    return [int(n) for n in rng.integers(1 << 30, size=int(rng.integers(3, most)))]


class Run:
    """One run of a program: the arrays made so far, and the step's source of choices."""

    def __init__(
        self, lib: Library, table: Table, values: Sequence[Val], smooth: bool, depth: int = 0
    ) -> None:
        self.lib = lib
        self.table = table
        self.jnp = lib.jnp
        self.values = list(values)
        self.smooth = smooth
        self.depth = depth
        self.rng = np.random.default_rng(0)

    def step(self, number: int) -> None:
        """Makes one more array, if that step has anything to work on."""
        self.rng = np.random.default_rng(number)
        x = one(self.rng, self.values)
        made = one(self.rng, self.table[x.kind])(self, x)
        if made is not None and math.prod(made.shape) <= LARGEST and len(made.shape) <= 4:
            self.values.append(self.bounded(made))

    def like(self, x: Val, *, exact: bool = False) -> Val:
        """Another array of the same type."""
        same = [
            v
            for v in self.values
            if (v.shape, v.dtype) == (x.shape, x.dtype) and (v.exact or not exact)
        ]
        return one(self.rng, same) if same else x

    def place(self, size: int) -> int:
        return int(self.rng.integers(max(size, 1)))

    def axis(self, x: Val) -> int:
        return self.place(len(x.shape))

    def indices(self, size: int, count: int) -> np.ndarray[Any, Any]:
        """Places, some of them negative or outside."""
        return self.rng.integers(-size - 1, size + 2, count).astype(np.int32)

    def bounded(self, v: Val) -> Val:
        """Values that stay small however often they are computed with."""
        jnp, x = self.jnp, v.x
        if v.kind == "b":
            return v
        if v.kind in "iu":
            return Val(x % jnp.asarray(7, x.dtype))
        if v.kind == "c":
            return Val(x * jnp.asarray(0.25, x.dtype), False)
        digits = DIGITS[v.dtype]
        if v.exact and v.digits <= digits:
            if v.dtype in ("float16", "bfloat16"):
                return Val(x, False) if self.smooth else self._short(v)
            return Val(self.lib.lax.rem(x, jnp.asarray(8, x.dtype)), True, v.digits)
        return Val(x / (1 + jnp.abs(x)).astype(x.dtype) * 4, False)

    def _short(self, v: Val) -> Val:
        """A number of a narrow type, with a few of its digits."""
        x = self.lib.lax.rem(v.x, self.jnp.asarray(4, v.x.dtype))
        return Val(self.jnp.round(x * 2) / 2, True, 1)
