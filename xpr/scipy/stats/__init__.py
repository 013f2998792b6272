"""Distributions, one module each, and statistics of samples, under the names of `jax.scipy.stats`.

The functions of a distribution are called `pdf`, `logpdf`, `cdf`, ... (`pmf`, `logpmf` for counts).
They take numbers or arrays, broadcast their arguments, and return an array of the floating dtype
that the arguments promote to, float32 for integers; what is no array raises TypeError. Everywhere:

- `loc` and `scale` move and stretch the standard distribution: x becomes z = (x - loc) / scale;
- outside the support densities are 0, their logarithms -inf and the derivatives of both 0;
- invalid parameters (a scale that is not above 0, ...) and NaN give NaN, as in SciPy.

>>> from xpr.scipy import stats
>>> stats.norm.logpdf(0.0, loc=1.0, scale=2.0)
Array(-1.7370857, dtype=float32, weak_type=True)
"""

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.scipy.stats import bernoulli as bernoulli
from xpr.scipy.stats import beta as beta
from xpr.scipy.stats import betabinom as betabinom
from xpr.scipy.stats import binom as binom
from xpr.scipy.stats import cauchy as cauchy
from xpr.scipy.stats import chi2 as chi2
from xpr.scipy.stats import dirichlet as dirichlet
from xpr.scipy.stats import expon as expon
from xpr.scipy.stats import gamma as gamma
from xpr.scipy.stats import gennorm as gennorm
from xpr.scipy.stats import geom as geom
from xpr.scipy.stats import gumbel_l as gumbel_l
from xpr.scipy.stats import gumbel_r as gumbel_r
from xpr.scipy.stats import laplace as laplace
from xpr.scipy.stats import logistic as logistic
from xpr.scipy.stats import multinomial as multinomial
from xpr.scipy.stats import multivariate_normal as multivariate_normal
from xpr.scipy.stats import nbinom as nbinom
from xpr.scipy.stats import norm as norm
from xpr.scipy.stats import pareto as pareto
from xpr.scipy.stats import poisson as poisson
from xpr.scipy.stats import t as t
from xpr.scipy.stats import truncnorm as truncnorm
from xpr.scipy.stats import uniform as uniform
from xpr.scipy.stats import vonmises as vonmises
from xpr.scipy.stats import wrapcauchy as wrapcauchy
from xpr.scipy.stats.kde import gaussian_kde as gaussian_kde
from xpr.scipy.stats.summary import ModeResult as ModeResult
from xpr.scipy.stats.summary import mode as mode
from xpr.scipy.stats.summary import rankdata as rankdata
from xpr.scipy.stats.summary import sem as sem

_export_functions(__name__)
