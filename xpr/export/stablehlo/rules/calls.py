"""Calls of functions of the module, composites, and custom calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from xpr.core.trace import Tracer
from xpr.export.stablehlo.form import Operation, Tensor
from xpr.export.stablehlo.importer import Rule, Site, TokenValue, is_known, shape_of
from xpr.export.stablehlo.rules import chlo
from xpr.export.stablehlo.rules.custom_calls import custom_call
from xpr.primitives.call import jit_p

_INLINED = 8
"""Functions of at most so many operations are written out where they are called."""


def _function(site: Site, name: Any) -> Operation:
    found = site.importer.module.functions.get(str(name))
    if found is None:
        raise site.error(f"the module has no function {name}")
    return found


def call_function(site: Site, function: Operation, args: Sequence[Any]) -> list[Any]:
    """A call: as `jit`'s, so that a function that is called often is there once."""
    plain = not any(isinstance(x, tuple | TokenValue) for x in args)
    traced = any(isinstance(x, Tracer) for x in args)
    small = len(function.regions[0].operations) <= _INLINED
    # Sizes are known values, which a function that is traced alone would not see.
    if site.importer.open or small or not plain or not traced or not _only_arrays(function):
        return site.importer.call(function, args)
    # Known scalars are part of the program: they guard divisions, and choose between branches.
    fixed = {i: x for i, x in enumerate(args) if is_known(x) and not shape_of(x)}
    closed = site.importer.jaxpr(function, args, fixed)
    operands = [x for i, x in enumerate(args) if i not in fixed]
    return list(
        jit_p.bind(
            *operands,
            jaxpr=closed,
            name=str(function.attributes.get("sym_name")),
            donated_invars=(False,) * len(operands),
            inline=False,
            keep_unused=False,
        )
    )


def _only_arrays(function: Operation) -> bool:
    return all(isinstance(v.type, Tensor) for v in function.regions[0].terminator.operands)


def _call(site: Site) -> Any:
    return call_function(site, _function(site, site.need("callee")), site.operands)


def _composite(site: Site) -> Any:
    """By the rule of the operation that it is named after, else by its decomposition."""
    name = str(site.need("name"))
    details = site.get("composite_attributes", {})
    if name in chlo.RULES and isinstance(details, dict) and details.get("largest", True):
        op = dataclasses.replace(site.op, name=name, attributes={**site.op.attributes, **details})
        found = chlo.RULES[name](Site(site.importer, op, site.operands, site.scope))
        return found
    return call_function(site, _function(site, site.need("decomposition")), site.operands)


RULES: dict[str, Rule] = {
    "func.call": _call,
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": custom_call,
}
