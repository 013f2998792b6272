"""The programs of `differential` by number, each with its operands and a way in which it is used.

It is used as it is, with operands that are donated, with one array given twice, under `vmap`, by
its gradient, or by its derivative along a direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.reliability import differential, differential_steps
from tests.reliability.differential import Library, Val

WAYS = ("plain", "plain", "donated", "twice", "vmap", "gradient", "derivative")
_SMOOTH = ("gradient", "derivative")


class Program(NamedTuple):
    """A program, its operands and the way in which it is used."""

    number: int
    way: str
    steps: list[int]
    operands: list[np.ndarray[Any, Any]]


def program(number: int) -> Program:
    """The program of that number."""
    rng = np.random.default_rng((20_000, number))
    way = differential.one(rng, WAYS)
    steps, operands = differential.steps(rng), differential.operands(rng)
    if way in _SMOOTH:
        operands = [_smooth(rng, x) for x in operands]
    elif way == "vmap":
        operands = [np.stack([x, x, x]) for x in operands]
        for x in operands:
            rng.shuffle(x, axis=0)
            if x.dtype.kind in "iu":
                x[1] = x[1] // 2
    elif way == "twice":
        operands[1] = operands[0]
    return Program(number, way, steps, operands)


def _smooth(rng: np.random.Generator, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dtype = differential.one(rng, ("float32", "float32", "float64"))
    return (rng.integers(-16, 16, x.shape) / 8).astype(dtype)


def results(p: Program, arrays: Sequence[Any], lib: Library, notes: list[bool]) -> list[Any]:
    """The arrays that a program makes, used in its way; `notes` get whether they are exact."""
    smooth = p.way in _SMOOTH

    def run(*xs: Any) -> list[Val]:
        made = differential_steps.run(lib, p.steps, xs, smooth)
        notes[:] = [v.exact for v in made]
        return made

    if not smooth:
        function: Callable[..., Any] = lambda *xs: [v.x for v in run(*xs)]  # noqa: E731
        if p.way == "vmap":
            function = lib.jax.vmap(function)
        return function(*arrays)

    def loss(*xs: Any) -> Any:
        total = lib.jnp.zeros((), "float64")
        for i, v in enumerate(run(*xs)):
            if v.kind == "f" and 0 not in v.shape:
                total = total + (1 + i / 8) * v.x.astype("float64").mean()
        return total

    places = tuple(range(len(arrays)))
    if p.way == "gradient":
        value, gradients = lib.jax.value_and_grad(loss, places)(*arrays)
        out = [value, *gradients]
    else:
        out = list(lib.jax.jvp(loss, tuple(arrays), tuple(a * 0 + 1 for a in arrays)))
    notes[:] = [False] * len(out)
    return out
