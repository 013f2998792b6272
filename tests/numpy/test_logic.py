"""Comparisons, logical operations, choices and tests of arrays against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp

X = np.array([[1.0, -2.0, np.nan], [0.0, np.inf, 3.5]], "f4")
INTS = np.array([[3, 0, -1], [7, 2, 2]], "i4")
BOOLS = np.array([[True, False, True], [False, False, True]])
COMPLEX = np.array([1 + 2j, 1 - 2j, 3 + 0j, 0j, complex(np.nan, 0)], "c8")


def choice_cases() -> list[Case]:
    row = np.array([10, 20, 30], "i4")
    column = np.array([[0.5], [1.5]], "f4")
    return [
        Case("where", (BOOLS, X, row), dtype="float32"),
        Case("where", (BOOLS, INTS, row)),
        Case("where", (BOOLS[0], column, 0.0)),
        Case("where", (X, INTS, -INTS)),
        Case("where", (COMPLEX, COMPLEX, 0.0)),
        Case("where", (BOOLS, 1, 2)),
        Case("clip", (INTS, 0, 5)),
        Case("clip", (X, -1.0, None)),
        Case("clip", (X, None, column)),
        Case("clip", (INTS, row, row + 1)),
        Case("clip", (X, 5.0, 2.0)),
        Case("select", (INTS, X), call=lambda m, i, x: m.select([i > 2, i > 0], [i * 10, i], -1)),
        Case(
            "select",
            (X, INTS),
            call=lambda m, x, i: m.select([x > 1, i > 1], [x, i], 0.5),
            dtype="float32",
        ),
        Case(
            "piecewise",
            (X,),
            call=lambda m, x: m.piecewise(x, [x < 0, x >= 1], [lambda v: -v, lambda v: v * v]),
        ),
        Case(
            "piecewise",
            (INTS,),
            {"extra": 5},
            call=lambda m, i, extra: m.piecewise(
                i, [i < 0, i > 2], [0, lambda v, w: v + w, 9], extra
            ),
        ),
        Case(
            "choose",
            (np.array([1, 0, 1]), row, -row),
            call=lambda m, i, a, b: m.choose(i, [a, b], mode="clip"),
            dtype="int32",
        ),
        Case(
            "choose",
            (np.array([2, -1, 5]), row),
            call=lambda m, i, a: m.choose(i, [a, 0, a * 2], mode="wrap"),
            dtype="int32",
        ),
        Case(
            "choose",
            (np.array([2, -1, 5]), row),
            call=lambda m, i, a: m.choose(i, [a, 0, a * 2], mode="clip"),
            dtype="int32",
        ),
    ]


def equality_cases() -> list[Case]:
    y = np.where(np.isnan(X), np.nan, X + 1e-7).astype("f4")
    return [
        Case("allclose", (X[1], X[1] + np.float32(1e-6))),
        Case("allclose", (X, y)),
        Case("allclose", (X, y), {"equal_nan": True}),
        Case("array_equal", (INTS, INTS)),
        Case("array_equal", (INTS, INTS[:1])),
        Case("array_equal", (X, X), {"equal_nan": True}),
        Case("array_equal", (X, X)),
        Case("array_equiv", (INTS[:1], np.repeat(INTS[:1], 2, 0))),
        Case("array_equiv", (INTS, np.zeros(2, "i4"))),
        Case("isclose", (INTS, INTS + 1), {"atol": 1}),
        Case("isclose", (BOOLS, ~BOOLS)),
        Case("isclose", (COMPLEX, COMPLEX * np.complex64(1 + 1e-6)), {"equal_nan": True}),
        Case("isclose", (X, np.float32(np.inf) * np.ones_like(X))),
        Case("isreal", (X,)),
        Case("iscomplex", (COMPLEX,)),
        *(Case(n, (BOOLS, INTS)) for n in ("logical_and", "logical_or", "logical_xor")),
        Case("logical_not", (COMPLEX,)),
        *(
            Case(n, (COMPLEX, COMPLEX[::-1].copy()))
            for n in ("less", "less_equal", "greater", "equal")
        ),
    ]


def place_cases() -> list[Case]:
    return [
        Case("nonzero", (INTS,), dtype="int32", eager_only=True),
        Case("nonzero", (X,), dtype="int32", eager_only=True),
        Case("flatnonzero", (BOOLS,), dtype="int32", eager_only=True),
        Case("argwhere", (INTS,), dtype="int32", eager_only=True),
        Case("where", (BOOLS,), dtype="int32", eager_only=True),
        Case(
            "nonzero",
            (INTS,),
            {"size": 3},
            expected=lambda i: tuple(p[:3] for p in np.nonzero(i)),
            dtype="int32",
        ),
        Case(
            "nonzero",
            (INTS,),
            {"size": 7, "fill_value": (-1, 9)},
            expected=lambda i: tuple(
                np.r_[p, [f] * (7 - len(p))] for p, f in zip(np.nonzero(i), (-1, 9), strict=True)
            ),
            dtype="int32",
        ),
        Case(
            "argwhere",
            (BOOLS,),
            {"size": 4},
            expected=lambda b: np.r_[np.argwhere(b), [[0, 0]]],
            dtype="int32",
        ),
        Case(
            "flatnonzero",
            (BOOLS,),
            {"size": 5, "fill_value": 7},
            expected=lambda b: np.r_[np.flatnonzero(b), [7, 7]],
            dtype="int32",
        ),
        Case(
            "nonzero",
            (np.zeros((0, 3), "f4"),),
            {"size": 2},
            expected=lambda x: (np.zeros(2, int),) * 2,
            dtype="int32",
        ),
    ]


def test_choices() -> None:
    check(choice_cases())


def test_equality() -> None:
    check(equality_cases())


def test_places_of_nonzero_elements() -> None:
    check(place_cases())


def test_tests_of_objects() -> None:
    assert jnp.iscomplexobj(COMPLEX)
    assert not jnp.iscomplexobj(jnp.ones(2))
    assert jnp.isrealobj(3)
    assert jnp.isscalar(jnp.float32(1))
    assert jnp.isscalar(2.5)
    assert not jnp.isscalar(jnp.ones(1))
    assert jnp.iterable(jnp.ones(1))
    assert not jnp.iterable(jnp.float32(1))
    assert bool(jnp.array_equal([1, 2], (1, 2)))


@pytest.mark.parametrize("compare", [jnp.array_equal, jnp.array_equiv])
def test_what_is_no_array_is_not_compared(compare: Any) -> None:
    with pytest.raises(TypeError, match="Value 'ab' with dtype <U2 is not a valid JAX array type"):
        compare("ab", "ab")
    with pytest.raises(ValueError, match=r"None is not a valid value for jnp\.array"):
        compare(jnp.ones(2), None)
    with pytest.raises(ValueError, match="inhomogeneous shape"):
        compare([1, [2]], 1)


def test_choose_refuses_numbers_out_of_range() -> None:
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        jnp.choose(jnp.array([0, 2]), [1, 2])
    with pytest.raises(xpr.errors.ConcretizationTypeError, match="mode='clip'"):
        xpr.jit(lambda i: jnp.choose(i, [1, 2]))(jnp.array([0, 1]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jnp.where(jnp.ones(2) > 0, 1),
            TypeError,
            "where requires ndarray or scalar arguments, got <class 'NoneType'> at position 2",
        ),
        (
            lambda: jnp.where(jnp.ones(2) > 0, jnp.ones(3), 0),
            ValueError,
            r"Incompatible shapes for broadcasting: shapes=\[\(2,\), \(3,\), \(\)\]",
        ),
        (lambda: jnp.where(True, 1, 2, size=3), ValueError, "cannot be used in three-term where"),
        (lambda: jnp.nonzero(3), ValueError, "Calling nonzero on 0d arrays is not allowed"),
        (
            lambda: jnp.nonzero(jnp.ones(2), size=1, fill_value=(1, 2)),
            ValueError,
            "tuple of length 1",
        ),
        (lambda: xpr.jit(jnp.nonzero)(jnp.ones(2)), TypeError, "size argument of jnp.nonzero"),
        (lambda: jnp.select([], []), ValueError, "condlist must be non-empty"),
        (lambda: jnp.select([True], [1, 2]), ValueError, r"\(1 vs 2\)"),
        (
            lambda: jnp.piecewise(jnp.ones(2), [True], [1, 2, 3]),
            ValueError,
            "either 1 or 2 functions are expected; got 3",
        ),
        (lambda: jnp.choose(jnp.ones(2), [1, 2]), ValueError, "integer typed"),
        (
            lambda: jnp.choose(jnp.array([0]), [1], mode="foo"),
            ValueError,
            "mode='foo' not understood",
        ),
        (lambda: jnp.clip(1j, 0, 1), ValueError, "Clip received a complex value"),
        (lambda: jnp.isclose([1], 2), TypeError, "isclose requires ndarray or scalar arguments"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
