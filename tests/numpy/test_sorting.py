"""Sorting, searching, sets and extraction: xpr.numpy against NumPy, eager and in `jit`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.numpy.cases import Case, check
from xpr.core.errors import ConcretizationTypeError

RNG = np.random.default_rng(5)
F = np.array([3, np.nan, 1, -0.0, 0.0, np.inf, -np.inf, 1, np.nan, -2.5], "f4")
N = np.array([3, 1, 2, 1, 0, 7, 3, 3], "i4")
M = RNG.integers(-9, 9, (4, 7)).astype("i4")
C = np.array([1j, 2, 1, 1 - 1j, -1, 2], "c8")
TYPES = ("bool", "int8", "uint8", "int32", "uint32", "float16", "float32")


def typed(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, 5, shape).astype(dtype)


def descending(x: Any, axis: int = -1) -> Any:
    return np.flip(np.sort(x, axis=axis), axis)


def argsort_descending(x: Any) -> Any:
    """Stable: equal elements keep their order."""
    return len(x) - 1 - np.argsort(x[::-1], kind="stable")[::-1]


def stable(name: str, x: Any, **kwargs: Any) -> Case:
    """NumPy's own stable sort: there `stable` and `kind` exclude each other."""

    def call(module: Any, y: Any) -> Any:
        return getattr(module, name)(y, **kwargs, **({"kind": "stable"} if module is np else {}))

    return Case(f"{name}{kwargs}", (x,), call=call)


def sort_cases() -> list[Case]:
    cases = [
        stable(name, x, **kw)
        for name in ("sort", "argsort")
        for x in (F, N, M, C, M.astype("f4"))
        for kw in ({}, {"axis": 0}, {"axis": None})
    ]
    cases += [
        stable(n, typed(d, 3, 9), axis=k)
        for n in ("sort", "argsort")
        for d in TYPES
        for k in (0, 1)
    ]
    cases += [
        stable(n, np.zeros(s, "f4")) for n in ("sort", "argsort") for s in ((0,), (3, 0), (1,))
    ]
    cases += [Case("sort", (x,), {"descending": True}, expected=descending) for x in (F, N, M, C)]
    cases += [
        Case("argsort", (x,), {"descending": True}, expected=argsort_descending)
        for x in (F, N, typed("uint8", 9), typed("bool", 9))
    ]
    cases += [
        Case("lexsort", (M,)),
        Case("lexsort of two", (N, typed("float32", 8)), call=lambda m, *k: m.lexsort(k)),
        Case("lexsort of floats", (F, typed("int8", 10)), call=lambda m, *k: m.lexsort(k)),
        Case("lexsort along axis 0", (M, M % 3), call=lambda m, *k: m.lexsort(k, axis=0)),
        Case("sort_complex", (N,)),
        Case("sort_complex", (C,)),
        Case("sort_complex", (M.astype("f4"),)),
    ]
    return cases


def test_sorting() -> None:
    check([c for c in sort_cases() if c.name != "sort_complex"])
    # NumPy makes complex128 of integers; the values are the same.
    for x in (N, C, M.astype("f4")):
        found = jnp.sort_complex(x)
        assert found.dtype == jnp.complex64
        np.testing.assert_array_equal(np.asarray(found), np.sort_complex(x))


def test_sort_keeps_the_signs_of_zeros_in_order() -> None:
    x = np.array([0.0, -0.0, 0.0, -1.0, -0.0], "f4")
    for f in (jnp.sort, xpr.jit(jnp.sort)):
        found = np.asarray(f(x))
        np.testing.assert_array_equal(np.signbit(found), [True, False, True, False, True])


def test_bfloat16_is_sorted_by_value() -> None:
    x = F.astype(ml_dtypes.bfloat16)
    for f in (lambda y: y, xpr.jit):
        found = f(jnp.sort)(x) if f is xpr.jit else jnp.sort(x)
        np.testing.assert_array_equal(np.asarray(found).astype("f4"), np.sort(F))
        order = f(jnp.argsort)(x) if f is xpr.jit else jnp.argsort(x)
        np.testing.assert_array_equal(np.asarray(order), np.argsort(F, kind="stable"))


@pytest.mark.parametrize("x", [F, N, M, C], ids=["float", "int", "matrix", "complex"])
@pytest.mark.parametrize("jitted", [False, True])
def test_partition(x: np.ndarray[Any, Any], jitted: bool) -> None:
    ordered = np.sort(x, axis=-1)
    for kth in (0, 2, -1):
        f, g = partial(jnp.partition, kth=kth), partial(jnp.argpartition, kth=kth)
        if jitted:
            f, g = xpr.jit(f), xpr.jit(g)
        parted, order = np.asarray(f(x)), np.asarray(g(x))
        for found in (parted, np.take_along_axis(x, order, -1)):
            np.testing.assert_array_equal(found[..., kth], ordered[..., kth])
            # Sorting either side gives the sorted whole.
            place = kth % x.shape[-1]
            sides = [np.sort(found[..., :place], -1), np.sort(found[..., place:], -1)]
            np.testing.assert_array_equal(np.concatenate(sides, -1), ordered)


def search_cases() -> list[Case]:
    cases = []
    queries = np.array([[np.nan, np.inf, 0.0], [-0.0, 1, 2.5], [-np.inf, 9, -3]], "f4")
    for side in ("left", "right"):
        for method in ("scan", "scan_unrolled", "sort", "compare_all"):
            for a, v in (
                (np.sort(F), queries),
                (np.sort(N), np.arange(-1, 9, dtype="i4")),
                (np.sort(typed("uint8", 12)), typed("uint8", 5)),
                (np.sort(typed("bool", 6)), typed("bool", 3)),
                (np.sort(typed("float16", 33)), typed("float16", 4)),
                (np.sort(N)[:1], N),
            ):
                cases.append(
                    Case(f"searchsorted {side} {method}", (a, v),
                         call=lambda m, x, q, s=side, h=method:
                         m.searchsorted(x, q, s, **({} if m is np else {"method": h})))
                )  # fmt: skip
        cases.append(Case("searchsorted", (np.sort(N), np.int32(2)), {"side": side}))
        cases.append(Case("searchsorted", (np.zeros(0, "f4"), queries), {"side": side}))
        cases.append(Case("searchsorted", (np.sort(N), np.zeros((2, 0), "i4")), {"side": side}))
        cases.append(Case("searchsorted", (np.sort(C), C), {"side": side}))
        order = np.argsort(N)
        cases.append(
            Case("searchsorted", (N, np.arange(9, dtype="i4")), {"side": side, "sorter": order})
        )
    edges = np.array([1, 3, 5], "f4")
    for right in (False, True):
        cases += [
            Case("digitize", (M.astype("f4"), bins), {"right": right})
            for bins in (edges, edges[::-1].copy(), edges[:1], edges[:0], np.array([1, 1, 2], "f4"))
        ]
    return cases


def test_searching() -> None:
    check(search_cases())


def unique_cases(sized: bool) -> list[Case]:
    rows = np.array([[1, 2], [1, 2], [0, 1], [1, 0]], "i4")
    operands: list[tuple[Any, dict[str, Any]]] = [
        (N, {}), (F, {}), (M, {}), (C, {}), (N > 1, {}), (rows, {"axis": 0}), (rows, {"axis": 1}),
        (np.int32(3), {}), (np.array([np.nan, 1, np.nan], "f4"), {"equal_nan": False}),
        (np.stack([rows, rows + 1]), {"axis": 1}),
    ]  # fmt: skip
    every: list[dict[str, Any]] = [
        {},
        {"return_index": True, "return_inverse": True, "return_counts": True},
        {"return_counts": True},
    ]
    cases = []
    for x, kw in operands:
        for more in every:
            count = np.unique(x, **kw).shape[kw.get("axis") or 0]

            def call(module: Any, y: Any, k: Any = kw | more, n: int = count) -> Any:
                if module is np or not sized:
                    return module.unique(y, **k)
                return module.unique(y, size=n, **k)

            cases.append(Case(f"unique{kw}{more}", (x,), call=call, eager_only=not sized))
    return cases


@pytest.mark.parametrize("sized", [False, True])
def test_unique(sized: bool) -> None:
    check(unique_cases(sized))


@pytest.mark.parametrize("jitted", [False, True])
def test_unique_of_another_size(jitted: bool) -> None:
    def run(f: Callable[[Any], Any], x: Any) -> list[list[Any]]:
        found = (xpr.jit(f) if jitted else f)(x)
        return [np.asarray(r).tolist() for r in found]

    every: dict[str, Any] = {"return_index": True, "return_inverse": True, "return_counts": True}
    x = np.array([3, 1, 2, 1])
    inverse = [2, 0, 1, 0]
    assert run(lambda y: jnp.unique(y, size=5, **every), x) == [
        [1, 2, 3, 1, 1], [1, 2, 0, 1, 1], inverse, [2, 1, 1, 0, 0]
    ]  # fmt: skip
    assert run(lambda y: jnp.unique(y, size=5, fill_value=99, **every), x) == [
        [1, 2, 3, 99, 99], [1, 2, 0, 1, 1], inverse, [2, 1, 1, 0, 0]
    ]  # fmt: skip
    assert run(lambda y: jnp.unique(y, size=2, **every), x) == [[1, 2], [1, 2], inverse, [2, 1]]
    rows = np.array([[1, 2], [1, 2], [0, 1]])
    assert run(lambda y: (jnp.unique(y, axis=0, size=3, fill_value=np.array([7, 8])),), rows) == [
        [[0, 1], [1, 2], [7, 8]]
    ]
    empty = np.zeros((0,), "f4")
    assert run(lambda y: (jnp.unique(y, size=2, fill_value=5),), empty) == [[5, 5]]
    assert run(lambda y: (jnp.unique(y, size=0),), x) == [[]]


def test_unique_of_nothing() -> None:
    values, index, inverse, counts = jnp.unique(jnp.zeros((0, 3)), True, True, True, axis=0)
    assert values.shape == (0, 3)
    assert index.shape == inverse.shape == counts.shape == (0,)
    values, inverse, counts = jnp.unique(
        jnp.zeros((3, 0)), return_inverse=True, return_counts=True, axis=0
    )
    assert values.shape == (1, 0)
    assert inverse.tolist() == [0, 0, 0]
    assert counts.tolist() == [3]


def test_unique_family() -> None:
    x = np.array([[3, 1], [2, 1]])
    everything = jnp.unique_all(x)
    expected = np.unique_all(x)
    assert type(everything).__name__ == "_UniqueAllResult"
    assert everything._fields == ("values", "indices", "inverse_indices", "counts")
    for found, wanted in zip(everything, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)
    assert jnp.unique_counts(x).counts.tolist() == [2, 1, 1]
    assert jnp.unique_inverse(x).inverse_indices.tolist() == [[2, 0], [1, 0]]
    assert jnp.unique_values(x).tolist() == [1, 2, 3]
    # By the array API every NaN is a value of its own.
    nan = jnp.array([jnp.nan, 1, jnp.nan])
    assert jnp.unique_values(nan).shape == (3,)
    assert xpr.jit(lambda y: jnp.unique_counts(y, size=2))(N).counts.tolist() == [1, 2]


SETS: list[tuple[str, dict[str, Any]]] = [
    ("union1d", {}),
    ("intersect1d", {}),
    ("intersect1d", {"return_indices": True}),
    ("setdiff1d", {}),
    ("setxor1d", {}),
]


def set_cases(sized: bool) -> list[Case]:
    pairs = [
        (N, np.array([5, 1, 3, 3], "i4")),
        (F, np.array([np.nan, 1, 0, 9], "f4")),
        (M, M[:1] + 2),
        (N, N[:0]),
        (N[:0], N),
        (N, np.array([100], "i4")),
        (C, C[:2]),
        (N > 1, np.array([True])),
    ]
    cases = []
    for name, kw in SETS:
        for a, b in pairs:

            def call(
                module: Any, x: Any, y: Any, n: str = name, k: Any = kw, p: Any = (a, b)
            ) -> Any:
                if module is np or not sized:
                    return getattr(module, n)(x, y, **k)
                size = len(getattr(np, n)(*p))
                return getattr(module, n)(x, y, size=size, **k)

            cases.append(Case(f"{name}{kw}", (a, b), call=call, eager_only=not sized))
    if not sized:
        distinct = (np.array([3, 1, 2], "i4"), np.array([5, 1], "i4"))
        cases += [
            Case(n, distinct, {"assume_unique": True}, eager_only=True)
            for n in ("intersect1d", "setdiff1d", "setxor1d")
        ]
    return cases


@pytest.mark.parametrize("sized", [False, True])
def test_sets(sized: bool) -> None:
    check(set_cases(sized))


def test_sets_of_another_size() -> None:
    a, b = np.array([3, 1, 2, 1]), np.array([5, 1])
    wanted: list[tuple[Callable[..., Any], dict[str, Any], list[int]]] = [
        (jnp.union1d, {"size": 6}, [1, 2, 3, 5, 1, 1]),
        (jnp.union1d, {"size": 6, "fill_value": 0}, [1, 2, 3, 5, 0, 0]),
        (jnp.union1d, {"size": 2}, [1, 2]),
        (jnp.intersect1d, {"size": 3}, [1, 1, 1]),
        (jnp.intersect1d, {"size": 3, "fill_value": -7}, [1, -7, -7]),
        (jnp.setdiff1d, {"size": 4}, [2, 3, 0, 0]),
        (jnp.setdiff1d, {"size": 4, "fill_value": 9}, [2, 3, 9, 9]),
        (jnp.setxor1d, {"size": 5}, [2, 3, 5, 2, 2]),
        (jnp.setxor1d, {"size": 5, "fill_value": 100}, [2, 3, 5, 100, 100]),
    ]
    jitted = xpr.jit(lambda x, y: [f(x, y, **kw) for f, kw, _ in wanted])(a, b)
    for (f, kw, expected), compiled in zip(wanted, jitted, strict=True):
        assert f(a, b, **kw).tolist() == expected
        assert compiled.tolist() == expected
    found = jnp.intersect1d(a, b, return_indices=True, size=3)
    assert [r.tolist() for r in found] == [[1, 1, 1], [1, 4, 4], [1, 2, 2]]
    assert jnp.intersect1d(a, b + 90, size=2).tolist() == [0, 0]


def isin_cases() -> list[Case]:
    return [
        Case(f"isin {method} {invert}", (x, y), call=lambda m, a, b, i=invert, h=method:
             m.isin(a, b, invert=i, **({} if m is np else {"method": h})))
        for x, y in (
            (M, N), (F, F), (F, F[:0]), (M, np.int32(3)), (C, C[:2]), (M, np.arange(40) - 20),
        )
        for method in ("auto", "compare_all", "sort", "binary_search")
        for invert in (False, True)
    ]  # fmt: skip


def test_isin() -> None:
    check(isin_cases())


def extract_cases(sized: bool) -> list[Case]:
    mask = np.array([True, False, True, True])
    x = np.arange(12, dtype="f4").reshape(3, 4)
    kw: dict[str, Any] = {}
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any], int]] = [
        ("compress", (mask, x), {"axis": 1}, 3),
        ("compress", (mask[:2], x), {"axis": 0}, 1),
        ("compress", (mask, x), {}, 3),
        ("compress", (N[:4], x), {"axis": -1}, 4),
        ("extract", (x > 4, x), {}, 7),
        ("extract", (x % 3, x), {}, 8),
    ]
    cases = []
    for name, args, kw, count in calls:

        def call(module: Any, m: Any, y: Any, n: str = name, k: Any = kw, c: int = count) -> Any:
            extra = {"size": c} if sized and module is not np else {}
            return getattr(module, n)(m, y, **k, **extra)

        cases.append(Case(f"{name}{kw}", args, call=call, eager_only=not sized))
    return cases


@pytest.mark.parametrize("sized", [False, True])
def test_extraction(sized: bool) -> None:
    cases = extract_cases(sized)
    for case in cases:
        if case.args[0].shape == (4,) and case.args[0].dtype == N.dtype:
            assert np.count_nonzero(case.args[0]) == 4
    check(cases)


def test_extraction_of_another_size() -> None:
    x, mask = np.arange(6).reshape(2, 3), np.array([True, False, True])
    f = xpr.jit(lambda m, y: jnp.compress(m, y, axis=1, size=3, fill_value=7))
    for found in (f(mask, x), jnp.compress(mask, x, axis=1, size=3, fill_value=7)):
        assert found.tolist() == [[0, 2, 7], [3, 5, 7]]
    g = xpr.jit(lambda y: jnp.extract(y > 2, y, size=2))
    assert g(x).tolist() == [3, 4]
    assert x.compress(mask, 1).tolist() == jnp.asarray(x).compress(mask, 1).tolist()


def test_trim_zeros() -> None:
    cases = []
    plane = np.zeros((4, 5), "i4")
    plane[1:3, 2] = 7
    for x in (np.array([0, 0, 1, 2, 0, 3, 0], "i4"), np.zeros(3, "f4"), np.zeros(0, "f4"), plane):
        cases += [Case("trim_zeros", (x,), {"trim": t}, eager_only=True) for t in ("fb", "f", "B")]
    cases += [
        Case("trim_zeros", (plane,), {"axis": a}, eager_only=True) for a in (0, 1, (0, 1), -1)
    ]
    check(cases)


def nonzero_cases() -> list[Case]:
    return [
        Case(f"nonzero {size}", (x,),
             call=lambda m, y, s=size: m.nonzero(y, **({} if m is np else {"size": s})))
        for x in (M, F, C, N > 1, np.zeros((0, 3), "f4"))
        for size in (np.count_nonzero(x),)
    ] + [
        Case("flatnonzero", (M,), {"size": int(np.count_nonzero(M))},
             expected=lambda x: np.flatnonzero(x)),
        Case("argwhere", (M,), {"size": int(np.count_nonzero(M))},
             expected=lambda x: np.argwhere(x)),
    ]  # fmt: skip


def test_nonzero() -> None:
    check(nonzero_cases())
    x = jnp.array([0, 5, 0, 7])
    f = xpr.jit(lambda y: jnp.nonzero(y, size=4, fill_value=-1)[0])
    assert f(x).tolist() == [1, 3, -1, -1]
    assert x.nonzero()[0].tolist() == [1, 3]


def test_methods() -> None:
    x = jnp.asarray(M)
    np.testing.assert_array_equal(np.asarray(x.sort(0)), np.sort(M, 0))
    np.testing.assert_array_equal(np.asarray(x.argsort(1)), np.argsort(M, 1, kind="stable"))
    ordered = jnp.sort(jnp.asarray(N))
    assert int(ordered.searchsorted(2)) == np.searchsorted(np.sort(N), 2)
    assert x.argpartition(2).shape == M.shape


X = jnp.asarray(M)
ODD: Any = "quicksort"
LIST: Any = [1]
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.sort(LIST), TypeError, "sort requires ndarray or scalar.*list"),
    (lambda: jnp.sort(X, axis=2), ValueError, "axis 2 is out of bounds"),
    (lambda: jnp.sort(3), ValueError, "axis -1 is out of bounds for array of dimension 0"),
    (lambda: jnp.sort(X, kind=ODD), TypeError, "'kind' argument to sort is not supported"),
    (lambda: jnp.argsort(X, order=ODD), TypeError, "'order' argument to argsort"),
    (lambda: jnp.argsort(X, dtype="float32"), TypeError, "integer dtype, got float32"),
    (lambda: jnp.lexsort(()), TypeError, "need sequence of keys"),
    (lambda: jnp.lexsort((X, X[0])), ValueError, "all keys need to be the same shape"),
    (lambda: jnp.lexsort((X, X), axis=3), ValueError, "axis 3 is out of bounds"),
    (lambda: jnp.partition(X, 7), ValueError, "axis 7 is out of bounds"),
    (lambda: jnp.argpartition(X, -8), ValueError, "axis -8 is out of bounds"),
    (lambda: jnp.searchsorted(X, 1), ValueError, r"a should be 1-dimensional.*\(4, 7\)"),
    (lambda: jnp.searchsorted(X[0], 1, "up"), ValueError, "side='up'"),
    (lambda: jnp.searchsorted(X[0], 1, method="up"), ValueError, "method='up'.*'scan'"),
    (lambda: jnp.searchsorted(X[0], 1, sorter=jnp.ones(7)), TypeError, "integer or boolean type"),
    (lambda: jnp.digitize(X, X), ValueError, "bins must be a 1-dimensional array"),
    (lambda: jnp.unique(LIST), TypeError, "unique requires ndarray"),
    (lambda: jnp.unique(X, axis=2), ValueError, "axis 2 is out of bounds"),
    (lambda: jnp.unique(jnp.zeros(0), size=3), ValueError, "fill_value must be specified"),
    (lambda: jnp.unique(X, size=-1), TypeError, r"be nonnegative, got \(-1,\)\. \(unique: size"),
    (lambda: jnp.union1d(LIST, X), TypeError, "union1d requires ndarray.*position 0"),
    (lambda: jnp.isin(X, X, method="no"), ValueError, "method='no' is not implemented"),
    (lambda: jnp.compress(X, X), ValueError, "condition must be a 1D array"),
    (lambda: jnp.compress(jnp.ones(9), X, axis=1), ValueError, "out of bounds"),
    (lambda: jnp.compress(X[0], X, out=ODD), NotImplementedError, "out. argument to jnp.compress"),
    (lambda: jnp.nonzero(3), ValueError, "nonzero on 0d arrays"),
    (lambda: jnp.nonzero(X, size=-1), TypeError, "every element be nonnegative"),
    (lambda: jnp.nonzero(X, size=9, fill_value=(1,)), ValueError, "tuple of length 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[e[2] for e in ERRORS])
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


UNSIZED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: jnp.unique(x), r"first argument of jnp.unique\(\)"),
    (lambda x: jnp.unique_counts(x), r"first argument of jnp.unique\(\)"),
    (lambda x: jnp.union1d(x, x), r"arose in union1d\(\)"),
    (lambda x: jnp.intersect1d(x, x), r"arose in intersect1d\(\)"),
    (lambda x: jnp.setdiff1d(x, x), r"arose in setdiff1d\(\)"),
    (lambda x: jnp.setxor1d(x, x), r"arose in setxor1d\(\)"),
    (lambda x: jnp.nonzero(x), "size argument of jnp.nonzero"),
    (lambda x: jnp.extract(x, x), "size argument of jnp.nonzero"),
    (lambda x: jnp.nonzero(N, size=x[0]), "size argument of jnp.nonzero must be statically"),
    (lambda x: jnp.unique(N, size=x[0]), "size argument of jnp.unique must be statically"),
]


@pytest.mark.parametrize(("call", "text"), UNSIZED, ids=range(len(UNSIZED)))
def test_traced_without_a_size(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(ConcretizationTypeError, match=text):
        xpr.jit(lambda x: call(x))(N)


def test_a_search_by_halves_is_one_dispatch() -> None:
    ordered, queries = np.sort(F), F[::-1].copy()
    found = xpr.debug.explain(jnp.searchsorted, ordered, queries)
    unrolled = partial(jnp.searchsorted, method="scan_unrolled")
    assert found.dispatches == 1 < (xpr.debug.explain(unrolled, ordered, queries).dispatches or 0)
