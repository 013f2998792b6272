"""Lowerings of primitives that programs define."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpr.core.primitive import Primitive
from xpr.lowering import registry
from xpr.lowering.traced_rules import TracedRule

Rule = Callable[..., Any]


def register_lowering(
    primitive: Primitive, rule: Rule, platform: str | None = None, **_: Any
) -> Rule:
    """Gives a primitive its lowering, for all platforms or for one: "cpu", "vulkan", "cuda", ...

    "gpu" means those of GPUs. A rule for a platform that xpr has not, such as "tpu", is kept and
    never used.
    """
    names = {"gpu": ("vulkan", "cuda", "rocm", "metal")}.get(platform or "", (platform,))
    for name in names:
        registry.register_for_program(primitive, rule, name)
    return rule


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> Rule:
    """A lowering that traces `fun(*operands, **params)` and lowers what it does."""
    return TracedRule(fun, multiple_results)
