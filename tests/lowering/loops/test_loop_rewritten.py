"""Random bits, sorts, factors of matrices and float counters inside of loops in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import xpr
import xpr.numpy as xnp
from xpr import lax, random
from xpr.core.config import override


@pytest.fixture(autouse=True)
def _wide() -> Any:
    with override("enable_x64", True), override("enable_checks", True):
        yield


def _looped(f: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
    """The results of `f` in the second step of a loop that carries an array, in one dispatch."""

    def program(*args: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            out = f(*args)
            return carry.at[1].add(1.0), out if isinstance(out, tuple) else (out,)

        # So long that it does not stay in registers.
        carry, ys = lax.scan(step, xnp.zeros(5000), None, length=2)
        return [carry[1], *(y[1] for y in ys)]

    jitted = xpr.jit(program)
    assert "stablehlo.while" not in jitted.lower(*args).as_text("iree")
    rounds, *found = jitted(*args)
    assert rounds == 2.0
    return [np.asarray(y) for y in found]


def test_random_bits_are_those_outside_of_loops():
    key = xpr.random.PRNGKey(7)

    def draw(key: Any) -> Any:
        one, two = xpr.random.split(key)
        return (
            xpr.random.bits(xpr.random.fold_in(one, 3), (5,)),
            xpr.random.normal(two, (4, 3)),
            xpr.random.bits(two, (3,), "uint64"),
            xpr.random.bits(two, (3,), "uint8"),
        )

    with xpr.disable_jit():
        wanted = draw(key)
    found = _looped(draw, key)
    for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
        if k == 1:
            np.testing.assert_allclose(x, y, rtol=1e-12)
        else:
            np.testing.assert_array_equal(x, y)


def test_sorts_are_stable_and_put_nan_last():
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (6, 9)).astype(float)
    x[1, 2] = x[3, 5] = np.nan
    x[0, :3] = -np.inf, np.inf, -0.0

    def f(x: Any) -> Any:
        numbers = lax.broadcasted_iota(np.int32, x.shape, 0)
        keys, places = lax.sort((x, numbers), dimension=0, num_keys=1)
        return xnp.sort(x, axis=1), keys, places, xnp.argsort(x[0])

    found = _looped(f, x)
    wanted = np.sort(x, axis=1), np.sort(x, axis=0), np.argsort(x, 0, kind="stable")
    for a, b in zip(found, (*wanted, np.argsort(x[0], kind="stable")), strict=True):
        np.testing.assert_array_equal(a, b)


def test_factors_of_small_matrices():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((5, 5)), rng.standard_normal((5, 3))
    s = a @ a.T + np.eye(5)

    def f(a: Any, b: Any, s: Any) -> Any:
        low = xnp.linalg.cholesky(s)
        solve = xpr.scipy.linalg.solve_triangular
        return xnp.linalg.solve(a, b), low, solve(low, b, lower=True), xnp.linalg.inv(a)

    found = _looped(f, a, b, s)
    low = np.linalg.cholesky(s)
    below = scipy.linalg.solve_triangular(low, b, lower=True)
    for x, y in zip(found, (np.linalg.solve(a, b), low, below, np.linalg.inv(a)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counters_in_floats(dtype: str):
    (found,) = _looped(lambda x: x * xnp.arange(40, dtype=dtype), np.ones(40, dtype))
    np.testing.assert_array_equal(found, np.arange(40, dtype=dtype))


def _shared(n: int):
    """A loop whose body computes `n` values, each from the one before, which it reads twice."""

    def body(_, c):
        x = c.reshape(40, 50)[:, ::-1]
        for _ in range(n):
            x = x * 0.5 + x * x * 0.25
        return x.reshape(20, 2, 50)

    return lambda c: lax.fori_loop(0, 3, body, c)


def test_what_is_read_twice_is_written_once():
    x = np.linspace(0, 1, 2000, dtype="f4").reshape(20, 2, 50)
    lines = [len(xpr.jit(_shared(n)).lower(x).as_text("iree").splitlines()) for n in (15, 30, 60)]
    assert lines[2] - lines[1] <= 3 * (lines[1] - lines[0])
    expected = x.astype("f8")
    for _ in range(3):
        expected = expected[:, :, ::-1]
        for _ in range(15):
            expected = expected * 0.5 + expected * expected * 0.25
    np.testing.assert_allclose(np.asarray(xpr.jit(_shared(15))(x)), expected, rtol=2e-5)


def test_loops_of_random_numbers_are_short():
    """Each of four draws writes its twenty rounds for whole vectors and for the rest, not more."""
    key = random.key(0)
    text = xpr.jit(lambda key: random.gamma(key, np.float32(2), (4, 5))).lower(key).as_text("iree")
    assert "scf.while" in text
    assert len(text.splitlines()) < 4200
