"""`xpr.ds`: stretches of an axis with a start that may be traced, against NumPy's slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import ds

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def window(start: int, size: int, extent: int) -> slice:
    """The window that is read: a negative start counts from the end, then it is moved inside."""
    start = start + extent if start < 0 else start
    start = min(max(start, 0), extent - size)
    return slice(start, start + size)


@pytest.mark.parametrize("start", [-9, -5, -4, -1, 0, 1, 3, 7])
def test_windows_are_read_where_they_fit(start: int) -> None:
    x, rows, columns = jnp.asarray(X), window(start, 2, 4), window(start, 3, 6)
    traced = xpr.jit(lambda x, i: (x[ds(i, 2)], x[..., ds(i, 3)], x[None, 1:, ds(i, 3)]))
    for found in (
        traced(x, start),
        (x[ds(start, 2)], x[..., ds(start, 3)], x[None, 1:, ds(start, 3)]),
    ):
        np.testing.assert_array_equal(found[0], X[rows])
        np.testing.assert_array_equal(found[1], X[:, columns])
        np.testing.assert_array_equal(found[2], X[None, 1:, columns])


def test_stretches_stand_beside_other_indices() -> None:
    places = np.array([2, 0])

    def read(x: Any, i: Any) -> list[Any]:
        return [x[ds(i, 2), 4], x[ds(i, 2), ds(i, 3)], x[places, ds(i, 2)], x[ds(2)], x[ds(None)]]

    found = xpr.jit(read)(X, 1)
    expected = [X[1:3, 4], X[1:3, 1:4], X[places, 1:3], X[:2], X]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(xpr.jit(lambda x, i: x[:, ds(i, 3, 2)])(X, 1), X[:, 1:6:2])
    np.testing.assert_array_equal(xpr.vmap(lambda i: jnp.asarray(X)[ds(i, 2), 0])(np.arange(3)),
                                  [X[i : i + 2, 0] for i in range(3)])  # fmt: skip


@pytest.mark.parametrize("start", [-2, 0, 1, 2, 3, 9])
def test_windows_are_written_to_only_where_they_fit(start: int) -> None:
    begin = start + 4 if start < 0 else start
    expected, added, applied = X.copy(), X.copy(), X.copy()
    if begin + 2 <= 4:
        expected[begin : begin + 2] = 7
        added[begin : begin + 2, [5, 0]] += np.array([1, 2])
        applied[begin : begin + 2] = -applied[begin : begin + 2]

    def write(x: Any, i: Any) -> tuple[Any, ...]:
        part = x.at[ds(i, 2)]
        return part.set(7), x.at[ds(i, 2), jnp.array([5, 0])].add(np.array([1, 2])), part.apply(neg)

    def neg(x: Any) -> Any:
        return -x

    x = jnp.asarray(X)
    for found in (write(x, start), xpr.jit(write)(x, start)):
        for a, b in zip(found, (expected, added, applied), strict=True):
            np.testing.assert_array_equal(a, b)


def test_steps_and_modes_of_writes() -> None:
    expected = X.copy()
    expected[:, 1:6:2] *= 10
    found = xpr.jit(lambda x, i: x.at[:, ds(i, 3, 2)].multiply(10))(X, 1)
    np.testing.assert_array_equal(found, expected)
    moved = X.copy()
    moved[2:4] = 0
    found = xpr.jit(lambda x, i: x.at[ds(i, 2)].set(0, mode="clip"))(X, 3)
    np.testing.assert_array_equal(found, moved)


def test_steps_from_before_the_beginning_are_moved_inside_once() -> None:
    x = np.arange(5)
    for index in (-7, -6):
        read = [min(max(index + 5 + step, 0), 4) for step in (0, 2, 4)]
        written = x.copy()
        written[[i for i in (index + 5, index + 7, index + 9) if 0 <= i < 5]] = 9
        for start in (index, jnp.asarray(index)):
            np.testing.assert_array_equal(jnp.asarray(x)[ds(start, 3, 2)], x[read])
            np.testing.assert_array_equal(jnp.asarray(x).at[ds(start, 3, 2)].set(9), written)
    with pytest.raises(ValueError, match="stride 0"):
        jnp.zeros(4).at[ds(0, 3, 0)].add(1.0)


def test_derivatives_through_stretches() -> None:
    def loss(x: Any, i: Any) -> Any:
        return (x[ds(i, 2)] ** 2).sum() + x.at[ds(i, 2)].set(0).sum()

    expected = np.ones_like(X)
    expected[1:3] = 2 * X[1:3]
    np.testing.assert_array_equal(xpr.grad(loss)(jnp.asarray(X), 1), expected)


def test_references_take_stretches() -> None:
    ref = xpr.new_ref(jnp.asarray(X))

    @xpr.jit
    def f(ref: Any, i: Any) -> Any:
        old = ref[ds(i, 2), 1]
        ref[ds(i, 2), 1] = 10 * old
        return old

    expected = X.copy()
    expected[2:4, 1] *= 10
    np.testing.assert_array_equal(f(ref, 2), X[2:4, 1])
    np.testing.assert_array_equal(ref[...], expected)
    np.testing.assert_array_equal(ref[ds(0, 2, 2)], expected[0:4:2])
    with pytest.raises(ValueError, match="Out of bound slice: start=3, size=2, stride=1, dim=4"):
        ref[ds(3, 2)]


def test_what_a_stretch_is() -> None:
    assert ds(1, 2) == ds(1, 2, 1)
    assert repr(ds(3)) == "Slice(start=0, size=3, stride=1)"
    assert xpr.tree.leaves(ds(1, 2)) == []
    rows = xpr.jit(lambda x, item: x[item])(X, ds(jnp.int32(1), 2))
    np.testing.assert_array_equal(rows, X[1:3])
    with pytest.raises(ValueError, match="`stride` must be >= 0"):
        ds(1, 2, -1)
    with pytest.raises(ValueError, match="Non-static stride"):
        ds(1, 2, jnp.int32(1))
    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values"):
        xpr.jit(lambda x, n: x[ds(0, n)])(X, 2)
    with pytest.raises(TypeError, match="slice_sizes must be less than or equal to operand shape"):
        jnp.asarray(X)[ds(0, 9)]
    with pytest.raises(TypeError, match="the start of ds must be an integer"):
        jnp.asarray(X)[ds("a", 2)]
    with pytest.raises(IndexError, match="Too many indices: array is 1-dimensional"):
        jnp.ones(3)[0, ds(0, 1)]
