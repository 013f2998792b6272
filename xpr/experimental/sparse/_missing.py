"""Names that JAX's modules have and xpr's have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def missing_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module, which says where it is listed what is missing."""

    def missing(name: str) -> Any:
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}: docs/sparse.md lists what is missing "
            "of jax.experimental.sparse"
        )

    return missing
