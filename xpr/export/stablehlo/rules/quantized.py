"""Quantized types: operations on real values, between dequantization and quantization.

StableHLO defines most operations on quantized tensors so; a value is stored as an integer, and its
element type says what it means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo.form import Operation, Quantized, Tensor, Value
from xpr.export.stablehlo.importer import Rule, Scope, Site, element_of, shape_of

_ON_STORAGE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "broadcast_in_dim concatenate constant dynamic_slice dynamic_update_slice gather reshape "
        "reverse select slice transpose optimization_barrier tuple get_tuple_element while if case "
        "custom_call pad sort iota dynamic_reshape dynamic_broadcast_in_dim real_dynamic_slice "
        "dynamic_pad dynamic_gather bitcast_convert composite"
    ).split()
) | {"func.call"}
"""Operations that move stored elements, whose types agree, and compute nothing with them."""


def _scales(kind: Quantized, values: tuple[Any, ...], like: Any) -> Any:
    array = np.asarray(values, kind.expressed)
    if kind.axis is None or array.size == 1:
        return lax.full(shape_of(like), array.reshape(-1)[0], kind.expressed)
    return lax.broadcast_in_dim(array, shape_of(like), (kind.axis,))


def dequantized(x: Any, kind: Quantized) -> Any:
    """The real values: (stored - zero point) * scale."""
    wide = lax.convert_element_type(x, kind.expressed)
    zero = _scales(kind, kind.zero_points, wide)
    return lax.mul(lax.sub(wide, zero), _scales(kind, kind.scales, wide))


def quantized(x: Any, kind: Quantized) -> Any:
    """The stored values: x / scale + zero point, rounded to even and clamped."""
    x = lax.convert_element_type(x, kind.expressed)
    scaled = lax.div(x, _scales(kind, kind.scales, x))
    rounded = lax.round(scaled, lax.RoundingMethod.TO_NEAREST_EVEN)
    moved = lax.add(rounded, _scales(kind, kind.zero_points, x))
    low, high = (np.asarray(v, kind.expressed)[()] for v in (kind.low, kind.high))
    return lax.convert_element_type(lax.clamp(low, moved, high), kind.storage)


def _real(type_: Any) -> Any:
    kind = element_of(type_)
    return type_ if kind is None else Tensor(type_.shape, kind.expressed)


def _uniform_quantize(site: Site) -> Any:
    x, source, target = site.operand(0), element_of(site.operand_type(0)), element_of(site.type)
    if target is None:
        raise site.error("the result must be of a quantized type")
    return quantized(x if source is None else dequantized(x, source), target)


def _uniform_dequantize(site: Site) -> Any:
    source = element_of(site.operand_type(0))
    if source is None:
        raise site.error("the operand must be of a quantized type")
    return dequantized(site.operand(0), source)


def with_quantized(name: str, rule: Rule) -> Rule:
    """A rule that also takes quantized operands."""
    if name in _ON_STORAGE:
        return rule

    def apply(site: Site) -> Any:
        types = [v.type for v in (*site.op.operands, *site.op.results)]
        if all(element_of(t) is None for t in types):
            return rule(site)
        return _on_reals(site, rule)

    return apply


def _on_reals(site: Site, rule: Rule) -> Any:
    """The operation on real values. Constants of regions are quantized, too: they are rewritten."""
    operands = [Value(_real(v.type)) for v in site.op.operands]
    results = [Value(_real(v.type)) for v in site.op.results]
    if any(b.arguments and element_of(b.arguments[0].type) for b in site.op.regions):
        raise site.error("a region works on quantized values")
    op = Operation(
        site.op.name, operands, results, site.op.attributes, site.op.regions, site.op.location
    )
    values = []
    scope = Scope(site.scope)
    for value, old, x in zip(operands, site.op.operands, site.operands, strict=True):
        kind = element_of(old.type)
        real = x if kind is None else dequantized(x, kind)
        values.append(real)
        scope.set(value, real)
    found = rule(Site(site.importer, op, values, scope))
    many = found if isinstance(found, list) else [found]
    out = []
    for x, old in zip(many, site.op.results, strict=True):
        kind = element_of(old.type)
        out.append(x if kind is None else quantized(x, kind))
    return out


RULES: dict[str, Rule] = {
    "stablehlo.uniform_dequantize": _uniform_dequantize,
    "stablehlo.uniform_quantize": _uniform_quantize,
}
