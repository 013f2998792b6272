"""What a library costs beside the arithmetic: dispatch, eager calls, tracing and compiling."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy

from benchmarks.cases import ActionCase, Call, Case, ProgramCase
from benchmarks.implementations import Implementation

_SMALL = 4


def _add_one(np: Any, lax: Any, x: Any) -> Any:
    return x + 1.0


def _add_all(np: Any, lax: Any, *arrays: Any) -> Any:
    return functools.reduce(lambda a, b: a + b, arrays)


def _add(np: Any, lax: Any, x: Any, y: Any) -> Any:
    return x + y


def _small_inputs(rng: Any, quick: bool, count: int) -> list[numpy.ndarray]:
    return [rng.standard_normal(_SMALL, dtype=numpy.float32) for _ in range(count)]


def straight_line(equations: int, offset: float) -> Any:
    """A function of ``equations`` elementwise equations in a row; ``offset`` tells it from others.

    The values stay bounded, whatever the length.
    """

    def program(x: Any) -> Any:
        for index in range(equations // 2):
            x = x * 0.5
            x = x + (offset + index % 7)
        return x

    return program


# Each function has a constant that no earlier one had, so that nothing is found in any cache.
_offsets = itertools.count(1)


def _trace_and_lower(
    implementation: Implementation, quick: bool, equations: int, quick_equations: int
) -> Call:
    x = implementation.put(numpy.ones(_SMALL, dtype=numpy.float32))
    count = quick_equations if quick else equations

    def call() -> None:
        function = straight_line(count, float(next(_offsets)))
        implementation.jit(function).lower(x).as_text("iree")

    return call


def _compile(implementation: Implementation, quick: bool, equations: int) -> Call:
    x = implementation.put(numpy.ones(_SMALL, dtype=numpy.float32))

    def call() -> Any:
        function = straight_line(equations, float(next(_offsets)))
        return implementation.jit(function).lower(x).compile()(x)

    return call


def _iteration(implementation: Implementation, quick: bool, action: Any, size: int) -> Call:
    size = min(size, 1_000) if quick else size
    x = implementation.put(numpy.arange(size, dtype=numpy.float32))
    return functools.partial(action, x)


def _unpack(x: Any) -> Any:
    a, b, c = x
    return a, b, c


def _iterate(name: str, action: Any, size: int) -> Case:
    return ActionCase(
        name=name,
        group="calls",
        action=functools.partial(_iteration, action=action, size=size),
        modes=("numpy", "xpr eager", "jax eager"),
        wait_each=False,
    )


def _dictionary(implementation: Implementation, quick: bool, count: int) -> Call:
    x = implementation.put(numpy.arange(_SMALL, dtype=numpy.float32))
    tree = {f"layer{i}": x + float(i) for i in range(count)}
    add_one = implementation.jit(lambda tree: {name: leaf + 1.0 for name, leaf in tree.items()})
    return functools.partial(add_one, tree)


def _scalars(implementation: Implementation, quick: bool, count: int) -> Call:
    numbers = [float(i) for i in range(min(count, 100) if quick else count)]
    ends = implementation.jit(lambda numbers: numbers[0] + numbers[-1])
    return functools.partial(ends, numbers)


def _many_scalars(count: int) -> Case:
    return ActionCase(
        name=f"jit, a list of {count} floats",
        group="calls",
        action=functools.partial(_scalars, count=count),
        modes=("xpr jit", "jax jit"),
        wait_each=False,
    )


def _dispatch(name: str, count: int) -> Case:
    return ProgramCase(
        name=name,
        group="calls",
        program=_add_one if count == 1 else _add_all,
        inputs=functools.partial(_small_inputs, count=count),
        wait_each=False,
        modes=("numpy", "xpr jit", "jax jit"),
    )


def _trace(equations: int, quick_equations: int) -> Case:
    return ActionCase(
        name=f"trace and lower {equations} equations",
        group="compiling",
        action=functools.partial(
            _trace_and_lower, equations=equations, quick_equations=quick_equations
        ),
        modes=("xpr jit", "jax jit"),
        wait_each=False,
    )


OVERHEADS: tuple[Case, ...] = (
    _dispatch("jit(x + 1), 4 floats", 1),
    _dispatch("jit, 10 arguments", 10),
    _dispatch("jit, 100 arguments", 100),
    ActionCase(
        name="jit, a dictionary of 20 arrays",
        group="calls",
        action=functools.partial(_dictionary, count=20),
        modes=("xpr jit", "jax jit"),
        wait_each=False,
    ),
    _many_scalars(1_000),
    _many_scalars(5_000),
    ProgramCase(
        name="x + y outside jit, 4 floats",
        group="calls",
        program=_add,
        inputs=functools.partial(_small_inputs, count=2),
        wait_each=False,
        modes=("numpy", "xpr eager", "jax eager"),
    ),
    # Plotting libraries ask this of all they are given.
    _iterate("np.iterable(x), 1000000 floats", numpy.iterable, 1_000_000),
    _iterate("next(iter(x)), 1000000 floats", lambda x: next(iter(x)), 1_000_000),
    _iterate("list(x), 1000 floats", list, 1_000),
    _iterate("unpack x into three", _unpack, 3),
    _trace(1_000, 100),
    _trace(4_000, 400),
    ActionCase(
        name="compile 2 equations, nothing cached",
        group="compiling",
        action=functools.partial(_compile, equations=2),
        modes=("xpr jit", "jax jit"),
    ),
    ActionCase(
        name="compile 50 equations, nothing cached",
        group="compiling",
        action=functools.partial(_compile, equations=50),
        modes=("xpr jit", "jax jit"),
    ),
)
