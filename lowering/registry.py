"""Lowering rules by primitive name.

A rule is `rule(ctx, *operands, **params) -> Value` (or a sequence of Values for a primitive with
several results): it emits StableHLO through `ctx`, a `LoweringContext`, and checks nothing that
the abstract rule has checked already. `ctx.in_avals` and `ctx.out_avals` are the equation's types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.primitive import Primitive
from xpr.lowering.targets.base import Target

LoweringRule = Callable[..., Any]

rules: dict[str, LoweringRule] = {}


def register(primitive: Primitive, rule: LoweringRule) -> None:
    """Makes `rule` the lowering of `primitive` on every target without an override."""
    if primitive.name in rules:
        raise ValueError(f"primitive {primitive.name} has two lowering rules")
    rules[primitive.name] = rule


def find_rule(primitive: Primitive, target: Target) -> LoweringRule:
    """The rule for `primitive` on `target`: the target's own, else the common one."""
    rule = target.overrides.get(primitive.name) or rules.get(primitive.name)
    if rule is None:
        raise NotImplementedError(
            f"primitive {primitive.name} has no lowering rule for target {target.name}; "
            "outside jit it runs by its reference rule"
        )
    return rule
