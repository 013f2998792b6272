"""Loops, random numbers and training: what a step of a loop costs, and programs built on loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cases import ActionCase, Call, Case
from benchmarks.implementations import Implementation

_MODES = ("xpr jit", "jax jit")


def _float32(shape: tuple[int, ...], seed: int = 0) -> Any:
    return numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)


def _sine(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    steps = 10 if quick else 1000
    return (
        lambda x: im.lax.scan(lambda c, _: (im.np.sin(c), None), x, None, length=steps)[0],
        [_float32((16,))],
    )


def _normalised_products(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    np = im.np

    def step(c: Any, m: Any) -> Any:
        c = c @ m
        return c / np.sqrt(np.sum(c * c)), None

    count = 10 if quick else 10_000
    matrices = numpy.random.default_rng(0).standard_normal((count, 3, 3))
    return lambda c, xs: im.lax.scan(step, c, xs)[0], [numpy.eye(3), matrices]


def _lorenz(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    np = im.np
    h = numpy.float32(0.01)

    def rates(s: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return np.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - (8 / 3) * z])

    def step(s: Any, _: Any) -> Any:
        k1 = rates(s)
        k2 = rates(s + h / 2 * k1)
        k3 = rates(s + h / 2 * k2)
        k4 = rates(s + h * k3)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return s, s

    steps = 10 if quick else 10_000
    start = numpy.array([1.0, 1.0, 1.0], numpy.float32)
    return lambda s: im.lax.scan(step, s, None, length=steps), [start]


def _two_bodies(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    np = im.np
    steps = 5 if quick else 500

    def energy(q: Any, p: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            q, p = state
            r = q[0] - q[1]
            d = np.sum(r * r) + 0.01
            force = r / (d * np.sqrt(d))
            p = p - 0.01 * np.stack([force, -force])
            return (q + 0.01 * p, p), None

        (q, p), _ = im.lax.scan(step, (q, p), None, length=steps)
        return np.sum(p * p) + np.sum(q * q)

    q = numpy.array([[1.0, 0.0], [-1.0, 0.0]], numpy.float32)
    p = numpy.array([[0.0, 0.5], [0.0, -0.5]], numpy.float32)
    return im.root.grad(energy, argnums=(0, 1)), [q, p]


def _dynamic_index(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    steps = 10 if quick else 100_000

    def walk(table: Any) -> Any:
        def step(state: Any) -> Any:
            i, total = state
            return i + 1, total + table[i % 1000]

        start = (0, numpy.float32(0))
        return im.lax.while_loop(lambda s: s[0] < steps, step, start)[1]

    return walk, [_float32((1000,))]


def _lstm(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    np = im.np
    steps, batch, width = (2, 4, 8) if quick else (64, 32, 128)

    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-x))

    def run(w: Any, u: Any, b: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = np.split(x @ w + h @ u + b, 4, axis=-1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            return (h, c), h

        zero = np.zeros((batch, width), np.float32)
        return im.lax.scan(step, (zero, zero), xs)[1]

    return run, [
        _float32((width, 4 * width), 1) / numpy.float32(width**0.5),
        _float32((width, 4 * width), 2) / numpy.float32(width**0.5),
        _float32((4 * width,), 3),
        _float32((steps, batch, width), 4),
    ]


def _stencil(im: Implementation, quick: bool) -> tuple[Any, list[Any]]:
    steps, size = (3, 16) if quick else (100, 512)

    def step(_: Any, x: Any) -> Any:
        inner = 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
        return x.at[1:-1, 1:-1].set(inner)

    return lambda x: im.lax.fori_loop(0, steps, step, x), [_float32((size, size))]


def _prepare(
    im: Implementation, quick: bool, make: Callable[..., tuple[Any, list[Any]]], x64: bool = False
) -> Call:
    if not x64:
        function, inputs = make(im, quick)
        return functools.partial(im.jit(function), *map(im.put, inputs))
    # The setting holds while the program is traced and when it is called.
    with im.root.enable_x64(True):
        function, inputs = make(im, quick)
        jitted = im.jit(function)
        arrays = [im.put(x) for x in inputs]
        compiled = jitted.lower(*arrays).compile()
    return functools.partial(compiled, *arrays)


def _normal(im: Implementation, quick: bool) -> Call:
    size = 100 if quick else 1_000_000
    key = im.root.random.key(0)
    return functools.partial(im.jit(lambda k: im.root.random.normal(k, (size,))), key)


def _case(name: str, action: Any) -> Case:
    return ActionCase(name=name, group="loops", action=action, modes=_MODES)


LOOPS: tuple[Case, ...] = (
    *(
        _case(name, functools.partial(_prepare, make=make, x64=x64))
        for name, make, x64 in (
            ("scan, 1000 steps of sin, 16 floats", _sine, False),
            ("scan, 10000 normalised 3x3 products, float64", _normalised_products, True),
            ("Lorenz RK4, 10000 steps stacked", _lorenz, False),
            ("gradient of 500 leapfrog steps", _two_bodies, False),
            ("while, 100000 steps with an index", _dynamic_index, False),
            ("LSTM, 64 steps, 32x128", _lstm, False),
            ("stencil 512², 100 steps", _stencil, False),
        )
    ),
    _case("random.normal, 1M", _normal),
)
