"""Operations on bits, element by element."""

from __future__ import annotations

from xpr.sharding.rules._forms import elementwise, register_all

register_all(
    (
        "and",
        "or",
        "xor",
        "not",
        "shift_left",
        "shift_right_logical",
        "shift_right_arithmetic",
        "clz",
        "population_count",
        "mulhi",
    ),
    elementwise,
)
