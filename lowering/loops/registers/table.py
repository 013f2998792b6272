"""The rules of primitives on registers, by name; `rules.py` fills the table when it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.primitive import Primitive, registry
from xpr.lowering.registry import find_rule
from xpr.lowering.targets.base import Target
from xpr.primitives import ELEMENTWISE_FAMILIES

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}

# Rules of primitives that only loops have, and no table of primitives holds.
PRIVATE: dict[Primitive, Rule] = {}

# Families whose common rules are written with elementwise operations alone.
_ELEMENTWISE = ELEMENTWISE_FAMILIES | {"random"}


class NotInRegisters(Exception):
    """The program has an operation, a type or a size for which this form does not do."""


class LongProgram(NotInRegisters):
    """The program fills more registers than it may."""


def register_rule(primitive: Primitive, target: Target) -> Rule:
    """The rule of `primitive` on registers; NotInRegisters if there is none.

    A program's own primitive has none, whatever its name is.
    """
    private = PRIVATE.get(primitive)
    if private is not None:
        return private
    if registry.get(primitive.name) is not primitive:
        raise NotInRegisters(primitive.name)
    own = RULES.get(primitive.name)
    if own is not None:
        return own
    if primitive.family in _ELEMENTWISE:
        return find_rule(primitive, target)
    raise NotInRegisters(primitive.name)
