"""Reductions and prefixes of xpr.numpy against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.core.config import override
from xpr.errors import ConcretizationTypeError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4, 5)).astype("f4")
WITH_NAN = np.where(X > 1, np.nan, X).astype("f4")
ALL_NAN = np.where(np.arange(3)[:, None, None] == 1, np.nan, WITH_NAN).astype("f4")
INTS = RNG.integers(-9, 9, (3, 4)).astype("i4")
MASK = RNG.integers(0, 2, (3, 4, 5)).astype(bool)
COMPLEX = (X[:, 0] + 1j * X[:, 1]).astype("c8")

FOLDS = "sum prod max min all any mean var std ptp".split()
AXES: list[dict[str, Any]] = [
    {},
    {"axis": 0},
    {"axis": -1},
    {"axis": (0, 2)},
    {"axis": ()},
    {"axis": 1, "keepdims": True},
    {"keepdims": True},
]


def reduction_cases() -> list[Case]:
    cases = [
        Case(n, (X,), kw, atol=1e-6)
        for n in FOLDS
        for kw in AXES
        if n != "ptp" or kw != {"axis": ()}
    ]
    cases += [
        Case(
            n,
            (X,),
            {"where": MASK[0, :1], "axis": 2, **({"initial": 0.5} if n in ("max", "min") else {})},
            atol=1e-6,
        )
        for n in ("sum", "prod", "max", "min", "all", "any", "mean", "var", "std")
    ]
    cases += [
        Case(n, (INTS,), kw)
        for n in ("sum", "prod", "max", "min", "all", "any", "ptp")
        for kw in AXES[:3]
    ]
    cases += [Case(n, (INTS,), {"axis": 0}, rtol=1e-6) for n in ("mean", "var", "std")]
    cases += [Case(n, (INTS,), {"axis": 0, "initial": 3}) for n in ("sum", "prod", "max", "min")]
    cases += [
        Case(n, (INTS > 0,), {"axis": 1})
        for n in ("sum", "prod", "max", "min", "all", "any", "mean")
    ]
    for dtype, wide in (("i1", "int32"), ("u1", "uint32"), ("i2", "int32"), ("u4", "uint32")):
        small = np.array([[1, 2, 100], [3, 4, 27]], dtype)
        cases += [Case(n, (small,), {"axis": 0}, dtype=wide) for n in ("sum", "prod")]
        cases += [Case("max", (small,)), Case("mean", (small,), dtype="float32")]
    cases += [
        Case(n, (COMPLEX,), {"axis": 0}, atol=1e-6)
        for n in ("sum", "prod", "mean", "var", "std", "all", "any")
    ]
    cases += [Case(n, (COMPLEX,), {"axis": 1}) for n in ("max", "min")]
    for dtype in (np.float16, ml_dtypes.bfloat16):
        half = X[0].astype(dtype)
        name = np.dtype(dtype).name
        cases += [
            Case(n, (half,), {"axis": 0}, dtype=name, atol=2e-2)
            for n in ("sum", "mean", "max", "var", "std")
        ]
    cases += [
        Case("sum", (X,), {"dtype": np.float16}, atol=2e-2),
        Case("sum", (INTS,), {"dtype": np.float32}),
        Case("mean", (X,), {"dtype": np.float16}, atol=1e-3),
        Case("var", (X,), {"ddof": 1, "axis": 0}, atol=1e-6),
        Case("std", (X,), {"correction": 1, "axis": 0}, atol=1e-6),
        Case("var", (X,), {"ddof": 3, "axis": 0}, expected=lambda x: np.full((4, 5), np.nan, "f4")),
        Case(
            "var",
            (X,),
            {"axis": 1, "mean": 0.25},
            expected=lambda x: ((x - 0.25) ** 2).mean(1),
            rtol=3e-6,
        ),
        Case("count_nonzero", (INTS,), {"axis": 0}),
        Case("count_nonzero", (INTS,), expected=lambda i: np.int64(np.count_nonzero(i))),
        Case("amax", (X,), {"axis": 1}),
        Case("amin", (X,), {"axis": 1}),
    ]
    return cases


def nan_cases() -> list[Case]:
    cases = [
        Case(n, (x,), kw, atol=1e-6)
        for n in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")
        for x in (WITH_NAN, ALL_NAN)
        for kw in ({}, {"axis": 0}, {"axis": (1, 2), "keepdims": True})
    ]
    cases += [Case(n, (WITH_NAN,), {"axis": 1}) for n in ("nanargmax", "nanargmin")]
    cases += [Case(n, (WITH_NAN,)) for n in ("max", "min", "sum", "argmax", "argmin")]
    cases += [Case("nanvar", (WITH_NAN,), {"axis": 0, "ddof": 1}, atol=1e-6)]
    cases += [Case(n, (INTS,), {"axis": 0}) for n in ("nansum", "nanmax")]
    cases += [Case("nanmean", (INTS,), {"axis": 0}, rtol=1e-6)]
    cases += [Case("nanmean", (WITH_NAN,), {"where": MASK, "axis": 0}, atol=1e-6)]
    return cases


def prefix_cases() -> list[Case]:
    own: dict[str, Any] = {"dtype": "int32"}
    return [
        *(
            Case(n, (X,), {"axis": a}, atol=1e-5)
            for n in ("cumsum", "cumprod")
            for a in (None, 0, -1)
        ),
        *(Case(n, (WITH_NAN,), {"axis": 1}, atol=1e-5) for n in ("nancumsum", "nancumprod")),
        Case("cumsum", (INTS,), {"axis": 0}),
        Case("cumsum", (INTS > 0,)),
        Case("cumsum", (INTS,), {"dtype": np.float32}),
        Case(
            "cumsum",
            (np.array([1, 2, 100, 100], "i1"),),
            expected=lambda x: np.cumsum(x, dtype="i1"),
            dtype="int8",
        ),
        Case("cumulative_sum", (INTS[0],), {"include_initial": True}),
        Case("cumulative_sum", (X,), {"axis": 1}, atol=1e-5),
        Case("cumulative_prod", (INTS[0],), {"include_initial": True}),
        Case("cumulative_sum", (np.array([1, 2], "i1"),), **own),
        Case("cumsum", (COMPLEX,), {"axis": 0}, atol=1e-5),
    ]


def arg_cases() -> list[Case]:
    return [
        Case(n, (x,), kw)
        for n in ("argmax", "argmin")
        for x in (X, INTS, np.array([[2, 2], [1, 1]], "u1"), np.array([False, True]))
        for kw in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"keepdims": True})
    ]


def test_reductions() -> None:
    check(reduction_cases())


def test_reductions_without_nan() -> None:
    check(nan_cases())


def test_prefixes() -> None:
    check(prefix_cases())


def test_places_of_extrema() -> None:
    check(arg_cases())


def test_64_bits() -> None:
    with override("enable_x64", True):
        check(
            [Case(n, (X.astype("f8"),), {"axis": 0}, rtol=1e-13, atol=1e-14) for n in FOLDS]
            + [Case(n, (np.array([1, 2, 3], "i1"),)) for n in ("sum", "prod", "cumulative_sum")]
            + [Case("mean", (np.array([1, 2, 4], "i1"),), dtype="float32", rtol=1e-6)]
            + [Case("argmax", (X,)), Case("count_nonzero", (INTS,), {"axis": 0})]
        )


def test_empty_arrays() -> None:
    none = np.zeros((0, 3), "f4")
    check(
        [Case(n, (none,), {"axis": 0}) for n in ("sum", "prod", "all", "any", "mean", "var")]
        + [Case(n, (none,), {"axis": 1}) for n in ("sum", "max", "argmax", "std")]
        + [
            Case("max", (none,), {"initial": -1.0}),
            Case("sum", (none,)),
            Case("cumsum", (none,), {"axis": 0}),
        ]
    )


def test_long_sums_are_accurate() -> None:
    x = RNG.uniform(0, 1, 1_000_000).astype("f4")
    expected = x.astype("f8").sum()
    for found in (jnp.sum(jnp.asarray(x)), xpr.jit(jnp.sum)(x)):
        np.testing.assert_allclose(float(found), expected, rtol=1e-6)


def test_all_nan_has_no_greatest_element() -> None:
    x = jnp.array([[np.nan, np.nan], [np.nan, 1.0]])
    assert jnp.nanargmax(x, axis=1).tolist() == [-1, 1]
    assert jnp.nanargmin(x, axis=1).tolist() == [-1, 1]


def test_results_are_never_weakly_typed() -> None:
    for found in (jnp.sum(1.5), jnp.max(1), jnp.mean(1), jnp.cumsum(jnp.asarray(2.0))):
        assert not found.weak_type


def test_sum_of_bytes_keeps_its_dtype_on_request() -> None:
    x = jnp.array([200, 100], jnp.uint8)
    found = jnp.sum(x, promote_integers=False)
    assert found.dtype == jnp.uint8
    assert int(found) == 44


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: jnp.sum(x, axis=5),
            ValueError,
            "axis 5 is out of bounds for array of dimension 3",
        ),
        (lambda x: jnp.sum(x, axis=(0, 0)), ValueError, "duplicate value in 'axis'"),
        (lambda x: jnp.sum(x, axis=1.0), TypeError, "float"),
        (
            lambda x: jnp.sum(x, out=x),
            NotImplementedError,
            "The 'out' argument to jnp.sum is not supported",
        ),
        (
            lambda x: jnp.sum([1, 2]),
            TypeError,
            "sum requires ndarray or scalar arguments, got <class 'list'>",
        ),
        (
            lambda x: jnp.sum(x, initial=jnp.ones(1)),
            ValueError,
            r"initial value must be a scalar. Got array of shape \(1,\)",
        ),
        (
            lambda x: jnp.max(jnp.zeros((0,))),
            ValueError,
            "zero-size array to reduction operation max which has no identity",
        ),
        (lambda x: jnp.max(x, where=x > 0), ValueError, "max does not have an identity"),
        (
            lambda x: jnp.argmax(jnp.zeros((0,))),
            ValueError,
            "attempt to get argmax of an empty sequence",
        ),
        (
            lambda x: jnp.var(x, ddof=1, correction=1),
            ValueError,
            "ddof and correction can't be provided simultaneously",
        ),
        (
            lambda x: jnp.cumsum(x, axis=3),
            ValueError,
            "axis 3 is out of bounds for array of dimension 3",
        ),
        (lambda x: jnp.cumulative_sum(x), ValueError, "The input array has rank 3"),
        (lambda x: jnp.cumulative_sum(1), ValueError, "The input must be non-scalar"),
        (lambda x: jnp.ptp(x > 0), TypeError, "sub does not accept dtype bool"),
        (lambda x: jnp.argmin(x * 1j), TypeError, "complex"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(jnp.asarray(X))


@pytest.mark.parametrize("name", ["sum", "max", "mean", "any", "std"])
def test_a_traced_axis_explains_itself(name: str) -> None:
    with pytest.raises(ConcretizationTypeError, match="axis argument must be known statically"):
        xpr.jit(lambda axis: getattr(jnp, name)(X, axis=axis))(0)
