"""What samplers refuse, how results depend on their arguments, derivatives, large draws."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from xpr import random as r

_KEY = r.key(0)

# The public names of `jax.random` 0.10, a name a line.
SURFACE = Path(__file__).with_name("surface.txt")

_BAD_ARGUMENTS: list[tuple[str, Any, type[Exception], str]] = [
    # keys
    ("raw key of another dtype", lambda: r.normal(jnp.arange(2)), TypeError, "key.*uint32"),
    (
        "raw key of another shape",
        lambda: r.normal(np.zeros(3, np.uint32)),
        TypeError,
        "end with .2",
    ),
    ("scalar key", lambda: r.bits(np.uint32(3)), TypeError, "key"),
    ("seed for a key", lambda: r.uniform(3), TypeError, "invalid PRNG key.*uniform requires a key"),
    ("text for a key", lambda: r.split("a"), TypeError, "invalid PRNG key.*split requires a key"),
    ("list for a key", lambda: r.fold_in([0, 1], 2), TypeError, "fold_in requires a key"),
    ("no key", lambda: r.permutation(None, 3), TypeError, "permutation requires a key"),
    ("raw keys", lambda: r.normal(np.zeros((3, 2), np.uint32)), ValueError, r"key.*\(3,\).*vmap"),
    ("typed keys", lambda: r.split(r.split(_KEY, 3)), ValueError, r"split.*\(3,\).*vmap"),
    ("one key mapped over", lambda: xpr.vmap(r.bits)(_KEY), ValueError, "rank should be"),
    # seeds
    ("float seed", lambda: r.key(1.5), TypeError, "PRNG key seed must be an integer.*key"),
    ("text seed", lambda: r.PRNGKey("a"), TypeError, "PRNG key seed must be an integer.*PRNGKey"),
    ("seeds", lambda: r.key(jnp.arange(3)), TypeError, r"seed.*\(3,\)"),
    ("large seed", lambda: r.key(2**64), OverflowError, "seed.*64 bits"),
    ("key for a seed", lambda: r.key(_KEY), TypeError, "key accepts a scalar seed"),
    ("unknown generator", lambda: r.key(0, impl="foo"), ValueError, '"foo".*threefry2x32'),
    ("generator not here", lambda: r.key(0, impl="philox2x32"), NotImplementedError, "philox"),
    ("no generator", lambda: r.key_dtype(3), TypeError, "impl"),
    (
        "generator twice",
        lambda: r.key(0, impl="threefry2x32", dtype=_KEY.dtype),
        ValueError,
        "impl or dtype",
    ),
    # making keys
    ("data of another dtype", lambda: r.wrap_key_data(jnp.arange(2)), TypeError, "int32"),
    (
        "data of another shape",
        lambda: r.wrap_key_data(np.zeros(3, np.uint32)),
        TypeError,
        r"key_data.shape to end with .*got shape=\(3,\) \(wrap_key_data",
    ),
    ("typed data", lambda: r.wrap_key_data(_KEY), TypeError, "typed keys"),
    ("negative split", lambda: r.split(_KEY, -1), ValueError, "num.*-1"),
    ("float split", lambda: r.split(_KEY, 2.5), TypeError, "2.5"),
    ("negative number", lambda: r.fold_in(_KEY, -1), OverflowError, "data.*-1"),
    ("numbers", lambda: r.fold_in(_KEY, jnp.arange(2)), TypeError, r"scalar.*\(2,\)"),
    ("text folded in", lambda: r.fold_in(_KEY, "a"), TypeError, "data.*str"),
    # dtypes
    ("bits of floats", lambda: r.bits(_KEY, (), "float32"), ValueError, "`bits`.*float32"),
    ("signed bits", lambda: r.bits(_KEY, (), "int32"), ValueError, "`bits`.*unsigned int.*int32"),
    ("uniform int", lambda: r.uniform(_KEY, (), "int32"), ValueError, "`uniform`.*float.*int32"),
    ("normal int", lambda: r.normal(_KEY, (), int), ValueError, "`normal`.*complex.*int32"),
    ("gamma int", lambda: r.gamma(_KEY, 1.0, (), int), ValueError, "`gamma`.*float.*int32"),
    ("poisson float", lambda: r.poisson(_KEY, 1.0, (), float), ValueError, "`poisson`.*int"),
    ("randint float", lambda: r.randint(_KEY, (), 0, 2, float), TypeError, "randint.*integer"),
    ("complex bound", lambda: r.randint(_KEY, (), 0, 2j), TypeError, "maxval.*complex64"),
    ("8-bit float", lambda: r.uniform(_KEY, (), jnp.float8_e5m2), TypeError, "float8_e5m2"),
    # shapes
    ("negative size", lambda: r.normal(_KEY, (2, -1)), TypeError, r"\(2, -1\): normal"),
    ("float shape", lambda: r.normal(_KEY, 2.5), TypeError, "2.5"),
    ("wide minval", lambda: r.uniform(_KEY, (3,), minval=np.zeros((2, 3))), ValueError, "uniform"),
    ("wide bound", lambda: r.randint(_KEY, (3,), 0, np.ones((2, 3), int)), ValueError, "randint"),
    ("wide p", lambda: r.bernoulli(_KEY, np.ones((2, 3)), (3,)), ValueError, r"\(2, 3\)"),
    ("wide a", lambda: r.gamma(_KEY, np.ones(3), (2,)), ValueError, "gamma.*shape"),
    ("two shapes", lambda: r.beta(_KEY, np.ones(3), np.ones(2)), ValueError, "broadcast"),
    ("scalar alpha", lambda: r.dirichlet(_KEY, 2.0), ValueError, "alpha.ndim"),
    ("scalar probabilities", lambda: r.multinomial(_KEY, 3, 0.5), ValueError, "p.ndim"),
    # probabilities and modes
    ("integer p", lambda: r.bernoulli(_KEY, 1), TypeError, "`p`.*int32"),
    ("coin mode", lambda: r.bernoulli(_KEY, 0.5, mode="x"), ValueError, "mode.*'x'"),
    ("Gumbel mode", lambda: r.gumbel(_KEY, mode="x"), ValueError, "valid mode for gumbel got: x"),
    ("p too short", lambda: r.choice(_KEY, 5, p=np.ones(4)), ValueError, r"p has shape \(4,\)"),
    # choosing
    ("too many", lambda: r.choice(_KEY, 3, (5,), replace=False), ValueError, "size 5.*size 3"),
    ("of nothing", lambda: r.choice(_KEY, 0, (5,)), ValueError, "a must be greater than 0"),
    ("of a float", lambda: r.choice(_KEY, 1.5), TypeError, "a must be an integer.*float32"),
    ("shape of choice", lambda: r.choice(_KEY, 3, 5), TypeError, "shape to be a sequence"),
    ("float to permute", lambda: r.permutation(_KEY, 1.5), TypeError, "x must be an integer"),
    ("list to permute", lambda: r.permutation(_KEY, [1, 2]), TypeError, "permutation"),
    ("axis", lambda: r.permutation(_KEY, jnp.arange(5), axis=3), ValueError, "axis 3"),
    (
        "categories",
        lambda: r.categorical(_KEY, np.zeros((3, 4), np.float32), shape=(5,)),
        ValueError,
        "categorical",
    ),
    (
        "too many categories",
        lambda: r.categorical(_KEY, np.zeros(4, np.float32), shape=(5,), replace=False),
        ValueError,
        r"\(5, .*\(4, ",
    ),
    ("integer logits", lambda: r.categorical(_KEY, np.zeros(4, int)), ValueError, "int32.*logits"),
    # matrices
    (
        "method",
        lambda: r.multivariate_normal(_KEY, np.ones(2), np.eye(2), method="lu"),
        ValueError,
        "method.*'lu'",
    ),
    (
        "covariance",
        lambda: r.multivariate_normal(_KEY, np.ones(2), np.eye(3)),
        ValueError,
        r"cov.shape == \(3, 3\)",
    ),
    ("scalar mean", lambda: r.multivariate_normal(_KEY, 0.0, np.eye(3)), ValueError, "mean.ndim"),
    ("vector cov", lambda: r.multivariate_normal(_KEY, np.ones(2), np.ones(2)), ValueError, "cov"),
    # placement
    ("sharding", lambda: r.normal(_KEY, (2,), out_sharding=1), TypeError, "normal"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [pytest.param(*row[1:], id=row[0]) for row in _BAD_ARGUMENTS]
)
def test_bad_arguments_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_traced_sizes_are_refused() -> None:
    with pytest.raises(TypeError, match="x"):
        xpr.jit(lambda n: r.permutation(_KEY, n))(3)
    with pytest.raises(TypeError, match="Shapes must be"):
        xpr.jit(lambda n: r.normal(_KEY, (n,)))(3)


def test_names_are_those_of_jax() -> None:
    here = {n for n, v in vars(r).items() if not n.startswith("_") and callable(v)}
    assert here == set(SURFACE.read_text().split())
    for name in here:
        assert inspect.getdoc(getattr(r, name)), name


def test_64_bit_types_need_their_setting() -> None:
    with pytest.warns(UserWarning, match="float64.*normal"):
        assert r.normal(_KEY, (2,), "float64").dtype == np.float32


@pytest.mark.parametrize("name", ["bits", "uniform", "normal", "exponential", "rademacher"])
def test_a_large_draw_begins_as_a_small_one(name: str) -> None:
    # Small draws are made in NumPy, large ones compiled; elements depend on their place alone.
    small = np.asarray(getattr(r, name)(_KEY, (1000,)))
    large = np.asarray(getattr(r, name)(_KEY, (70_000,)))
    np.testing.assert_allclose(large[:1000], small, rtol=1e-5, atol=1e-6)
    if small.dtype.kind in "iu" or name == "uniform":
        np.testing.assert_array_equal(large[:1000], small)


def test_large_permutation_and_choice() -> None:
    n = 70_000
    order = np.asarray(r.permutation(_KEY, n))
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    traced = xpr.jit(lambda k: r.permutation(k, n))(_KEY)
    np.testing.assert_array_equal(order, traced)
    assert r.choice(_KEY, 10, (n,)).shape == (n,)
    table = np.arange(2 * n).reshape(n, 2)
    rows = np.asarray(r.permutation(_KEY, table))
    np.testing.assert_array_equal(rows[:, 0] // 2, order)


def test_bounds_are_respected() -> None:
    x = np.asarray(r.uniform(_KEY, (10_000,), minval=1.0, maxval=np.nextafter(1, 2, dtype="f4")))
    assert set(x.tolist()) <= {1.0, float(np.nextafter(np.float32(1), np.float32(2)))}
    y = np.asarray(r.truncated_normal(_KEY, 3.0, 3.5, (10_000,)))
    assert y.min() > 3.0
    assert y.max() < 3.5
    assert np.isfinite(np.asarray(r.normal(_KEY, (60_000,), "float16"))).all()
    assert np.all(np.asarray(r.randint(_KEY, (1000,), 5, 6)) == 5)


@pytest.mark.parametrize(
    ("sampler", "point"),
    [
        pytest.param(lambda k, a: r.gamma(k, a, (6,)), 2.3, id="gamma"),
        pytest.param(lambda k, a: r.gamma(k, a, (6,)), 0.6, id="gamma-small"),
        pytest.param(lambda k, a: r.loggamma(k, a, (6,)), 0.6, id="loggamma"),
        pytest.param(lambda k, a: r.beta(k, a, 2.0, (6,)), 1.5, id="beta"),
        pytest.param(lambda k, a: r.t(k, a, (6,)), 3.5, id="t"),
    ],
)
def test_derivatives_by_parameters_keep_the_distribution_function(sampler: Any, point: Any) -> None:
    # d/da E[g(x)] = E[g'(x) dx/da]: the mean of the derivative is that of the mean.
    with xpr.enable_x64(True):
        value, tangent = xpr.jvp(lambda a: sampler(_KEY, a), (point,), (1.0,))
        reverse = xpr.grad(lambda a: sampler(_KEY, a).sum())(point)
    assert value.shape == tangent.shape == (6,)
    np.testing.assert_allclose(float(tangent.sum()), float(reverse), rtol=1e-10)


def test_mean_of_gamma_has_derivative_one() -> None:
    _, tangent = xpr.jvp(lambda a: r.gamma(_KEY, a, (20_000,)), (2.5,), (1.0,))
    assert abs(float(tangent.mean()) - 1) < 0.02


def test_derivative_of_uniform_by_its_bounds() -> None:
    u = np.asarray(r.uniform(_KEY, (5,)))
    _, tangent = xpr.jvp(lambda b: r.uniform(_KEY, (5,), minval=0.0, maxval=b), (2.0,), (1.0,))
    np.testing.assert_allclose(tangent, u, rtol=1e-6)


def test_vectors_and_matrices() -> None:
    mean, root = np.float32([1, -2]), np.float32([[2, 0], [0.5, 1]])
    numbers = np.asarray(r.normal(_KEY, (5, 2)))
    found = r.multivariate_normal(_KEY, mean, root @ root.T, (5,))
    np.testing.assert_allclose(found, mean + numbers @ root.T, rtol=1e-5, atol=1e-5)
    for method in ("eigh", "svd"):
        found = r.multivariate_normal(_KEY, mean, root @ root.T, (5,), method=method)
        # The factor of the covariance is that of the vectors by their numbers.
        factor = np.linalg.lstsq(numbers, np.asarray(found) - mean, rcond=None)[0].T
        np.testing.assert_allclose(factor @ factor.T, root @ root.T, rtol=1e-4, atol=1e-5)
    assert np.isnan(np.asarray(r.multivariate_normal(_KEY, mean, -root @ root.T))).all()
    for n, m in ((3, 3), (2, 4), (4, 2)):
        q = np.asarray(r.orthogonal(_KEY, n, (2,), m=m))
        assert q.shape == (2, n, m)
        product = q @ q.swapaxes(1, 2) if n <= m else q.swapaxes(1, 2) @ q
        np.testing.assert_allclose(product, np.stack([np.eye(min(n, m))] * 2), atol=1e-5)


def test_draws_agree_under_disable_jit() -> None:
    with xpr.disable_jit():
        slow = r.poisson(_KEY, 3.0, (4,)), r.gamma(_KEY, 2.0, (2,))
    np.testing.assert_array_equal(slow[0], r.poisson(_KEY, 3.0, (4,)))
    np.testing.assert_allclose(slow[1], r.gamma(_KEY, 2.0, (2,)), rtol=1e-5)
