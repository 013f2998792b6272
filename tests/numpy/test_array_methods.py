"""Operators and methods of arrays, outside and inside `jit`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.core import array as core_array
from xpr.numpy import surface

X = np.array([[1.5, -2.0, 0.5], [3.0, 4.0, -1.0]], "f4")
INTS = np.array([[5, -3, 2], [7, 0, 9]], "i4")

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
INTEGRAL: dict[str, Callable[[Any, Any], Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}


def operator_cases() -> list[Case]:
    positive = np.abs(INTS) + 1
    cases = [
        Case(
            n,
            (x, y),
            call=lambda m, a, b, f=f: f(a, b),
            dtype="float32" if n == "truediv" else None,
        )
        for n, f in BINARY.items()
        for x, y in ((X, X[::-1].copy()), (INTS, positive))
    ]
    cases += [Case(n, (X,), call=lambda m, a, f=f: f(a, 2)) for n, f in BINARY.items()]
    cases += [Case(n, (X,), call=lambda m, a, f=f: f(2.5, a)) for n, f in BINARY.items()]
    cases += [
        Case(n, (INTS, positive), call=lambda m, a, b, f=f: f(a, b)) for n, f in INTEGRAL.items()
    ]
    cases += [Case(n, (positive,), call=lambda m, a, f=f: f(3, a)) for n, f in INTEGRAL.items()]
    cases += [
        Case("pow", (X,), call=lambda m, a: a**3),
        Case("pow", (np.abs(X),), call=lambda m, a: a**0.5),
        Case("pow", (X,), call=lambda m, a: 2**a),
        Case("divmod", (X,), call=lambda m, a: divmod(a, 2), atol=1e-6),
        Case("divmod", (positive,), call=lambda m, a: divmod(7, a)),
        Case("matmul", (X, X.T.copy()), call=lambda m, a, b: a @ b),
        Case("unary", (X,), call=lambda m, a: (-a, +a, abs(a))),
        Case("invert", (INTS,), call=lambda m, a: ~a),
        Case("round", (X,), call=lambda m, a: a.round(0)),
    ]
    return cases


METHODS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("all", (), {}),
    ("any", (0,), {}),
    ("argmax", (1,), {}),
    ("argmin", (), {}),
    ("clip", (-1, 2), {}),
    ("conj", (), {}),
    ("conjugate", (), {}),
    ("copy", (), {}),
    ("cumprod", (0,), {}),
    ("cumsum", (), {}),
    ("diagonal", (1,), {}),
    ("flatten", (), {}),
    ("max", (0,), {"keepdims": True}),
    ("mean", (1,), {}),
    ("min", (), {"initial": -9.0}),
    ("prod", (0,), {}),
    ("ravel", (), {}),
    ("reshape", (3, 2), {}),
    ("reshape", ((-1,),), {}),
    ("round", (1,), {}),
    ("squeeze", (), {}),
    ("std", (0,), {"ddof": 1}),
    ("sum", ((0, 1),), {}),
    ("swapaxes", (0, 1), {}),
    ("trace", (), {}),
    ("transpose", (), {}),
    ("transpose", (1, 0), {}),
    ("transpose", ((1, 0),), {}),
    ("var", (0,), {}),
    ("argsort", (1,), {}),
    ("dot", (np.ones((3, 2), "f4"),), {}),
]


def method_cases() -> list[Case]:
    return [
        Case(n, (X,), call=lambda m, a, n=n, p=p, k=k: getattr(a, n)(*p, **k), atol=1e-6)
        for n, p, k in METHODS
    ] + [
        Case("ptp", (X,), call=lambda m, a: np.ptp(a, 0) if m is np else a.ptp(0)),
        Case("sort", (X,), call=lambda m, a: np.sort(a, 0) if m is np else a.sort(0)),
        Case("T", (X,), call=lambda m, a: a.T),
        Case("mT", (X,), call=lambda m, a: a.mT),
        Case("real", (X,), call=lambda m, a: (a.real, a.imag)),
        Case(
            "astype", (X,), call=lambda m, a: (a.astype(np.int32), a.astype(bool), a.astype("f2"))
        ),
        Case("byteswap", (INTS,), call=lambda m, a: a.byteswap()),
        Case("nonzero", (X,), call=lambda m, a: a.nonzero(), dtype="int32", eager_only=True),
        Case(
            "choose",
            (np.array([0, 1]),),
            call=lambda m, a: a.choose([5, 6], mode="clip"),
            dtype="int32",
        ),
    ]


def view_cases() -> list[Case]:
    cases = []
    for dtype in ("i4", "u4", "f2", "i2", "u1", "c8", "?"):
        x = np.arange(8, dtype="f4").reshape(2, 4)
        expected = (lambda a: a.view("u1") != 0) if dtype == "?" else None
        cases.append(
            Case("view", (x,), call=lambda m, a, d=dtype: a.view(np.dtype(d)), expected=expected)
        )
    z = np.array([1 + 2j, 3 - 1j], "c8")
    cases += [
        Case("view", (z,), call=lambda m, a: a.view(np.float32)),
        Case("view", (z,), call=lambda m, a: a.view(np.uint8)),
        Case("view", (np.array([True, False]),), call=lambda m, a: a.view(np.int8)),
        Case("view", (np.ones((2, 0), "f4"),), call=lambda m, a: a.view(np.int8)),
        Case("view", (np.array(1, "f4"),), call=lambda m, a: a.view(np.int32)),
        Case("byteswap", (z,), call=lambda m, a: a.byteswap()),
    ]
    return cases


def test_operators() -> None:
    check(operator_cases())


def test_methods() -> None:
    check(method_cases())


def test_views() -> None:
    check(view_cases())


def test_numpy_gives_way() -> None:
    for found in (np.ones(3, "f4") + jnp.arange(3.0), np.float32(1) + jnp.arange(3.0)):
        assert isinstance(found, xpr.Array)
        assert found.tolist() == [1, 2, 3]
    assert isinstance(np.ones(3, "f4") < jnp.arange(3.0), xpr.Array)
    assert isinstance(np.ones((2, 3), "f4") @ jnp.ones(3), xpr.Array)


SYMBOLS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "==": operator.eq,
}


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("other", [[1], (1,), {"a": 1}])
def test_sequences_are_no_operands(symbol: str, other: Any) -> None:
    x = jnp.ones(1)
    text = f"unsupported operand type(s) for {symbol}: 'ArrayImpl' and '{type(other).__name__}'"
    with pytest.raises(TypeError, match=re.escape(text)):
        SYMBOLS[symbol](x, other)


def test_foreign_operands_are_left_to_python() -> None:
    x = jnp.ones(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        x + None
    with pytest.raises(TypeError, match="unsupported operand"):
        "a" - x
    assert (x == None) is False  # noqa: E711  the comparison itself is under test
    assert (x != "a") is True
    with pytest.raises(TypeError, match="not supported between"):
        x < None  # noqa: B015

    class Other:
        def __radd__(self, other: Any) -> str:
            return "mine"

    assert x + Other() == "mine"


def test_python_protocols() -> None:
    x = jnp.asarray(X)
    assert [row.tolist() for row in x] == X.tolist()
    assert 4.0 in x
    assert 9.0 not in x
    with pytest.raises(ValueError, match="query value must be a scalar"):
        x[0] in x  # noqa: B015
    assert round(jnp.array([1.5, 2.5])).tolist() == [2, 2]
    assert round(jnp.array([1.5])).dtype == jnp.int32
    assert round(jnp.array([1.25]), 1).dtype == jnp.float32
    assert round(jnp.array([3])).tolist() == [3]
    assert x.__array_namespace__() is jnp
    with pytest.raises(ValueError, match="available versions are"):
        x.__array_namespace__(api_version="2021.12")
    with pytest.raises(NotImplementedError, match="flatten"):
        x.flat  # noqa: B018


def test_astype_saturates_and_warns_of_complex_numbers() -> None:
    x = np.array([np.nan, 300.0, -300.0, 1e10, 1.9], "f4")
    for f in (lambda a: a, xpr.jit(lambda a: a + 0)):
        a = f(jnp.asarray(x))
        assert a.astype(jnp.int8).tolist() == [0, 127, -128, 127, 1]
        assert a.astype(jnp.uint8).tolist() == [0, 255, 0, 255, 1]
    assert jnp.ones(2).astype(None).dtype == jnp.float32
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert jnp.array([1 + 2j]).astype(jnp.float32).tolist() == [1]


def test_views_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="0d array is only supported if the itemsize is unchanged"):
        jnp.float32(1).view(jnp.int8)
    with pytest.raises(ValueError, match="got 3 items of 1 bytes for items of 2"):
        jnp.ones(3, jnp.int8).view(jnp.int16)
    with pytest.raises(NotImplementedError, match="`type` argument"):
        jnp.ones(3).view(jnp.int32, np.ndarray)
    with pytest.raises(NotImplementedError, match="immutable"):
        jnp.ones(3).byteswap(inplace=True)


def test_every_function_that_arrays_call_exists() -> None:
    with open(core_array.__file__, encoding="utf-8") as file:
        names = set(re.findall(r"\b_np\.(\w+)", file.read()))
    missing = sorted(n for n in names if not hasattr(surface, n))
    assert not missing
