"""`jax._src.effects`: effects, and which are allowed where."""

from __future__ import annotations

from xpr.compat.high_primitives import control_flow_allowed_effects as control_flow_allowed_effects
from xpr.core.effects import NONE as no_effects
from xpr.core.effects import Effect as Effect
from xpr.core.effects import Effects as Effects

# Where an effect is allowed in loops, it is in whatever else holds programs.
lowerable_effects = remat_allowed_effects = custom_derivatives_allowed_effects = (
    control_flow_allowed_effects
)
ordered_effects = shardable_ordered_effects = control_flow_allowed_effects

__all__ = [
    "Effect",
    "Effects",
    "control_flow_allowed_effects",
    "custom_derivatives_allowed_effects",
    "lowerable_effects",
    "no_effects",
    "ordered_effects",
    "remat_allowed_effects",
    "shardable_ordered_effects",
]
