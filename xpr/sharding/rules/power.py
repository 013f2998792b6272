"""Powers and roots, element by element."""

from __future__ import annotations

from xpr.sharding.rules._forms import elementwise, register_all

register_all(
    (
        "square",
        "sqrt",
        "rsqrt",
        "cbrt",
        "integer_pow",
        "pow",
    ),
    elementwise,
)
