"""Flows and filters on grids: shallow water, sweeps, hydrodynamics, adi, deriche."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.programs.program import Inputs, Program, random

_STEPS = 20


def _shallow_step(np: Any, h: Any, u: Any, v: Any) -> Any:
    """One step of Lax and Friedrichs on a torus, as a program of NumPy is written."""

    def mean(a: Any) -> Any:
        around = np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1)
        return 0.25 * around

    def along(a: Any, axis: int) -> Any:
        return 0.5 * (np.roll(a, -1, axis) - np.roll(a, 1, axis))

    hu, hv, pressure = h * u, h * v, 0.5 * 9.81 * h * h
    rate = 0.01
    new = mean(h) - rate * (along(hu, 0) + along(hv, 1))
    new_hu = mean(hu) - rate * (along(hu * u + pressure, 0) + along(hu * v, 1))
    new_hv = mean(hv) - rate * (along(hu * v, 0) + along(hv * v + pressure, 1))
    return new, new_hu / new, new_hv / new


def _shallow(np: Any, lax: Any) -> Any:
    def run(h: Any, u: Any, v: Any) -> Any:
        return lax.fori_loop(0, _STEPS, lambda _, s: _shallow_step(np, *s), (h, u, v))

    return run


def _shallow_plain(h: Any, u: Any, v: Any) -> Any:
    for _ in range(_STEPS):
        h, u, v = _shallow_step(numpy, h, u, v)
    return h, u, v


def _water(n: int) -> Inputs:
    return 1.0 + 0.1 * numpy.abs(random(n, n)), 0.1 * random(n, n, seed=1), numpy.zeros((n, n))


def _red_black(np: Any, lax: Any) -> Any:
    """Successive over-relaxation of Poisson's equation, of one colour after the other."""

    def half(u: Any, f: Any, colour: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        middle = u[1:-1, 1:-1]
        new = middle + 1.5 * (0.25 * (around - f[1:-1, 1:-1]) - middle)
        return u.at[1:-1, 1:-1].set(np.where(colour, new, middle))

    def solve(u: Any, f: Any) -> Any:
        n = u.shape[0] - 2
        red = (np.arange(n)[:, None] + np.arange(n)[None, :]) % 2 == 0
        return lax.fori_loop(0, _STEPS, lambda _, u: half(half(u, f, red), f, ~red), u)

    return solve


def _red_black_plain(u: Any, f: Any) -> Any:
    u = u.copy()
    for _ in range(_STEPS):
        for colour in (0, 1):
            for i in range(1, len(u) - 1):
                j = slice(1 + (i + 1 + colour) % 2, len(u) - 1, 2)
                row = numpy.arange(len(u))[j]
                around = u[i - 1, j] + u[i + 1, j] + u[i, row - 1] + u[i, row + 1]
                u[i, j] += 1.5 * (0.25 * (around - f[i, j]) - u[i, j])
    return u


def _hydro(np: Any, lax: Any) -> Any:
    """Livermore kernel 18: a fragment of explicit hydrodynamics in two dimensions."""

    def step(_: Any, state: Any, zp: Any, zq: Any, zm: Any) -> Any:
        zr, zz, zu, zv = state
        j, k = slice(1, -1), slice(1, -1)
        low, up = slice(None, -2), slice(2, None)
        p = zp + zq

        def flux(a: Any, b: Any) -> Any:
            return (a - b) * 0.01

        za = flux(p[low, k], p[j, k]) * (zr[j, k] + zr[low, k]) / (zm[low, k] + zm[low, up])
        zb = flux(p[low, k], p[j, k]) * (zr[j, k] + zr[j, low]) / (zm[j, k] + zm[low, k])
        zu = zu.at[j, k].add(0.01 * (za * (zz[j, k] - zz[up, k]) - zb * (zz[j, k] - zz[j, low])))
        zv = zv.at[j, k].add(0.01 * (za * (zr[j, k] - zr[up, k]) - zb * (zr[j, k] - zr[j, low])))
        return zr + 0.01 * zu, zz + 0.01 * zv, zu, zv

    def run(zr: Any, zz: Any, zp: Any, zq: Any, zm: Any) -> Any:
        start = zr, zz, np.zeros_like(zr), np.zeros_like(zr)
        return lax.fori_loop(0, _STEPS, lambda i, s: step(i, s, zp, zq, zm), start)

    return run


def _hydro_plain(zr: Any, zz: Any, zp: Any, zq: Any, zm: Any) -> Any:
    zr, zz = zr.copy(), zz.copy()
    zu, zv = numpy.zeros_like(zr), numpy.zeros_like(zr)
    inner = range(1, len(zr) - 1)
    columns = numpy.arange(1, len(zr) - 1)
    for _ in range(_STEPS):
        for j in inner:
            k = columns
            drop = (zp[j - 1, k] + zq[j - 1, k] - zp[j, k] - zq[j, k]) * 0.01
            za = drop * (zr[j, k] + zr[j - 1, k]) / (zm[j - 1, k] + zm[j - 1, k + 1])
            zb = drop * (zr[j, k] + zr[j, k - 1]) / (zm[j, k] + zm[j - 1, k])
            zu[j, k] += 0.01 * (za * (zz[j, k] - zz[j + 1, k]) - zb * (zz[j, k] - zz[j, k - 1]))
            zv[j, k] += 0.01 * (za * (zr[j, k] - zr[j + 1, k]) - zb * (zr[j, k] - zr[j, k - 1]))
        zr, zz = zr + 0.01 * zu, zz + 0.01 * zv
    return zr, zz, zu, zv


def _fields(n: int) -> Inputs:
    return tuple(0.1 * random(n, n, seed=k) + 2.0 for k in range(5))


def _implicit(np: Any, lax: Any) -> Any:
    """Livermore kernel 23: implicit hydrodynamics, element after element along rows."""

    def sweep(za: Any, zr: Any, zb: Any, zu: Any, zv: Any, zz: Any) -> Any:
        def row(k: Any, za: Any) -> Any:
            def element(left: Any, x: Any) -> Any:
                above, below, right, here, r, b, u, v, z = x
                total = below * r + above * b + right * u + left * v + z
                new = here + 0.175 * (total - here)
                return new, new

            here = za[k]
            rest = za[k - 1, 1:-1], za[k + 1, 1:-1], here[2:], here[1:-1]
            known = zr[k, 1:-1], zb[k, 1:-1], zu[k, 1:-1], zv[k, 1:-1], zz[k, 1:-1]
            return za.at[k, 1:-1].set(lax.scan(element, here[0], (*rest, *known))[1])

        return lax.fori_loop(1, za.shape[0] - 1, row, za)

    def run(za: Any, zr: Any, zb: Any, zu: Any, zv: Any, zz: Any) -> Any:
        return lax.fori_loop(0, 4, lambda _, a: sweep(a, zr, zb, zu, zv, zz), za)

    return run


def _implicit_plain(za: Any, zr: Any, zb: Any, zu: Any, zv: Any, zz: Any) -> Any:
    za = za.copy()
    n = len(za)
    for _ in range(4):
        for k in range(1, n - 1):
            for j in range(1, n - 1):
                total = za[k + 1, j] * zr[k, j] + za[k - 1, j] * zb[k, j]
                total += za[k, j + 1] * zu[k, j] + za[k, j - 1] * zv[k, j] + zz[k, j]
                za[k, j] += 0.175 * (total - za[k, j])
    return za


def _six(n: int) -> Inputs:
    return tuple(0.2 * random(n, n, seed=k) for k in range(6))


def _adi(np: Any, lax: Any) -> Any:
    """PolyBench's adi: implicit along columns, then along rows."""
    a, b, c = -0.5, 2.0, -0.5

    def half(u: Any) -> Any:
        """Solves along the second axis, and gives the result transposed."""
        rest = 0.5 * u[:, :-2] + 0.25 * u[:, 1:-1] + 0.5 * u[:, 2:]
        ones = np.ones(u.shape[0], u.dtype)

        def forward(state: Any, row: Any) -> Any:
            p, q = state
            scale = 1.0 / (a * p + b)
            new = -c * scale, (row - a * q) * scale
            return new, new

        _, (p, q) = lax.scan(forward, (np.zeros_like(ones), ones), np.transpose(rest))

        def backward(x: Any, row: Any) -> Any:
            x = row[0] * x + row[1]
            return x, x

        _, inner = lax.scan(backward, ones, (p, q), reverse=True)
        return np.concatenate([ones[None], inner, ones[None]])

    def run(u: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, u: half(half(u)), u)

    return run


def _adi_plain(u: Any) -> Any:
    n = len(u)
    for _ in range(10):
        new = numpy.ones((n, n))
        for i in range(n):
            p, q = numpy.zeros(n), numpy.ones(n)
            for j in range(1, n - 1):
                rest = 0.5 * u[i, j - 1] + 0.25 * u[i, j] + 0.5 * u[i, j + 1]
                scale = 1.0 / (2.0 - 0.5 * p[j - 1])
                p[j], q[j] = 0.5 * scale, (rest + 0.5 * q[j - 1]) * scale
            for j in range(n - 2, 0, -1):
                new[j, i] = p[j] * new[j + 1, i] + q[j]
        u = new
    return u


_DERICHE = 0.8, 0.3, -0.2, 0.1, 0.4, -0.3


def _deriche(np: Any, lax: Any) -> Any:
    """PolyBench's deriche: recursive filters there and back, along rows and then along columns."""
    a1, a2, a3, a4, b1, b2 = _DERICHE

    def along(x: Any) -> Any:
        """The two filters along the first axis."""
        zero = np.zeros(x.shape[1:], x.dtype)

        def there(state: Any, x: Any) -> Any:
            before, y1, y2 = state
            y = a1 * x + a2 * before + b1 * y1 + b2 * y2
            return (x, y, y1), y

        def back(state: Any, x: Any) -> Any:
            x1, x2, y1, y2 = state
            y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            return (x, x1, y, y1), y

        _, one = lax.scan(there, (zero,) * 3, x)
        _, two = lax.scan(back, (zero,) * 4, x, reverse=True)
        return one + two

    return lambda x: along(np.transpose(along(np.transpose(x))))


def _deriche_plain(x: Any) -> Any:
    a1, a2, a3, a4, b1, b2 = _DERICHE
    for _ in range(2):
        x = x.T
        zero = numpy.zeros(x.shape[1])
        one, two = numpy.zeros_like(x), numpy.zeros_like(x)
        before = y1 = y2 = zero
        for i in range(len(x)):
            one[i] = a1 * x[i] + a2 * before + b1 * y1 + b2 * y2
            before, y1, y2 = x[i], one[i], y1
        x1 = x2 = y1 = y2 = zero
        for i in range(len(x) - 1, -1, -1):
            two[i] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            x1, x2, y1, y2 = x[i], x1, two[i], y1
        x = one + two
    return x


def _pair(n: int) -> Inputs:
    return random(n, n), random(n, n, seed=1)


PROGRAMS = (
    Program(
        "shallow water", (32, 100, 400), _water, _shallow, _shallow_plain, "Lax and Friedrichs 1954"
    ),
    Program(
        "red-black relaxation", (32, 150, 600), _pair, _red_black, _red_black_plain, "Young 1954"
    ),
    Program(
        "explicit hydrodynamics",
        (32, 100, 400),
        _fields,
        _hydro,
        _hydro_plain,
        "Livermore loops, kernel 18",
    ),
    Program(
        "implicit hydrodynamics",
        (32, 100, 300),
        _six,
        _implicit,
        _implicit_plain,
        "Livermore loops, kernel 23",
    ),
    Program("adi", (20, 60, 300), lambda n: (random(n, n),), _adi, _adi_plain, "PolyBench/C 4.2"),
    Program(
        "deriche",
        (64, 250, 1000),
        lambda n: (random(n, n),),
        _deriche,
        _deriche_plain,
        "PolyBench/C 4.2",
    ),
)
