"""Samples against the distribution functions of SciPy, with fixed seeds.

Each test rejects a right sampler with a probability of about 1e-4, which the seed has settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import xpr
from xpr import random as r

_N = 20_000
_LEVEL = 1e-4

_CONTINUOUS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "uniform": (lambda k: r.uniform(k, (_N,), minval=-1.0, maxval=3.0), st.uniform(-1, 4)),
    "normal": (lambda k: r.normal(k, (_N,)), st.norm()),
    "truncated_normal": (
        lambda k: r.truncated_normal(k, -1.0, 2.5, (_N,)),
        st.truncnorm(-1, 2.5),
    ),
    "lognormal": (lambda k: r.lognormal(k, 0.7, (_N,)), st.lognorm(0.7)),
    "maxwell": (lambda k: r.maxwell(k, (_N,)), st.maxwell()),
    "double_sided_maxwell": (
        lambda k: abs(r.double_sided_maxwell(k, 1.0, 2.0, (_N,)) - 1),
        st.maxwell(0, 2),
    ),
    "rayleigh": (lambda k: r.rayleigh(k, 1.5, (_N,)), st.rayleigh(0, 1.5)),
    "wald": (lambda k: r.wald(k, 2.0, (_N,)), st.invgauss(2.0)),
    "exponential": (lambda k: r.exponential(k, (_N,)), st.expon()),
    "laplace": (lambda k: r.laplace(k, (_N,)), st.laplace()),
    "logistic": (lambda k: r.logistic(k, (_N,)), st.logistic()),
    "cauchy": (lambda k: r.cauchy(k, (_N,)), st.cauchy()),
    "gumbel": (lambda k: r.gumbel(k, (_N,)), st.gumbel_r()),
    "gumbel-high": (lambda k: r.gumbel(k, (_N,), mode="high"), st.gumbel_r()),
    "gumbel-highest": (lambda k: r.gumbel(k, (_N,), mode="highest"), st.gumbel_r()),
    "pareto": (lambda k: r.pareto(k, 2.5, (_N,)), st.pareto(2.5)),
    "weibull_min": (lambda k: r.weibull_min(k, 2.0, 1.5, (_N,)), st.weibull_min(1.5, 0, 2)),
    "triangular": (lambda k: r.triangular(k, 1.0, 2.0, 5.0, (_N,)), st.triang(0.25, 1, 4)),
    "gamma": (lambda k: r.gamma(k, 2.5, (_N,)), st.gamma(2.5)),
    "gamma-small": (lambda k: r.gamma(k, 0.3, (_N,)), st.gamma(0.3)),
    "loggamma": (lambda k: r.loggamma(k, 0.4, (_N,)), st.loggamma(0.4)),
    "beta": (lambda k: r.beta(k, 0.6, 2.0, (_N,)), st.beta(0.6, 2)),
    "dirichlet": (lambda k: r.dirichlet(k, np.float32([1, 2, 3]), (_N,))[:, 1], st.beta(2, 4)),
    "chisquare": (lambda k: r.chisquare(k, 3.0, (_N,)), st.chi2(3)),
    "f": (lambda k: r.f(k, 4.0, 7.0, (_N,)), st.f(4, 7)),
    "t": (lambda k: r.t(k, 4.0, (_N,)), st.t(4)),
    "generalized_normal": (lambda k: r.generalized_normal(k, 3.0, (_N,)), st.gennorm(3)),
    "ball": (lambda k: (r.ball(k, 3, shape=(_N,)) ** 2).sum(-1) ** 1.5, st.uniform()),
}

_DISCRETE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "randint": (lambda k: r.randint(k, (_N,), -3, 17), st.randint(-3, 17)),
    "bits": (lambda k: r.bits(k, (_N,), "uint8"), st.randint(0, 256)),
    "bernoulli": (lambda k: r.bernoulli(k, 0.3, (_N,)), st.bernoulli(0.3)),
    "rademacher": (lambda k: (r.rademacher(k, (_N,)) + 1) // 2, st.bernoulli(0.5)),
    "geometric": (lambda k: r.geometric(k, 0.3, (_N,)), st.geom(0.3)),
    "poisson": (lambda k: r.poisson(k, 3.5, (_N,)), st.poisson(3.5)),
    "poisson-large": (lambda k: r.poisson(k, 40.0, (_N,)), st.poisson(40)),
    "binomial": (lambda k: r.binomial(k, 20, 0.2, (_N,)), st.binom(20, 0.2)),
    "binomial-large": (lambda k: r.binomial(k, 200, 0.7, (_N,)), st.binom(200, 0.7)),
    "choice": (lambda k: r.choice(k, 5, (_N,)), st.randint(0, 5)),
    "choice-p": (
        lambda k: r.choice(k, 3, (_N,), p=np.float32([1, 2, 5])),
        st.rv_discrete(values=([0, 1, 2], [0.125, 0.25, 0.625])),
    ),
    "categorical": (
        lambda k: r.categorical(k, np.log(np.float32([0.125, 0.25, 0.625])), shape=(_N,)),
        st.rv_discrete(values=([0, 1, 2], [0.125, 0.25, 0.625])),
    ),
}


@pytest.mark.parametrize("name", _CONTINUOUS)
def test_kolmogorov_smirnov(name: str) -> None:
    draw, distribution = _CONTINUOUS[name]
    x = np.asarray(draw(r.key(11)), np.float64)
    assert st.kstest(x, distribution.cdf).pvalue > _LEVEL


@pytest.mark.parametrize("name", _DISCRETE)
def test_chi_square(name: str) -> None:
    draw, distribution = _DISCRETE[name]
    x = np.asarray(draw(r.key(12))).astype(np.int64)
    low, high = distribution.support()
    assert x.min() >= low
    assert x.max() <= high
    # The tails, where fewer than ten are expected, count as one outcome each.
    values = np.arange(int(distribution.ppf(1e-9)), int(distribution.ppf(1 - 1e-9)) + 1)
    usual = values[distribution.pmf(values) * _N > 10]
    first, last = usual[0], usual[-1]
    expected = np.array(
        [
            distribution.cdf(first - 1),
            *distribution.pmf(np.arange(first, last + 1)),
            distribution.sf(last),
        ]
    )
    found = np.bincount(np.clip(x, first - 1, last + 1) - first + 1, minlength=len(expected))
    kept = expected * _N > 5
    merged = np.append(expected[kept], max(expected[~kept].sum(), 1e-12))
    counts = np.append(found[kept], found[~kept].sum())
    assert counts[-1] <= 25
    assert st.chisquare(counts[:-1], merged[:-1] * counts[:-1].sum() / merged[:-1].sum()).pvalue > (
        _LEVEL
    )


def test_every_order_is_as_likely() -> None:
    orders = xpr.vmap(lambda k: r.permutation(k, 4))(r.split(r.key(5), 6000))
    _, counts = np.unique(np.asarray(orders), axis=0, return_counts=True)
    assert len(counts) == 24
    assert st.chisquare(counts).pvalue > _LEVEL


def test_choice_without_replacement_takes_every_element_equally_often() -> None:
    taken = xpr.vmap(lambda k: r.choice(k, 6, (2,), replace=False))(r.split(r.key(6), 6000))
    taken = np.asarray(taken)
    assert np.all(taken[:, 0] != taken[:, 1])
    pairs = np.bincount(taken[:, 0] * 6 + taken[:, 1], minlength=36).reshape(6, 6)
    assert st.chisquare(pairs[~np.eye(6, dtype=bool)]).pvalue > _LEVEL


def test_multinomial_counts() -> None:
    p = np.float32([0.1, 0.6, 0.3])
    x = np.asarray(r.multinomial(r.key(7), 10, p, shape=(5000, 3)))
    assert np.all(x.sum(-1) == 10)
    for i in range(3):
        wanted = st.binom(10, float(p[i])).pmf(np.arange(11)) * 5000
        found = np.bincount(x[:, i].astype(int), minlength=11)
        some = wanted > 5
        total = found[some].sum() / wanted[some].sum()
        assert st.chisquare(found[some], wanted[some] * total).pvalue > _LEVEL


def test_normal_complex_parts() -> None:
    z = np.asarray(r.normal(r.key(8), (_N,), "complex64"))
    for part in (z.real, z.imag):
        assert st.kstest(part.astype(np.float64), st.norm(0, np.sqrt(0.5)).cdf).pvalue > _LEVEL
    assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 4 / np.sqrt(_N)


def test_keys_of_a_split_are_independent() -> None:
    first, second = r.split(r.key(9))
    x, y = (np.asarray(r.normal(k, (_N,))) for k in (first, second))
    assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(_N)


def test_bits_are_fair_and_independent() -> None:
    words = np.asarray(r.bits(r.key(10), (_N,)))
    ones = np.unpackbits(words.view(np.uint8).reshape(_N, 4), axis=1).astype(np.float64)
    assert np.abs(ones.mean(0) - 0.5).max() < 4.5 / (2 * np.sqrt(_N))
    correlations = np.corrcoef(ones.T)[~np.eye(32, dtype=bool)]
    assert np.abs(correlations).max() < 5 / np.sqrt(_N)
