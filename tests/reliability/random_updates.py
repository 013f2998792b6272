"""Random programs of updates, gathers, windows and sorts that share operands, for the compiler.

A program takes a few small arrays and computes two or three groups of such operations on the same
arrays, with the same places and the same updates more often than not. What it computes is exact:
small whole numbers, or results that no order of operations changes. The same for the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax

from .random_programs import Arrays, one

Rng = np.random.Generator

DTYPES = ("float32", "float32", "int32", "uint32", "int8")
SHAPES = ((10,), (7,), (6, 5), (5, 6), (4, 3, 5))
COUNTS = (1, 2, 5, 5, 8)
MODES = (None, None, "drop", "clip", "fill", "promise_in_bounds")
_UPDATES = ("set", "add", "add", "multiply", "min", "max", "subtract")


def operands(rng: Rng) -> list[np.ndarray[Any, Any]]:
    """Two arrays of one type, places, other places in bounds, and updates for each."""
    shape, count, dtype = one(rng, SHAPES), one(rng, COUNTS), one(rng, DTYPES)
    arrays = [rng.integers(0, 5, shape).astype(dtype) for _ in range(2)]
    size = shape[0]
    wild = rng.integers(-2 * size, 2 * size, count).astype("int32")
    if rng.integers(3) == 0:
        wild[: 1 + count // 2] = one(rng, (2**31 - 1, -(2**31), size, -size - 1))
    inside = rng.permutation(np.arange(count) % size).astype("int32")
    updates = [rng.integers(0, 4, (count, *shape[1:])).astype(dtype) for _ in range(2)]
    return [*arrays, wild, inside, *updates]


def steps(rng: Rng) -> list[int]:
    """A program: for each of its operations the number that its choices come from."""
    numbers = [int(n) for n in rng.integers(1 << 30, size=int(rng.integers(2, 6)))]
    # The same choices once more, on what has been made meanwhile.
    return numbers + numbers[:1] if rng.integers(4) == 0 else numbers


def results(program: Sequence[int], arrays: Sequence[Any], count: int) -> Arrays:
    """The last `count` arrays that a program makes."""
    x, other, wild, inside, *updates = (jnp.asarray(v) for v in arrays)
    values, places = [x, other], [wild, inside]
    made: Arrays = []
    for number in program:
        rng = np.random.default_rng(number)
        kind = one(rng, _KINDS)
        found = kind(rng, values, places, updates)
        made += found
        # What was made is read again now and then; most share what there was at first.
        values += [
            v for v in found if v.shape == x.shape and v.dtype == x.dtype and rng.integers(2)
        ]
    return made[-count:]


def _small(x: Any) -> Any:
    """Whole numbers that stay small."""
    return x % jnp.asarray(5, x.dtype)


def _places(rng: Rng, places: Arrays, x: Any) -> Any:
    """Places, some of them computed, or as known to the compiler."""
    i = one(rng, places)
    size = jnp.int32(x.shape[0])
    choices: list[Callable[[], Any]] = [
        *(lambda: i, lambda: i, lambda: i),
        lambda: jnp.where(i < 0, i + size, i),
        lambda: jnp.clip(i, 0, size - 1),
        lambda: i[::-1],
        lambda: i % size,
        lambda: (i + i[0] % 3) % size,
        lambda: jnp.sort(i),
        lambda: jnp.arange(i.shape[0], dtype=jnp.int32) % size,
    ]
    return one(rng, choices)()


def _mode(rng: Rng, places: Any, x: Any) -> tuple[Any, Any]:
    mode = one(rng, MODES)
    # A promise must be kept.
    return mode, places % jnp.int32(x.shape[0]) if mode == "promise_in_bounds" else places


def _updated(rng: Rng, values: Arrays, places: Arrays, updates: Arrays) -> Arrays:
    """One to three updates of one array, or one after the other."""
    x, i = one(rng, values), _places(rng, places, values[0])
    found = []
    for _ in range(int(rng.integers(1, 4))):
        name = one(rng, _UPDATES)
        mode, where = _mode(rng, i, x)
        u: Any = one(rng, [*updates, jnp.asarray(1, x.dtype), jnp.asarray(0, x.dtype)])
        if name == "set" and u.ndim:
            # Of several updates at one place any may count: all are the same here.
            u = jnp.broadcast_to(u[:1], u.shape)
        if name == "subtract":
            name, u = "add", -u
        options = {} if mode is None else {"mode": mode}
        found.append(_small(getattr(x.at[where], name)(u, **options)))
        choice = int(rng.integers(4))
        if choice == 0:
            x = found[-1]
        elif choice == 1:
            i = _places(rng, places, x)
    return found


def _gathered(rng: Rng, values: Arrays, places: Arrays, updates: Arrays) -> Arrays:
    x, i = one(rng, values), _places(rng, places, values[0])
    mode, where = _mode(rng, i, x)
    options = {} if mode is None else {"mode": mode}
    if mode == "fill":
        options["fill_value"] = 3
    taken = x.at[where].get(**options)
    choices: list[Callable[[], Arrays]] = [
        lambda: [taken],
        lambda: [_small(taken + updates[0])],
        lambda: [_small(x.at[where % jnp.int32(x.shape[0])].add(taken))],
        lambda: [_small(x - x[i[0] % x.shape[0]]), taken],
        lambda: [taken[0] + taken, (i % 7) + (i % 7)[-1]],
        lambda: [jnp.take_along_axis(x, jnp.argsort(x, axis=0), axis=0)],
    ]
    return one(rng, choices)()


def _windows(rng: Rng, values: Arrays, places: Arrays, updates: Arrays) -> Arrays:
    """Slices at places that are arguments, and updates of such."""
    del updates
    x, i = one(rng, values), one(rng, places)
    length = int(rng.integers(1, x.shape[0] + 1))
    start = one(rng, [i[0], i[-1], i[0] % 3, i.max()])
    piece = lax.dynamic_slice_in_dim(x, start, length)
    choices: list[Callable[[], Arrays]] = [
        lambda: [piece],
        lambda: [piece, lax.dynamic_update_slice_in_dim(x, piece[::-1], i[-1], 0)],
        lambda: [lax.dynamic_update_slice_in_dim(x, _small(piece + 1), start, 0), piece[0] + x],
        lambda: [lax.dynamic_update_slice_in_dim(values[1], piece, start, 0)],
        lambda: [jnp.cumsum(x, axis=0, dtype=x.dtype), piece],
        lambda: [
            lax.reduce_window(
                x, x.dtype.type(0), lax.max, (2,) + (1,) * (x.ndim - 1), (1,) * x.ndim, "SAME"
            )
        ],
    ]
    return one(rng, choices)()


def _sorted(rng: Rng, values: Arrays, places: Arrays, updates: Arrays) -> Arrays:
    x, i = one(rng, values), one(rng, places)
    order = jnp.argsort(i)
    choices: list[Callable[[], Arrays]] = [
        lambda: [jnp.sort(x, axis=0), x],
        lambda: [jnp.sort(x, axis=-1), jnp.argsort(x, axis=0)],
        lambda: [i[order], updates[0][order]],
        lambda: [*lax.sort((i, *(u.reshape(len(i), -1)[:, 0] for u in updates)), num_keys=1)],
        lambda: [_small(x.at[order % x.shape[0]].add(updates[0]))],
        lambda: [jnp.searchsorted(jnp.sort(i), i), jnp.bincount(i % 7, length=7)],
        lambda: [lax.top_k(x, min(2, x.shape[-1]))[0]],
    ]
    return one(rng, choices)()


def _combined(rng: Rng, values: Arrays, places: Arrays, updates: Arrays) -> Arrays:
    x, y = one(rng, values), one(rng, values)
    choices: list[Callable[[], Arrays]] = [
        lambda: [_small(x + y)],
        lambda: [jnp.where(x < y, x, y), x < y],
        lambda: [x.max(0), jnp.argmax(x, axis=0)],
        lambda: [jnp.maximum(x, y[0]), y[::-1]],
        lambda: [jnp.concatenate([x, y]), updates[0]],
    ]
    return one(rng, choices)()


_KINDS: list[Callable[[Rng, Arrays, Arrays, Arrays], Arrays]] = [
    *(_updated, _updated, _updated, _gathered, _gathered, _windows, _sorted, _combined)
]
