"""What operations on elements cost."""

from __future__ import annotations

from xpr.core.primitive import Primitive

_COSTS = {"div": 4, "rem": 6, "sqrt": 4, "rsqrt": 6, "select_n": 1, "convert_element_type": 1}
_COSTS["part_of_complex"] = 20
_FAMILY_COSTS = {"elementary": 20, "special": 60, "power": 10}


def cost_of_operation(primitive: Primitive) -> int:
    """What an operation costs, next to an addition."""
    return _COSTS.get(primitive.name) or _FAMILY_COSTS.get(primitive.family, 1)
