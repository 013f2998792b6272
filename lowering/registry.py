"""Lowering rules by primitive name.

A rule is `rule(ctx, *operands, **params) -> Value` (or a sequence of Values for a primitive with
several results): it emits StableHLO through `ctx`, a `LoweringContext`, and checks nothing that
the abstract rule has checked already. `ctx.in_avals` and `ctx.out_avals` are the equation's types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.primitive import Primitive, registry
from xpr.lowering.targets.base import Target

LoweringRule = Callable[..., Any]

rules: dict[str, LoweringRule] = {}
plain_rules: dict[str, LoweringRule] = {}
"""Rules that write an operation as plain StableHLO, where the common one does not."""

program_rules: dict[Primitive, dict[str | None, LoweringRule]] = {}
"""Rules that programs give, by target; the one of no target is for all others."""


def register(primitive: Primitive, rule: LoweringRule) -> None:
    """Makes `rule` the lowering of `primitive` on every target without an override."""
    if primitive.name in rules:
        raise ValueError(f"primitive {primitive.name} has two lowering rules")
    rules[primitive.name] = rule


def register_plain(primitive: Primitive, rule: LoweringRule) -> None:
    """Makes `rule` that of `primitive` where plain StableHLO is written (`Target.plain`)."""
    if primitive.name in plain_rules:
        raise ValueError(f"primitive {primitive.name} has two rules for plain StableHLO")
    plain_rules[primitive.name] = rule


def register_for_program(primitive: Primitive, rule: LoweringRule, target: str | None) -> None:
    """Makes `rule` the lowering of a program's own primitive: on one target, or on all for None.

    A rule of the program's for a primitive of xpr comes before xpr's.
    """
    known = program_rules.setdefault(
        primitive,
        {None: rules[primitive.name]}
        if primitive.name in rules and registry.get(primitive.name) is primitive
        else {},
    )
    known[target] = rule


def find_rule(primitive: Primitive, target: Target) -> LoweringRule:
    """The rule for `primitive` on `target`: the target's own, else the common one."""
    given = program_rules.get(primitive)
    if given is not None:
        rule = given.get(target.name) or given.get(None)
    else:
        own = plain_rules if target.plain else {}
        name = primitive.name
        rule = target.overrides.get(name) or own.get(name) or rules.get(name)
    if rule is None:
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{primitive.name}' not found for platform "
            f"{target.name}: outside jit it runs by its reference rule"
        )
    return rule
