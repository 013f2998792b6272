"""Functions of LAPACK and BLAS over stacks of matrices, without Python between the matrices.

They are SciPy's, which hands out their addresses for other compiled code; the native part calls
them. A call through SciPy's Python functions takes some 10 us, as long as to factor a matrix of 20
rows.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.runtimes.extension import native

Host = np.ndarray[Any, Any]


class Each(NamedTuple):
    """An argument of which each matrix has its own: [count, ...], without gaps."""

    array: Host


class Scratch(NamedTuple):
    """Memory that a function needs on the way."""

    size: int
    dtype: np.dtype[Any]


Argument = int | str | Host | Each | Scratch

_PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""The letters of LAPACK's types, by NumPy's."""

# Multiplications and additions of a whole stack, some 50 us, from which other threads take a share;
# and as many as a call takes the time of.
_PARALLEL, _CALL = 1e5, 300
# Parts that a stack is cut into: more than threads, so that one that comes late takes fewer.
_PARTS = 16


@functools.cache
def _function(name: str) -> Any:
    """SciPy's function `name` with its address; None where there is none."""
    # SciPy's LAPACK is loaded when it is first needed: it takes longer than all of xpr.
    for module in ("cython_lapack", "cython_blas"):
        found = importlib.import_module(f"scipy.linalg.{module}").__pyx_capi__.get(name)
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
    function = _function(_PREFIXES[dtype.char] + name)
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
