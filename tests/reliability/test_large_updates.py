"""Programs of several updates and reads of large arrays that share operands: compiled as at once.

Arrays are large enough for updates in place by a dispatch of their own, which smaller ones are not.
Numbers are whole, so that results are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import lax

from .scripts import cases

ROWS, COLUMNS = 6000, 16
TOGETHER = 4

pytestmark = pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")

Step = Callable[[Any, Any, Any], Any]

# Functions of an array, another one and 5 places, which may be equal or outside.
STEPS: dict[str, Step] = {
    "row": lambda x, y, i: x.at[i[0]].set(y[i[1]]),
    "element": lambda x, y, i: x.at[i[0], i[1] % 16].add(y[3, 2] + 1),
    "rows": lambda x, y, i: x.at[i].set(y[i] + 1),
    "sum of rows": lambda x, y, i: x.at[i].add(y[i + 1]),
    "elements": lambda x, y, i: x.at[i, i % 16].max(y[i, 0]),
    "window": lambda x, y, i: lax.dynamic_update_slice(x, y[2:5, 1:9], (i[2], i[3] % 16)),
    "itself": lambda x, y, i: x.at[i[0]].set(x[i[1]] - y[0]),
    "shifted": lambda x, y, i: lax.dynamic_update_slice(x, x[1:4] + 1, (i[0], 0)),
    "function": lambda x, y, i: x.at[i, 3].apply(lambda v: v * 2 + 1),
    "known place": lambda x, y, i: x.at[7].set(y[8]).at[9, 3].add(1),
    "reversed": lambda x, y, i: x[::-1] + y,
    "column": lambda x, y, i: x.at[:, i[4] % 16].set(y[:, 1]),
    "choice": lambda x, y, i: lax.cond(i[0] > 9, lambda: x.at[i[1]].set(1), lambda: y),
    "loop": lambda x, y, i: lax.fori_loop(0, 3, lambda k, c: c.at[i[k]].add(c[i[k + 1]] + 1), x),
}


def program(seed: int) -> tuple[Callable[..., Any], np.ndarray, list[int]]:
    """A random program of two arrays and places, the places, and what it is given for good."""
    rng = np.random.default_rng(seed)
    chosen = [
        (name, *rng.integers(0, 2 + k, 2)) for k, name in enumerate(rng.choice(list(STEPS), 3))
    ]
    results = rng.choice(5, rng.integers(1, 4), replace=False)
    donated = [k for k in range(2) if rng.random() < 0.7]

    def run(x: Any, y: Any, i: Any) -> Any:
        arrays = [x, y]
        for name, a, b in chosen:
            arrays.append(STEPS[name](arrays[a], arrays[b], i))
        return [arrays[k] for k in results], arrays[-1][i[0]]

    return run, rng.integers(-3, ROWS + 3, 5).astype(np.int32), donated


@pytest.mark.parametrize("first", range(0, cases(16, 800), TOGETHER))
def test_compiled_as_at_once(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        run, places, donated = program(seed)
        rng = np.random.default_rng(seed + 1)
        dtype = rng.choice(["float32", "int32", "bfloat16", "uint8", "float16"])
        values = [rng.integers(0, 5, (ROWS, COLUMNS)).astype(jnp.dtype(dtype)) for _ in range(2)]
        expected = xpr.tree.leaves(run(*map(jnp.array, [*values, places])))
        compiled = xpr.jit(run, donate_argnums=donated)
        for _ in range(2):
            given = [jnp.array(v) for v in values]
            found = xpr.tree.leaves(compiled(*given, places))
            for a, e in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, e, err_msg=f"program {seed} of {dtype}")
            for k, (x, v) in enumerate(zip(given, values, strict=True)):
                if k not in donated:
                    np.testing.assert_array_equal(x, v, err_msg=f"argument of program {seed}")


@pytest.mark.parametrize("donated", [(), (0,)])
def test_updates_in_a_branch_leave_what_others_read(donated: tuple[int, ...]) -> None:
    rows = np.arange(300) * 7

    def run(y: Any, i: Any) -> Any:
        whole = lax.dynamic_update_slice(y, y[2:5, 1:9], (i[2], i[3] % 16))
        changed = whole.at[i[0], i[1] % 16].add(whole[3, 2] + 1)
        row = lax.cond(i[0] > 9, lambda: whole.at[rows].set(1.0), lambda: whole)[i[0]]
        single = lax.cond(i[0] > 9, lambda: whole.at[i[1]].set(1.0), lambda: whole)[i[1]]
        return y, whole, changed, row, single

    values = np.random.default_rng(0).integers(0, 5, (ROWS, COLUMNS)).astype(np.float32)
    places = jnp.array([1762, 373, 2138, 3115])
    expected = run(jnp.array(values), places)
    found = xpr.jit(run, donate_argnums=donated)(jnp.array(values), places)
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, e)


def test_loops_leave_what_branches_read() -> None:
    def run(x: Any, i: Any) -> Any:
        first = x.at[i].set(x[i] + 1)
        looped = lax.fori_loop(0, 3, lambda k, c: c.at[i[k]].add(c[i[k + 1]] + 1), first)
        chosen = lax.cond(i[0] > 9, lambda: looped.at[i[1]].set(1.0), lambda: first)
        return first, chosen[i[0]]

    values = np.random.default_rng(0).integers(0, 5, (ROWS, COLUMNS)).astype(np.float32)
    places = jnp.array([1918, 5502, 5329, 1549, 4539])
    for a, e in zip(xpr.jit(run)(values, places), run(jnp.array(values), places), strict=True):
        np.testing.assert_array_equal(a, e)
