"""Integers of 2 and 4 bits in compiled programs, against NumPy's of 32 bits wrapped around."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.test_ir import graph_of
from xpr import lax
from xpr.lowering import passes
from xpr.lowering.ir.printer import print_module

_TYPES = [np.dtype(getattr(ml_dtypes, n)) for n in ("int2", "int4", "uint2", "uint4")]
_TYPE = pytest.mark.parametrize("dtype", _TYPES, ids=str)


def _values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    info = ml_dtypes.iinfo(dtype)
    return np.array([info.min, info.max, 1, 0, info.max, info.min + 1], np.int32)


def _wrap(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    info = ml_dtypes.iinfo(dtype)
    return (np.asarray(x) - int(info.min)) % (1 << info.bits) + int(info.min)


def _program(x: Any, table: Any, np_: Any) -> list[Any]:
    return [
        x + x,
        x * table,
        x - table,
        -x,
        ~x,
        x ^ table,
        x & table,
        np_.sort(x),
        np_.maximum(x, table),
        np_.where(x > table, x, table),
        np_.concatenate([x, table]),
        x.reshape(2, 3).T,
    ]


@_TYPE
def test_operations(dtype: np.dtype[Any]) -> None:
    wide = _values(dtype)
    table = wide[::-1].copy()
    x = jnp.asarray(wide.astype(dtype))
    expected = [_wrap(e, dtype) for e in _program(wide, table, np)]
    # The table is a constant of the program.
    found = xpr.jit(lambda x: _program(x, jnp.asarray(table.astype(dtype)), jnp))(x)
    for a, e in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_array_equal(np.asarray(a).astype(np.int32), e)


@_TYPE
def test_conversions(dtype: np.dtype[Any]) -> None:
    wide = _values(dtype)
    x = jnp.asarray(wide.astype(dtype))
    to = [np.dtype(t) for t in ("int32", "uint8", "float32", "bool", "complex64", *_TYPES)]
    found = xpr.jit(lambda x: [x.astype(t) for t in to])(x)
    for a, t in zip(found, to, strict=True):
        assert a.dtype == t
        expected = _wrap(wide, t) if t in _TYPES else wide.astype(t)
        np.testing.assert_array_equal(np.asarray(a).astype(expected.dtype), expected)
    info = ml_dtypes.iinfo(dtype)
    start = np.array([-300, -9, -1, 0, 1, 2, 9, 300])
    back = xpr.jit(lambda i, f, b: (i.astype(dtype), f.astype(dtype), b.astype(dtype)))
    integers, floats, bools = back(start.astype("i4"), (start + 0.25).astype("f4"), start > 0)
    np.testing.assert_array_equal(np.asarray(integers).astype(int), _wrap(start, dtype))
    clipped = np.clip(np.trunc(start + 0.25), int(info.min), int(info.max))
    np.testing.assert_array_equal(np.asarray(floats).astype(int), clipped)
    np.testing.assert_array_equal(np.asarray(bools).astype(int), _wrap(start > 0, dtype))
    # NumPy's own bytes, of which the upper bits are zero.
    assert np.asarray(integers).tobytes() == start.astype("i4").astype(dtype).tobytes()


@_TYPE
def test_loops_and_branches(dtype: np.dtype[Any]) -> None:
    wide = _values(dtype)
    x = jnp.asarray(wide.astype(dtype))

    def f(x: Any) -> Any:
        looped = lax.fori_loop(0, 5, lambda _, y: y + x, x)
        total, parts = lax.scan(lambda c, y: (c + y, c), x[0], x)
        return looped, total, parts, lax.cond(x[1] > 0, lambda x: x * x, lambda x: x, x)

    before = np.concatenate([[0], np.cumsum(wide)]) + wide[0]
    expected = (6 * wide, before[-1], before[:-1], wide * wide)
    for a, e in zip(xpr.jit(f)(x), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a).astype(int), _wrap(e, dtype))


def test_operations_on_bits_that_are_not_there() -> None:
    x = jnp.asarray(np.array([1, 2], ml_dtypes.int4))
    for f in (lax.population_count, lax.clz, lambda x: lax.shift_right_logical(x, x)):
        with pytest.raises(TypeError, match=r"does not accept dtype int4"):
            xpr.jit(f)(x)


@_TYPE
def test_reductions_products_and_scatters(dtype: np.dtype[Any]) -> None:
    wide = _values(dtype)
    x = jnp.asarray(wide.astype(dtype))
    places = np.array([0, 0, 1, 0, 1, 1])

    def f(x: Any) -> list[Any]:
        many = jnp.broadcast_to(x, (50, 6))
        added = jnp.zeros(2, dtype).at[places].add(x)
        table = x.reshape(2, 3)
        product = lax.dot_general(
            table, table.T, (((1,), (0,)), ((), ())), preferred_element_type=dtype
        )
        return [
            lax.reduce(many, np.zeros((), dtype), lax.add, (0,)),
            lax.reduce(many, np.zeros((), dtype), lambda a, b: lax.max(a + b, b), (0,)),
            jnp.max(x),
            added,
            product,
            lax.iota(dtype, 20),
            x.astype(jnp.int32) // 2,
        ]

    kept = np.zeros(6, int)
    for _ in range(50):
        kept = np.maximum(_wrap(kept + wide, dtype), wide)
    table = wide.reshape(2, 3)
    sums = np.zeros(2, int)
    np.add.at(sums, places, wide)
    expected = [50 * wide, kept, wide.max(), sums, table @ table.T, np.arange(20), wide // 2]
    for i, (a, e) in enumerate(zip(xpr.jit(f)(x), expected, strict=True)):
        e = e if i == 6 else _wrap(e, dtype)
        np.testing.assert_array_equal(np.asarray(a).astype(np.int32), e, err_msg=str(i))


def test_without_the_pass_sums_leave_their_range(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = xpr.make_jaxpr(lambda x: x + x > 0)(np.ones(3, ml_dtypes.int4))
    assert "stablehlo.and" in print_module(graph_of(closed, "cpu"), "m")
    monkeypatch.delitem(passes.PASSES, "small_integers")
    sums = np.array([7, 4, 1], ml_dtypes.int4)
    assert xpr.jit(lambda x: x + x > 0)(sums).tolist() == [True, True, True]
