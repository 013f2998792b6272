"""Distributions against `scipy.stats`, over tables of points and parameters, valid and not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.special
import scipy.stats

import xpr
import xpr.numpy as jnp
import xpr.scipy.stats as stats
from tests.scipy.distributions import (
    CONTINUOUS,
    DISCRETE,
    INF,
    NAN,
    Distribution,
)
from xpr.test_util import check_grads

RTOL = {"float64": 1e-10, "float32": 1e-4}
# A logarithm near 0 has the absolute error of the number near 1 that it is of.
ATOL_OF_LOGARITHMS = {"float64": 2e-15, "float32": 1e-6}


def expected(d: Distribution, function: str, dtype: str = "float64") -> np.ndarray:
    """What SciPy says; where it has no answer (NaN from inf - inf), the limit."""
    arguments = [a.astype(dtype).astype(np.float64) for a in d.arguments(function)]
    with np.errstate(all="ignore"):
        found = np.array(getattr(getattr(scipy.stats, d.name), function)(*arguments))
        points, parameters = np.broadcast_arrays(*arguments)[0], arguments[1:]
        # A parameter that makes all NaN is invalid; NaN at infinity alone is a limit.
        lost = np.isinf(points) & np.isnan(found) & ~np.isnan(found).all(axis=0)
    limits = {"pdf": 0.0, "pmf": 0.0, "logpdf": -INF, "logpmf": -INF}
    if function in limits and d.name not in ("vonmises",) and parameters:
        found = np.where(lost, limits[function], found)
    if d.name == "bernoulli" and function == "ppf":
        # Among 0 and 1 alone, unlike SciPy, which says -1 of probability 0.
        q, p = np.broadcast_arrays(*arguments)
        found = np.where(np.isnan(found), NAN, np.where(q <= 1 - p, 0.0, 1.0))
    return found


def check(found: xpr.Array, wanted: np.ndarray, what: str) -> None:
    dtype = found.dtype.name
    assert found.shape == wanted.shape, what
    atol = ATOL_OF_LOGARITHMS[dtype] if ".log" in what else float(np.finfo(dtype).tiny)
    np.testing.assert_allclose(np.asarray(found), wanted, RTOL[dtype], atol, err_msg=what)


@pytest.mark.parametrize("d", CONTINUOUS + DISCRETE, ids=lambda d: d.name)
def test_agrees_with_scipy(d: Distribution) -> None:
    with xpr.enable_x64(True):
        for f in d.functions:
            found = getattr(d.module, f)(*d.arguments(f))
            assert found.dtype == np.float64
            check(found, expected(d, f, found.dtype.name), f"{d.name}.{f}")


def compiled_functions(d: Distribution) -> list[str]:
    """Those that are not the exponential of another one, or another distribution's."""
    skipped = {"pdf", "pmf"}
    if d.name in ("gamma", "beta"):
        skipped |= {"cdf", "sf"}
    if d.name in ("chi2", "truncnorm"):
        skipped |= {"cdf", "sf", "logsf"}
    return [f for f in d.functions if f not in skipped]


@pytest.mark.parametrize("group", [CONTINUOUS[:9], CONTINUOUS[9:], DISCRETE], ids=["a", "b", "c"])
def test_compiled_in_32_bits(group: list[Distribution]) -> None:
    cases = [(d, f) for d in group for f in compiled_functions(d)]
    arguments = [[a.astype(np.float32) for a in d.arguments(f)] for d, f in cases]

    @xpr.jit
    def program(arguments):
        return [getattr(d.module, f)(*a) for (d, f), a in zip(cases, arguments, strict=True)]

    for (d, f), found in zip(cases, program(arguments), strict=True):
        assert found.dtype == np.float32
        with np.errstate(over="ignore"):
            wanted = expected(d, f, "float32").astype(np.float32)
        if d.name in ("gamma", "chi2", "beta"):
            # The logarithm of a probability that 32 bits may not hold.
            wanted = np.where(wanted < np.log(np.finfo(np.float32).tiny), np.asarray(found), wanted)
        check(found, wanted, f"{d.name}.{f}")


# Functions whose derivative in the shape parameters is not offered.
ONLY_X = {"beta": ("cdf", "logcdf", "sf", "logsf")}
# Inside the support at all of these places, and at no corner.
INNER = {
    "pareto": [(1.7, 2.5, 0.1, 0.9)],
    "gamma": [(1.7, 2.5, 0.1, 0.9), (0.4, 0.5, -0.1, 2.0)],
    "chi2": [(1.7, 2.5, 0.1, 0.9)],
    "beta": [(0.7, 2.5, 1.5, 0.1, 1.3)],
    "t": [(0.7, 2.5, 0.1, 1.3), (-3.0, 60.0, 0.1, 1.3)],
    "truncnorm": [(0.7, -1.5, 1.2, 0.1, 1.3), (7.0, 5.0, 9.0, 0.1, 1.1), (0.7, -0.4, 0.6, 0.4, 1)],
    "gennorm": [(0.7, 1.5), (-1.7, 2.5)],
    "vonmises": [(0.7, 1.5)],
    "wrapcauchy": [(0.7, 0.4)],
    "uniform": [(0.7, 0.1, 1.3)],
    "expon": [(0.7, 0.1, 1.3)],
}


@pytest.mark.parametrize("d", CONTINUOUS, ids=lambda d: d.name)
def test_derivatives(d: Distribution) -> None:
    with xpr.enable_x64(True):
        for f in d.functions:
            function = getattr(d.module, f)
            for given in INNER.get(d.name, [(0.7, 0.2, 1.3), (-2.5, 0.2, 0.8)]):
                row = given
                if f in ("ppf", "isf"):
                    row = (0.3, *given[1:])
                if f in ONLY_X.get(d.name, ()):
                    check_grads(lambda x, g=function, r=row: g(x, *r[1:]), (row[0],), 1)
                else:
                    check_grads(function, row, 1)


def test_derivatives_of_counts_in_the_parameters() -> None:
    rows = {"bernoulli": (0.3,), "binom": (7, 0.3), "geom": (0.3,), "nbinom": (2.5, 0.3)}
    rows |= {"betabinom": (7, 1.5, 2.5), "poisson": (1.7,)}
    with xpr.enable_x64(True):
        for d in DISCRETE:
            row = rows[d.name]
            real = tuple(float(p) for p in row if isinstance(p, float))
            fixed = tuple(p for p in row if isinstance(p, int))
            first = 1 if d.name == "geom" else 0
            for k in (first, first + 1):
                check_grads(lambda *p, d=d, k=k, n=fixed: d.module.logpmf(k, *n, *p), real, 1)
        check_grads(lambda mu: stats.poisson.cdf(2, mu), (1.7,), 1)
        for mu in (0.3, 20.0, 150.0):
            check_grads(stats.poisson.entropy, (mu,), 1)


OUTSIDE = {
    "uniform": [(-0.5,), (1.5,)],
    "expon": [(-0.5,)],
    "pareto": [(0.5, 2.0), (-1.0, 2.0)],
    "gamma": [(-0.5, 0.5), (-0.5, 2.5)],
    "chi2": [(-0.5, 1.0)],
    "beta": [(-0.5, 0.5, 0.5), (1.5, 2.0, 3.0)],
    "truncnorm": [(-2.0, -1.0, 1.0), (2.0, -1.0, 1.0), (50.0, 30.0, 40.0)],
    "wrapcauchy": [(-0.5, 0.5), (7.0, 0.5)],
    "bernoulli": [(2.0, 0.3)],
    "binom": [(-1.0, 3.0, 0.3), (4.0, 3.0, 0.3)],
    "betabinom": [(-1.0, 3.0, 2.0, 2.0), (4.0, 3.0, 2.0, 2.0)],
    "geom": [(0.0, 0.3)],
    "nbinom": [(-1.0, 3.0, 0.3)],
    "poisson": [(-1.0, 2.0)],
}


@pytest.mark.parametrize("d", [d for d in CONTINUOUS + DISCRETE if d.name in OUTSIDE])
def test_outside_the_support_derivatives_are_zero(d: Distribution) -> None:
    for f in d.functions:
        if f in ("ppf", "isf"):
            continue
        for row in OUTSIDE[d.name]:
            numbers = (0,) if f in ONLY_X.get(d.name, ()) else tuple(range(len(row)))
            slopes = xpr.grad(getattr(d.module, f), numbers)(*row)
            np.testing.assert_array_equal(slopes, 0.0, f"{d.name}.{f}{row}")


def test_derivatives_at_corners_and_far_away() -> None:
    slope = {
        "laplace.cdf": (stats.laplace.cdf, 0.0, 0.5),
        "logistic.logpdf": (stats.logistic.logpdf, 0.0, 0.0),
        "gennorm.cdf": (lambda x: stats.gennorm.cdf(x, 2.0), 0.0, 1 / np.sqrt(np.pi)),
        "norm.logcdf": (stats.norm.logcdf, -1e3, 1e3),
        "norm.logsf": (stats.norm.logsf, 1e3, -1e3),
        "gumbel_r.logsf": (stats.gumbel_r.logsf, 500.0, -1.0),
        "gumbel_l.logcdf": (stats.gumbel_l.logcdf, -500.0, 1.0),
        "cauchy.logpdf": (stats.cauchy.logpdf, 1e30, -2e-30),
        "truncnorm.logsf": (lambda x: stats.truncnorm.logsf(x, 0.0, INF), 50.0, -50.01998),
        "beta.logpdf": (lambda x: stats.beta.logpdf(x, 1.0, 3.0), 0.0, -2.0),
        "gamma.logpdf": (lambda x: stats.gamma.logpdf(x, 1.0), 0.0, -1.0),
    }
    for name, (function, x, wanted) in slope.items():
        np.testing.assert_allclose(xpr.grad(function)(x), wanted, 1e-5, 1e-7, err_msg=name)


def test_tails_in_32_bits() -> None:
    # By mpmath, 30 digits.
    rows = [
        (stats.norm.logcdf(-30.0), -454.3212439955),
        (stats.norm.logcdf(-1e10), -5e19),
        (stats.norm.logsf(30.0), -454.3212439955),
        (stats.norm.logcdf(8.0), -6.2209605742718e-16),
        (stats.gumbel_r.logsf(200.0), -200.0),
        (stats.gumbel_l.logcdf(-200.0), -200.0),
        (stats.expon.logcdf(1e-30), -69.0775527898),
        (stats.truncnorm.logpdf(30.5, 30.0, 40.0), -11.7226945769),
        (stats.truncnorm.logcdf(1.0, 0.0, 1e3), np.log(0.682689492137)),
        (stats.t.logpdf(0.0, 1e9), -0.918938533455),
        (stats.cauchy.logsf(1e30), -70.22228267565),
    ]
    for i, (found, wanted) in enumerate(rows):
        np.testing.assert_allclose(found, wanted, 2e-6, err_msg=str(i))


def test_entropy_of_poisson() -> None:
    with xpr.enable_x64(True):
        mu = np.array([0.0, 1e-3, 0.1, 1, 5, 30, 99.9, 100.1, 1e3, 1e6])
        wanted = []
        for m in mu:
            k = np.arange(max(0, int(m - 12 * np.sqrt(m))), int(m + 12 * np.sqrt(m)) + 60)
            p = scipy.stats.poisson.pmf(k, m)
            wanted.append(scipy.special.entr(p).sum())
        np.testing.assert_allclose(stats.poisson.entropy(mu), wanted, 1e-9)
        np.testing.assert_array_equal(stats.poisson.entropy(np.array([-1.0, NAN])), [NAN, NAN])
    assert stats.poisson.entropy(2, loc=3).dtype == np.float32


def test_vmap_is_broadcasting() -> None:
    x, scale = jnp.linspace(-3.0, 3.0, 7), jnp.array([0.5, 2.0])
    wanted = stats.truncnorm.logcdf(x[:, None], -1.0, 2.0, 0.0, scale)
    found = xpr.vmap(
        lambda x: xpr.vmap(lambda s: stats.truncnorm.logcdf(x, -1.0, 2.0, scale=s))(scale)
    )(x)
    np.testing.assert_allclose(found, wanted, 1e-6)


def test_dtypes() -> None:
    for d in CONTINUOUS + DISCRETE:
        for f in d.functions:
            function = getattr(d.module, f)
            arguments = inspect.signature(function).parameters.values()
            row = [1 for p in arguments if p.default is p.empty]
            assert function(*row).dtype == np.float32
            # The functions of the normal distribution are made for 32 and 64 bits.
            if d.name not in ("norm", "truncnorm"):
                assert function(np.float16(1), *row[1:]).dtype == np.float16
            assert function(np.ones((2, 1), np.int8), *row[1:]).shape == (2, 1)
            assert function(np.zeros((0, 3), np.float32), *row[1:]).shape == (0, 3)
    assert stats.norm.pdf(1.0).weak_type
    assert not stats.norm.pdf(np.float32(1)).weak_type


def test_what_is_no_real_array_is_refused() -> None:
    with pytest.raises(TypeError, match=r"norm\.logpdf requires ndarray or scalar arguments, got "):
        stats.norm.logpdf([1.0])
    with pytest.raises(
        TypeError, match=r"beta\.cdf does not accept dtype complex64: it requires real"
    ):
        stats.beta.cdf(1j, 1.0, 1.0)
    with pytest.raises(TypeError, match="incompatible shapes for broadcasting"):
        stats.norm.cdf(np.ones(2), np.ones(3))
