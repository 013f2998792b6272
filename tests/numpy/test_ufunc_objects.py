"""Folds, prefixes, slices, outer products and updates of `ufunc` objects against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 5)).astype("f4")
INTS = RNG.integers(-5, 6, (3, 5)).astype("i4")
BOOLS = RNG.integers(0, 2, (3, 5)).astype(bool)
MASK = RNG.integers(0, 2, (3, 5)).astype(bool)
STARTS = np.array([0, 3, 1, 1, 4], "i4")

OPERANDS = {
    "add": (X, INTS),
    "subtract": (X, INTS),
    "multiply": (X, INTS),
    "maximum": (X, INTS),
    "minimum": (X, INTS),
    "logical_and": (BOOLS, INTS),
    "logical_or": (BOOLS, INTS),
    "logical_xor": (BOOLS, INTS),
    "bitwise_and": (INTS, BOOLS),
    "bitwise_or": (INTS, BOOLS),
    "bitwise_xor": (INTS, BOOLS),
    "logaddexp": (X,),
    "logaddexp2": (X,),
}


def _method(name: str, method: str) -> Any:
    return lambda m, *args, **kw: getattr(getattr(m, name), method)(*args, **kw)


def cases(method: str, options: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Case]:
    return [
        Case(f"{n}.{method}", (x, *extra), kw, call=_method(n, method), atol=2e-6)
        for n, operands in OPERANDS.items()
        for x in operands
        for extra, kw in options
    ]


def test_reduce() -> None:
    check(cases("reduce", [((), {}), ((), {"axis": 1, "keepdims": True}), ((), {"axis": -1})]))


def test_reduce_of_all_axes_with_a_mask() -> None:
    some = [
        Case(
            f"{n}.reduce",
            (x,),
            {"axis": None, "initial": 1, "where": MASK},
            call=_method(n, "reduce"),
            atol=2e-6,
        )
        for n, operands in OPERANDS.items()
        for x in operands
        if n != "subtract"
    ]
    some.append(
        Case(
            "subtract.reduce", (X,), {"initial": 2.0}, call=_method("subtract", "reduce"), atol=2e-6
        )
    )
    check(some)


def test_accumulate() -> None:
    some = cases("accumulate", [((), {}), ((), {"axis": 1})])
    # NumPy's prefixes of booleans under multiplication stay booleans; sums become integers.
    check([c for c in some if not (c.name.startswith("bitwise") and c.args[0].dtype == bool)])


def test_reduceat() -> None:
    check(cases("reduceat", [((STARTS,), {"axis": 1})]))


def test_outer() -> None:
    check(
        [
            Case(f"{n}.outer", (xs[0], xs[0][0]), call=_method(n, "outer"), atol=1e-6)
            for n, xs in OPERANDS.items()
        ]
    )


@pytest.mark.parametrize("name", OPERANDS)
def test_at_counts_repeated_indices(name: str) -> None:
    x = OPERANDS[name][0][0].copy()
    values = OPERANDS[name][0][1, :4].copy()
    places = np.array([1, 1, 0, -1])
    expected = x.copy()
    getattr(np, name).at(expected, places, values)
    found = getattr(jnp, name).at(jnp.asarray(x), places, values, inplace=False)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-6)


def test_at_of_one_operand() -> None:
    found = jnp.negative.at(jnp.arange(4), jnp.array([1, 3]), inplace=False)
    assert found.tolist() == [0, -1, 2, -3]


def test_any_python_function() -> None:
    digits = jnp.frompyfunc(lambda x, y: 10 * x + y, 2, 1)
    ours, theirs = jnp.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 2, 3], [4, 5, 6]])
    numpy_digits = np.frompyfunc(lambda x, y: 10 * x + y, 2, 1)
    for f in (lambda f, x: f(x, 7), lambda f, x: f.reduce(x, axis=1), lambda f, x: f.reduce(x),
              lambda f, x: f.accumulate(x, axis=1), lambda f, x: f.outer(x[0], x[1])):  # fmt: skip
        expected = f(numpy_digits, theirs).astype("i4")
        np.testing.assert_array_equal(np.asarray(f(digits, ours)), expected)
        np.testing.assert_array_equal(
            np.asarray(xpr.jit(lambda x, f=f: f(digits, x))(ours)), expected
        )
    both = jnp.frompyfunc(lambda x: (x, -x), 1, 2)
    assert [r.tolist() for r in both(jnp.arange(2))] == [[0, 1], [0, -1]]
    assert digits.reduce(ours, axis=None).tolist() == 123456
    assert digits.at(jnp.arange(3), jnp.array([1, 1]), 5, inplace=False).tolist() == [0, 155, 2]
    found = digits.reduceat(ours, jnp.array([0, 2]), axis=1)
    assert found.tolist() == [[12, 3], [45, 6]]
    assert repr(jnp.add) == "<jnp.ufunc 'add'>"
    assert (jnp.add.nin, jnp.add.nout, jnp.add.nargs, jnp.add.identity) == (2, 1, 2, 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jnp.add(1, 2, out=3), NotImplementedError, "out argument of <jnp.ufunc 'add'>"),
        (lambda: jnp.add(1, 2, where=True), NotImplementedError, "where argument of"),
        (lambda: jnp.add(1, 2, 3), TypeError, r"add\(\) takes 2 positional arguments"),
        (lambda: jnp.negative.reduce(jnp.ones(2)), ValueError, "binary ufuncs"),
        (
            lambda: jnp.add.reduce([1, 2]),
            TypeError,
            "add.reduce requires ndarray or scalar arguments",
        ),
        (lambda: jnp.add.reduceat(jnp.ones(2), [0]), TypeError, "add.reduceat requires ndarray"),
        (lambda: jnp.add.at(jnp.ones(2), 0, 1), NotImplementedError, "inplace=False"),
        (lambda: jnp.add.accumulate(jnp.float32(1)), ValueError, "needs an array with axes"),
        (
            lambda: jnp.subtract.reduce(jnp.ones(2), where=jnp.ones(2)),
            ValueError,
            "does not have an identity",
        ),
        (
            lambda: jnp.maximum.reduce(jnp.zeros(0)),
            ValueError,
            "zero-size array to reduction operation max",
        ),
        (
            lambda: jnp.frompyfunc(lambda x: x, 1, 1)(1, 2),
            TypeError,
            "takes 1 positional argument",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
