"""`jax.interpreters.xla`: nothing of XLA is here; operations on arrays are applied as in JAX."""

from __future__ import annotations

from typing import Any

from xpr.compat.value_types import canonicalize_dtype_handlers as canonicalize_dtype_handlers
from xpr.core.primitive import Primitive

__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """The result of a primitive on arrays."""
    return primitive.bind(*args, **params)
