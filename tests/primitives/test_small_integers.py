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


def _bits(dtype: np.dtype[Any]) -> int:
    return int(ml_dtypes.iinfo(dtype).bits)


def _unsigned(x: Any, dtype: np.dtype[Any]) -> Any:
    return np.asarray(x) % (1 << _bits(dtype))


# Functions of all pairs of values that depend on the width of an element, by plain arithmetic.
_OF_BITS: dict[str, Any] = {
    "clz": lambda x, y, t: _bits(t) - np.ceil(np.log2(_unsigned(x, t) + 1)).astype(int),
    "population_count": lambda x, y, t: sum(_unsigned(x, t) >> k & 1 for k in range(_bits(t))),
    "mulhi": lambda x, y, t: x * y >> _bits(t),
    "shift_left": lambda x, y, t: np.where(_unsigned(y, t) < _bits(t), x << _unsigned(y, t), 0),
    "shift_right_logical": lambda x, y, t: np.where(
        _unsigned(y, t) < _bits(t), _unsigned(x, t) >> _unsigned(y, t), 0
    ),
    "shift_right_arithmetic": lambda x, y, t: (
        (_unsigned(x, t) ^ 1 << _bits(t) - 1) - (1 << _bits(t) - 1)
        >> np.minimum(_unsigned(y, t), _bits(t) - 1)
    ),
}
_OF_ONE = ("clz", "population_count")
# Functions whose results are those of int8 and uint8, wrapped around.
_NAMES = (
    "abs negative sign square invert bitwise_count logical_not isfinite signbit cumsum cumprod "
    "sort argsort argmax flip diff"
).split()
_PAIRS = (
    "add subtract multiply maximum minimum floor_divide remainder fmod divmod gcd lcm "
    "left_shift right_shift bitwise_and bitwise_or bitwise_xor equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor true_divide fmax fmin heaviside "
    "arctan2 hypot"
).split()
_OF_LAX = "rem max min add sub mul div bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge".split()


def _table(x: Any, y: Any) -> dict[str, Any]:
    """Every function of all pairs of values."""
    found = {name: getattr(jnp, name)(x) for name in _NAMES}
    found |= {name: getattr(jnp, name)(x, y) for name in _PAIRS}
    found |= {f"lax.{name}": getattr(lax, name)(x, y) for name in _OF_LAX}
    line = jnp.arange(40)
    return found | {
        "clip": jnp.clip(x, y, y),
        "where": jnp.where(x > y, x, y),
        "power": x**3,
        "index": line[x],
        "take": jnp.take(line, x, mode="clip"),
        "take_along_axis": jnp.take_along_axis(line, x, 0, mode="clip"),
        "at add": line.at[x].add(1),
        "own at": x.at[y].multiply(y),
        "own at set": x.at[y].max(x),
        "dynamic_slice": lax.dynamic_slice(line, (x[1],), (2,)),
        "dynamic_update_slice": lax.dynamic_update_slice(line, line[:2], (x[1],)),
        "gather": lax.gather(
            line, x[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="clip"
        ),
    }


def _as_numbers(found: Any) -> list[np.ndarray[Any, Any]]:
    return [
        np.asarray(x).astype(int if jnp.issubdtype(x.dtype, np.integer) else x.dtype)
        for x in xpr.tree.leaves(found)
    ]


@_TYPE
def test_all_functions_are_those_of_bytes_wrapped_around(dtype: np.dtype[Any]) -> None:
    info = ml_dtypes.iinfo(dtype)
    values = np.arange(int(info.min), int(info.max) + 1)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    byte = np.uint8 if str(dtype).startswith("u") else np.int8
    expected = _table(jnp.asarray(x.astype(byte)), jnp.asarray(y.astype(byte)))
    operands = [jnp.asarray(a.astype(np.int8).astype(dtype)) for a in (x, y)]
    at_once, compiled = _table(*operands), xpr.jit(_table)(*operands)
    for name, wide in expected.items():
        for how, found in (("at once", at_once[name]), ("compiled", compiled[name])):
            pairs = zip(xpr.tree.leaves(found), xpr.tree.leaves(wide), strict=True)
            for a, e in pairs:
                numbers = np.asarray(e).astype(int) if e.dtype == byte else np.asarray(e)
                own = a.dtype == dtype
                assert own or a.dtype == e.dtype, (name, how, a.dtype, e.dtype)
                (found_numbers,) = _as_numbers(a)
                np.testing.assert_allclose(
                    found_numbers,
                    _wrap(numbers, dtype) if own else numbers,
                    rtol=1e-6,
                    err_msg=f"{name}, {how}",
                )


@_TYPE
def test_operations_on_bits(dtype: np.dtype[Any]) -> None:
    info = ml_dtypes.iinfo(dtype)
    values = np.arange(int(info.min), int(info.max) + 1)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    operands = [jnp.asarray(a.astype(np.int8).astype(dtype)) for a in (x, y)]

    def table(x: Any, y: Any) -> dict[str, Any]:
        return {
            name: getattr(lax, name)(*((x,) if name in _OF_ONE else (x, y))) for name in _OF_BITS
        }

    at_once, compiled = table(*operands), xpr.jit(table)(*operands)
    for name, function in _OF_BITS.items():
        expected = _wrap(function(x, y, dtype), dtype)
        for found in (at_once[name], compiled[name]):
            assert found.dtype == dtype
            np.testing.assert_array_equal(np.asarray(found).astype(int), expected, err_msg=name)


@_TYPE
def test_conversions_at_once(dtype: np.dtype[Any]) -> None:
    wide = _values(dtype)
    x = jnp.asarray(wide.astype(np.int8).astype(dtype))
    for to in (np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.float32), *_TYPES):
        found = x.astype(to)
        expected = _wrap(wide, to) if to in _TYPES else wide.astype(to)
        assert found.dtype == to
        np.testing.assert_array_equal(np.asarray(found).astype(expected.dtype), expected)


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
