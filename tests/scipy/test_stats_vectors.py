"""Distributions of vectors and kernel density estimates, against `scipy.stats`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import xpr
import xpr.numpy as jnp
from xpr import tree_util
from xpr.scipy import stats
from xpr.test_util import check_grads

RNG = np.random.default_rng(7)
MATRIX = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]])
VECTORS = RNG.standard_normal((5, 3))

# ---- dirichlet and multinomial


def test_dirichlet() -> None:
    alpha = np.array([0.5, 2.0, 3.5])
    x = RNG.dirichlet(alpha, 4).T
    with xpr.enable_x64(True):
        for given in (x, x[:2], x[:, 0]):
            wanted = scipy.stats.dirichlet.logpdf(given, alpha)
            np.testing.assert_allclose(stats.dirichlet.logpdf(given, alpha), wanted, 1e-12)
        np.testing.assert_allclose(
            xpr.jit(stats.dirichlet.pdf)(x, alpha), scipy.stats.dirichlet.pdf(x, alpha), 1e-10
        )
        check_grads(lambda x, a: stats.dirichlet.logpdf(x, a), (x[:2, 0], alpha), 1)
    found = stats.dirichlet.logpdf(np.float32([0.2, 0.3, 0.5]), np.array([1, 2, 3]))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.log(4.5), 1e-5)


def test_dirichlet_outside_and_invalid() -> None:
    alpha = np.array([1.0, 2.0, 3.0])
    outside = np.array([[0.2, 0.3, 0.6], [0.0, 0.5, 0.5], [-0.1, 0.5, 0.6]]).T
    np.testing.assert_array_equal(stats.dirichlet.logpdf(outside, alpha), -np.inf)
    np.testing.assert_array_equal(stats.dirichlet.pdf(outside, alpha), 0)
    inside = np.array([0.2, 0.3, 0.5])
    assert np.isnan(stats.dirichlet.logpdf(inside, np.array([-1.0, 2.0, 3.0])))
    slopes = xpr.grad(lambda a: stats.dirichlet.logpdf(outside[:, 2], a))(alpha)
    np.testing.assert_array_equal(slopes, 0)
    with pytest.raises(ValueError, match=r"`alpha` must be one-dimensional; got .*\(3, 1\)"):
        stats.dirichlet.logpdf(inside, alpha[:, None])
    with pytest.raises(ValueError, match=r"one entry fewer; got x.shape=\(3,\), alpha.shape=\(2"):
        stats.dirichlet.logpdf(inside, alpha[:2])


def test_multinomial() -> None:
    x = np.array([[1, 2, 3], [6, 0, 0], [0, 0, 6], [1, 2, 4], [-1, 4, 3], [0, 6, 0]])
    p = np.array([0.2, 0.3, 0.5])
    q = np.array([0.0, 0.25, 0.75])
    with xpr.enable_x64(True):
        for chances in (p, q):
            with np.errstate(invalid="ignore"):
                wanted = scipy.stats.multinomial.logpmf(x, 6, chances)
            np.testing.assert_allclose(stats.multinomial.logpmf(x, 6, chances), wanted, 1e-12)
        found = xpr.jit(stats.multinomial.pmf)(x[:, None], np.array([6, 7]), p)
        wanted = scipy.stats.multinomial.pmf(x[:, None], np.array([6, 7]), p)
        np.testing.assert_allclose(found, wanted, 1e-10)
        check_grads(lambda p: stats.multinomial.logpmf(x[0], 6, p), (p,), 1)
    slopes = xpr.grad(lambda p: stats.multinomial.logpmf(x[3], 6, p))(p)
    np.testing.assert_array_equal(slopes, 0)
    with pytest.raises(ValueError, match=r"x and n must be of integer type; got x\.dtype=float"):
        stats.multinomial.logpmf(np.ones(3), 3, p)


# ---- normal vectors


def test_multivariate_normal() -> None:
    mean = np.array([0.5, -1.0, 2.0])
    normal = stats.multivariate_normal
    with xpr.enable_x64(True):
        for x in (VECTORS, VECTORS[0], VECTORS.reshape(5, 1, 3)):
            wanted = scipy.stats.multivariate_normal.logpdf(x, mean, MATRIX)
            found = normal.logpdf(x, mean, MATRIX)
            np.testing.assert_allclose(np.squeeze(found), wanted, 1e-12)
            assert found.shape == x.shape[:-1]
        found = xpr.jit(normal.pdf)(VECTORS, mean, MATRIX)
        wanted = scipy.stats.multivariate_normal.pdf(VECTORS, mean, MATRIX)
        np.testing.assert_allclose(found, wanted, 1e-10)
        found = normal.logpdf(VECTORS, mean, 2.0)
        wanted = scipy.stats.multivariate_normal.logpdf(VECTORS, mean, 2.0)
        np.testing.assert_allclose(found, wanted, 1e-12)
        check_grads(normal.logpdf, (VECTORS, mean, MATRIX), 1)
    np.testing.assert_allclose(normal.logpdf(1, 0, 4), -0.125 - np.log(8 * np.pi) / 2, 1e-6)


def test_batches_of_normal_distributions() -> None:
    means = RNG.standard_normal((2, 1, 3))
    matrices = np.stack([MATRIX, 2 * MATRIX])
    wanted = np.stack(
        [
            scipy.stats.multivariate_normal.logpdf(VECTORS, m[0], c)
            for m, c in zip(means, matrices, strict=True)
        ]
    )
    found = stats.multivariate_normal.logpdf(VECTORS, means, matrices[:, None])
    np.testing.assert_allclose(found, wanted, 1e-5)
    mapped = xpr.vmap(stats.multivariate_normal.logpdf, (None, 0, 0))
    np.testing.assert_allclose(mapped(VECTORS, means[:, 0], matrices), wanted, 1e-5)


def test_multivariate_normal_refuses() -> None:
    normal, x = stats.multivariate_normal, jnp.ones((4, 2))
    assert np.isnan(normal.logpdf(x[0], jnp.zeros(2), -jnp.eye(2)))
    with pytest.raises(ValueError, match="got incompatible shapes"):
        normal.logpdf(x, jnp.zeros(2), jnp.eye(3))
    with pytest.raises(ValueError, match="got incompatible shapes"):
        normal.logpdf(x, jnp.zeros(2), jnp.ones(2))
    with pytest.raises(NotImplementedError, match="allow_singular"):
        normal.logpdf(x, jnp.zeros(2), jnp.eye(2), allow_singular=True)


# ---- kernel density estimates

SAMPLES = RNG.standard_normal(9)
PAIRS = RNG.standard_normal((2, 9)) * np.array([[1.0], [3.0]])
WEIGHTS = RNG.random(9) + 0.1


@pytest.mark.parametrize("samples", [SAMPLES, PAIRS], ids=["numbers", "vectors"])
@pytest.mark.parametrize("method", [None, "scott", "silverman", 0.3, lambda kde: 0.7])
def test_kde_agrees_with_scipy(samples, method) -> None:
    d = np.atleast_2d(samples).shape[0]
    points = RNG.standard_normal((d, 4))
    with xpr.enable_x64(True):
        for weights in (None, WEIGHTS):
            a = stats.gaussian_kde(samples, method, weights)
            b = scipy.stats.gaussian_kde(samples, method, weights)
            assert (a.d, a.n) == (b.d, b.n)
            for name in ("neff", "dataset", "weights", "covariance", "inv_cov"):
                np.testing.assert_allclose(getattr(a, name), getattr(b, name), 1e-11, err_msg=name)
            np.testing.assert_allclose(a(points), b(points), 1e-11)
            np.testing.assert_allclose(a.pdf(points[:, 0]), b.pdf(points[:, 0]), 1e-11)
            np.testing.assert_allclose(a.logpdf(100 * points), b.logpdf(100 * points), 1e-11)
            mean, matrix = points[:, 1], np.eye(d) + 0.2
            np.testing.assert_allclose(
                a.integrate_gaussian(mean, matrix), b.integrate_gaussian(mean, matrix), 1e-11
            )
            np.testing.assert_allclose(
                a.integrate_kde(stats.gaussian_kde(samples)),
                b.integrate_kde(scipy.stats.gaussian_kde(samples)),
                1e-11,
            )
            if d == 1:
                found = [a.integrate_box_1d(lo, hi) for lo, hi in ((-1, 0.5), (-np.inf, np.inf))]
                wanted = [b.integrate_box_1d(-1, 0.5), 1.0]
                np.testing.assert_allclose(found, wanted, 1e-11)


def test_kde_is_a_pytree() -> None:
    kde = stats.gaussian_kde(PAIRS.astype(np.float32), weights=WEIGHTS)
    leaves, tree = tree_util.tree_flatten(kde)
    assert [x.shape for x in leaves] == [(), (2, 9), (9,), (2, 2), (2, 2)]
    again = tree_util.tree_unflatten(tree, leaves)
    points = np.zeros((2, 3), np.float32)
    wanted = kde.evaluate(points)
    np.testing.assert_array_equal(again(points), wanted)
    assert repr(kde).startswith("gaussian_kde(neff=Array(")

    @xpr.jit
    def program(kde, samples):
        own = stats.gaussian_kde(samples)
        return kde.logpdf(points), own.integrate_kde(own), kde.resample(xpr.random.key(1), (4,))

    found = program(kde, PAIRS.astype(np.float32))
    np.testing.assert_allclose(found[0], np.log(wanted), 1e-5)
    np.testing.assert_allclose(
        found[1],
        scipy.stats.gaussian_kde(PAIRS).integrate_kde(scipy.stats.gaussian_kde(PAIRS)),
        1e-5,
    )
    np.testing.assert_allclose(found[2], kde.resample(xpr.random.key(1), (4,)), 1e-4, 1e-5)


def test_kde_derivatives() -> None:
    with xpr.enable_x64(True):
        check_grads(lambda s, x: stats.gaussian_kde(s).logpdf(x), (PAIRS, PAIRS[:, :3] + 0.1), 1)


def test_kde_resampling() -> None:
    key = xpr.random.key(0)
    # JAX 0.10.2's numbers.
    kde = stats.gaussian_kde(np.array([1.0, 2.0, 4.0, 7.0]))
    wanted = [[-3.897378921508789, 2.918247699737549, 7.412137508392334]]
    np.testing.assert_allclose(kde.resample(key, (3,)), wanted, 1e-5)
    pairs = stats.gaussian_kde(PAIRS, 0.1, WEIGHTS)
    drawn = pairs.resample(key, (1000, 20))
    assert drawn.shape == (2, 1000, 20)
    assert pairs.resample(key).shape == (2,)
    mean = PAIRS @ (WEIGHTS / WEIGHTS.sum())
    np.testing.assert_allclose(drawn.mean((1, 2)), mean, atol=0.1)


def test_kde_refuses() -> None:
    numbers, pairs = stats.gaussian_kde(SAMPLES), stats.gaussian_kde(PAIRS)
    refusals = [
        (lambda: stats.gaussian_kde(np.ones(1)), "should have multiple elements"),
        (lambda: stats.gaussian_kde(np.ones((2, 3, 4))), r"should be \[n\] or \[d, n\], got shape"),
        (lambda: stats.gaussian_kde(SAMPLES, "foo"), "should be 'scott', 'silverman', a scalar"),
        (lambda: stats.gaussian_kde(SAMPLES, weights=np.ones(3)), "should be of length n"),
        (lambda: stats.gaussian_kde(SAMPLES, weights=np.ones((3, 3))), "be one-dimensional"),
        (lambda: pairs(np.ones(3)), "points have dimension 1, dataset has dimension 2"),
        (lambda: pairs(np.ones((3, 2))), "points have dimension 3, dataset has dimension 2"),
        (lambda: pairs(np.ones((1, 2, 2))), r"points should be \[m\] or \[d, m\]"),
        (lambda: pairs.integrate_gaussian(np.zeros(1), np.eye(2)), "mean does not have dimension"),
        (lambda: pairs.integrate_gaussian(np.zeros(2), np.eye(3)), "covariance does not have"),
        (lambda: pairs.integrate_box_1d(0, 1), "only handles 1D pdfs"),
        (lambda: numbers.integrate_box_1d(np.zeros(2), 1), "must be scalars"),
        (lambda: numbers.integrate_kde(pairs), "not the same dimensionality"),
    ]
    for call, text in refusals:
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(NotImplementedError, match="complex data"):
        stats.gaussian_kde(np.array([1, 2j]))
    with pytest.raises(NotImplementedError, match="complex coordinates"):
        numbers(np.array([1j]))
    with pytest.raises(NotImplementedError, match="use `integrate_box_1d`"):
        numbers.integrate_box(0, 1)
    with pytest.raises(NotImplementedError, match="dynamically changing the bandwidth"):
        numbers.set_bandwidth()
