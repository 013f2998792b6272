"""Operations that only evaluate a program, as loops that become one dispatch know them."""

from __future__ import annotations

CALLS = {
    "jit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call_jaxpr",
    "linear_call": "call_jaxpr",
    "remat_opt": "call_jaxpr",
    # What a round computes again it needs in that round only: nothing is kept by sharing it.
    "remat2": "jaxpr",
    "custom_partitioning": "call",
}
"""The parameter with the program, by the primitive's name."""

SOLVES = {"custom_linear_solve": "solve"}
"""The same of those whose program may need matrices in memory."""
