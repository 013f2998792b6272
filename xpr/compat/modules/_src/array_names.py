"""What `jax._src.array` and `jax._src.earray` have: the classes of arrays."""

from __future__ import annotations

from xpr.core.extended_array import ExtendedArray as EArray
from xpr.dispatch.array import ArrayImpl as ArrayImpl

__all__ = ["ArrayImpl", "EArray"]
