"""Lists and tuples inside an index stand for arrays, as they do for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.errors import NonConcreteBooleanIndexError

VALUES = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
INDICES: list[Any] = [
    (0, [1, 2]),
    ([0, 1], ...),
    (slice(None), [True, False, True]),
    ([0, 1], [1, 2]),
    ([1, 0],),
    ([[0, 1], [1, 0]], 2),
    ([True, False], [0]),
    ([[True, False, True], [False, True, False]],),
    (0, [[True, False, False, True]] * 3),
    (None, [0], ..., [-1]),
    (slice(None), []),
    (0, ()),
    (0, (1, -2)),
    (0, [np.int64(1), 2]),
    (0, [True, 1]),
    (..., [[1]]),
    ([1], slice(None, None, -2), [0, 3]),
    (0, [1, 2], True),
]


def test_lists_are_read_as_numpy_reads_them() -> None:
    x = jnp.asarray(VALUES)
    inside = xpr.jit(lambda x: [x[index] for index in INDICES])(x)
    for index, traced in zip(INDICES, inside, strict=True):
        for found in (x[index], x.at[index].get(), traced):
            np.testing.assert_array_equal(found, VALUES[index], str(index), strict=True)


def test_lists_are_written_as_numpy_writes_them() -> None:
    x = jnp.asarray(VALUES)
    inside = xpr.jit(lambda x: [x.at[index].set(-1) for index in INDICES])(x)
    for index, traced in zip(INDICES, inside, strict=True):
        expected = VALUES.copy()
        expected[index] = -1
        for found in (x.at[index].set(-1), traced):
            np.testing.assert_array_equal(found, expected, str(index), strict=True)
    added = x.at[[0, 0, 1], 2].add(10, indices_are_sorted=True)
    expected = VALUES.copy()
    np.add.at(expected, ([0, 0, 1], 2), 10)
    np.testing.assert_array_equal(added, expected)


def test_lists_may_hold_arrays_and_traced_values() -> None:
    x, i, line = jnp.asarray(VALUES), jnp.asarray(1), jnp.arange(2)
    np.testing.assert_array_equal(x[0, [i, 2]], VALUES[0, [1, 2]])
    np.testing.assert_array_equal(x[0, [line, line + 1]], VALUES[0, [[0, 1], [1, 2]]])

    def program(x: Any, i: Any, line: Any) -> list[Any]:
        return [
            x[0, [i, i + 1]],
            x[(i, 0), 1],
            x[0, [[i, 0], [1, i]]],
            x[0, [line, line]],
            x.at[[i, 0], 1].set(0),
        ]

    updated = VALUES.copy()
    updated[[1, 0], 1] = 0
    wanted = [
        VALUES[0, [1, 2]],
        VALUES[[1, 0], 1],
        VALUES[0, [[1, 0], [1, 1]]],
        VALUES[0, [[0, 1], [0, 1]]],
        updated,
    ]
    for f in (program, xpr.jit(program)):
        for found, expected in zip(f(x, i, line), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)
    slope = xpr.grad(lambda x: (x[0, [1, 1]] ** 2).sum())(x.astype(np.float32))
    expected = np.zeros(VALUES.shape)
    expected[0, 1] = 4 * VALUES[0, 1]
    np.testing.assert_array_equal(slope, expected)


def test_lists_that_are_no_index() -> None:
    x = jnp.asarray(VALUES)
    for f in (lambda i: x[i], lambda i: x.at[i].set(0), lambda i: x.at[i].get()):
        for bare in ([0, 1], [True, False], []):
            with pytest.raises(TypeError, match="non-tuple sequence"):
                f(bare)
        with pytest.raises(TypeError, match=r"integer or boolean type.*float32"):
            f((0, [1.0, 2.0]))
        with pytest.raises(TypeError, match="not a valid JAX array type"):
            f((0, ["a"]))
        with pytest.raises(ValueError, match="inhomogeneous"):
            f((0, [1, [2]]))
        with pytest.raises(OverflowError, match="3000000000 too large"):
            f((0, [3_000_000_000]))
        with pytest.raises(IndexError, match="boolean index did not match"):
            f((slice(None), [True, False]))
    np.testing.assert_array_equal(x[0, [7, -9]], VALUES[0, [2, 0]])  # the nearest element
    np.testing.assert_array_equal(x.at[0, [7, 1]].set(0), x.at[0, [1]].set(0))  # dropped
    with pytest.raises(NonConcreteBooleanIndexError, match="must be concrete"):
        xpr.jit(lambda x, b: x[0, [b, True, False]])(x, True)
