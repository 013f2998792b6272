"""Random programs of arrays, loops and branches, the same for the same number.

They steer clear of what has no right answer to the last bit: no conversion of a computed float to
an integer or a truth value, no comparison of computed floats, and no 16-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

import xpr.numpy as jnp
from xpr import lax

T = TypeVar("T")
Arrays = list[Any]

DTYPES = (
    *("float32", "float64", "complex64", "bool"),
    *("int8", "int32", "int64", "uint8", "uint16", "uint32"),
)
SHAPES = ((), (3,), (4,), (3, 4), (4, 3))
_LARGEST = 64


class Step(NamedTuple):
    """One operation: its kind, the number its choices come from, and the programs inside of it."""

    kind: str
    number: int
    inner: tuple[list[Step], ...] = ()


KINDS = (
    *("elementwise", "elementwise", "elementwise", "convert", "reduce", "arrange", "cumulative"),
    *("update", "product", "choose", "sort", "slice", "scan", "while", "cond"),
)


def steps(rng: np.random.Generator, depth: int = 0) -> list[Step]:
    """A program as a list of steps; loops and branches hold further ones, two deep at most."""
    found = []
    for _ in range(int(rng.integers(3, 9))):
        kind = str(rng.choice(KINDS))
        number = int(rng.integers(1 << 30))
        if kind not in ("scan", "while", "cond"):
            found.append(Step(kind, number))
        elif depth < 2:
            found.append(Step(kind, number, (steps(rng, depth + 1), steps(rng, depth + 1))))
    return found


def operands(rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Four arrays to start with."""
    found = []
    for _ in range(4):
        dtype, shape = one(rng, DTYPES), one(rng, SHAPES)
        x = rng.uniform(-3, 3, shape)
        if dtype == "bool":
            found.append(np.asarray(x > 0))
        elif dtype.startswith("complex"):
            found.append(np.asarray(x + 1j * rng.uniform(-1, 1, shape), dtype))
        else:
            found.append(np.asarray(np.abs(x) if dtype.startswith("u") else x).astype(dtype))
    return found


def results(program: Sequence[Step], arrays: Sequence[Any]) -> Arrays:
    """The last arrays that a program makes, at most eight."""
    start = [jnp.asarray(x) for x in arrays]
    return _run(program, start)[len(start) :][-8:]


def one(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """One of the choices."""
    return choices[int(rng.integers(len(choices)))]


def _is(x: Any, kind: Any) -> bool:
    return jnp.issubdtype(x.dtype, kind)


def bounded(x: Any) -> Any:
    """Values that stay small however often they are computed with."""
    if x.dtype == bool:
        return x
    if _is(x, jnp.complexfloating):
        return x * 0.25
    if _is(x, jnp.floating):
        return x / (1 + jnp.abs(x)).astype(x.dtype) * 4
    return x % jnp.asarray(7, x.dtype)


def _like(x: Any, wanted: Any) -> Any:
    """Something of `x` with the type of another array, for a loop to carry."""
    floats = _is(wanted, jnp.inexact)
    if _is(x, jnp.complexfloating) and not _is(wanted, jnp.complexfloating):
        x = jnp.real(x)
    if _is(x, jnp.floating) and not floats:
        return wanted
    if x.shape != wanted.shape:
        x = x.any() if x.dtype == bool else x.sum(dtype=x.dtype)
        x = jnp.broadcast_to(x, wanted.shape)
    return bounded(x).astype(wanted.dtype)


def _elementwise(rng: np.random.Generator, x: Any, y: Any) -> Any:
    if x.dtype == bool:
        return one(rng, [lambda: x & y, lambda: x | y, lambda: ~x, lambda: x ^ y])()
    choices: list[Callable[[], Any]] = [
        *(lambda: x + y, lambda: x - y, lambda: x * y, lambda: -x, lambda: x * x + y)
    ]
    if _is(x, jnp.integer):
        choices += [lambda: x & y, lambda: x >> 1, lambda: x // jnp.asarray(3, x.dtype)]
        choices += [lambda: x < y, lambda: x == y, lambda: jnp.sign(x), lambda: jnp.maximum(x, y)]
    elif _is(x, jnp.floating):
        choices += [lambda: jnp.tanh(x), lambda: jnp.sin(x), lambda: jnp.exp(-jnp.abs(x))]
        choices += [lambda: jnp.sqrt(jnp.abs(x)), lambda: jnp.minimum(x, y)]
    return one(rng, choices)()


def _converted(rng: np.random.Generator, x: Any) -> Any:
    dtype = one(rng, DTYPES)
    if _is(x, jnp.complexfloating):
        x = jnp.real(x)
    if _is(x, jnp.floating) and not jnp.issubdtype(jnp.dtype(dtype), jnp.inexact):
        dtype = "float32"
    return x.astype(dtype)


def _reduced(rng: np.random.Generator, x: Any) -> Any:
    axis = one(rng, [None, *range(x.ndim)])
    if x.dtype == bool:
        return one(rng, [lambda: x.any(axis), lambda: x.all(axis), lambda: x.sum(axis)])()
    choices: list[Callable[[], Any]] = [lambda: x.sum(axis), lambda: x.prod(axis)]
    if not _is(x, jnp.complexfloating):
        choices += [lambda: x.max(axis), lambda: x.min(axis)]
    return one(rng, choices)()


def _arranged(rng: np.random.Generator, x: Any) -> Any:
    flat = x.reshape(-1)
    choices = [lambda: x.T, lambda: flat[::-1], lambda: jnp.concatenate([flat, flat])]
    return x if x.size > _LARGEST else one(rng, choices)()


def _updated(rng: np.random.Generator, x: Any, y: Any) -> Any:
    i = int(rng.integers(-1, x.shape[0] + 1))
    if x.dtype == bool or rng.integers(2):
        return x.at[i].set(y[0])
    return x.at[jnp.array([0, i])].add(y[jnp.array([1, 0])])


def _plain(rng: np.random.Generator, kind: str, x: Any, y: Any, masks: Arrays) -> Any:
    """A step without programs inside; None if there is nothing to do it with."""
    is_bool, is_complex = x.dtype == bool, _is(x, jnp.complexfloating)
    if kind == "elementwise":
        return _elementwise(rng, x, y)
    if kind == "convert":
        return _converted(rng, x)
    if kind == "choose":
        return jnp.where(one(rng, masks), x, y) if masks else None
    if x.ndim == 0:
        return None
    if kind == "reduce":
        return _reduced(rng, x)
    if kind == "arrange":
        return _arranged(rng, x)
    if kind == "update" and x.shape[0] > 1:
        return _updated(rng, x, y)
    if kind == "sort" and not is_complex:
        return jnp.sort(x, axis=0)
    if kind == "slice" and x.shape[0] > 1:
        return x[1:] if rng.integers(2) else x[:-1]
    if kind == "cumulative" and not is_bool:
        return jnp.cumsum(x, axis=0)
    if kind == "product" and x.ndim == 2 and not is_bool:
        return x.T @ y
    return None


def _run(program: Sequence[Step], start: Sequence[Any]) -> Arrays:
    values = list(start)
    for step in program:
        rng = np.random.default_rng(step.number)
        if step.inner:
            values += _controlled(rng, step, values)
            continue
        x = one(rng, values)
        y = one(rng, [v for v in values if (v.shape, v.dtype) == (x.shape, x.dtype)])
        masks = [v for v in values if v.shape == x.shape and v.dtype == bool]
        made = _plain(rng, step.kind, x, y, masks)
        if made is not None:
            values.append(bounded(made))
    return values


def _controlled(rng: np.random.Generator, step: Step, values: Arrays) -> Arrays:
    """What a loop or a branch gives that carries up to three of the values and reads others."""
    places = [int(i) for i in rng.choice(len(values), min(len(values), 3), replace=False)]
    carry = tuple(values[i] for i in places)
    others = [v for i, v in enumerate(values) if i not in places][:3]

    def body(carried: Any, extra: Any = (), which: int = 0) -> tuple[Any, Any]:
        made = _run(step.inner[which], [*carried, *others, *extra])
        return tuple(_like(made[-1 - i], c) for i, c in enumerate(carried)), made[-1]

    if step.kind == "scan":
        xs = jnp.arange(3, dtype=one(rng, ["int32", "float32", "float64"]))
        carry, ys = lax.scan(lambda c, x: body(c, (x,)), carry, xs)
        return [*carry, ys] if ys.size <= _LARGEST else list(carry)
    if step.kind == "while":
        rounds = int(rng.integers(0, 4))
        state = (jnp.int32(0), carry)
        return list(
            lax.while_loop(
                lambda s: s[0] < rounds, lambda s: (s[0] + 1, body(s[1], (s[0],))[0]), state
            )[1]
        )
    whole = [v for v in values if not _is(v, jnp.inexact)]
    test = one(rng, whole).any() if whole else jnp.asarray(True)
    return list(lax.cond(test, lambda c: body(c)[0], lambda c: body(c, which=1)[0], carry))
