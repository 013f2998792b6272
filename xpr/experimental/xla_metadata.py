"""`set_xla_metadata`, which JAX passes on to XLA: here it is checked, and has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xpr.numpy as jnp
from xpr.core.trace import is_valid_value
from xpr.tree_util import tree_map


class XlaMetadataContextManager:
    """What `set_xla_metadata` gives without a value: a context, and a decorator.

    >>> with set_xla_metadata(unroll=2):
    ...     x = jnp.ones(2) + 1
    """

    __slots__ = ("updates",)

    def __init__(self, updates: dict[str, Any]) -> None:
        self.updates = updates

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself."""
        return fun


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """The tree of arrays `x`; or, without one, a context that is a decorator, too.

    The values are for XLA, which xpr does not use. Raises TypeError for one that cannot be hashed,
    and for what is no array.

    >>> set_xla_metadata(1.0, unroll=2)
    Array(1., dtype=float32, weak_type=True)
    """
    for value in kwargs.values():
        hash(value)
    if x is None:
        return XlaMetadataContextManager(kwargs)
    return tree_map(_checked, x)


def _checked(x: Any) -> Any:
    if not is_valid_value(x):
        raise TypeError(
            "Error interpreting argument to xla_metadata_value as a JAX value. The problematic "
            f"value is of type {type(x)} and was passed to xla_metadata_value at position 0."
        )
    return jnp.asarray(x)
