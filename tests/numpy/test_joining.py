"""Joining arrays and taking them apart: xpr.numpy against NumPy, outside and inside `jit`."""

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

A = np.arange(6, dtype="f4").reshape(2, 3)
B = np.arange(6, 12, dtype="f4").reshape(2, 3)
N = np.arange(3, dtype="i4")
V = np.array([0.5, 1.5, 2.5], "f4")
# NumPy wants to be told that a conversion may lose digits.
UNSAFE: dict[bool, dict[str, Any]] = {True: {"casting": "unsafe"}, False: {}}
CUBE = np.arange(24, dtype="i4").reshape(2, 3, 4)


def joined(name: str, *arrays: Any, dtype: str | None = None, **kwargs: Any) -> Case:
    """A case of a function that takes a sequence of arrays."""

    def call(module: Any, *given: Any) -> Any:
        return getattr(module, name)(given, **kwargs)

    shapes = [getattr(a, "shape", a) for a in arrays]
    return Case(f"{name}{shapes}{kwargs}", arrays, call=call, dtype=dtype)


def of_rows(name: str, x: Any, **kwargs: Any) -> Case:
    """A case of a function given one array, the sequence of its rows."""
    label = f"{name} of rows of {x.shape}{kwargs}"
    return Case(label, (x,), call=lambda m, y: getattr(m, name)(y, **kwargs))


def join_cases() -> list[Case]:
    cases = [
        joined("concatenate", A, B),
        joined("concatenate", A, B, axis=1),
        joined("concatenate", A, B, axis=-2),
        joined("concatenate", A, N, axis=None),
        joined("concatenate", A),
        joined("concatenate", A, A[:0], B[:1]),
        Case("concatenate to int32", (A, B),
             call=lambda m, a, b: m.concatenate((a, b), dtype="i4", **UNSAFE[m is np])),
        Case("stack to int32", (A, B),
             call=lambda m, a, b: m.stack((a, b), dtype="i4", **UNSAFE[m is np])),
        joined("concatenate", A > 2, A > 3),
        joined("concatenate", V, N, dtype="float32"),
        joined("concatenate", N > 1, N),
        joined("concatenate", V, V.astype("c8")),
        joined("concatenate", N.astype("i1"), N.astype("u1")),
        joined("concat", A, B, axis=1),
        joined("stack", A, B),
        joined("stack", A, B, axis=-1),
        joined("stack", A, B, axis=1),
        joined("stack", np.float32(1), np.float32(2)),
        joined("vstack", A, B),
        joined("vstack", V, V),
        joined("vstack", A, V),
        joined("vstack", np.float32(1), np.float32(2)),
        joined("hstack", A, B),
        joined("hstack", V, V[:1]),
        joined("hstack", np.float32(1), np.float32(2)),
        joined("dstack", A, B),
        joined("dstack", V, V),
        joined("dstack", CUBE, CUBE),
        joined("dstack", np.float32(1), np.float32(2)),
        joined("column_stack", V[:2], A, V[1:]),
        joined("column_stack", V, V),
        joined("column_stack", np.float32(1), np.float32(2)),
    ]  # fmt: skip
    for name in ("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"):
        cases += [of_rows(name, x) for x in (A, CUBE, CUBE[..., None]) if x.ndim > 1]
    cases += [of_rows(name, V) for name in ("stack", "vstack", "hstack", "dstack", "column_stack")]
    cases += [of_rows("concatenate", CUBE, axis=1), of_rows("concatenate", CUBE, axis=None)]
    cases += [of_rows("stack", CUBE, axis=2)]
    # NumPy would promote bfloat16 and integers otherwise.
    half = V.astype(ml_dtypes.bfloat16)
    cases.append(joined("concatenate", half, half, dtype="bfloat16"))
    cases += [
        Case("append", (A, B)),
        Case("append", (A, B), {"axis": 0}),
        Case("append", (V, V[:0])),
        Case("append", (N, np.float32(7)), dtype="float32"),
    ]
    return cases


def test_joining() -> None:
    check(join_cases())


def test_mixed_types_are_promoted() -> None:
    for a, b, expected in (
        (N, V.astype(ml_dtypes.bfloat16), "bfloat16"),
        (N, V.astype("f2"), "float16"),
        (V.astype("f2"), V.astype(ml_dtypes.bfloat16), "float32"),
        (N.astype("u1"), N.astype("i1"), "int16"),
    ):
        for f in (jnp.concatenate, jnp.stack, jnp.hstack, jnp.vstack):
            assert f([jnp.asarray(a), jnp.asarray(b)]).dtype == expected
    assert jnp.stack([1, 2.0]).weak_type
    assert not jnp.stack([jnp.float32(1), 2.0]).weak_type


def test_block() -> None:
    a, b = np.ones((2, 2), "f4"), np.full((2, 3), 2, "f4")
    c, d = np.full((1, 2), 3, "f4"), np.full((1, 3), 4, "f4")
    cases = [
        Case("block 2x2", (a, b, c, d), call=lambda m, p, q, r, s: m.block([[p, q], [r, s]])),
        Case("block row", (a, b), call=lambda m, p, q: m.block([p, q])),
        Case("block column", (a, c), call=lambda m, p, q: m.block([[p], [q]])),
        Case("block of one", (a,), call=lambda m, p: m.block(p)),
        Case("block vectors", (V, V), call=lambda m, p, q: m.block([p, q])),
        Case("block vectors in rows", (V, V), call=lambda m, p, q: m.block([[p], [q]])),
        Case("block deep", (a, a), call=lambda m, p, q: m.block([[[p], [q]], [[q], [p]]])),
        Case(
            "block mixed",
            (a, np.array([5, 6], "i4")),
            call=lambda m, p, q: m.block([[p], [q]]),
        ),
    ]
    check(cases)
    np.testing.assert_array_equal(np.asarray(jnp.block([1, 2])), [1, 2])
    assert jnp.block(3).shape == ()


def split_cases() -> list[Case]:
    long = np.arange(9, dtype="i4")
    calls: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("split", long, (3,)),
        ("split", long, ([2, 5],)),
        ("split", long, ([0, 9],)),
        ("split", long, ([-2],)),
        ("split", long, (np.array([2, 5]),)),
        ("split", CUBE, (2, -1)),
        ("split", CUBE, ([1], 1)),
        ("split", A > 2, (3, 1)),
        ("array_split", long, (4,)),
        ("array_split", long, (12,)),
        ("array_split", long, ([4],)),
        ("array_split", CUBE, (2, 1)),
        ("hsplit", long, (3,)),
        ("hsplit", A, (3,)),
        ("hsplit", CUBE, ([1],)),
        ("vsplit", A, (2,)),
        ("dsplit", CUBE, (2,)),
    ]
    return [
        Case(f"{name}{rest}", (x,), call=lambda m, y, n=name, r=rest: getattr(m, n)(y, *r))
        for name, x, rest in calls
    ] + [
        Case("unstack", (CUBE,), expected=lambda x: list(x)),
        Case("unstack", (CUBE,), {"axis": -1}, expected=lambda x: list(np.moveaxis(x, -1, 0))),
    ]


def test_splitting() -> None:
    check(split_cases())
    assert jnp.unstack(jnp.ones((0, 2))) == ()


def test_trees_of_results() -> None:
    x = jnp.arange(4)
    assert isinstance(jnp.split(x, 2), list)
    assert isinstance(jnp.unstack(x), tuple)
    assert isinstance(jnp.broadcast_arrays(x, 1), list)


X = jnp.asarray(A)
S: Any = 3
LIST: Any = [1]
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.concatenate(S), TypeError, "concatenate requires a sequence of arrays.*int"),
    (lambda: jnp.concatenate([]), ValueError, "Need at least one array to concatenate"),
    (lambda: jnp.concatenate([1, 2]), ValueError, "Zero-dimensional arrays cannot be"),
    (lambda: jnp.concatenate([[1], [2]]), TypeError, "ndarray or scalar.*list.*position 0"),
    (lambda: jnp.concatenate([X, None]), TypeError, "NoneType.*at position 1"),
    (lambda: jnp.concatenate([X, X], axis=2), ValueError, "axis 2 is out of bounds"),
    (lambda: jnp.concatenate([X, X[0]]), TypeError, r"different numbers.*\(2, 3\), \(3,\)"),
    (lambda: jnp.concatenate([X, X.T]), TypeError, r"differ in dimensions.*\(2, 3\), \(3, 2\)"),
    (lambda: jnp.stack([]), ValueError, "Need at least one array to stack"),
    (lambda: jnp.stack(S), TypeError, "stack requires a sequence"),
    (lambda: jnp.stack([X, X[0]]), ValueError, r"Cannot stack.*\(2, 3\), \(3,\)"),
    (lambda: jnp.stack([X, X], axis=4), ValueError, "axis 4 is out of bounds"),
    (lambda: jnp.stack([X], out=S), NotImplementedError, "'out' argument to jnp.stack"),
    (lambda: jnp.vstack(S), TypeError, "vstack requires a sequence"),
    (lambda: jnp.vstack([]), ValueError, "Need at least one array"),
    (lambda: jnp.hstack([X[0], X]), TypeError, "different numbers of dimensions"),
    (lambda: jnp.append(X, LIST), TypeError, "append requires ndarray.*list"),
    (lambda: jnp.append(X, X[0], axis=0), TypeError, "different numbers of dimensions"),
    (lambda: jnp.block([[X], []]), ValueError, "empty list"),
    (lambda: jnp.block([]), ValueError, "empty list"),
    (lambda: jnp.block([[X, X], X]), ValueError, "Mismatched list depths"),
    (lambda: jnp.block((X, X)), ValueError, "does not allow tuples"),
    (lambda: jnp.block([X, X[0, :2]]), TypeError, "differ in dimensions"),
    (lambda: jnp.split(X, 4, axis=1), ValueError, "equal division: rest is 3"),
    (lambda: jnp.split(X, 0), ValueError, "at least one section, got 0"),
    (lambda: jnp.array_split(X, -2), ValueError, "at least one section, got -2"),
    (lambda: jnp.split(X, 1.5), TypeError, "integer indices or sections"),
    (lambda: jnp.split(X[0], [2, 1]), ValueError, "nonnegative"),
    (lambda: jnp.split(X[0], [1, 7]), ValueError, "nonnegative"),
    (lambda: jnp.split(X, 1, axis=2), IndexError, "axis 2 is out of bounds"),
    (lambda: jnp.dsplit(X, 1), IndexError, "axis 2 is out of bounds"),
    (lambda: jnp.unstack(X, axis=3), ValueError, "axis 3 is out of bounds"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[e[2] for e in ERRORS])
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_traced_indices_explain_themselves() -> None:
    for where in (3, np.array([1, 2])):
        text = r"jax.numpy.split argument 1(.|\n)*argument i"
        with pytest.raises(ConcretizationTypeError, match=text):
            xpr.jit(lambda i: jnp.split(X, i))(where)
    with pytest.raises(ConcretizationTypeError, match="array_split argument 1"):
        xpr.jit(lambda i: jnp.array_split(X, [i]))(1)
