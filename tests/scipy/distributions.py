"""Distributions with parameters and points to test at, as `scipy.stats` names them.

All functions of a distribution are called once, on points [n, 1] and parameters [1, m], so that a
table of hundreds of cases is one small program.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

import xpr.scipy.stats

INF, NAN = np.inf, np.nan
FUNCTIONS = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
POINTS = [-INF, -40, -7, -3, -1, -0.5, -1e-3, 0, 1e-3, 0.3, 0.5, 1, 1.5, 2, 3, 6, 9, 40, INF, NAN]
PROBABILITIES = [-0.1, 0, 1e-30, 1e-3, 0.25, 0.3, 0.5, 0.7, 0.75, 0.9, 1, 1.1, NAN]
COUNTS = [-INF, -2, -1, 0, 0.5, 1, 2, 3, 4, 10, 40, INF, NAN]
# The last ones are no parameters of a distribution.
PLACES = [(0, 1), (0.5, 2), (-1, 0.25), (0, 0), (0, -1), (NAN, 1), (0, NAN)]


@dataclass(frozen=True)
class Distribution:
    """Its module, and rows of shape parameters; `place` says which of loc and scale it takes."""

    name: str
    shapes: tuple[tuple[float, ...], ...] = ((),)
    place: str = "loc scale"
    counts: bool = False

    @property
    def module(self) -> Any:
        return getattr(xpr.scipy.stats, self.name)

    @property
    def functions(self) -> list[str]:
        return [f for f in FUNCTIONS if hasattr(self.module, f)]

    def points(self, function: str) -> np.ndarray[Any, Any]:
        if function in ("ppf", "isf"):
            return np.array(PROBABILITIES)[:, None]
        return np.array(COUNTS if self.counts else POINTS, float)[:, None]

    def parameters(self, function: str) -> list[np.ndarray[Any, Any]]:
        """One array [1, m] for each parameter: every row of shapes at every place."""
        places: list[tuple[float, ...]] = [()]
        if self.place == "loc scale":
            places = PLACES
        elif "loc" in inspect.signature(getattr(self.module, function)).parameters:
            places = [(0.0,), (1.0,), (-3.0,)]
        rows = [(*s, *p) for s in self.shapes for p in places]
        return [np.array(column, float)[None, :] for column in zip(*rows, strict=True)]

    def arguments(self, function: str) -> list[np.ndarray[Any, Any]]:
        return [self.points(function), *self.parameters(function)]


CONTINUOUS = [
    Distribution("norm"),
    Distribution("laplace"),
    Distribution("logistic"),
    Distribution("cauchy"),
    Distribution("gumbel_l"),
    Distribution("gumbel_r"),
    Distribution("uniform"),
    Distribution("expon"),
    Distribution("pareto", ((2,), (0.5,), (0,), (-1,), (NAN,))),
    Distribution("gamma", ((2.5,), (1,), (0.5,), (0,), (-1,), (NAN,))),
    Distribution("chi2", ((3,), (2,), (1,), (0,), (-1,), (NAN,))),
    Distribution("beta", ((2, 3), (0.5, 0.5), (1, 1), (1, 3), (4, 1), (-1, 2), (0, 1), (1, NAN))),
    Distribution("t", ((3,), (0.5,), (24,), (30,), (1e6,), (INF,), (0,), (-1,), (NAN,))),
    Distribution(
        "truncnorm",
        (
            *((-1, 2), (30, 40), (-INF, 1), (-40, -30), (-INF, INF), (-0.01, 0.01), (1, INF)),
            *((2, -1), (1, 1), (NAN, 1)),
        ),
    ),
    Distribution("gennorm", ((1,), (2,), (0.5,), (8,), (0,), (-1,), (NAN,)), ""),
    Distribution("vonmises", ((1,), (0,), (50,), (1e4,), (-1,), (NAN,)), ""),
    Distribution("wrapcauchy", ((0.3,), (0.99,), (0,), (1,), (-0.1,), (NAN,)), ""),
]

DISCRETE = [
    Distribution("bernoulli", ((0.3,), (0,), (1,), (-0.1,), (1.1,), (NAN,)), "loc", True),
    Distribution(
        "binom",
        ((3, 0.3), (3, 0), (3, 1), (0, 0.5), (40, 0.9), (-1, 0.5), (2.5, 0.5), (3, 1.1), (3, NAN)),
        "loc",
        True,
    ),
    Distribution(
        "betabinom",
        ((3, 2, 0.5), (0, 1, 1), (40, 5, 7), (3, 0, 1), (-1, 1, 1), (2.5, 1, 1), (NAN, 1, 1)),
        "loc",
        True,
    ),
    Distribution("geom", ((0.3,), (1,), (1e-3,), (0,), (1.1,), (NAN,)), "loc", True),
    Distribution(
        "nbinom", ((3, 0.3), (2.5, 0.5), (3, 1), (3, 0), (0, 0.5), (-1, 0.5), (1, NAN)), "loc", True
    ),
    Distribution("poisson", ((2,), (0.1,), (0,), (35,), (-1,), (NAN,)), "loc", True),
]
