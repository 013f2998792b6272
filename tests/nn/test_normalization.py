"""Softmax, sums in logarithms and z-scores against NumPy and SciPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import special

import xpr
from tests.numpy.cases import Case, check, jnp
from xpr.test_util import check_grads

nn: Any = xpr.nn

RNG = np.random.default_rng(3)
X = (RNG.normal(size=(3, 4, 5)) * 3).astype("f4")
MASK = RNG.random((3, 4, 5)) > 0.4
MASK[..., 0] = True
AXES = (-1, 0, 1, (0, 2), (-1,), None)


def _masked(x: Any, mask: Any) -> Any:
    return np.where(mask, x.astype(np.float64), -np.inf)


def _case(name: str, args: Any, expected: Any, dtype: str = "float32", **kwargs: Any) -> Case:
    def call(module: Any, *arrays: Any, **given: Any) -> Any:
        return getattr(nn, name)(*arrays, **given)

    return Case(name, args, kwargs, call, expected, dtype, rtol=3e-6, atol=1e-6)


def _with_mask(name: str, x: Any, axis: Any, expected: Any) -> Case:
    def call(module: Any, v: Any, mask: Any) -> Any:
        return getattr(nn, name)(v, axis=axis, where=mask)

    return Case(name, (x, MASK), {}, call, expected, "float32", rtol=3e-6, atol=1e-6)


def _log_mean(x: Any, axis: Any, mask: Any = True) -> Any:
    count = np.sum(np.broadcast_to(mask, x.shape), axis)
    return special.logsumexp(_masked(x, mask), axis) - np.log(count)


def _standard(x: Any, axis: Any, mask: Any = True) -> Any:
    x = x.astype(np.float64)
    mean = x.mean(axis, keepdims=True, where=mask)
    return (x - mean) / np.sqrt(x.var(axis, keepdims=True, where=mask) + 1e-5)


def test_values() -> None:
    cases = []
    for axis in AXES:
        wide = {"axis": axis}
        cases += [
            _case("softmax", (X,), lambda v, a=axis: special.softmax(v.astype("f8"), a), **wide),
            _case("log_softmax", (X,), lambda v, a=axis: special.log_softmax(v, a), **wide),
            _case("logsumexp", (X,), lambda v, a=axis: special.logsumexp(v, a), **wide),
            _case("logmeanexp", (X,), lambda v, a=axis: _log_mean(v, a), **wide),
            _case("standardize", (X,), lambda v, a=axis: _standard(v, a), **wide),
            _with_mask("softmax", X, axis, lambda v, m, a=axis: special.softmax(_masked(v, m), a)),
            _with_mask(
                "log_softmax",
                X,
                axis,
                lambda v, m, a=axis: (
                    _masked(v, m) - special.logsumexp(_masked(v, m), a, keepdims=True)
                ),
            ),
            _with_mask(
                "logsumexp", X, axis, lambda v, m, a=axis: special.logsumexp(_masked(v, m), a)
            ),
            _with_mask("logmeanexp", X, axis, lambda v, m, a=axis: _log_mean(v, a, m)),
        ]
    cases += [
        _with_mask("standardize", X, None, lambda v, m: _standard(v, None, m)),
        _case(
            "logsumexp",
            (X,),
            lambda v: special.logsumexp(v, 1, keepdims=True),
            axis=1,
            keepdims=True,
        ),
        _case("logmeanexp", (X,), lambda v: _log_mean(v, 1)[:, None], axis=1, keepdims=True),
        _case("softmax", (np.arange(5, dtype="i4"),), special.softmax),
        _case("logsumexp", (np.arange(5, dtype="i4"),), special.logsumexp),
        _case("softmax", (X.astype("f2") * 0,), lambda v: np.full(v.shape, 0.2), "float16"),
        _case("softmax", (np.zeros((0, 3), "f4"),), lambda v: v),
    ]
    check(cases)


EXTREMES = [
    ([-np.inf, -np.inf], -np.inf, [np.nan, np.nan]),
    ([np.inf, 0], np.inf, [np.nan, np.nan]),
    ([-np.inf, 2], 2, [0, 1]),
    ([np.nan, 0], np.nan, [np.nan, np.nan]),
    ([1e30, -1e30], 1e30, [1, 0]),
    ([3e38, 3e38], 3e38, [0.5, 0.5]),
]


@pytest.mark.parametrize("jitted", [False, True])
def test_extremes(jitted: bool) -> None:
    x = np.array([row for row, _, _ in EXTREMES], "f4")

    def both(v: Any) -> Any:
        return nn.logsumexp(v, 1), nn.softmax(v), nn.log_softmax(v)

    total, soft, log = (xpr.jit(both) if jitted else both)(x)
    np.testing.assert_allclose(total, np.array([t for _, t, _ in EXTREMES], "f4"))
    np.testing.assert_allclose(soft, [s for _, _, s in EXTREMES])
    np.testing.assert_allclose(log[2], [-np.inf, 0])
    np.testing.assert_allclose(log[4], [-2e30, 0][::-1])
    assert nn.logsumexp(np.zeros((0,), "f4")) == -np.inf
    np.testing.assert_array_equal(nn.logsumexp(np.zeros((0, 2), "f4"), 0), [-np.inf] * 2)


def test_where_keeps_nan_out_of_values_and_gradients() -> None:
    x = np.array([np.nan, 1.0, 2.0], "f4")
    where = np.array([False, True, True])
    np.testing.assert_allclose(nn.logsumexp(x, where=where), np.logaddexp(1, 2), rtol=1e-6)
    soft = [0, *special.softmax([1.0, 2.0])]
    np.testing.assert_allclose(nn.softmax(x, where=where), soft, rtol=1e-6)
    np.testing.assert_allclose(xpr.grad(lambda v: nn.logsumexp(v, where=where))(x), soft, rtol=1e-6)
    nothing = np.zeros(3, bool)
    np.testing.assert_array_equal(nn.softmax(x, where=nothing), [0, 0, 0])
    np.testing.assert_array_equal(nn.log_softmax(x, where=nothing), [-np.inf] * 3)
    assert nn.logsumexp(x, where=nothing) == -np.inf
    assert np.isnan(nn.logmeanexp(x, where=nothing))


def test_weights_and_signs() -> None:
    x, b = X[0], RNG.normal(size=(4, 1)).astype("f4")
    b[2] = 0
    value, sign = nn.logsumexp(x, 1, b, return_sign=True)
    e_value, e_sign = special.logsumexp(x.astype("f8"), 1, b.astype("f8"), return_sign=True)
    np.testing.assert_allclose(value, e_value, rtol=1e-6)
    np.testing.assert_array_equal(sign, e_sign)
    np.testing.assert_allclose(
        nn.logsumexp(x, 1, b), np.where(e_sign < 0, np.nan, e_value), rtol=1e-6
    )
    # A weight of 0 takes even an infinite element out.
    assert nn.logsumexp(np.array([np.inf, 1.0], "f4"), b=np.array([0, 1])) == 1
    total = np.log(np.sum(np.exp(x[0] + 0.5j)))
    np.testing.assert_allclose(nn.logsumexp(x[0] + np.complex64(0.5j)), total, rtol=1e-6)


def test_derivatives() -> None:
    with xpr.enable_x64(True):
        x, mask = X[0].astype("f8") / 3, MASK[0]
        # What is left out may leave an axis with one element, and a variance of 0 has no slope.
        tasks = [
            (name, axis, where)
            for name in ("softmax", "logsumexp", "logmeanexp", "standardize")
            for axis in (-1, 0, None, (0, 1))
            for where in ((None,) if name == "standardize" else (None, mask))
        ]
        for name, axis, where in tasks:
            f = partial(getattr(nn, name), axis=axis, where=where)
            check_grads(f, (x,), order=2, rtol=1e-4, atol=1e-4)
        for axis in (-1, 0, None):
            check_grads(lambda v, a=axis: nn.log_softmax(v, a), (x,), order=2)
        check_grads(lambda v, b: nn.logsumexp(v, 1, b), (x, np.abs(x) + 0.1), order=1)
        check_grads(
            lambda v, m, s: nn.standardize(v, 0, m, s, algorithm="stable"),
            (x, x.mean(0), x.var(0)),
            order=1,
        )
    equal = xpr.jit(xpr.grad(nn.logsumexp))(jnp.zeros(4))
    np.testing.assert_allclose(equal, [0.25] * 4)
    np.testing.assert_allclose(xpr.grad(nn.logsumexp)(jnp.array([1.0, -np.inf])), [1, 0])
    assert np.isnan(xpr.grad(nn.logsumexp)(jnp.full(2, -np.inf))).all()
    # The rule of softmax keeps the gradient of a saturated one at 0.
    np.testing.assert_array_equal(
        xpr.grad(lambda v: nn.softmax(v)[0])(jnp.array([200.0, -200.0])), [0, 0]
    )


def test_standardize_with_given_moments() -> None:
    x = X[0]
    found = nn.standardize(x, mean=1.0, variance=4.0, epsilon=0.0)
    np.testing.assert_allclose(found, (x - 1) / 2, rtol=1e-6)
    found = nn.standardize(x, 0, variance=np.full((1, 5), 4.0, "f4"), epsilon=0.0)
    np.testing.assert_allclose(found, (x - x.mean(0)) / 2, rtol=1e-5, atol=1e-6)
    # The quick variance of numbers far from 0 is rounded away; the stable one is not.
    far = (1e4 + np.linspace(-1, 1, 64)).astype("f4")
    expected = (far - far.mean()) / far.std()
    found = nn.standardize(far, epsilon=0.0, algorithm="stable")
    np.testing.assert_allclose(found, expected, atol=1e-2)
    assert nn.standardize(np.arange(4)).dtype == np.float32
    assert nn.standardize(np.arange(4, dtype="f2")).dtype == np.float16


def test_vmap_agrees_with_a_loop() -> None:
    for name in ("softmax", "log_softmax", "logsumexp", "logmeanexp", "standardize"):
        f = getattr(nn, name)
        for axis in (0, None):
            expected = np.stack([np.asarray(f(x, axis)) for x in X])
            found = xpr.vmap(lambda v, f=f, a=axis: f(v, a))(X)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=name)
    soft = xpr.vmap(lambda v, m: nn.softmax(v, where=m))(X, MASK)
    np.testing.assert_allclose(soft, special.softmax(_masked(X, MASK), -1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.softmax(X, 3), ValueError, "axis 3 is out of bounds"),
        (lambda: nn.softmax(1.0), ValueError, "axis -1 is out of bounds"),
        (lambda: nn.log_softmax([1.0]), TypeError, "log_softmax requires ndarray or scalar"),
        (lambda: nn.softmax("a"), TypeError, "softmax requires ndarray or scalar"),
        (lambda: nn.logsumexp(X, (0, 0)), ValueError, "duplicate value in 'axis'"),
        (lambda: nn.standardize(X, mean="a"), TypeError, "standardize requires ndarray"),
        (
            lambda: nn.standardize(X, algorithm="quick"),
            ValueError,
            "algorithm to be 'fast' or 'stable', got 'quick'",
        ),
        (lambda: nn.softmax(X, where=np.ones(3, bool)), ValueError, "ncompatible shapes"),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
