"""Special functions, by JAX's names: gamma, error and exponential integral functions and others.

Operands are arrays or numbers and are broadcast against each other; integers become floats. All
functions of real or complex numbers work elementwise, under `jit`, `grad` and `vmap`.
"""

from xpr.core.tracebacks import export_functions as _export_functions
from xpr.nn.normalization import logsumexp as logsumexp
from xpr.scipy.special.bessel import bessel_jn as bessel_jn
from xpr.scipy.special.bessel import i0 as i0
from xpr.scipy.special.bessel import i0e as i0e
from xpr.scipy.special.bessel import i1 as i1
from xpr.scipy.special.bessel import i1e as i1e
from xpr.scipy.special.combinatorial import bernoulli as bernoulli
from xpr.scipy.special.combinatorial import comb as comb
from xpr.scipy.special.combinatorial import factorial as factorial
from xpr.scipy.special.error_functions import dawsn as dawsn
from xpr.scipy.special.error_functions import erf as erf
from xpr.scipy.special.error_functions import erfc as erfc
from xpr.scipy.special.error_functions import erfcx as erfcx
from xpr.scipy.special.error_functions import erfinv as erfinv
from xpr.scipy.special.error_functions import fresnel as fresnel
from xpr.scipy.special.error_functions import wofz as wofz
from xpr.scipy.special.exponential_integrals import exp1 as exp1
from xpr.scipy.special.exponential_integrals import expi as expi
from xpr.scipy.special.exponential_integrals import expn as expn
from xpr.scipy.special.exponential_integrals import sici as sici
from xpr.scipy.special.exponential_integrals import spence as spence
from xpr.scipy.special.gamma_functions import beta as beta
from xpr.scipy.special.gamma_functions import betainc as betainc
from xpr.scipy.special.gamma_functions import betaln as betaln
from xpr.scipy.special.gamma_functions import digamma as digamma
from xpr.scipy.special.gamma_functions import gamma as gamma
from xpr.scipy.special.gamma_functions import gammainc as gammainc
from xpr.scipy.special.gamma_functions import gammaincc as gammaincc
from xpr.scipy.special.gamma_functions import gammaln as gammaln
from xpr.scipy.special.gamma_functions import gammasgn as gammasgn
from xpr.scipy.special.gamma_functions import loggamma as loggamma
from xpr.scipy.special.gamma_functions import multigammaln as multigammaln
from xpr.scipy.special.gamma_functions import poch as poch
from xpr.scipy.special.gamma_functions import polygamma as polygamma
from xpr.scipy.special.gamma_functions import zeta as zeta
from xpr.scipy.special.hypergeometric import hyp1f1 as hyp1f1
from xpr.scipy.special.hypergeometric import hyp2f1 as hyp2f1
from xpr.scipy.special.information import entr as entr
from xpr.scipy.special.information import kl_div as kl_div
from xpr.scipy.special.information import rel_entr as rel_entr
from xpr.scipy.special.information import xlog1py as xlog1py
from xpr.scipy.special.information import xlogy as xlogy
from xpr.scipy.special.inverse_errors import erfcinv as erfcinv
from xpr.scipy.special.spherical import sph_harm_y as sph_harm_y
from xpr.scipy.special.statistical import boxcox as boxcox
from xpr.scipy.special.statistical import boxcox1p as boxcox1p
from xpr.scipy.special.statistical import expit as expit
from xpr.scipy.special.statistical import log_ndtr as log_ndtr
from xpr.scipy.special.statistical import log_softmax as log_softmax
from xpr.scipy.special.statistical import logit as logit
from xpr.scipy.special.statistical import ndtr as ndtr
from xpr.scipy.special.statistical import ndtri as ndtri
from xpr.scipy.special.statistical import owens_t as owens_t
from xpr.scipy.special.statistical import softmax as softmax

_export_functions(__name__)
