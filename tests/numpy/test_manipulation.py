"""Shapes, axes, padding, insertion, packing: xpr.numpy against NumPy, outside and inside `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.numpy.cases import Case, check
from xpr.core.errors import ConcretizationTypeError

RNG = np.random.default_rng(3)
DTYPES = ("bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", "complex64")


def array(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    """Numbers between -9 and 9 in `dtype`."""
    values = RNG.integers(-9, 9, shape)
    if dtype == "complex64":
        return (values + 1j * RNG.integers(-9, 9, shape)).astype(dtype)
    wanted = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.asarray(values).astype(wanted)


def moved(name: str, x: np.ndarray[Any, Any], *rest: Any, **kwargs: Any) -> Case:
    """A case that keeps the dtype of its operand."""
    name, *_ = name.split()

    def call(module: Any, y: Any) -> Any:
        return getattr(module, name)(y, *rest, **kwargs)

    label = f"{name}{rest}{kwargs}"
    return Case(label, (x,), call=call, dtype=x.dtype.name)


MOVES: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("reshape", (2, 3, 4), ((4, -1),), {}),
    ("reshape", (2, 3, 4), (24,), {}),
    ("reshape", (2, 3, 4), ((3, 8),), {"order": "F"}),
    ("reshape", (1,), ((),), {}),
    ("reshape", (0, 3), ((3, 0, 2),), {}),
    ("ravel", (2, 3), (), {}),
    ("ravel", (2, 3), (), {"order": "F"}),
    ("ravel", (), (), {}),
    ("expand_dims", (2, 3), ((0, -1),), {}),
    ("expand_dims", (), (0,), {}),
    ("squeeze", (1, 3, 1), (), {}),
    ("squeeze", (1, 3, 1), (-1,), {}),
    ("squeeze", (1, 3, 1), ((0, 2),), {}),
    ("atleast_1d", (), (), {}),
    ("atleast_2d", (3,), (), {}),
    ("atleast_3d", (), (), {}),
    ("atleast_3d", (3,), (), {}),
    ("atleast_3d", (2, 3), (), {}),
    ("broadcast_to", (3, 1), ((2, 3, 4),), {}),
    ("broadcast_to", (), ((2, 0),), {}),
    ("transpose", (2, 3, 4), (), {}),
    ("transpose", (2, 3, 4), ((-1, 0, 1),), {}),
    ("matrix_transpose", (2, 3, 4), (), {}),
    ("permute_dims", (2, 3, 4), ((1, 2, 0),), {}),
    ("moveaxis", (2, 3, 4), ((0, 1), (-1, 0)), {}),
    ("moveaxis", (2, 3, 4), (2, 0), {}),
    ("swapaxes", (2, 3, 4), (0, -1), {}),
    ("rollaxis", (2, 3, 4), (2,), {}),
    ("rollaxis", (2, 3, 4), (0, 3), {}),
    ("rollaxis", (2, 3, 4), (1, -1), {}),
    ("flip", (2, 3), (), {}),
    ("flip", (2, 3), ((0,),), {}),
    ("flip", (2, 3), ((),), {}),
    ("flip", (), (), {}),
    ("fliplr", (2, 3), (), {}),
    ("flipud", (2, 3), (), {}),
    ("rot90", (2, 3), (), {}),
    ("rot90", (2, 3, 4), (2, (1, 2)), {}),
    ("rot90", (2, 3), (-1,), {}),
    ("rot90", (2, 3), (4,), {}),
    ("roll", (2, 3), (1,), {}),
    ("roll", (2, 3), (-7,), {"axis": 1}),
    ("roll", (2, 3), ((1, 2),), {"axis": (0, 1)}),
    ("roll", (2, 3), ((1, 1),), {"axis": 1}),
    ("roll", (2, 3), (1,), {"axis": (0, 1)}),
    ("roll", (0, 3), (2,), {"axis": 0}),
    ("tile", (2, 3), (2,), {}),
    ("tile", (2, 3), ((2, 1, 2),), {}),
    ("tile", (2, 3), ((),), {}),
    ("tile", (3,), (0,), {}),
    ("repeat", (2, 3), (2,), {}),
    ("repeat", (2, 3), (3,), {"axis": 1}),
    ("repeat", (2, 3), (0,), {"axis": 0}),
    ("repeat", (2, 3), (np.array([1, 2]),), {"axis": 0}),
    ("repeat", (2, 3), (np.array([2, 0, 1]),), {"axis": -1}),
    ("repeat", (3,), (np.array([True, False, True]),), {}),
    ("repeat", (), (3,), {}),
    ("repeat", (0, 2), (3,), {"axis": 0}),
    ("resize", (2, 3), ((2, 2),), {}),
    ("resize", (2, 3), ((4, 4),), {}),
    ("resize", (0,), ((3,),), {}),
    ("delete", (5,), (1,), {}),
    ("delete", (3, 4), (-1,), {"axis": 1}),
    ("delete", (3, 4), (slice(None, None, 2),), {"axis": 1}),
    ("delete", (3, 4), (slice(2, 0, -1),), {"axis": 0}),
    ("delete", (40,), (slice(None, None, 3),), {}),
    ("delete", (6,), (np.array([1, 4, 1]),), {}),
    ("delete", (3,), (np.array([True, False, True]),), {}),
    ("delete", (3, 4), (np.array([], int),), {}),
    ("pad", (2, 3), (1,), {}),
    ("pad", (2, 3), (((1, 0), (2, 3)),), {"mode": "edge"}),
    ("pad", (2, 3), ((0, 2),), {"mode": "wrap"}),
    ("pad", (2, 3), (7,), {"mode": "wrap"}),
    ("pad", (2, 3), (1,), {"mode": "reflect"}),
    ("pad", (3, 4), (9,), {"mode": "reflect"}),
    ("pad", (1,), (2,), {"mode": "reflect"}),
    ("pad", (2, 3), ((2, 1),), {"mode": "symmetric"}),
    ("pad", (2, 3), (8,), {"mode": "symmetric"}),
    ("pad", (0, 3), (((1, 2), (0, 0)),), {}),
    ("pad", (), (1,), {}),
]  # fmt: skip


def move_cases() -> list[Case]:
    return [
        moved(name, array(DTYPES[(i + k) % len(DTYPES)], *shape), *rest, **kwargs)
        for i, (name, shape, rest, kwargs) in enumerate(MOVES)
        for k in (0, 3)
    ]


def test_moves() -> None:
    check(move_cases())


PADS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((2,), {"constant_values": 5}),
    ((2,), {"constant_values": (5, 7)}),
    ((((1, 2), (3, 0)),), {"constant_values": ((1, 2), (3, 4))}),
    ((2,), {"mode": "linear_ramp"}),
    ((3,), {"mode": "linear_ramp", "end_values": (7, -9)}),
    ((((1, 2), (3, 4)),), {"mode": "linear_ramp", "end_values": ((1, 2), (30, 40))}),
    ((2,), {"mode": "maximum"}),
    ((2,), {"mode": "minimum", "stat_length": 2}),
    ((1,), {"mode": "maximum", "stat_length": ((1, 2), (3, 1))}),
    ((1,), {"mode": "reflect", "reflect_type": "odd"}),
    ((9,), {"mode": "reflect", "reflect_type": "odd"}),
    ((2,), {"mode": "symmetric", "reflect_type": "odd"}),
    ((9,), {"mode": "symmetric", "reflect_type": "odd"}),
]
MEANS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((2,), {"mode": "mean"}),
    ((1,), {"mode": "mean", "stat_length": (2, 3)}),
    ((2,), {"mode": "median"}),
    ((1,), {"mode": "median", "stat_length": 2}),
]


def test_pad_modes() -> None:
    cases = [
        Case(f"pad{rest}{kw}", (array(d, 3, 4),), call=lambda m, x, r=rest, k=kw: m.pad(x, *r, **k))
        for rest, kw in PADS
        for d in ("int32", "float32")
    ]
    cases += [
        Case(f"pad{rest}{kw}", (array("float32", 3, 4),), rtol=2e-6,
             call=lambda m, x, r=rest, k=kw: m.pad(x, *r, **k))
        for rest, kw in MEANS
    ]  # fmt: skip
    # NumPy's own maximum and ramp of unsigned and small integers.
    cases += [
        Case(f"pad{kw}", (array("uint8", 3, 4),), call=lambda m, x, k=kw: m.pad(x, 2, **k))
        for kw in ({"mode": "maximum"}, {"mode": "linear_ramp", "end_values": 3})
    ]
    cases.append(
        Case("pad ramp of uint32", (np.array([5, 9], "u4"),),
             call=lambda m, x: m.pad(x, 3, mode="linear_ramp", end_values=40))
    )  # fmt: skip
    check(cases)


def test_pad_rounds_means_of_integers_to_even() -> None:
    x = jnp.array([[0, 1, 2], [3, 4, 5]], dtype="int8")
    expected = [[3, 2, 2, 4, 3], [1, 0, 1, 2, 1], [4, 3, 4, 5, 4], [3, 2, 2, 4, 3]]
    for f in (jnp.pad, xpr.jit(jnp.pad, static_argnums=(1, 2))):
        found = f(x, 1, "mean")
        assert found.dtype == jnp.int8
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_pad_with_a_function() -> None:
    def edges(vector: Any, widths: tuple[int, int], axis: int, kwargs: dict[str, Any]) -> Any:
        vector = vector.at[: widths[0]].set(kwargs["value"])
        return vector.at[-widths[1] :].set(axis + 10)

    def numpy_edges(vector: Any, widths: Any, axis: int, kwargs: dict[str, Any]) -> None:
        vector[: widths[0]] = kwargs["value"]
        vector[-widths[1] :] = axis + 10

    x = np.arange(6.0, dtype="f4").reshape(2, 3)
    expected = np.pad(x, ((1, 2), (2, 1)), numpy_edges, value=7)
    for f in (lambda y: y, xpr.jit):
        padded = f(lambda y: jnp.pad(y, ((1, 2), (2, 1)), edges, value=7))
        found = padded(x) if callable(padded) else padded
        np.testing.assert_array_equal(np.asarray(found), expected)
    with pytest.raises(TypeError, match="must return a vector of shape"):
        jnp.pad(x, 1, lambda *_: None)


def test_pad_empty_mode_keeps_the_values() -> None:
    x = jnp.arange(6).reshape(2, 3)
    found = np.asarray(jnp.pad(x, ((1, 0), (2, 1)), mode="empty"))
    assert found.shape == (3, 6)
    np.testing.assert_array_equal(found[1:, 2:-1], np.asarray(x))


def test_pad_with_traced_values() -> None:
    x = np.ones((2, 2), "f4")
    f = xpr.jit(lambda y, c: jnp.pad(y, 1, constant_values=c))
    np.testing.assert_array_equal(np.asarray(f(x, np.float32(3))), np.pad(x, 1, constant_values=3))
    pair = np.array([[1, 2], [3, 4]], "f4")
    np.testing.assert_array_equal(np.asarray(f(x, pair)), np.pad(x, 1, constant_values=pair))


def inserting(*args: Any, **kwargs: Any) -> Case:
    x, where, values = args

    def call(module: Any, y: Any) -> Any:
        return module.insert(y, where, values, **kwargs)

    return Case(f"insert({where!r}, {values!r}, {kwargs})", (x,), call=call)


def test_insert() -> None:
    x, v = np.arange(6, dtype="i4").reshape(2, 3), np.arange(5, dtype="f4")
    cases = [
        inserting(v, 1, 9),
        inserting(v, 5, 9),
        inserting(v, -1, 9),
        inserting(v, np.array([1, 3]), np.array([8, 9])),
        inserting(v, np.array([3, 1, 1]), np.array([7, 8, 9])),
        inserting(v, np.array([1, -1]), 7),
        inserting(v, slice(1, 4), 7),
        inserting(v, np.array([], int), 7),
        inserting(v, 1, np.array([7, 8, 9])),
        inserting(v, 1, np.array([])),
        inserting(x, 1, 7),
        inserting(x, 1, 7, axis=1),
        inserting(x, 1, np.array([7, 8]), axis=1),
        inserting(x, np.array([1]), np.array([[7], [8]]), axis=1),
        inserting(x, 0, np.array([[7], [8]]), axis=1),
        inserting(x, np.array([0, 2]), np.array([[7, 8], [1, 2]]), axis=1),
        inserting(x, 2, np.array([7, 8, 9]), axis=0),
        inserting(np.array(3, "i4"), 0, 9),
    ]
    check(cases)


def test_insert_at_traced_places() -> None:
    v = np.arange(6, dtype="i4")
    f = xpr.jit(lambda x, where, values: jnp.insert(x, where, values))
    for where in ([1, 3, 3], [5, 0, 2], [-1, 6, 0]):
        places, values = np.array(where), np.array([7, 8, 9], "i4")
        np.testing.assert_array_equal(
            np.asarray(f(v, places, values)), np.insert(v, places, values)
        )
    np.testing.assert_array_equal(np.asarray(f(v, 2, 9)), np.insert(v, 2, 9))
    # Places out of range count as the nearest end.
    np.testing.assert_array_equal(np.asarray(jnp.insert(v, 99, 9)), [*v, 9])
    np.testing.assert_array_equal(np.asarray(jnp.insert(v, -99, 9)), [9, *v])


def test_roll_by_a_traced_shift() -> None:
    x = np.arange(12, dtype="f4").reshape(3, 4)
    f = xpr.jit(lambda y, s: jnp.roll(y, s, axis=1))
    g = xpr.jit(lambda y, s: jnp.roll(y, s, axis=(0, 1)))
    h = xpr.jit(lambda y, s: jnp.roll(y, s))
    for shift in (0, 1, -1, 4, -9, 2**30):
        np.testing.assert_array_equal(np.asarray(f(x, shift)), np.roll(x, shift, 1))
        np.testing.assert_array_equal(np.asarray(h(x, shift)), np.roll(x, shift))
    found = g(x, np.array([2, -3]))
    np.testing.assert_array_equal(np.asarray(found), np.roll(x, (2, -3), (0, 1)))


def test_repeat_with_a_total_length() -> None:
    x = np.arange(6.0, dtype="f4").reshape(2, 3)
    f = xpr.jit(lambda y, r: jnp.repeat(y, r, axis=0, total_repeat_length=4))
    for counts in ([1, 2], [0, 2], [2, 0], [0, 0], [3, 5]):
        rows = np.repeat(x, counts, axis=0)[:4]
        expected = np.concatenate([rows, np.repeat(x[-1:], 4 - len(rows), axis=0)])
        eager = jnp.repeat(x, np.array(counts), axis=0, total_repeat_length=4)
        for found in (eager, f(x, np.array(counts))):
            np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(np.asarray(f(x, 2)), np.repeat(x, 2, axis=0))


def test_delete_traced_unique_indices() -> None:
    x = np.arange(12, dtype="i4").reshape(3, 4)
    f = xpr.jit(lambda y, i: jnp.delete(y, i, axis=1, assume_unique_indices=True))
    for where in ([0, 3], [2, 1], [-1, 0]):
        found = f(x, np.array(where))
        np.testing.assert_array_equal(np.asarray(found), np.delete(x, where, axis=1))


def changed(function: str, x: np.ndarray[Any, Any], *rest: Any, **kwargs: Any) -> Case:
    """A case of a function that changes its operand in NumPy and returns a new array in xpr."""

    def call(module: Any, y: Any, *arrays: Any) -> Any:
        return getattr(module, function)(y, *arrays, inplace=False, **kwargs)

    def expected(y: Any, *arrays: Any) -> Any:
        out = y.copy()
        getattr(np, function)(out, *arrays, **kwargs)
        return out

    return Case(f"{function}{rest}{kwargs}", (x, *rest), call=call, expected=expected)


def test_place_put_and_fill_diagonal() -> None:
    x = np.arange(6, dtype="i4").reshape(2, 3)
    mask = x % 2 == 1
    cases = [
        changed("place", x, mask, np.array([7, 8], "i4")),
        changed("place", x, mask, np.array([7, 8, 9, 10], "i4")),
        changed("place", x, x > 99, np.array([7], "i4")),
        changed("put", x, np.array([0, 4]), np.array([7, 8], "i4")),
        changed("put", x, np.array([0, 4, 1]), np.array([7, 8], "i4")),
        changed("put", x, np.array([-1, 2]), np.array([7, 8], "i4")),
        changed("put", x, np.array([1, 1]), np.array([7, 8], "i4")),
        changed("put", x, np.array([1, 99, -99]), np.array([7, 8, 9], "i4"), mode="clip"),
        changed("put", x, np.array([1, 99, -9]), np.array([7, 8, 9], "i4"), mode="wrap"),
        changed("put", x, np.array([[1], [4]]), np.array([7], "i4")),
        changed("fill_diagonal", x, np.array(9)),
        changed("fill_diagonal", np.zeros((4, 2), "i4"), np.array([1, 2], "i4")),
        changed("fill_diagonal", np.zeros((3, 3), "i4"), np.array([1, 2], "i4")),
        changed("fill_diagonal", np.zeros((3, 3, 3), "f4"), np.array(7)),
    ]
    check(cases)


def test_indices_of_several_axes() -> None:
    number = np.array([[0, 5], [23, 11]])
    shape = (2, 3, 4)
    parts = np.unravel_index(number, shape)
    cases = [
        Case("unravel_index", (number,), call=lambda m, n: m.unravel_index(n, shape)),
        Case("unravel_index of uint8", (number.astype("u1"),), dtype="uint8",
             call=lambda m, n: m.unravel_index(n, shape)),
        Case("unravel_index, one axis", (np.array([3]),), call=lambda m, n: m.unravel_index(n, 6)),
    ]  # fmt: skip
    for order in ("C", "F"):
        for mode in ("clip", "wrap"):
            cases.append(
                Case(f"ravel_multi_index {order} {mode}", parts,
                     call=lambda m, *p, o=order, d=mode: m.ravel_multi_index(p, shape, d, o))
            )  # fmt: skip
    out = tuple(p * 7 - 5 for p in parts)
    for mode in ("clip", "wrap"):
        cases.append(
            Case(f"ravel_multi_index {mode}", out,
                 call=lambda m, *p, d=mode: m.ravel_multi_index(p, shape, d))
        )  # fmt: skip
    cases.append(
        Case("ravel_multi_index raise", parts, eager_only=True,
             call=lambda m, *p: m.ravel_multi_index(p, shape))
    )  # fmt: skip
    check(cases)
    # Negative numbers count from the end, those out of range mean the nearest element.
    found = jnp.unravel_index(jnp.array([-1, -6, -7, 6, 99]), (2, 3))
    np.testing.assert_array_equal(np.asarray(found[0]), [1, 0, 0, 1, 1])
    np.testing.assert_array_equal(np.asarray(found[1]), [2, 0, 0, 2, 2])


def test_bits() -> None:
    flags = RNG.integers(0, 3, (3, 19))
    octets = RNG.integers(0, 256, (3, 5)).astype("u1")
    cases = []
    for order in ("big", "little"):
        for axis in (None, 0, 1, -1):
            kw: dict[str, Any] = {"axis": axis, "bitorder": order}
            cases.append(Case("packbits", (flags,), kw))
            cases.append(Case("packbits", (flags > 0,), kw))
            cases.append(Case("unpackbits", (octets,), kw))
    cases += [Case("unpackbits", (octets,), {"axis": 1, "count": n}) for n in (0, 3, 40, 50, -7)]
    cases += [Case("packbits", (np.zeros(0, bool),)), Case("packbits", (np.array(True),))]
    check(cases)


def test_results_are_arrays_that_share_nothing_with_numpy() -> None:
    x = np.arange(6.0, dtype="f4")
    views: list[Callable[[Any], Any]] = [
        lambda a: jnp.reshape(a, (2, 3)),
        lambda a: jnp.ravel(a),
        lambda a: jnp.transpose(a),
        lambda a: jnp.flip(a),
        lambda a: jnp.squeeze(a),
        lambda a: jnp.expand_dims(a, 0),
        lambda a: jnp.broadcast_to(a, (6,)),
        lambda a: jnp.split(a, 2)[0],
        lambda a: jnp.pad(a, 0),
        lambda a: jnp.repeat(a, 1),
        lambda a: jnp.trim_zeros(a),
    ]
    for view in views:
        x[:] = np.arange(1, 7)
        found = view(x)
        before = np.array(found)
        x[:] = -1
        assert isinstance(found, xpr.Array)
        np.testing.assert_array_equal(np.asarray(found), before)


def test_methods() -> None:
    x = np.arange(24.0, dtype="f4").reshape(2, 3, 4)
    y = jnp.asarray(x)
    for found, expected in (
        (y.reshape(4, 6), x.reshape(4, 6)),
        (y.reshape((4, -1)), x.reshape((4, -1))),
        (y.reshape(-1, order="F"), x.reshape(-1, order="F")),
        (y.transpose(2, 0, 1), x.transpose(2, 0, 1)),
        (y.transpose((1, 0, 2)), x.transpose((1, 0, 2))),
        (y.T, x.T),
        (y.mT, x.swapaxes(1, 2)),
        (y.flatten(), x.flatten()),
        (y.ravel("F"), x.ravel("F")),
        (y[:1].squeeze(0), x[0]),
        (y.swapaxes(0, 2), x.swapaxes(0, 2)),
        (y.repeat(2, axis=1), x.repeat(2, axis=1)),
    ):
        np.testing.assert_array_equal(np.asarray(found), expected)


X = jnp.arange(6.0).reshape(2, 3)
LIST: Any = [1, 2]
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.reshape(LIST, 2), TypeError, "reshape requires ndarray or scalar.*list"),
    (lambda: jnp.reshape(X, (2, 2)), TypeError, r"\(size 6\) into shape \(2, 2\) \(size 4\)"),
    (lambda: jnp.reshape(X, (-1, -1)), TypeError, "can only specify one unknown axis size"),
    (lambda: jnp.reshape(X, (4, -1)), TypeError, r"axis sizes \(4\) does not evenly divide 6"),
    (lambda: jnp.reshape(X, (-2, 3)), TypeError, "cannot reshape array"),
    (lambda: jnp.reshape(X, (3.0, 2)), TypeError, r"values of integer type, got \(3.0, 2\)"),
    (lambda: jnp.reshape(X, "a"), TypeError, "concrete values of integer type, got a"),
    (lambda: jnp.reshape(X, 6, order="A"), NotImplementedError, "order=A"),
    (lambda: jnp.reshape(X, 6, order="K"), ValueError, "Unexpected value for 'order'"),
    (lambda: jnp.ravel(X, order="K"), NotImplementedError, "order='K'"),
    (lambda: jnp.transpose(X, (0,)), TypeError, "isn't a permutation"),
    (lambda: jnp.transpose(X, (0, 2)), ValueError, "axis 2 is out of bounds for array"),
    (lambda: jnp.matrix_transpose(jnp.ones(3)), ValueError, "at least two-dimensional.*ndim=1"),
    (lambda: jnp.moveaxis(X, (0, 1), (1,)), ValueError, "Inconsistent number of elements: 2 vs 1"),
    (lambda: jnp.moveaxis(X, 0, 5), ValueError, "axis 5 is out of bounds"),
    (lambda: jnp.rollaxis(X, 0, 5), ValueError, "start=5 must satisfy -2<=start<=2"),
    (lambda: jnp.swapaxes(X, 0, 3), IndexError, "axis 3 is out of bounds"),
    (lambda: jnp.expand_dims(X, (0, 0)), ValueError, "repeated axis"),
    (lambda: jnp.squeeze(X, 0), ValueError, "size not equal to one"),
    (lambda: jnp.broadcast_to(X, (3, 3)), ValueError, r"Incompatible.*32\[2,3\].*32\[3,3\]"),
    (lambda: jnp.broadcast_to(X, (3,)), ValueError, "fewer dimensions"),
    (lambda: jnp.broadcast_arrays(X, jnp.ones(4)), ValueError, r"shapes=\[\(2, 3\), \(4,\)\]"),
    (lambda: jnp.broadcast_shapes((2,), (3,)), ValueError, "Incompatible shapes"),
    (lambda: jnp.flip(X, (0, 0)), TypeError, "unique"),
    (lambda: jnp.fliplr(jnp.ones(3)), ValueError, "axis 1 is out of bounds"),
    (lambda: jnp.rot90(X, 1, (0, 0)), ValueError, "Axes must be different"),
    (lambda: jnp.rot90(jnp.ones(3)), ValueError, "ndim at least two"),
    (lambda: jnp.roll(X, jnp.ones((2, 2), int), (0, 1)), ValueError, "scalars or 1D arrays"),
    (lambda: jnp.roll(X, 1, 2), ValueError, "axis 2 is out of bounds"),
    (lambda: jnp.roll(X, (1, 2, 3), (0, 1)), ValueError, "Incompatible shapes"),
    (lambda: jnp.tile(X, -1), TypeError, "nonnegative"),
    (lambda: jnp.tile(X, 1.5), TypeError, "of integer type, got"),
    (lambda: jnp.repeat(X, 1.5, axis=0), TypeError, "integer repeats, got float32"),
    (lambda: jnp.repeat(X, np.array([1, 2, 3]), axis=0), ValueError, "broadcast"),
    (lambda: jnp.repeat(X, np.array([1, -2]), axis=0), ValueError, "negative values"),
    (lambda: jnp.resize(X, (-1,)), ValueError, "must be non-negative"),
    (lambda: jnp.pad(X, 1.5), TypeError, "must be of integral type"),
    (lambda: jnp.pad(X, -1), ValueError, "index can't contain negative values"),
    (lambda: jnp.pad(X, (1, 2, 3)), ValueError, r"nd=2 has unsupported shape \(3,\)"),
    (lambda: jnp.pad(X, 1, mode="foo"), NotImplementedError, "Unimplemented padding mode 'foo'"),
    (lambda: jnp.pad(X, 1, mode="edge", constant_values=2), ValueError, "unsupported keyword"),
    (lambda: jnp.pad(X, 1, constant_values=(1, 2, 3)), ValueError, "has unsupported shape"),
    (lambda: jnp.pad(jnp.zeros((0, 2)), 1, mode="edge"), ValueError, "to empty axis"),
    (lambda: jnp.pad(X, 1, mode="mean", stat_length=0), ValueError, "stat_length of 0"),
    (lambda: jnp.pad(X, 1, mode="reflect", reflect_type="no"), ValueError, "reflect_type must be"),
    (lambda: jnp.insert(X, 1.5, 7), ValueError, "must be integer typed; got float32"),
    (lambda: jnp.insert(X, jnp.array([[1]]), 7), ValueError, "a slice, a one-dimensional array"),
    (lambda: jnp.insert(X, jnp.array([0, 1]), jnp.ones(3)), ValueError, "Incompatible shapes"),
    (lambda: jnp.delete(X, 7), ValueError, "axis 7 is out of bounds"),
    (lambda: jnp.delete(X, jnp.array([7])), IndexError, "7 is out of bounds"),
    (lambda: jnp.delete(X, np.array([True])), ValueError, "length matching specified axis"),
    (lambda: jnp.delete(X, 1.5), ValueError, "must be integer or bool"),
    (lambda: jnp.place(X, X > 1, X), ValueError, "Pass inplace=False"),
    (lambda: jnp.place(X, X > 1, jnp.zeros(0), inplace=False), ValueError, "empty array"),
    (lambda: jnp.place(X, jnp.ones(4), X, inplace=False), ValueError, "must be the same size"),
    (lambda: jnp.put(X, 1, 2), ValueError, "Pass inplace=False"),
    (lambda: jnp.put(X, 1, 2, "raise", inplace=False), NotImplementedError, "'raise' mode"),
    (lambda: jnp.put(X, 1, 2, "foo", inplace=False), ValueError, "mode='foo'"),
    (lambda: jnp.put(X, jnp.array([0.5]), 2, inplace=False), TypeError, "integer"),
    (lambda: jnp.fill_diagonal(X, 1), NotImplementedError, "inplace=False"),
    (lambda: jnp.fill_diagonal(X, 1, wrap=True, inplace=False), NotImplementedError, "wrap=False"),
    (lambda: jnp.fill_diagonal(X[0], 1, inplace=False), ValueError, "at least 2-d"),
    (lambda: jnp.fill_diagonal(X[None], 1, inplace=False), ValueError, "equal length"),
    (lambda: jnp.ravel_multi_index((0, 5), (2, 3)), ValueError, "invalid entry in coordinates"),
    (lambda: jnp.ravel_multi_index((0,), (2, 3)), ValueError, "got 1 for dims"),
    (lambda: jnp.ravel_multi_index((0.0, 1), (2, 3)), ValueError, "is not an integer type"),
    (lambda: jnp.ravel_multi_index((0, 1), (2, 3), "foo"), ValueError, "invalid mode='foo'"),
    (lambda: jnp.ravel_multi_index((0, 1), (2, 3), "wrap", "G"), ValueError, "invalid order='G'"),
    (lambda: jnp.unravel_index(jnp.array([1.5]), (2, 3)), TypeError, "indices, got float32"),
    (lambda: jnp.packbits(X), TypeError, "integer or boolean data type"),
    (lambda: jnp.packbits(X > 1, bitorder="x"), ValueError, "either 'little' or 'big'"),
    (lambda: jnp.unpackbits(X), TypeError, "unsigned byte"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[e[2] for e in ERRORS])
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


TRACED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda n: jnp.reshape(X, (n, 3)), TypeError, "Shapes must be 1D sequences of concrete values"),
    (lambda n: jnp.reshape(X, n), TypeError, "static_argnums.*\n.*argument n"),
    (lambda n: X.reshape(n, 3), TypeError, "argument n"),
    (lambda n: jnp.broadcast_to(1, (n,)), TypeError, "argument n"),
    (lambda n: jnp.resize(X, (n,)), TypeError, "argument n"),
    (lambda n: jnp.pad(X, n), ConcretizationTypeError, "pad_width argument of jnp.pad"),
    (lambda n: jnp.repeat(X, n), ConcretizationTypeError, "total number of repeats must be static"),
    (lambda n: jnp.delete(X, n), ConcretizationTypeError, "'obj' array argument of jnp.delete"),
    (lambda n: jnp.trim_zeros(n), ConcretizationTypeError, "`filt` argument of trim_zeros"),
    (lambda n: jnp.ravel_multi_index((n, n), (2, 3)), ConcretizationTypeError, "mode='wrap'"),
    (lambda n: jnp.tile(X, n), TypeError, "depends on the value of the argument n"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), TRACED, ids=[e[2] for e in TRACED])
def test_traced_sizes_explain_themselves(
    call: Callable[[Any], Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        xpr.jit(lambda n: call(n))(2)


def test_axes_of_expand_dims_may_be_any_sequence() -> None:
    x = array("float32", 2, 3)
    assert jnp.expand_dims(x, range(2)).shape == (1, 1, 2, 3)
    assert jnp.expand_dims(x, [0, -1]).shape == (1, 2, 3, 1)
