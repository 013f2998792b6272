"""Operators on concrete arrays: NumPy's values bit by bit, in each form, on each call.

All of it holds with the native part and without; `XPR_NATIVE=0` runs the same tests on the Python
path. The first operation on given types and the later ones go different ways, so each is done
several times.
"""

from __future__ import annotations

import operator
import threading

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr.core.config import override

_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32",
           "bfloat16", "complex64")  # fmt: skip
_ARITHMETIC = (operator.add, operator.sub, operator.mul)
_BITS = (operator.and_, operator.or_, operator.xor)
_ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)
_EQUALS = (operator.eq, operator.ne)
_TIMES = 3


def _operands(dtype, shape):
    rng = np.random.default_rng(7)
    kind = np.dtype(dtype).kind if dtype != "bfloat16" else "f"
    special = {
        "b": [True, False],
        "i": [0, 1, -1, 127, -128, 100],
        "u": [0, 1, 255, 200],
        "f": [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 6e4],
        "c": [0j, 1 + 2j, -1j, 3 + 0j],
    }[kind]
    return [np.asarray(rng.choice(special, shape)).astype(jnp.dtype(dtype)) for _ in range(2)]


def _same(found, want, note) -> None:
    found = np.asarray(found)
    assert found.dtype == want.dtype, note
    assert found.shape == want.shape, note
    if found.dtype.kind in "fcV":  # the bits of a NaN are nobody's promise, all others are
        wide = complex if found.dtype.kind == "c" else float
        np.testing.assert_array_equal(found.astype(wide), want.astype(wide), err_msg=str(note))
        if found.dtype.kind != "c":
            signs = np.signbit(found.astype(float)) == np.signbit(want.astype(float))
            assert np.all(signs | np.isnan(found.astype(float))), note
    else:
        np.testing.assert_array_equal(found, want, err_msg=str(note))


@pytest.mark.parametrize("dtype", _DTYPES)
def test_every_operator_gives_what_numpy_gives(dtype) -> None:
    kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    functions = list(_EQUALS)
    functions += _ARITHMETIC if kind != "b" else ()
    functions += _ORDERS if kind != "c" else ()
    functions += _BITS if kind in "biu" else ()
    functions += (operator.truediv,) if dtype in ("float32", "float16") else ()
    for shape in ((), (1,), (5,), (2, 3), (0,), (3, 0, 2)):
        a, b = _operands(dtype, shape)
        for function in functions:
            with np.errstate(all="ignore"):
                want = np.asarray(function(a, b))
            for _ in range(_TIMES):
                x, y = jnp.asarray(a), jnp.asarray(b)
                _same(function(x, y), want, (function, dtype, shape))
                # A NumPy operand, on each side, gives way.
                _same(function(x, b), want, (function, dtype, shape, "right"))
                if shape:
                    _same(function(a, y), want, (function, dtype, shape, "left"))
        if kind in "ifc":
            for _ in range(_TIMES):
                _same(-jnp.asarray(a), -a, ("neg", dtype, shape))


def test_python_numbers_take_the_type_of_the_array() -> None:
    for dtype in ("int8", "uint8", "int32", "uint32", "float32", "float16", "bfloat16"):
        kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
        for number in (
            0,
            3,
            100,
            *((-3, 2.5, float("nan"), 1e300, -1e-320) if kind == "f" else ()),
        ):
            a = np.arange(4).astype(jnp.dtype(dtype))
            with np.errstate(all="ignore"):
                scalar = np.asarray(number).astype(a.dtype)
                cases = [(f, np.asarray(f(a, scalar)), np.asarray(f(scalar, a)))
                         for f in (*_ARITHMETIC, operator.lt, operator.eq)]  # fmt: skip
            for function, right, left in cases:
                for _ in range(_TIMES):
                    _same(function(jnp.asarray(a), number), right, (function, dtype, number))
                    _same(function(number, jnp.asarray(a)), left, (function, number, dtype))


def test_numbers_that_do_not_fit_are_refused_or_promoted_each_time() -> None:
    x = jnp.arange(3)
    for _ in range(_TIMES):
        assert (x + 1).dtype == np.int32
        with pytest.raises(OverflowError, match="too large to convert to int32"):
            x + 2**31
        with pytest.raises(OverflowError, match="too large to convert to int32"):
            -(2**31) - 1 + x
        assert (x + 2.5).dtype == np.float32
        assert (x + 1j).dtype == np.complex64
        assert (x + True).dtype == np.int32
        assert np.asarray(x + (2**31 - 1)).tolist() == [2147483647, -2147483648, -2147483647]
    small = jnp.arange(3, dtype=jnp.uint8)
    want = np.asarray(small + jnp.uint8(44))
    for _ in range(_TIMES):  # 300 wraps to 44, as in a conversion of arrays
        np.testing.assert_array_equal(np.asarray(small + 300), want)
        np.testing.assert_array_equal(np.asarray(small == -1), [False] * 3)


def test_weak_types_stay_weak() -> None:
    weak = jnp.asarray(2.0)
    strong = jnp.float32(3)
    assert weak.weak_type
    for _ in range(_TIMES):
        assert (weak + 1).weak_type
        assert (weak + weak).weak_type
        assert (-weak).weak_type
        assert not (weak + strong).weak_type
        assert not (jnp.ones(2) + weak).weak_type
        assert (jnp.asarray(1) * jnp.ones(2, jnp.int8)).dtype == np.int8


def test_shapes_are_broadcast_or_refused_each_time() -> None:
    row, column, other = jnp.arange(3.0), jnp.arange(2.0)[:, None], jnp.arange(4.0)
    for _ in range(_TIMES):
        _same(row + column, np.arange(3, dtype="f4") + np.arange(2, dtype="f4")[:, None], "outer")
        _same(row + jnp.float32(1), np.arange(3, dtype="f4") + np.float32(1), "scalar")
        _same(jnp.ones((2, 3)) * row, np.ones((2, 3), "f4") * np.arange(3, dtype="f4"), "rows")
        with pytest.raises((TypeError, ValueError), match="shapes"):
            row + other


def test_views_that_are_not_contiguous() -> None:
    a = np.arange(5000, dtype="f4").reshape(50, 100)
    x = jnp.asarray(a)
    for _ in range(_TIMES):
        for found, want in (
            (x.T, a.T),
            (x[::2], a[::2]),
            (x[:, 3], a[:, 3]),
            (x[::-1, 1], a[::-1, 1]),
        ):
            _same(found + found, want + want, "sum")
            _same(found < 7, want < 7, "order")
            _same(found[1], want[1], "row")


def test_parts_by_integers_and_slices() -> None:
    a = np.arange(2 * 3 * 4, dtype="i4").reshape(2, 3, 4)
    x = jnp.asarray(a)
    for _ in range(_TIMES):
        for i in (0, 1, -1, -2):
            _same(x[i], a[i], i)
            for j in (0, 2, -3):
                _same(x[i, j], a[i, j], (i, j))
                _same(x[i, j, -1], np.asarray(a[i, j, -1]), (i, j, -1))
        for s in (slice(None), slice(1), slice(1, None), slice(-1, None), slice(0, 0), slice(5, 9),
                  slice(1, -5), slice(None, None, 2), slice(None, None, -1)):  # fmt: skip
            _same(x[s], a[s], s)
            _same(x[s, 1], a[s, 1], s)
        _same(x[5], a[1], "the nearest element")
        _same(x[-7], a[0], "the nearest element")
        _same(x[np.int64(1)], a[1], "an integer of NumPy's")
        _same(x[None, 1], a[None, 1], "a new axis")
        _same(x[..., 1], a[..., 1], "the last axis")
        _same(x[jnp.asarray(1)], a[1], "an array")
        _same(x[jnp.asarray([1, 0])], a[[1, 0]], "several")
        with pytest.raises(IndexError, match="ind"):
            x[0, 0, 0, 0]
        with pytest.raises(IndexError, match="ind"):
            jnp.float32(1)[0]
        with pytest.raises(TypeError, match="ind"):
            x["a"]
        with pytest.raises(TypeError, match="immutable"):
            x[0] = 1
    _same(jnp.zeros((3, 0))[1], np.zeros((3, 0), "f4")[1], "empty")
    assert [int(v) for v in jnp.arange(3)] == [0, 1, 2]
    assert 2 in jnp.arange(3)


def test_results_are_arrays_of_their_own() -> None:
    x = jnp.arange(4.0)
    for _ in range(_TIMES):
        y, part = x + 1, x[1:3]
        for array in (y, part):
            with pytest.raises(ValueError, match="read-only"):
                np.asarray(array)[0] = 5
            with pytest.raises(ValueError, match="WRITEABLE"):
                np.asarray(array).setflags(write=True)
        y.delete()
        with pytest.raises(RuntimeError, match="deleted"):
            y + 1
        with pytest.raises(RuntimeError, match="deleted"):
            1 + y
        with pytest.raises(RuntimeError, match="deleted"):
            y[0]
        with pytest.raises(RuntimeError, match="deleted"):
            operator.neg(y)
        assert np.asarray(xpr.jit(lambda a, b: a * b[0])(x + 1, part)).tolist() == [1, 2, 3, 4]


def test_operands_that_are_not_arrays() -> None:
    class Other:
        def __radd__(self, x):
            return "radd"

        def __eq__(self, x):
            return "eq"

    x = jnp.arange(3.0)
    for _ in range(_TIMES):
        assert x + Other() == "radd"
        assert not np.any(x == None)  # noqa: E711  what users write
        with pytest.raises(TypeError, match="unsupported operand"):
            operator.add(x, [1, 2, 3])
        with pytest.raises(TypeError, match="unsupported operand"):
            [1, 2, 3] - x
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)


def test_settings_and_traces_decide() -> None:
    x = jnp.arange(3.0)
    zero = jnp.zeros(3)
    for _ in range(_TIMES):
        assert np.isnan(np.asarray(zero / zero)).all()
        with override("debug_nans", True), pytest.raises(FloatingPointError, match="nan"):
            zero / zero
        with (
            override("numpy_dtype_promotion", "strict"),
            pytest.raises(xpr.errors.TypePromotionError, match="strict"),
        ):
            x + jnp.arange(3)
        with override("enable_x64", True):
            assert (jnp.arange(3) + 1).dtype == np.int64
        text = str(xpr.make_jaxpr(lambda a: (a + x)[1])(x))
        assert "add" in text
        assert np.asarray(xpr.grad(lambda a: (a * x)[2])(x)).tolist() == [0, 0, 2]
        assert np.asarray(xpr.vmap(lambda a: a + x)(jnp.ones((2, 3)))).shape == (2, 3)


def test_commitment_is_passed_on() -> None:
    loose = jnp.arange(3.0)
    fixed = xpr.device_put(loose, xpr.devices()[0])
    for _ in range(_TIMES):
        assert all(x.committed for x in (loose + fixed, fixed + 1, fixed[1], -fixed))
        assert not any(x.committed for x in (loose + loose, loose + 1, loose[1], -loose))


def test_threads_compute_beside_each_other() -> None:
    failures = []

    def work(n: int) -> None:
        for size in range(1, 60):
            x = jnp.full((size,), float(n))
            if np.asarray((x + x) * 2 - x[0]).tolist() != [3.0 * n] * size:
                failures.append((n, size))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
