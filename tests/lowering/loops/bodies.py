"""Random loop bodies, written once for two libraries: steps on a state of arrays.

`plain` has NumPy's meaning with copies made everywhere, so that no order of reads and writes can
matter; the other runs in a compiled loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xpr.numpy as jnp
from xpr import lax

# The carried state: two matrices of one shape, a vector as long as their rows, one number.
ROWS, COLUMNS = 7, 37
State = tuple[Any, Any, Any, Any]
Step = Callable[["Library", Any, State], State]


class Library:
    """Operations with JAX's meaning, in xpr."""

    np: Any = jnp

    def row(self, x: Any, i: Any) -> Any:
        return x[i]

    def column(self, x: Any, j: Any) -> Any:
        return x[:, j]

    def put(self, x: Any, place: Any, value: Any) -> Any:
        return x.at[place].set(value)

    def add(self, x: Any, place: Any, value: Any) -> Any:
        return x.at[place].add(value)

    def add_rows(self, x: Any, rows: Any, values: Any) -> Any:
        return x.at[rows].add(values)

    def part(self, x: Any, starts: Any, sizes: Any) -> Any:
        return lax.dynamic_slice(x, starts, sizes)

    def update(self, x: Any, part: Any, starts: Any) -> Any:
        return lax.dynamic_update_slice(x, part, starts)

    def pad(self, x: Any, value: float, config: Any) -> Any:
        return lax.pad(x, jnp.asarray(value, x.dtype), config)

    def choose(self, test: Any, one: Any, other: Any, *operands: Any) -> Any:
        return lax.cond(test, one, other, *operands)

    def repeat(self, count: Any, body: Any, start: Any) -> Any:
        return lax.fori_loop(0, count, body, start)


class Plain(Library):
    """The same with NumPy: nothing is ever overwritten."""

    np = np

    def row(self, x: Any, i: Any) -> Any:
        return x[self._clamped(i, len(x))].copy()

    def column(self, x: Any, j: Any) -> Any:
        return x[:, self._clamped(j, x.shape[1])].copy()

    @staticmethod
    def _clamped(i: Any, n: int) -> int:
        i = int(i)
        return min(max(i + n if i < 0 else i, 0), n - 1)

    def _lies_outside(self, x: Any, place: Any) -> bool:
        place = place if isinstance(place, tuple) else (place,)
        return any(
            not isinstance(p, slice) and not -n <= int(p) < n
            for p, n in zip(place, x.shape, strict=False)
        )

    def put(self, x: Any, place: Any, value: Any) -> Any:
        x = x.copy()
        if not self._lies_outside(x, place):
            x[place] = np.copy(value)
        return x

    def add(self, x: Any, place: Any, value: Any) -> Any:
        x = x.copy()
        if not self._lies_outside(x, place):
            x[place] = x[place] + value
        return x

    def _starts(self, x: Any, sizes: Any, starts: Any) -> tuple[slice, ...]:
        lows = [
            min(max(int(s) + n * (s < 0), 0), n - k)
            for s, n, k in zip(starts, x.shape, sizes, strict=True)
        ]
        return tuple(slice(low, low + k) for low, k in zip(lows, sizes, strict=True))

    def part(self, x: Any, starts: Any, sizes: Any) -> Any:
        return x[self._starts(x, sizes, starts)].copy()

    def update(self, x: Any, part: Any, starts: Any) -> Any:
        x = x.copy()
        x[self._starts(x, part.shape, starts)] = np.copy(part)
        return x

    def add_rows(self, x: Any, rows: Any, values: Any) -> Any:
        x = x.copy()
        for k, row in enumerate(np.asarray(rows)):
            if -len(x) <= row < len(x):
                x[row] += values[k]
        return x

    def pad(self, x: Any, value: float, config: Any) -> Any:
        shape = [
            low + high + n + max(n - 1, 0) * gap
            for n, (low, high, gap) in zip(x.shape, config, strict=True)
        ]
        out = np.full(shape, value, x.dtype)
        for index in np.ndindex(x.shape):
            at = tuple(low + i * (gap + 1) for i, (low, _, gap) in zip(index, config, strict=True))
            if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
                out[at] = x[index]
        return out

    def choose(self, test: Any, one: Any, other: Any, *operands: Any) -> Any:
        return one(*operands) if test else other(*operands)

    def repeat(self, count: Any, body: Any, start: Any) -> Any:
        for i in range(int(count)):
            start = body(i, start)
        return start


# ---- steps


def _overlapping_part(a: int, b: int, di: int, dj: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        part = lib.part(u, (a, b), (3, 11)) * 0.5 + lib.part(v, (a, b + dj), (3, 11))
        return lib.update(u, part, (a + di, b + dj)), v, w, x

    return step


def _stencil(axis: int, shift: int, in_place: bool) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        middle = (slice(None), slice(1, -1)) if axis else (slice(1, -1), slice(None))
        other = [slice(None), slice(None)]
        other[axis] = slice(1 + shift, None if shift == 1 else -1 + shift)
        new = 0.5 * (u[middle] + u[tuple(other)])
        if in_place:
            return lib.put(u, middle, new), v, w, x
        return u, lib.put(v, middle, new), w, x

    return step


def _row(di: int, dj: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        return lib.put(u, i + di, lib.row(u, i + dj) * 0.5 + w), v, w, x

    return step


def _column(di: int, dj: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        place = (slice(None), i + di)
        return lib.add(u, place, 0.25 * lib.column(v, i + dj)), v, w, x

    return step


def _element(di: int, dj: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        return lib.add(u, (i + di, i * 2 + dj), 0.5 * x), v, w, lib.row(lib.row(u, i), i + dj)

    return step


def _swap() -> Step:
    return lambda lib, i, s: (s[1], s[0], s[2], s[3])


def _rotate(k: float) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        return u + k * v, v - k * u, w, x

    return step


def _read_later(di: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        old, kept = lib.row(u, i), u[2]
        u = lib.put(u, 2, w)
        u = lib.put(u, i + di, kept)
        return u, lib.put(v, i, old), kept, x

    return step


def _whole_kept() -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, _, w, x = s
        return lib.put(u, (0, slice(None)), w), u, w, x

    return step


def _sums(axis: int | None) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        if axis is None:
            return u, v, w, (u * v).sum() * 0.01
        if axis == 0:
            return u, v, (u * 0.25).sum(axis=0), x
        return u, lib.put(v, (slice(None), 3), u.max(axis=1)), w, x

    return step


def _joined(at: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        w2 = lib.np.concatenate([w[at:], w[:at]])
        u2 = lib.np.concatenate([v[:2], u[1:-2] * 0.5, v[:1]])
        return u2, v, w2, x

    return step


def _padded(low: int, high: int, gap: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        width = COLUMNS - low - high
        size = -(-width // (gap + 1))
        high_ = COLUMNS - low - size - (size - 1) * gap
        part = lib.pad(w[:size], 0.5, ((low, high_, gap),))
        return u + lib.pad(v[1:, 2:], 0.0, ((1, 0, 0), (0, 2, 0))), v, part, x

    return step


def _transposed() -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        return u[::-1, :], v[:, ::-1] * 0.5, w[::-1], x

    return step


def _branch(change: bool) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        test = i % 3 == 1
        u, x = lib.choose(
            test,
            lambda u, x: (lib.put(u, i, w), x + 1),
            lambda u, x: (u * 0.5 if change else u, x),
            u,
            x,
        )
        return u, v, w, x

    return step


def _nested(di: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s

        def inner(j: Any, c: Any) -> Any:
            u, w = c
            u = lib.add(u, (i, j + di), lib.row(w, j) * 0.5)
            return u, lib.put(w, j + 1, lib.row(lib.row(u, i), j))

        u, w = lib.repeat(i + 2, inner, (u, w))
        return u, v, w, x

    return step


def _masked() -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        mask = lib.np.arange(COLUMNS) > i
        u = lib.np.where(mask, u - lib.row(u, i)[None, :] * lib.column(u, i)[:, None] * 0.1, u)
        return u, v, lib.np.where(mask, w, lib.np.tanh(w)), x

    return step


def _product() -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        return u, lib.put(v, (slice(None), 0), u @ w * 0.01), (lib.column(u, i) @ v) * 0.01, x

    return step


def _least_through() -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        through = lib.column(u, i)[:, None] + lib.row(u, i)[None, :]
        return lib.np.minimum(u, through), v, w, x

    return step


def _matrices(left: bool) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        square = lib.np.tanh(u @ v.T if left else v @ (u * x).T)
        return 0.9 * u + 0.001 * (square @ u), 0.9 * v + 0.001 * (square.T @ v), w, x

    return step


def _spread(di: int, own: bool) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        rows = lib.np.arange(ROWS) // 2 * 3 + i + di
        return lib.add_rows(u, rows, 0.1 * (u[::-1] if own else v)), v, w, x

    return step


def _stacked(axis: int) -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        a, b = (lib.np.tanh(u[:, k] * x) for k in range(2))
        pair = lib.np.stack([a * b, a + lib.np.exp(-(b**2))], axis=axis)
        place = (slice(None), slice(4, 6)) if axis else (slice(4, 6), slice(0, ROWS))
        return u, lib.put(v, place, pair), w, x

    return step


def _transposed() -> Step:
    def step(lib: Library, i: Any, s: State) -> State:
        u, v, w, x = s
        k = ROWS
        return lib.put(u, (slice(None), slice(0, k)), u[:, :k].T + v[:, 1 : k + 1]), v, w, x

    return step


STEPS: tuple[tuple[Callable[..., Step], tuple[tuple[Any, ...], ...]], ...] = (
    (_overlapping_part, ((0, 3, 8), (0, 2, 20, 40), (-1, 0, 1), (-3, 0, 1, 5))),
    (_stencil, ((0, 1), (-1, 1), (False, True))),
    (_row, ((-2, -1, 0, 1, 3), (-1, 0, 1))),
    (_column, ((-1, 0, 2, 35), (-1, 0, 1))),
    (_element, ((-1, 0, 1), (-1, 0, 30))),
    (_swap, ()),
    (_rotate, ((0.5, -0.25),)),
    (_read_later, ((-1, 0, 1),)),
    (_whole_kept, ()),
    (_sums, ((None, 0, 1),)),
    (_joined, ((1, 5, 36),)),
    (_padded, ((0, 3), (0, 4), (0, 1, 2))),
    (_transposed, ()),
    (_branch, ((False, True),)),
    (_nested, ((-1, 0, 1),)),
    (_masked, ()),
    (_product, ()),
    (_transposed, ()),
    (_least_through, ()),
    (_matrices, ((False, True),)),
    (_spread, ((-9, -2, 0), (False, True))),
    (_stacked, ((0, -1),)),
)
"""Makers of steps, and what each of their arguments may be."""


def number_of_choices() -> int:
    """How many steps there are."""
    return sum(math.prod(map(len, choices)) for _, choices in STEPS)


def step_number(number: int) -> Step:
    """The steps in order."""
    for maker, choices in STEPS:
        count = math.prod(map(len, choices))
        if number < count:
            arguments = []
            for options in choices:
                number, k = divmod(number, len(options))
                arguments.append(options[k])
            return maker(*arguments)
        number -= count
    raise IndexError(number)


def run(lib: Library, steps: list[Step], i: Any, state: State) -> State:
    """One round."""
    for step in steps:
        state = step(lib, i, state)
    return state
