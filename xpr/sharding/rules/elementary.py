"""Elementary functions, element by element."""

from __future__ import annotations

from xpr.sharding.rules._forms import elementwise, register_all

register_all(
    (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "logistic",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "atan2",
    ),
    elementwise,
)
