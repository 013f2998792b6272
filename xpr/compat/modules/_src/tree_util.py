"""`jax._src.tree_util`: which types are pytree nodes, as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xpr import tree_util
from xpr.tree_util._registry import _REGISTRY, BUILTIN_NODES


def __getattr__(name: str) -> Any:
    return getattr(tree_util, name)


class _Registry(Mapping[type, Any]):
    """The types of pytree nodes, those of Python and those that were registered, at any time."""

    def __getitem__(self, key: type) -> Any:
        if key in BUILTIN_NODES:
            return key
        return _REGISTRY[key]

    def __iter__(self) -> Iterator[type]:
        return iter((*BUILTIN_NODES, *_REGISTRY))

    def __len__(self) -> int:
        return len(BUILTIN_NODES) + len(_REGISTRY)


_registry = _Registry()
