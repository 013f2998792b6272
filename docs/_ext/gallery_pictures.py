"""Pictures of what the programs of the gallery compute, for operands with something to see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray[Any, Any], ...]
Draw = Callable[[Any, Arrays, Arrays, Callable[..., Any]], None]
"""Draws on a figure: of the operands, the results, and by further calls of the program."""


@dataclass(frozen=True)
class Scene:
    """How a program is shown: operands (None are the benchmark's), its size, and the drawing."""

    draw: Draw
    inputs: Callable[[int], Arrays] | None = None
    size: int | None = None
    """None is the smallest of the benchmark."""


def _plane(n: int) -> Arrays:
    y, x = np.meshgrid(np.linspace(-1, 1, n), np.linspace(-1, 1, n), indexing="ij")
    return x, y


def _bump(n: int, at: tuple[float, float], width: float) -> np.ndarray[Any, Any]:
    x, y = _plane(n)
    return np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / width**2)


def _shapes(n: int) -> np.ndarray[Any, Any]:
    """A disc and a bar, as an image."""
    x, y = _plane(n)
    disc = (x + 0.3) ** 2 + (y + 0.2) ** 2 < 0.2
    bar = (abs(x - 0.5) < 0.15) & (abs(y - 0.1) < 0.6)
    return np.where(disc | bar, 1.0, 0.0)


def _image(axes: Any, values: Any, title: str, cmap: str = "viridis") -> None:
    axes.imshow(values, cmap=cmap, origin="lower", interpolation="nearest")
    axes.set_title(title, fontsize=10)
    axes.axis("off")


def before_and_after(operand: int = 0, result: int = 0, cmap: str = "viridis") -> Draw:
    """An operand and a result as images."""

    def draw(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
        one, other = figure.subplots(1, 2)
        _image(one, inputs[operand], "operand", cmap)
        _image(other, results[result], "result", cmap)

    return draw


def image_of(pick: Callable[[Arrays], Any], title: str = "", cmap: str = "viridis") -> Draw:
    """What is picked from the results, as an image."""

    def draw(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
        _image(figure.subplots(), pick(results), title, cmap)

    return draw


def line_of(pick: Callable[[Arrays], Any], x: str, y: str) -> Draw:
    """What is picked from the results, as a line."""

    def draw(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
        axes = figure.subplots()
        axes.plot(pick(results), linewidth=1)
        axes.set(xlabel=x, ylabel=y)

    return draw


def _first(results: Arrays) -> Any:
    return results[0]


def _magnitudes(results: Arrays) -> Any:
    return np.log10(np.abs(results[0]) + 1e-6)


def _lorenz(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    ends = np.linspace(0.05, 25.0, 1000)
    state, last, path = inputs[0], 0.0, []
    for end in ends:
        state = np.asarray(call(state, np.array(end - last)))
        last = end
        path.append(state)
    path = np.array(path)
    axes = figure.add_subplot(projection="3d")
    axes.plot(*path.T, linewidth=0.6)
    axes.set(xlabel="x", ylabel="y", zlabel="z")


def _chain(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    points = results[0][:, :2]
    axes.scatter(*points.T, s=5)
    axes.plot(*points[:25].T, linewidth=0.8, color="crimson", label="the first steps")
    axes.legend()
    axes.set(xlabel="x[0]", ylabel="x[1]")


def _carts(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    axes.plot(results[2][:, :6], linewidth=1)
    axes.set(xlabel="step", ylabel="force on each of six carts")


def _gravity(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    mass, x, y = inputs
    fx, fy = results
    size = np.hypot(fx, fy)
    axes = figure.subplots()
    axes.scatter(x, y, s=8 * mass, color="black")
    axes.quiver(x, y, fx / size, fy / size, np.log(size), cmap="plasma", width=0.003, scale=40)
    axes.set_aspect("equal")


def _rays(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    axes.imshow(results[0], cmap="gray")
    axes.axis("off")


def _streams(n: int) -> Arrays:
    """Two streams against each other, slightly disturbed."""
    weights = np.array((4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4))[:, None, None]
    velocities = np.array(
        ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    )
    x, y = _plane(n)
    ux = 0.1 * np.tanh(8 * (0.5 - abs(y)))
    uy = 0.02 * np.sin(2 * np.pi * x)
    # The velocity's first component is along the first axis of the arrays.
    along = 3 * (velocities[:, 0, None, None] * uy + velocities[:, 1, None, None] * ux)
    return (weights * (1 + along + 0.5 * along**2 - 1.5 * (ux**2 + uy**2)),)


def _vorticity(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    f = results
    for _ in range(30):  # as many calls, of twenty steps each
        f = (np.asarray(call(*f)),)
    f = f[0]
    density = f.sum(0)
    down = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / density
    right = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / density
    _image(figure.subplots(), np.gradient(down, axis=1) - np.gradient(right, axis=0), "", "RdBu")


def _drop(n: int) -> Arrays:
    return 1.0 + 0.3 * _bump(n, (-0.2, 0.1), 0.15), np.zeros((n, n)), np.zeros((n, n))


def _rings(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    later = results
    for _ in range(4):
        later = tuple(np.asarray(x) for x in call(*later))
    one, other = figure.subplots(1, 2)
    _image(one, results[0], "height after 20 steps", "Blues")
    _image(other, later[0], "after 100", "Blues")


def _hot(n: int) -> Arrays:
    return (10 * _shapes(n),) * 2


def _hot_alone(n: int) -> Arrays:
    return (10 * _shapes(n),)


def _still(n: int) -> Arrays:
    return np.zeros((n, n)), np.zeros((n, n)), 20 * _bump(n, (0.1, 0.0), 0.12)


def _hot_cube(n: int) -> Arrays:
    x, y = _plane(n)
    z = np.linspace(-1, 1, n)[:, None, None]
    return (np.where(x**2 + y**2 + z**2 < 0.4, 1.0, 0.0),)


def _middles(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    one, other = figure.subplots(1, 2)
    middle = len(inputs[0]) // 2
    _image(one, inputs[0][middle], "a slice of the operand", "inferno")
    _image(other, results[0][middle], "of the result", "inferno")


def _charges(n: int) -> Arrays:
    return np.zeros((n, n)), 4 * (_bump(n, (-0.4, 0.0), 0.1) - _bump(n, (0.4, 0.0), 0.1))


def _triangles(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    one, other = figure.subplots(1, 2)
    _image(one, np.log10(np.abs(inputs[0]) + 1e-6)[::-1], "operand, logarithm")
    _image(other, _magnitudes(results)[::-1], "factors, logarithm")


def _orthonormal(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    one, other = figure.subplots(1, 2)
    q, r = (results[0], results[1])
    _image(one, (q.T @ q)[::-1], "QᵀQ")
    _image(other, np.log10(np.abs(r) + 1e-6)[::-1], "R, logarithm")


def _solution(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    a, b = inputs
    axes.plot(results[0], linewidth=1, label="x")
    axes.plot(a @ results[0] - b, linewidth=1, label="A x - b")
    axes.legend()


def _walk(n: int) -> Arrays:
    """A path that turns, and what is measured of it."""
    f = np.eye(4) + 0.1 * np.eye(4, k=2)
    t = np.linspace(0, 6, n)
    path = np.stack([2 * np.cos(t), np.sin(2 * t)], 1)
    noise = 0.25 * np.random.default_rng(0).standard_normal((n, 2))
    return f, np.eye(2, 4), 0.01 * np.eye(4), 0.1 * np.eye(2), path + noise


def _tracked(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    axes.scatter(*inputs[4].T, s=6, color="gray", label="measured")
    axes.plot(*results[0][:, :2].T, color="crimson", label="estimated")
    axes.legend()
    axes.set_aspect("equal")


def _clusters(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    points, centres = inputs[0], results[0]
    nearest = ((points[:, None] - centres) ** 2).sum(-1).argmin(1)
    axes = figure.subplots()
    axes.scatter(*points[:, :2].T, s=5, c=nearest, cmap="tab10")
    axes.scatter(*centres[:, :2].T, marker="x", s=60, color="black")
    axes.set(xlabel="first of four coordinates", ylabel="second")


def _tones(n: int) -> Arrays:
    t = np.arange(n)
    noise = np.random.default_rng(0).standard_normal(n)
    return (
        np.sin(2 * np.pi * 5 * t / n) + 0.5 * np.sin(2 * np.pi * 19 * t / n) + 0j + 0.2 * noise,
    )


def _spectrum(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    one, other = figure.subplots(2, 1)
    one.plot(inputs[0].real, linewidth=1)
    half = len(results[0]) // 2
    other.bar(range(half), np.abs(results[0][:half]))
    other.set(xlabel="frequency")


def _ranks(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    axes.plot(np.sort(results[0])[::-1])
    axes.set(xlabel="page, in order", ylabel="rank")


def _bars(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    axes.bar(range(len(results[0])), results[0], width=1)
    axes.set(xlabel="bin")


def _states(figure: Any, inputs: Arrays, results: Arrays, call: Any) -> None:
    axes = figure.subplots()
    axes.imshow(inputs[2].T, aspect="auto", cmap="Greys", origin="lower")
    axes.plot(results[1], color="crimson", linewidth=1)
    axes.set(xlabel="step", ylabel="state: how likely, and the path")


SCENES: dict[str, Scene] = {
    "mandelbrot": Scene(image_of(_first, cmap="magma"), size=150),
    "ray marching": Scene(_rays, size=100),
    "adaptive runge-kutta": Scene(_lorenz),
    "hmc": Scene(_chain, size=1000),
    "cart-pole rollout": Scene(_carts, size=64),
    "barnes-hut": Scene(_gravity, size=400),
    "lattice Boltzmann": Scene(_vorticity, _streams, 100),
    "shallow water": Scene(_rings, _drop, 100),
    "fdtd-2d": Scene(before_and_after(2, 2, "RdBu"), _still),
    "jacobi-2d": Scene(before_and_after(cmap="inferno"), _hot),
    "seidel-2d": Scene(before_and_after(cmap="inferno"), _hot_alone),
    "heat-3d": Scene(_middles, _hot_cube, 40),
    "red-black relaxation": Scene(before_and_after(1, 0, "RdBu"), _charges),
    "adi": Scene(before_and_after(cmap="inferno"), _hot_alone, 60),
    "deriche": Scene(before_and_after(cmap="gray"), _hot_alone),
    "lu by outer products": Scene(_triangles),
    "lu by elements": Scene(_triangles),
    "cholesky": Scene(_triangles),
    "trisolv": Scene(_solution),
    "durbin": Scene(line_of(_first, "unknown", "its value")),
    "gramschmidt": Scene(_orthonormal),
    "conjugate gradients": Scene(_solution),
    "gmres": Scene(_solution),
    "fft by hand": Scene(_spectrum, _tones),
    "floyd-warshall": Scene(before_and_after()),
    "needleman-wunsch": Scene(image_of(_first, "score of each pair of beginnings")),
    "viterbi": Scene(_states),
    "kalman": Scene(_tracked, _walk, 500),
    "histogram by elements": Scene(_bars, size=1000),
    "pagerank": Scene(_ranks),
    "k-means": Scene(_clusters, size=2000),
    "lstm": Scene(image_of(lambda r: r[0][:, 0].T, "hidden state over the steps", "RdBu")),
}
"""Of the others there is nothing to see: their results are matrices of noise, or a few numbers."""
