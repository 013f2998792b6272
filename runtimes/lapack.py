"""Functions of LAPACK and BLAS over stacks of matrices, and the native part's for small matrices.

They are SciPy's, which hands out their addresses for other compiled code; the native part calls
them. A call through SciPy's Python functions takes some 10 us, as long as to factor a matrix of 20
rows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.runtimes.extension import native
from xpr.runtimes.scipy_parts import compiled_or_imported

Host = np.ndarray[Any, Any]


class Each(NamedTuple):
    """An argument of which each matrix has its own: [count, ...], without gaps."""

    array: Host


class Scratch(NamedTuple):
    """Memory that a function needs on the way."""

    size: int
    dtype: np.dtype[Any]


Argument = int | str | Host | Each | Scratch

PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""The letters of LAPACK's types, by NumPy's."""

# Multiplications and additions of a whole stack, some 50 us, from which other threads take a share;
# and as many as a call takes the time of.
_PARALLEL, _CALL = 1e5, 300
# Parts that a stack is cut into: more than threads, so that one that comes late takes fewer.
_PARTS = 16


@functools.cache
def _function(name: str) -> Any:
    """SciPy's function `name` with its address; None where there is none."""
    # SciPy's LAPACK is loaded when it is first needed.
    for module in ("cython_lapack", "cython_blas"):
        found = compiled_or_imported(f"linalg.{module}").__pyx_capi__.get(name)
        if found is not None:
            return found
    return None


@functools.cache
def available() -> bool:
    """Whether `call` can be used: the native part is there, and LAPACK's integers have 32 bits."""
    if native().module is None:
        return False
    getrf = _function("dgetrf")
    return getrf is not None and '"void (int *, int *, ' in repr(getrf)


@functools.lru_cache(256)
def _constant(value: int | str) -> tuple[int, Host]:
    """Where a number or a letter lies in memory, and what keeps it there."""
    array = np.array(value, np.int32) if isinstance(value, int) else np.array(value.encode())
    return _address(array), array


def _address(array: Host) -> int:
    return array.__array_interface__["data"][0]


def call(
    name: str,
    dtype: np.dtype[Any],
    arguments: Sequence[Argument],
    *,
    count: int,
    work: float,
) -> None:
    """Calls LAPACK's function `name`, without the letter of its type, for each of `count` matrices.

    `arguments` are in Fortran's order: integers and letters, arrays that all matrices share,
    `Each` and `Scratch`. `work` is about the number of multiplications and additions per matrix.
    For matrices so large that OpenBLAS uses threads itself, those of the pool would disturb it.
    """
    function = _function(PREFIXES[dtype.char] + name)
    parts = _PARTS if count * (work + _CALL) >= _PARALLEL else 1
    chunk = max(1, -(-count // parts))
    given: list[tuple[int, int, int]] = []
    kept: list[Host] = []
    for a in arguments:
        if isinstance(a, (int, str)):
            address, array = _constant(a)
            kept.append(array)  # the cache may forget it
            given.append((address, 0, 0))
            continue
        per_matrix = per_chunk = 0
        if isinstance(a, Each):
            array, per_matrix = a.array, a.array.nbytes // count
            if len(array) != count or not array.flags.c_contiguous:
                raise ValueError(f"{name} needs {count} matrices without gaps, got {array.shape}")
        elif isinstance(a, Scratch):
            array = np.empty((-(-count // chunk), a.size), a.dtype)
            per_chunk = array.strides[0]
        else:
            array = a
        kept.append(array)
        given.append((_address(array), per_matrix, per_chunk))
    native().module.call_over_stack(function, given, count, chunk, parts > 1)


# ---- small matrices: the native part's own functions, for float32 and float64


def is_small(dtype: np.dtype[Any], *sides: int) -> bool:
    """Whether the functions below take matrices with such sides; `available` holds."""
    return dtype.char in "fd" and max(sides) <= native().module.most_small_side


def _small(name: str, dtype: np.dtype[Any]) -> Any:
    return getattr(native().module, f"{PREFIXES[dtype.char]}_{name}")


def factor_small(x: Host) -> tuple[Host, Host, Host]:
    """L and U of matrices [count, m, n] in one matrix, the exchanges of rows and their order."""
    count, m, n = x.shape
    x, k = np.ascontiguousarray(x), min(m, n)
    factors, pivots = np.empty_like(x), np.empty((count, k), np.int32)
    order = np.empty((count, m), np.int32)
    addresses = map(_address, (x, factors, pivots, order))
    _small("factor_small", x.dtype)(*addresses, count, m, n, x.size * k >= _PARALLEL)
    return factors, pivots, order


def factor_small_symmetric(x: Host) -> Host:
    """Lower Cholesky factors of [count, n, n]; a NaN on the diagonal where there is none."""
    count, n, _ = x.shape
    x = np.ascontiguousarray(x)
    out = np.empty_like(x)
    function = _small("factor_small_symmetric", x.dtype)
    function(_address(x), _address(out), count, n, x.size * n >= _PARALLEL)
    return out


def solve_small_triangles(
    a: Host, b: Host, *, left: bool, lower: bool, transposed: bool, unit: bool
) -> Host:
    """X with op(A) X = B, or X op(A) = B, for triangles `a` [count, n, n]."""
    count, n, _ = a.shape
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    out, width = np.empty_like(b), b.shape[2] if left else b.shape[1]
    flags = (left, lower, transposed, unit, b.size * n >= _PARALLEL)
    _small("solve_small_triangles", a.dtype)(*map(_address, (a, b, out)), count, n, width, *flags)
    return out
