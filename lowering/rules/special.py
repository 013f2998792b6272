"""Special functions: error functions, gamma and related functions, Bessel functions."""

from __future__ import annotations

from typing import Any

from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.numerics import bessel, error_functions, gamma
from xpr.lowering.numerics.incomplete_beta import betainc
from xpr.lowering.numerics.incomplete_gamma import igamma_derivative, igamma_pair
from xpr.lowering.numerics.kernel import kernel
from xpr.lowering.numerics.small_floats import in_float32
from xpr.lowering.numerics.zeta import polygamma, zeta
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import special as p


def _igamma_lower(ctx: LoweringContext, a: Value, x: Value, **_: Any) -> Value:
    return igamma_pair(ctx, a, x, upper=False)


def _igammac_lower(ctx: LoweringContext, a: Value, x: Value, **_: Any) -> Value:
    return igamma_pair(ctx, a, x, upper=True)


def _igamma_grad_a_lower(ctx: LoweringContext, a: Value, x: Value, **_: Any) -> Value:
    return igamma_derivative(ctx, a, x, of_sample=False)


def _random_gamma_grad_lower(ctx: LoweringContext, a: Value, x: Value, **_: Any) -> Value:
    return igamma_derivative(ctx, a, x, of_sample=True)


_RULES: dict[Primitive, LoweringRule] = {
    p.erf_p: kernel(error_functions.erf),
    p.erfc_p: kernel(error_functions.erfc),
    p.erf_inv_p: kernel(error_functions.erf_inv),
    p.lgamma_p: kernel(gamma.lgamma),
    p.digamma_p: kernel(gamma.digamma),
    p.polygamma_p: in_float32(polygamma),
    p.zeta_p: in_float32(zeta),
    p.igamma_p: in_float32(_igamma_lower),
    p.igammac_p: in_float32(_igammac_lower),
    p.igamma_grad_a_p: in_float32(_igamma_grad_a_lower),
    p.random_gamma_grad_p: in_float32(_random_gamma_grad_lower),
    p.regularized_incomplete_beta_p: in_float32(betainc),
    p.bessel_i0e_p: kernel(bessel.i0e),
    p.bessel_i1e_p: kernel(bessel.i1e),
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
