"""Comparisons and choices, element by element; what chooses for all elements has rank 0."""

from __future__ import annotations

from xpr.sharding.rules._forms import elementwise, register_all

register_all(
    (
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "eq_to",
        "lt_to",
        "le_to",
        "is_finite",
        "select_n",
        "clamp",
    ),
    elementwise,
)
