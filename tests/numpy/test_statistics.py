"""Averages, quantiles, covariances, histograms, differences and interpolation against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xpr
from tests.numpy.cases import Case, check, jnp

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3, 4, 5)).astype("f4")
M = X[:, :, 0]
WITH_NAN = np.where(X > 0.8, np.nan, X).astype("f4")
INTS = RNG.integers(-9, 9, (4, 6)).astype("i4")
COMPLEX = (X[0] + 1j * X[1]).astype("c8")
WEIGHTS = RNG.uniform(0.1, 2, (4,)).astype("f4")


def average_cases() -> list[Case]:
    return [
        Case("average", (X,), atol=1e-6),
        Case("average", (X,), {"axis": 1, "keepdims": True}, atol=1e-6),
        Case("average", (X, np.abs(X)), {"axis": 0}, call=_weighted, rtol=5e-6, atol=1e-6),
        Case(
            "average",
            (X, WEIGHTS),
            {"axis": 1, "returned": True},
            call=_weighted,
            atol=1e-6,
            rtol=3e-6,
        ),
        Case(
            "average",
            (X, X[0].T.copy() ** 2),
            {"axis": (2, 1)},
            call=_weighted,
            atol=1e-6,
            rtol=5e-6,
        ),
        Case("average", (INTS, np.arange(1, 5)), {"axis": 0}, call=_weighted, atol=1e-6),
        Case("average", (INTS,), {"returned": True}, dtype="float32", rtol=1e-6),
    ]


def _weighted(module: Any, a: Any, w: Any, **kwargs: Any) -> Any:
    return module.average(a, weights=w, **kwargs)


METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile_cases() -> list[Case]:
    q = np.array([0.0, 0.1, 0.5, 0.77, 1.0], "f4")
    cases = [
        Case(n, (x,), kw, atol=1e-6)
        for n in ("median", "nanmedian")
        for x in (X, WITH_NAN)
        for kw in ({}, {"axis": 0}, {"axis": (0, 2), "keepdims": True}, {"axis": -1})
    ]
    cases += [
        Case("quantile", (X, q), {"axis": a, "method": m}, atol=1e-6)
        for m in METHODS
        for a in (None, 1)
    ]
    cases += [
        Case("nanquantile", (WITH_NAN, q), {"axis": 2, "method": m}, atol=1e-6) for m in METHODS
    ]
    cases += [
        Case("quantile", (X, 0.3), {"axis": (0, 1), "keepdims": True}, atol=1e-6),
        Case("percentile", (X, 25.0), {"axis": 0}, atol=1e-6),
        Case("percentile", (X, q * 100), atol=2e-6),
        Case("nanpercentile", (WITH_NAN, 40.0), {"axis": 1}, atol=1e-6),
        Case("quantile", (WITH_NAN, q), {"axis": 0}, atol=1e-6),
        Case("median", (INTS,), {"axis": 0}, dtype="float32"),
        Case("median", (np.array([True, False]),), expected=lambda b: np.float32(0.5)),
        Case("median", (np.array([np.inf, np.inf, 1, -np.inf], "f4"),)),
        Case(
            "quantile",
            (np.array([1, np.inf, np.inf], "f4"), q),
            expected=lambda x, q: np.array([1, np.inf, np.inf, np.inf, np.inf], "f4"),
        ),
        Case("median", (X[0].astype("f2"),), {"axis": 0}, dtype="float16"),
        Case("median", (X[0].astype(ml_dtypes.bfloat16),), {"axis": 0}, dtype="bfloat16"),
        Case("quantile", (M, q, np.abs(M) + np.float32(0.1)), {"axis": 1}, call=_weighted_quantile),
        Case("quantile", (M, q, WEIGHTS), {"axis": 1}, call=_weighted_quantile),
    ]
    return cases


def _weighted_quantile(module: Any, a: Any, q: Any, w: Any, axis: int) -> Any:
    return module.quantile(a, q, axis=axis, weights=w, method="inverted_cdf")


def covariance_cases() -> list[Case]:
    kw: dict[str, Any] = {"atol": 2e-6, "rtol": 3e-6}
    counts = np.array([1, 0, 2, 3], "i4")
    return [
        Case("cov", (M,), **kw),
        Case("cov", (M,), {"rowvar": False}, **kw),
        Case("cov", (M,), {"bias": True}, **kw),
        Case("cov", (M,), {"ddof": 0}, **kw),
        Case("cov", (M, M[:1] * 2), **kw),
        Case("cov", (M[0],), **kw),
        Case("cov", (M[0], M[1]), **kw),
        Case("cov", (INTS,), dtype="float32", rtol=1e-6, atol=2e-6),
        Case("cov", (COMPLEX,), atol=2e-6, rtol=5e-6),
        Case("cov", (M, counts), call=lambda m, x, w: m.cov(x, fweights=w), **kw),
        Case("cov", (M, WEIGHTS), call=lambda m, x, w: m.cov(x, aweights=w), **kw),
        Case(
            "cov",
            (M, counts, WEIGHTS),
            call=lambda m, x, f, a: m.cov(x, fweights=f, aweights=a),
            **kw,
        ),
        Case("corrcoef", (M,), **kw),
        Case("corrcoef", (M,), {"rowvar": False}, **kw),
        Case("corrcoef", (M[0], M[1]), **kw),
        Case("corrcoef", (COMPLEX,), atol=3e-6, rtol=5e-6),
        Case("corrcoef", (M[0],), **kw),
    ]


def histogram_cases() -> list[Case]:
    flat = X.ravel()
    edges = np.array([-2.0, -0.5, 0.0, 0.25, 2.0], "f4")
    count = np.array([0, 1, 1, 5, 3], "i4")
    points = X.reshape(-1, 2)
    f32: dict[str, Any] = {"dtype": "float32"}
    return [
        Case("bincount", (count,), dtype="int32", eager_only=True),
        Case("bincount", (count,), {"minlength": 9}, dtype="int32", eager_only=True),
        Case(
            "bincount",
            (count,),
            {"length": 4},
            expected=lambda c: np.bincount(c)[:4],
            dtype="int32",
        ),
        Case(
            "bincount",
            (count, flat[:5]),
            {"length": 8},
            expected=lambda c, w: np.bincount(c, w, 8).astype("f4"),
        ),
        Case("histogram", (flat,), **f32, atol=1e-6),
        Case("histogram", (flat, edges), **f32),
        Case("histogram", (flat, 7), {"range": (-1, 1)}, **f32, atol=1e-6),
        Case("histogram", (flat, 5), {"density": True}, **f32, rtol=3e-6, atol=1e-6),
        Case(
            "histogram",
            (flat, np.abs(flat)),
            call=lambda m, x, w: m.histogram(x, 4, weights=w),
            **f32,
            rtol=3e-6,
            atol=1e-6,
        ),
        Case("histogram", (np.array([1.0, 2.0, np.nan], "f4"), 4), {"range": (0, 2)}, **f32),
        Case("histogram", (np.ones(3, "f4"), 2), **f32),
        Case("histogram", (INTS, 6), **f32, rtol=3e-6),
        Case("histogram_bin_edges", (flat, 3), **f32, atol=1e-6),
        Case("histogram_bin_edges", (flat, 3), {"range": (0, 9)}, **f32),
        Case("histogramdd", (points, (3, 2)), expected=lambda p, b: _dd(p, b), atol=1e-6),
        Case(
            "histogramdd",
            (points, 3),
            {"density": True},
            expected=lambda p, b: _dd(p, b, density=True),
            rtol=5e-6,
            atol=1e-6,
        ),
        Case(
            "histogram2d",
            (points[:, 0].copy(), points[:, 1].copy()),
            {"bins": 4},
            expected=_two_d,
            atol=1e-6,
        ),
        Case("digitize", (flat, edges), dtype="int32"),
        Case("digitize", (flat, edges[::-1].copy()), {"right": True}, dtype="int32"),
    ]


def _dd(points: Any, bins: Any, **kwargs: Any) -> list[Any]:
    counts, edges = np.histogramdd(points, bins, **kwargs)
    dtype = "f4" if kwargs else "i4"
    return [counts.astype(dtype), *(e.astype("f4") for e in edges)]


def _two_d(x: Any, y: Any) -> list[Any]:
    counts, *edges = np.histogram2d(x, y, bins=4)
    return [counts.astype("i4"), *(e.astype("f4") for e in edges)]


def difference_cases() -> list[Case]:
    places = np.array([0.0, 1.0, 1.5, 4.0], "f4")
    row = INTS[0]
    xp, fp = np.array([0.0, 1.0, 3.0], "f4"), np.array([10.0, 20.0, 0.0], "f4")
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.9, 3.0, 9.0, np.nan], "f4")
    angles = np.cumsum(RNG.uniform(-3, 5, (2, 20)), axis=1).astype("f4")
    turned = np.angle(np.exp(1j * angles)).astype("f4")
    kw: dict[str, Any] = {"rtol": 3e-6, "atol": 1e-6}
    return [
        *(Case("diff", (INTS,), {"n": n, "axis": a}) for n in (0, 1, 2, 7) for a in (0, -1)),
        Case("diff", (INTS,), {"prepend": 0, "append": row[:, None][:4]}),
        Case("diff", (X > 0,), {"axis": 1}),
        Case("ediff1d", (INTS,)),
        Case("ediff1d", (INTS, 99, np.array([1, 2], "i4"))),
        Case("gradient", (M,), **kw),
        Case("gradient", (M, 2.0), **kw),
        Case("gradient", (M, 1.0, places), **kw),
        Case("gradient", (M, places), {"axis": 1}, **kw),
        Case("gradient", (X,), {"axis": (0, 2)}, **kw),
        Case("gradient", (row,), dtype="float32"),
        Case("trapezoid", (M,), **kw),
        Case("trapezoid", (M, places), **kw),
        Case("trapezoid", (M,), {"dx": 0.5, "axis": 0}, **kw),
        Case("trapezoid", (M, np.cumsum(np.abs(M), 1)), {"axis": 1}, **kw),
        Case("interp", (x, xp, fp), **kw, dtype="float32"),
        Case("interp", (x, xp, fp), {"left": -5.0, "right": 7.0}, **kw, dtype="float32"),
        Case("interp", (x, xp, fp), {"period": 4.0}, **kw, dtype="float32"),
        Case("interp", (x, xp[:1], fp[:1]), dtype="float32"),
        Case("interp", (x, xp, fp.astype("c8") * (1 + 1j)), **kw, dtype="complex64"),
        Case("interp", (np.array([1, 2]), np.array([0, 4]), np.array([0, 8])), dtype="float32"),
        Case("unwrap", (turned,), **kw),
        Case("unwrap", (turned.T.copy(),), {"axis": 0}, **kw),
        Case("unwrap", (turned,), {"discont": 4.0}, **kw),
        Case("unwrap", (np.array([0, 3, 1, 2, 0, 3], "i4"),), {"period": 4}),
        Case("unwrap", (np.array([0, 2, 4, 1, 3], "i4"),), {"period": 5}),
    ]


def window_cases() -> list[Case]:
    names = ("bartlett", "blackman", "hamming", "hanning")
    return [
        *(Case(n, (m,), dtype="float32", atol=1e-6) for n in names for m in (0, 1, 2, 7)),
        *(
            Case("kaiser", (m, 8.5), dtype="float32", rtol=3e-5, atol=1e-6, eager_only=True)
            for m in (0, 1, 6)
        ),
        Case(
            "apply_over_axes",
            (X,),
            call=lambda m, x: m.apply_over_axes(m.sum, x, [0, -1]),
            atol=1e-5,
        ),
        Case("ix_", (), call=lambda m: m.ix_(m.arange(3), m.arange(2)), dtype="int32"),
    ]


def test_averages() -> None:
    check(average_cases())


def test_quantiles() -> None:
    check(quantile_cases())


def test_covariances() -> None:
    check(covariance_cases())


def test_histograms() -> None:
    check([_flat_edges(c) for c in histogram_cases()])


def _flat_edges(case: Case) -> Case:
    """`histogramdd` gives its edges as a list of their own."""
    if case.name != "histogramdd":
        return case

    def call(module: Any, *args: Any, **kwargs: Any) -> list[Any]:
        counts, edges = module.histogramdd(*args, **kwargs)
        return [counts, *edges]

    return Case(
        case.name, case.args, case.kwargs, call, case.expected, rtol=case.rtol, atol=case.atol
    )


def test_differences_and_interpolation() -> None:
    check(difference_cases())


def test_windows_and_others() -> None:
    check(window_cases())


def test_interp_prolongs_on_request() -> None:
    x, xp, fp = jnp.array([-1.0, 5.0]), jnp.array([0.0, 1.0, 2.0]), jnp.array([0.0, 10.0, 40.0])
    found = jnp.interp(x, xp, fp, left="extrapolate", right="extrapolate")
    np.testing.assert_allclose(np.asarray(found), [-10.0, 130.0], rtol=1e-6)


def test_empty_quantiles_are_nan() -> None:
    assert np.isnan(float(jnp.median(jnp.zeros(0))))
    assert jnp.quantile(jnp.zeros((0, 3)), jnp.array([0.5]), axis=1).shape == (1, 0)
    assert np.isnan(float(jnp.nanmedian(jnp.array([np.nan]))))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: jnp.average(M, weights=jnp.ones(3)), ValueError, "Axis must be specified"),
        (
            lambda: jnp.average(M, axis=0, weights=jnp.ones(4)),
            ValueError,
            "Shape of weights must be consistent",
        ),
        (lambda: jnp.quantile(M, 0.5, method="weibull"), ValueError, "method can only be"),
        (lambda: jnp.quantile(M, jnp.ones((2, 2))), ValueError, "rank <= 1"),
        (lambda: jnp.quantile(M, 0.5, overwrite_input=True), ValueError, "overwrite_input"),
        (
            lambda: jnp.quantile(M, 0.5, weights=M),
            NotImplementedError,
            "linear doesn't support weights",
        ),
        (lambda: jnp.median(COMPLEX), ValueError, "does not support complex input"),
        (lambda: jnp.cov(X), ValueError, "more than 2 dimensions"),
        (lambda: jnp.cov(M, fweights=jnp.ones(4)), TypeError, "fweights must be integer"),
        (
            lambda: jnp.cov(M, fweights=jnp.arange(3)),
            RuntimeError,
            "incompatible numbers of samples and fweights",
        ),
        (lambda: jnp.bincount(jnp.ones(2)), TypeError, "must have an integer type; got float32"),
        (lambda: jnp.bincount(INTS), ValueError, "only 1-dimensional input supported"),
        (
            lambda: jnp.bincount(jnp.arange(2), jnp.ones(3)),
            ValueError,
            "shape of weights must match",
        ),
        (lambda: xpr.jit(jnp.bincount)(jnp.arange(2)), TypeError, "give `length`"),
        (lambda: jnp.histogram(X, bins="auto"), TypeError, "not a rule, got 'auto'"),
        (
            lambda: jnp.histogram(X, weights=M),
            ValueError,
            "weights should have the same shape as a",
        ),
        (lambda: jnp.histogramdd(M, bins=(2, 3)), ValueError, "should be a bin for each dimension"),
        (lambda: jnp.diff(3), ValueError, "at least one dimensional"),
        (lambda: jnp.diff(M, n=-1), ValueError, "order must be non-negative but got -1"),
        (lambda: jnp.gradient(jnp.ones(1)), ValueError, "at least 2 elements are required"),
        (lambda: jnp.gradient(M, 1, 2, 3), ValueError, "Invalid number of spacing arguments 3"),
        (lambda: jnp.gradient(M, edge_order=2), NotImplementedError, "'edge_order' argument"),
        (
            lambda: jnp.interp(1.0, jnp.ones(2), jnp.ones(3)),
            ValueError,
            "one-dimensional arrays of equal size",
        ),
        (
            lambda: jnp.interp(1j, jnp.ones(2), jnp.ones(2)),
            ValueError,
            "complex x values not supported",
        ),
        (
            lambda: jnp.interp(1.0, jnp.ones(2), jnp.ones(2), left="foo"),
            ValueError,
            "'extrapolate', but got: 'foo'",
        ),
        (lambda: jnp.unwrap(COMPLEX), ValueError, "does not support complex"),
        (lambda: jnp.hanning(-1), ValueError, "nonnegative, got -1"),
        (lambda: jnp.histogram(M, bins=0), ValueError, "at least one bin, got bins=0"),
        (lambda: jnp.sort(M, axis=1.5), TypeError, "an axis must be an integer, got 1.5"),
        (lambda: jnp.ix_(M), ValueError, "must be 1-dimensional"),
        (lambda: jnp.ix_(jnp.array([True])), NotImplementedError, "Boolean arguments"),
        (
            lambda: jnp.apply_over_axes(lambda x, a: x.ravel(), jnp.ones((2, 2, 2)), 0),
            ValueError,
            "correct shape",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("shape", "ddof"), [((2, 0), None), ((0,), None), ((2, 3), 3), ((2, 3), 5)]
)
def test_covariance_without_degrees_of_freedom_is_undefined(
    shape: tuple[int, ...], ddof: int | None
) -> None:
    x = np.ones(shape, "f4")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.cov(x, ddof=ddof)
    assert np.isnan(expected).all()
    np.testing.assert_array_equal(jnp.cov(x, ddof=ddof), expected)
