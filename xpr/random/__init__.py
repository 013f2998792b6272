"""Random numbers from explicit keys, under JAX's names and with JAX's bits.

A key gives the same numbers whenever it is used; `split` and `fold_in` make new keys from it.
Generators, layouts and algorithms are those of `jax.random`, so that one key, shape and dtype give
the same bits, integers, uniform numbers and permutations, and other samples to within rounding.

>>> import xpr
>>> key = xpr.random.key(0)
>>> key, subkey = xpr.random.split(key)
>>> xpr.random.normal(subkey, (2,)).shape
(2,)
"""

from __future__ import annotations

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.random.counts import binomial as binomial
from xpr.random.counts import multinomial as multinomial
from xpr.random.counts import poisson as poisson
from xpr.random.gamma import ball as ball
from xpr.random.gamma import beta as beta
from xpr.random.gamma import chisquare as chisquare
from xpr.random.gamma import dirichlet as dirichlet
from xpr.random.gamma import f as f
from xpr.random.gamma import gamma as gamma
from xpr.random.gamma import generalized_normal as generalized_normal
from xpr.random.gamma import loggamma as loggamma
from xpr.random.gamma import t as t
from xpr.random.keys import Key as Key
from xpr.random.keys import PRNGKey as PRNGKey
from xpr.random.keys import clone as clone
from xpr.random.keys import fold_in as fold_in
from xpr.random.keys import key as key
from xpr.random.keys import key_data as key_data
from xpr.random.keys import key_dtype as key_dtype
from xpr.random.keys import key_impl as key_impl
from xpr.random.keys import split as split
from xpr.random.keys import wrap_key_data as wrap_key_data
from xpr.random.normal import double_sided_maxwell as double_sided_maxwell
from xpr.random.normal import lognormal as lognormal
from xpr.random.normal import maxwell as maxwell
from xpr.random.normal import multivariate_normal as multivariate_normal
from xpr.random.normal import normal as normal
from xpr.random.normal import orthogonal as orthogonal
from xpr.random.normal import rayleigh as rayleigh
from xpr.random.normal import truncated_normal as truncated_normal
from xpr.random.normal import wald as wald
from xpr.random.selection import categorical as categorical
from xpr.random.selection import choice as choice
from xpr.random.selection import permutation as permutation
from xpr.random.transformed import cauchy as cauchy
from xpr.random.transformed import exponential as exponential
from xpr.random.transformed import geometric as geometric
from xpr.random.transformed import gumbel as gumbel
from xpr.random.transformed import laplace as laplace
from xpr.random.transformed import logistic as logistic
from xpr.random.transformed import pareto as pareto
from xpr.random.transformed import triangular as triangular
from xpr.random.transformed import weibull_min as weibull_min
from xpr.random.uniform import bernoulli as bernoulli
from xpr.random.uniform import bits as bits
from xpr.random.uniform import rademacher as rademacher
from xpr.random.uniform import randint as randint
from xpr.random.uniform import uniform as uniform

_export_functions(__name__)
