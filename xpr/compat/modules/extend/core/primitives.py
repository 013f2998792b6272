"""`jax.extend.core.primitives`: the primitives of xpr by JAX's names."""

from __future__ import annotations

from typing import Any

from xpr.primitives._jax_names import primitive_names, primitive_of


def __getattr__(name: str) -> Any:
    return primitive_of(name)


def __dir__() -> list[str]:
    return primitive_names()
