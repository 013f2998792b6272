"""Donated arrays are overwritten where that is right, and nothing is copied that need not be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax
from xpr.runtimes import extension

needs_native = pytest.mark.skipif(
    extension.native().executor is None, reason="IREE's runtime plans the memory of programs"
)

_ADAM = """
import numpy as np
import xpr
import xpr.numpy as jnp

def resident():
    line = next(x for x in open("/proc/self/status") if x.startswith("VmRSS"))
    return int(line.split()[1]) // 1024

def step(w, a, b, g):
    a = 0.9 * a + 0.1 * g
    b = 0.999 * b + 0.001 * g * g
    return w - 1e-3 * a / (jnp.sqrt(b) + 1e-8), a, b

rng = np.random.default_rng(0)
w, a, b, g = (jnp.array(rng.random(10_000_000, np.float32)) for _ in range(4))
expected = step(*(np.asarray(x)[:9].astype(np.float64) for x in (w, a, b, g)))
f = xpr.jit(step, donate_argnums=(0, 1, 2)).lower(w, a, b, g).compile()
before = resident()
w, a, b = f(w, a, b, g)
for x, e in zip((w, a, b), expected, strict=True):
    np.testing.assert_allclose(np.asarray(x[:9]), e, rtol=1e-5)
for _ in range(3):
    places = [x.unsafe_buffer_pointer() for x in (w, a, b)]
    w, a, b = xpr.block_until_ready(f(w, a, b, g))
    assert [x.unsafe_buffer_pointer() for x in (w, a, b)] == places
print(resident() - before)
"""


@needs_native
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_results_take_the_places_of_all_donated_arrays() -> None:
    ran = subprocess.run([sys.executable, "-c", _ADAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    # Each array has 38 MB.
    assert int(ran.stdout) < 30, f"{ran.stdout} MB more after four steps"


_PLACES = np.array([5, 77, 5, 1999, 0], np.int32)


def _place(x: Any) -> int:
    return xpr.block_until_ready(x).unsafe_buffer_pointer()


@needs_native
@pytest.mark.parametrize("kind", ["add", "max", "read before", "a gradient", "a loop"])
def test_a_donated_table_is_not_copied(kind: str) -> None:
    def step(table: Any, rows: Any) -> Any:
        if kind == "read before":
            return table.at[rows].add(jnp.sin(table[rows]))
        if kind == "a gradient":
            found = xpr.grad(lambda e: (e**2).mean())(table[rows])
            return table.at[rows].add(-0.1 * found)
        if kind == "a loop":
            return lax.fori_loop(0, 5, lambda k, t: t.at[rows[k]].add(1.0), table)
        return getattr(table.at[rows], kind)(2.0)

    run = xpr.jit(step, donate_argnums=0)
    values = np.random.default_rng(1).standard_normal((2000, 64)).astype(np.float32)
    table, kept = run(jnp.array(values), _PLACES), xpr.jit(step)(jnp.array(values), _PLACES)
    np.testing.assert_array_equal(table, kept)
    place = _place(table)
    for _ in range(2):
        table, kept = run(table, _PLACES), xpr.jit(step)(kept, _PLACES)
        assert _place(table) == place
        np.testing.assert_array_equal(table, kept)


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "a row": lambda x, i: x.at[i[1]].set(x[0] + 1),
    "an element": lambda x, i: x.at[i[1], i[0]].add(2),
    "elements": lambda x, i: x.at[i, i % 7].set(i.astype(x.dtype)),
    "rows twice, some outside": lambda x, i: x.at[i * 2000].set(i[:, None].astype(x.dtype)),
    "the last of equal rows": lambda x, i: x.at[i].set((i + 1)[:, None].astype(x.dtype)),
    "a window": lambda x, i: lax.dynamic_update_slice(x, x[3:5, :4] * 2, (i[3], i[0])),
    "a function twice": lambda x, i: x.at[i].apply(lambda v: v * 2 + 1),
}


_COMPUTING = ("an element", "a function twice")


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int16", "uint8", "uint32"])
def test_small_updates_of_large_arrays_are_made_in_place(dtype: str) -> None:
    values = np.random.default_rng(4).integers(0, 9, (20_000, 16)).astype(jnp.dtype(dtype))
    for name, update in _UPDATES.items():
        run = xpr.jit(update, donate_argnums=0)
        table, expected = jnp.array(values), jnp.array(values)
        for k in range(3):
            place = _place(table)
            table, expected = run(table, _PLACES), update(expected, _PLACES)
            np.testing.assert_array_equal(table, expected, err_msg=f"{name}, {k}")
            is_converted = name in _COMPUTING and dtype in ("bfloat16", "float16")
            assert is_converted or _place(table) == place, name
        kept = jnp.array(values)
        xpr.jit(update)(kept, _PLACES)
        np.testing.assert_array_equal(kept, values, err_msg=name)


def _set(x: Any, rows: Any, value: Any, np_: Any) -> Any:
    if np_ is jnp:
        return x.at[rows].set(value)
    x = x.copy()
    x[rows] = value
    return x


# Functions of two donated arrays [2000, 8], an index array and NumPy or its like. What they read
# after the first write to an argument, or at other places, must be what was there before.
_PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "sum and product": lambda x, y, i, n: (x + y, x * y),
    "one into the other": lambda x, y, i, n: (x - y, (x - y) * y, x + 1),
    "swapped": lambda x, y, i, n: (y + 1, x + 1),
    "of numbers": lambda x, y, i, n: (x * 2, y * x + 3, n.abs(x) - y),
    "reversed": lambda x, y, i, n: (x[::-1] + y, x - y),
    "less its sum": lambda x, y, i, n: (x - x.sum(), y + x[0]),
    "less a row": lambda x, y, i, n: (x - x[3], y * x[5]),
    "less the greatest of its row": lambda x, y, i, n: (x - x.max(axis=1)[:, None], y),
    "running sums": lambda x, y, i, n: (x.cumsum(axis=0), y - x),
    "a product with itself": lambda x, y, i, n: (x - (x @ x[:8]), y),
    "transposed": lambda x, y, i, n: (x + y.T.reshape(x.shape), y + 1),
    "written and read": lambda x, y, i, n: (_set(x, i, 0, n), x[i], x.sum()),
    "written twice": lambda x, y, i, n: (_set(x, i, 0, n), _set(x, i + 1, 1, n)),
    "written and returned": lambda x, y, i, n: (x, _set(x, i, 0, n)),
    "written in turn": lambda x, y, i, n: _set(_set(x, i, 0, n), i + 2, 1, n),
    "written with its rows": lambda x, y, i, n: (_set(x, i, y[i], n), _set(y, i, x[i], n)),
    "written after a change": lambda x, y, i, n: (_set(x + y, i, 0, n), x + y, y),
}


@pytest.mark.parametrize("name", _PROGRAMS)
def test_results_are_those_without_donation(name: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-5, 5, (2000, 8)).astype(np.float32) for _ in range(2))
    rows = np.array([5, 77, 1990, 0], np.int32)
    wanted = _PROGRAMS[name](x, y, rows, np)
    run = xpr.jit(lambda x, y, rows: _PROGRAMS[name](x, y, rows, jnp), donate_argnums=(0, 1))
    for begin in (jnp.array, xpr.jit(lambda a: a + 0)):
        found = run(begin(x), begin(y), rows)
        for a, e in zip(xpr.tree.leaves(found), xpr.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(a, e, err_msg=name)


def test_a_loop_that_carries_one_array_twice() -> None:
    x = np.arange(5000, dtype=np.float32)

    def run(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, c: (c[1], c[0] + 1, c[1] * 2), (x, x + 1, x))

    expected = (x, x + 1, x)
    for _ in range(5):
        expected = (expected[1], expected[0] + 1, expected[1] * 2)
    for found in (xpr.jit(run)(x), xpr.jit(run, donate_argnums=0)(jnp.array(x))):
        for a, e in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, e)


def test_an_array_of_no_operands_that_two_operations_update() -> None:
    places = np.tile(np.arange(-8, 8), 16)

    def run(i: Any) -> Any:
        line, same = jnp.arange(40), jnp.arange(40)
        return line.at[i].add(1), lax.dynamic_update_slice(same, line[:2], (i[1],))

    for a, e in zip(xpr.jit(run)(places), run(places), strict=True):
        np.testing.assert_array_equal(a, e)
