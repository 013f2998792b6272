"""Elementwise operations: each is one operation of StableHLO or CHLO."""

from __future__ import annotations

import math
from typing import Any

from xpr.core import dtypes
from xpr.core.primitive import Primitive
from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.plain.conversions import convert
from xpr.lowering.registry import LoweringRule, register_plain, rules
from xpr.primitives import elementary, elementwise, power, special

_STABLEHLO: dict[Primitive, str] = {
    elementary.exp_p: "exponential",
    elementary.expm1_p: "exponential_minus_one",
    elementary.log_p: "log",
    elementary.log1p_p: "log_plus_one",
    elementary.logistic_p: "logistic",
    elementary.sin_p: "sine",
    elementary.cos_p: "cosine",
    elementary.tan_p: "tan",
    elementary.tanh_p: "tanh",
    elementary.atan2_p: "atan2",
    elementwise.div_p: "divide",
    elementwise.rem_p: "remainder",
    power.sqrt_p: "sqrt",
    power.rsqrt_p: "rsqrt",
    power.cbrt_p: "cbrt",
}
_CHLO: dict[Primitive, str] = {
    elementary.asin_p: "asin",
    elementary.acos_p: "acos",
    elementary.atan_p: "atan",
    elementary.sinh_p: "sinh",
    elementary.cosh_p: "cosh",
    elementary.asinh_p: "asinh",
    elementary.acosh_p: "acosh",
    elementary.atanh_p: "atanh",
    elementwise.nextafter_p: "next_after",
    special.erf_p: "erf",
    special.erfc_p: "erfc",
    special.erf_inv_p: "erf_inv",
    special.lgamma_p: "lgamma",
    special.digamma_p: "digamma",
    special.polygamma_p: "polygamma",
    special.zeta_p: "zeta",
    special.bessel_i1e_p: "bessel_i1e",
}


def _named(name: str) -> LoweringRule:
    def lower(ctx: LoweringContext, *operands: Value, **_: Any) -> Value:
        matched = ctx.match(*operands)
        return ctx.assign(name, matched, matched[0].shape, matched[0].dtype)

    return lower


for _primitive, _name in _STABLEHLO.items():
    register_plain(_primitive, _named(f"stablehlo.{_name}"))
for _primitive, _name in _CHLO.items():
    register_plain(_primitive, _named(f"chlo.{_name}"))


def _extreme(name: str, primitive: Primitive) -> LoweringRule:
    plain = _named(f"stablehlo.{name}")

    def lower(ctx: LoweringContext, x: Value, y: Value) -> Value:
        # StableHLO leaves open how complex numbers are ordered.
        return (rules[primitive.name] if dtypes.is_complex(x.dtype) else plain)(ctx, x, y)

    return lower


def _abs(ctx: LoweringContext, x: Value) -> Value:
    return ctx.assign("stablehlo.abs", [x], x.shape, ctx.out_avals[0].dtype)


def _sign(ctx: LoweringContext, x: Value) -> Value:
    is_unsigned = dtypes.kind(x.dtype) == "u"
    return ctx.minimum(x, 1) if is_unsigned else ctx.unary("sign", x)


def _exp2(ctx: LoweringContext, x: Value) -> Value:
    scaled = ctx.mul(x, ctx.full_like(x, math.log(2.0)))
    return ctx.assign("stablehlo.exponential", [scaled], x.shape, x.dtype)


def _pow(ctx: LoweringContext, x: Value, y: Value) -> Value:
    exponent = ctx.match(x, convert(ctx, y, x.dtype))[1]
    base = ctx.match(x, exponent)[0]
    return ctx.assign("stablehlo.power", [base, exponent], base.shape, base.dtype)


def _square(ctx: LoweringContext, x: Value) -> Value:
    return ctx.mul(x, x)


register_plain(elementwise.max_p, _extreme("maximum", elementwise.max_p))
register_plain(elementwise.min_p, _extreme("minimum", elementwise.min_p))
register_plain(elementwise.abs_p, _abs)
register_plain(elementwise.sign_p, _sign)
register_plain(elementary.exp2_p, _exp2)
register_plain(power.pow_p, _pow)
register_plain(power.square_p, _square)
