"""Sorting, factorisations and statistics: what runs in the host's libraries, and what compiles.

`_first_call` times a function compiled anew: each time with another constant in it, so that no
cache has it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cases import ActionCase, Call, Case, ProgramCase
from benchmarks.implementations import Implementation

_offsets = itertools.count(1)


def _rows(rng: Any, quick: bool) -> list[numpy.ndarray]:
    return [rng.standard_normal((256 if quick else 16384, 64), dtype=numpy.float32)]


def _integers(rng: Any, quick: bool) -> list[numpy.ndarray]:
    return [rng.integers(0, 2**30, 20_000 if quick else 1_000_000).astype(numpy.int32)]


def _complex(rng: Any, quick: bool) -> list[numpy.ndarray]:
    """Two arrays, the second of them far from zero."""
    n = 1000 if quick else 65536
    z, w = rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))
    return [z.astype(numpy.complex64), (w / abs(w) * (1 + abs(w))).astype(numpy.complex64)]


def _definite(rng: Any, quick: bool, rows: int = 512) -> list[numpy.ndarray]:
    n = 32 if quick else rows
    a = rng.standard_normal((n, n)).astype(numpy.float32)
    return [a @ a.T / numpy.float32(n) + numpy.eye(n, dtype=numpy.float32)]


def _square(rng: Any, quick: bool) -> list[numpy.ndarray]:
    n = 32 if quick else 512
    return [rng.standard_normal((n, n)).astype(numpy.float32)]


def _stack(count: int, n: int, rng: Any, quick: bool) -> list[numpy.ndarray]:
    """As many matrices of n rows, far from singular, and a column for each."""
    batch = 20 if quick else count
    a = rng.standard_normal((batch, n, n)) + 2 * n * numpy.eye(n)
    return [a.astype(numpy.float32), rng.standard_normal((batch, n, 1)).astype(numpy.float32)]


def _eigh(np: Any, lax: Any, a: Any) -> Any:
    values, vectors = np.linalg.eigh(a)
    # Eigenvectors have either sign.
    return values, np.sum(np.abs(vectors))


def _svd(np: Any, lax: Any, a: Any) -> Any:
    u, s, vh = np.linalg.svd(a)
    return s, np.sum(np.abs(u)) + np.sum(np.abs(vh))


def _lu(np: Any, lax: Any, a: Any) -> Any:
    return lax.linalg.lu(a)[0]


def _numpy_lu(np: Any, lax: Any, a: Any) -> Any:
    import scipy.linalg  # noqa: PLC0415  only this case needs it

    return scipy.linalg.lu_factor(a)[0]


def _case(name: str, program: Any, inputs: Any, **more: Any) -> ProgramCase:
    modes = ("numpy", "xpr jit", "jax jit")
    return ProgramCase(
        name=name, group="arrays", program=program, inputs=inputs, **{"modes": modes, **more}
    )


def _first_call(implementation: Implementation, quick: bool, program: Callable[..., Any]) -> Call:
    x = implementation.put(numpy.random.default_rng(0).random(1000, dtype=numpy.float32))

    def call() -> Any:
        offset = float(next(_offsets))
        function = implementation.jit(lambda v: program(implementation.np, v + offset))
        return function(x)

    return call


def _compiling(name: str, program: Callable[..., Any]) -> Case:
    return ActionCase(
        name=f"{name}, nothing cached: first call",
        group="arrays",
        action=functools.partial(_first_call, program=program),
        modes=("xpr jit", "jax jit"),
    )


def _interp(np: Any, x: Any) -> Any:
    grid = np.linspace(0.0, 1.0, 100)
    return np.interp(x, grid, grid * grid)


ARRAYS: tuple[Case, ...] = (
    _case("sort 16384 rows of 64", lambda np, lax, x: np.sort(x, axis=1), _rows),
    _case("argsort 1M integers", lambda np, lax, x: np.argsort(x, stable=True), _integers),
    _case(
        "unique 1M integers",
        lambda np, lax, x: np.unique(x),
        _integers,
        modes=("numpy", "xpr eager"),
    ),
    _case("cholesky 512", lambda np, lax, a: np.linalg.cholesky(a), _definite),
    _case("lu 512", _lu, _square, numpy_program=_numpy_lu, tolerance=1e-3),
    _case("eigh 512", _eigh, _definite, tolerance=1e-4),
    _case("eigh 180", _eigh, functools.partial(_definite, rows=180), tolerance=1e-4),
    _case("svd 512", _svd, _square, tolerance=1e-4),
    _case("solve 512", lambda np, lax, a: np.linalg.solve(a, a[0]), _definite, tolerance=1e-3),
    _case(
        "solve 2000 of 6 rows",
        lambda np, lax, a, b: np.linalg.solve(a, b),
        functools.partial(_stack, 2000, 6),
        tolerance=1e-3,
    ),
    _case(
        "inv 5000 of 3 rows",
        lambda np, lax, a, b: np.linalg.inv(a),
        functools.partial(_stack, 5000, 3),
        tolerance=1e-3,
    ),
    _case(
        "qr 1000 of 8 rows",
        lambda np, lax, a, b: tuple(np.linalg.qr(a)),
        functools.partial(_stack, 1000, 8),
        tolerance=1e-3,
    ),
    _case("quotients of 64K complex numbers", lambda np, lax, z, w: z / w, _complex),
    _case("logarithms of 64K complex numbers", lambda np, lax, z, w: np.log(w), _complex),
    _case("rows of 512x512 backwards", lambda np, lax, a: a[::-1] * 2, _square),
    _compiling("median", lambda np, x: np.median(x)),
    _compiling("histogram", lambda np, x: np.histogram(x, bins=50)),
    _compiling("interp", _interp),
    _compiling("unique", lambda np, x: np.unique(x, size=1000)),
)
