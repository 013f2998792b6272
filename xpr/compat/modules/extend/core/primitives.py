"""`jax.extend.core.primitives`: the primitives of xpr by JAX's names."""

from __future__ import annotations

from typing import Any

from xpr.compat.primitives import ClientPrimitive
from xpr.primitives._jax_names import primitive_names, primitive_of

# JAX's calls of programs that xpr writes out where they stand: no jaxpr of its own holds one. They
# are here for tables of rules, and have no meaning of their own.
call_p = ClientPrimitive("core_call", multiple_results=True)
closed_call_p = ClientPrimitive("closed_call", multiple_results=True)


def __getattr__(name: str) -> Any:
    return primitive_of(name)


def __dir__() -> list[str]:
    return sorted([*primitive_names(), "call_p", "closed_call_p"])
