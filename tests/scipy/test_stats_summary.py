"""Modes, ranks and standard errors, against `scipy.stats`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import xpr
import xpr.numpy as jnp
from xpr.scipy import stats

RNG = np.random.default_rng(3)
INTEGERS = RNG.integers(0, 4, (4, 3, 5)).astype(np.int32)
FLOATS = np.round(RNG.standard_normal((6, 4)), 1).astype(np.float32)
SAMPLES = [INTEGERS, FLOATS, INTEGERS[0, 0] > 1, INTEGERS[0, 0].astype(np.uint8)]
SAMPLES += [np.array([1.0, np.inf, -np.inf, 1.0], np.float32), np.ones((3, 1), np.float32)]
METHODS = ["average", "min", "max", "dense", "ordinal"]


def axes(x: np.ndarray) -> list[int | None]:
    return [None, *range(x.ndim), -1]


def in_one_program(calls):
    """The results of all calls, outside and inside `jit`."""
    return [call() for call in calls], xpr.jit(lambda: [call() for call in calls])()


def test_mode() -> None:
    cases = [(x, a, k) for x in SAMPLES for a in axes(x) for k in (False, True)]
    calls = [lambda x=x, a=a, k=k: stats.mode(jnp.asarray(x), a, keepdims=k) for x, a, k in cases]
    for results in in_one_program(calls):
        for (x, a, k), found in zip(cases, results, strict=True):
            # SciPy has no mode of booleans.
            wanted = scipy.stats.mode(x.astype(np.int8) if x.dtype == bool else x, a, keepdims=k)
            np.testing.assert_array_equal(found.mode, wanted.mode)
            np.testing.assert_array_equal(found.count, wanted.count)
            assert found.mode.dtype == x.dtype
            assert found.count.dtype == np.int32


def test_mode_of_nothing_and_of_nans() -> None:
    for shape, axis, result in (((0,), 0, ()), ((0, 3), 0, (3,)), ((2, 0), 1, (2,))):
        found = stats.mode(jnp.zeros(shape, jnp.int32), axis)
        np.testing.assert_array_equal(found.mode, np.full(result, np.nan))
        np.testing.assert_array_equal(found.count, np.zeros(result))
    assert stats.mode(jnp.zeros((0, 3)), 1).mode.shape == (0,)
    nan = np.nan
    found = stats.mode(jnp.array([[1.0, nan, nan], [nan, 2.0, 2.0]]), axis=1)
    np.testing.assert_array_equal(found.mode, [nan, 2.0])
    np.testing.assert_array_equal(found.count, [2, 2])
    assert stats.mode(3.0).mode == 3
    mapped = xpr.vmap(stats.mode)(jnp.asarray(INTEGERS[0]))
    np.testing.assert_array_equal(mapped.mode, stats.mode(INTEGERS[0], 1).mode)


def test_rankdata() -> None:
    cases = [(x, a, m) for x in SAMPLES[:5] for a in axes(x) for m in METHODS]
    calls = [lambda x=x, a=a, m=m: stats.rankdata(jnp.asarray(x), m, axis=a) for x, a, m in cases]
    for results in in_one_program(calls):
        for (x, a, m), found in zip(cases, results, strict=True):
            np.testing.assert_array_equal(found, scipy.stats.rankdata(x, m, axis=a))
            assert found.dtype == np.float32


def test_ranks_of_nothing_of_nans_and_of_numbers() -> None:
    nan = np.nan
    x = jnp.array([[1.0, nan, 0.0], [3.0, 1.0, 1.0]])
    for m in METHODS:
        np.testing.assert_array_equal(stats.rankdata(x, m, axis=1)[0], [nan] * 3)
        np.testing.assert_array_equal(
            stats.rankdata(x, m, axis=1)[1], scipy.stats.rankdata([3.0, 1.0, 1.0], m)
        )
        assert stats.rankdata(jnp.zeros((2, 0)), m, axis=1).shape == (2, 0)
        assert stats.rankdata(jnp.zeros((0, 3)), m, axis=0).shape == (0, 3)
        np.testing.assert_array_equal(stats.rankdata(5, m), [1.0])
    np.testing.assert_array_equal(stats.rankdata(jnp.array([1 + 1j, 0, 1])), [3.0, 1.0, 2.0])
    with xpr.enable_x64(True):
        assert stats.rankdata(np.array([2, 1])).dtype == np.float64


def test_sem() -> None:
    x = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    holes = np.where(x > 1, np.float32(np.nan), x)
    cases = [
        (given, axis, ddof, policy, keep)
        for given, policy in ((x, "propagate"), (holes, "propagate"), (holes, "omit"))
        for axis in (None, 0, -1)
        for ddof in (0, 1)
        for keep in (False, True)
    ]
    calls = [
        lambda x=x, a=a, d=d, p=p, k=k: stats.sem(jnp.asarray(x), a, d, p, keepdims=k)
        for x, a, d, p, k in cases
    ]
    for results in in_one_program(calls):
        for (given, a, d, p, k), found in zip(cases, results, strict=True):
            wanted = scipy.stats.sem(given, a, d, p, keepdims=k)
            np.testing.assert_allclose(found, wanted, 1e-5)
            assert found.dtype == np.float32
    np.testing.assert_allclose(stats.sem(np.array([1, 2, 4])), scipy.stats.sem([1, 2, 4]), 1e-6)
    assert np.isnan(stats.sem(jnp.ones(1)))
    assert stats.sem(jnp.ones(4, jnp.float16)).dtype == np.float16
    assert stats.sem(jnp.array([1, 2j])).dtype == np.complex64


def test_refusals() -> None:
    x = jnp.arange(3.0)
    with pytest.raises(ValueError, match="Illegal nan_policy value 'x'"):
        stats.mode(x, nan_policy="x")
    with pytest.raises(NotImplementedError, match="`nan_policy` of omit is not implemented"):
        stats.rankdata(x, nan_policy="omit")
    with pytest.raises(ValueError, match="raise is not supported"):
        stats.sem(x, nan_policy="raise")
    with pytest.raises(ValueError, match="unknown method 'foo'"):
        stats.rankdata(x, "foo")
    with pytest.raises(ValueError, match="axis 3 is out of bounds"):
        stats.mode(x, 3)
    with pytest.raises(TypeError, match="rankdata requires ndarray or scalar arguments"):
        stats.rankdata([1, 2])
