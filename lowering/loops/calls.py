"""Operations that only evaluate a program, as loops that become one dispatch know them."""

from __future__ import annotations

CALLS = {
    "jit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_partitioning": "call",
}
"""The parameter with the program, by the primitive's name."""

SOLVES = {"custom_linear_solve": "solve"}
"""The same of those whose program may need matrices in memory."""
