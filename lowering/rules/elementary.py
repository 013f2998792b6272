"""Elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

from xpr.core.primitive import Primitive
from xpr.lowering.numerics import complex_arithmetic as c
from xpr.lowering.numerics import complex_trigonometric as ct
from xpr.lowering.numerics import exponential, hyperbolic, inverse_trigonometric, trigonometric
from xpr.lowering.numerics.kernel import kernel
from xpr.lowering.registry import LoweringRule, register
from xpr.primitives import elementary as p

_RULES: dict[Primitive, LoweringRule] = {
    p.exp_p: kernel(exponential.exp, c.exp),
    p.exp2_p: kernel(exponential.exp2, c.exp2),
    p.expm1_p: kernel(exponential.expm1, c.expm1),
    p.log_p: kernel(exponential.log, c.log),
    p.log1p_p: kernel(exponential.log1p, c.log1p),
    p.logistic_p: kernel(exponential.logistic, c.logistic),
    p.sin_p: kernel(trigonometric.sin, ct.sin),
    p.cos_p: kernel(trigonometric.cos, ct.cos),
    p.tan_p: kernel(trigonometric.tan, ct.tan),
    p.asin_p: kernel(inverse_trigonometric.asin, ct.asin),
    p.acos_p: kernel(inverse_trigonometric.acos, ct.acos),
    p.atan_p: kernel(inverse_trigonometric.atan, ct.atan),
    p.atan2_p: kernel(inverse_trigonometric.atan2, ct.complex_atan2),
    p.sinh_p: kernel(hyperbolic.sinh, ct.sinh),
    p.cosh_p: kernel(hyperbolic.cosh, ct.cosh),
    p.tanh_p: kernel(hyperbolic.tanh, ct.tanh),
    p.asinh_p: kernel(hyperbolic.asinh, ct.asinh),
    p.acosh_p: kernel(hyperbolic.acosh, ct.acosh),
    p.atanh_p: kernel(hyperbolic.atanh, ct.atanh),
}

for _primitive, _rule in _RULES.items():
    register(_primitive, _rule)
