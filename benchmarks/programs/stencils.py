"""Stencils and sweeps: PolyBench/C's jacobi-2d, seidel-2d, heat-3d, fdtd-2d; lattice Boltzmann."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random

_STEPS = 20


def _jacobi(np: Any, lax: Any) -> Any:
    def average(a: Any) -> Any:
        middle = a[1:-1, 1:-1]
        return 0.2 * (middle + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])

    def step(_: Any, state: Any) -> Any:
        a, b = state
        b = b.at[1:-1, 1:-1].set(average(a))
        return a.at[1:-1, 1:-1].set(average(b)), b

    return lambda a, b: lax.fori_loop(0, _STEPS, step, (a, b))


def _jacobi_plain(a: Any, b: Any) -> Any:
    a, b = a.copy(), b.copy()
    for _ in range(_STEPS):
        for x, y in ((a, b), (b, a)):
            middle = x[1:-1, 1:-1]
            total = middle + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1]
            y[1:-1, 1:-1] = 0.2 * total
    return a, b


def _seidel(np: Any, lax: Any) -> Any:
    def sweep(_: Any, a: Any) -> Any:
        n = a.shape[0]

        def element(i: Any, j: Any, a: Any) -> Any:
            around = lax.dynamic_slice(a, (i - 1, j - 1), (3, 3))
            return a.at[i, j].set(np.sum(around) / 9.0)

        def row(i: Any, a: Any) -> Any:
            return lax.fori_loop(1, n - 1, lambda j, a: element(i, j, a), a)

        return lax.fori_loop(1, n - 1, row, a)

    return lambda a: lax.fori_loop(0, 4, sweep, a)


def _seidel_plain(a: Any) -> Any:
    a = a.copy()
    for _ in range(4):
        for i in range(1, len(a) - 1):
            for j in range(1, len(a) - 1):
                a[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].sum() / 9.0
    return a


def _heat(np: Any, lax: Any) -> Any:
    def second(a: Any, axis: int) -> Any:
        middle = a[1:-1, 1:-1, 1:-1]
        low, high = ([slice(1, -1)] * 3 for _ in range(2))
        low[axis], high[axis] = slice(None, -2), slice(2, None)
        return 0.125 * (a[tuple(high)] - 2.0 * middle + a[tuple(low)])

    def step(_: Any, a: Any) -> Any:
        new = a[1:-1, 1:-1, 1:-1] + second(a, 0) + second(a, 1) + second(a, 2)
        return a.at[1:-1, 1:-1, 1:-1].set(new)

    return lambda a: lax.fori_loop(0, _STEPS, step, a)


def _heat_plain(a: Any) -> Any:
    a = a.copy()
    for _ in range(_STEPS):
        m = a[1:-1, 1:-1, 1:-1]
        new = (
            m
            + 0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * m + a[:-2, 1:-1, 1:-1])
            + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * m + a[1:-1, :-2, 1:-1])
            + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * m + a[1:-1, 1:-1, :-2])
        )
        a[1:-1, 1:-1, 1:-1] = new
    return a


def _fdtd(np: Any, lax: Any) -> Any:
    def step(t: Any, fields: Any) -> Any:
        ex, ey, hz = fields
        ey = ey.at[0, :].set(np.asarray(t, ey.dtype))
        ey = ey.at[1:, :].add(-0.5 * (hz[1:, :] - hz[:-1, :]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)

    return lambda ex, ey, hz: lax.fori_loop(0, _STEPS, step, (ex, ey, hz))


def _fdtd_plain(ex: Any, ey: Any, hz: Any) -> Any:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(_STEPS):
        ey[0, :] = t
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


_VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
_WEIGHTS = (4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)


def _collide_and_stream(np: Any, f: Any) -> Any:
    """D2Q9 with the single relaxation time 0.6, on a torus."""
    density = np.sum(f, axis=0)
    vx = sum(c[0] * f[i] for i, c in enumerate(_VELOCITIES)) / density
    vy = sum(c[1] * f[i] for i, c in enumerate(_VELOCITIES)) / density
    square = 1.5 * (vx * vx + vy * vy)
    new = []
    for i, (cx, cy) in enumerate(_VELOCITIES):
        along = 3.0 * (cx * vx + cy * vy)
        rest = _WEIGHTS[i] * density * (1.0 + along + 0.5 * along * along - square)
        new.append(np.roll(f[i] - (f[i] - rest) / 0.6, (cx, cy), (0, 1)))
    return np.stack(new)


def _boltzmann(np: Any, lax: Any) -> Any:
    return lambda f: lax.fori_loop(0, _STEPS, lambda _, f: _collide_and_stream(np, f), f)


def _boltzmann_plain(f: Any) -> Any:
    for _ in range(_STEPS):
        f = _collide_and_stream(numpy, f)
    return f


def _square(count: int) -> Any:
    def make(n: int) -> Inputs:
        return tuple(random(n, n, seed=k) for k in range(count))

    return make


def _distributions(n: int) -> Inputs:
    weights = numpy.array(_WEIGHTS)[:, None, None]
    return (weights * (1.0 + 0.01 * random(9, n, n)),)


PROGRAMS = (
    Program("jacobi-2d", (64, 250, 1000), _square(2), _jacobi, _jacobi_plain, "PolyBench/C 4.2"),
    Program("seidel-2d", (40, 100, 400), _square(1), _seidel, _seidel_plain, "PolyBench/C 4.2"),
    Program(
        "heat-3d",
        (16, 40, 100),
        lambda n: (random(n, n, n),),
        _heat,
        _heat_plain,
        "PolyBench/C 4.2",
    ),
    Program("fdtd-2d", (64, 250, 1000), _square(3), _fdtd, _fdtd_plain, "PolyBench/C 4.2"),
    Program(
        "lattice Boltzmann",
        (32, 100, 300),
        _distributions,
        _boltzmann,
        _boltzmann_plain,
        "Qian, d'Humieres and Lallemand 1992, D2Q9",
    ),
)
