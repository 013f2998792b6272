"""Trees taken apart before optree is loaded, which takes a tenth of the start of a process.

Many programs give small trees to a few functions and nothing else: the arguments and results of
one jitted function. What is done here is what `flatten_spec` and optree do, in Python, for trees of
tuples, lists, dictionaries with strings for keys, and None.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Any

from ._registry import BUILTIN_NODES, Level, registered

_MOST_LEAVES = 64
_DEEPEST = 16


class _OthersError(Exception):
    """The tree has something that is left to optree."""


def take_apart(tree: Any) -> tuple[list[Any], Level | None, int] | None:
    """Leaves, structure and number of nodes; None for trees that are left to optree.

    In the structure None stands for a leaf.
    """
    leaves: list[Any] = []
    try:
        level, nodes = _visit(tree, leaves, 0)
    except _OthersError:
        return None
    return leaves, level, nodes


def _visit(tree: Any, leaves: list[Any], depth: int) -> tuple[Level | None, int]:
    kind = type(tree)
    data: Any = None
    children: tuple[Any, ...] = ()
    if kind is tuple or kind is list:
        children = tuple(tree)
    elif kind is dict:
        if not all(type(key) is str for key in tree):
            raise _OthersError
        data = sorted(tree)
        children = tuple(tree[key] for key in data)
    elif kind in BUILTIN_NODES and kind is not NoneType:
        raise _OthersError
    elif kind is not NoneType:
        if registered(kind) is not None or issubclass(kind, tuple) or len(leaves) == _MOST_LEAVES:
            raise _OthersError
        leaves.append(tree)
        return None, 1
    if depth == _DEEPEST:
        raise _OthersError
    nodes = 1
    found: list[Level | None] = []
    for child in children:
        level, count = _visit(child, leaves, depth + 1)
        found.append(level)
        nodes += count
    return Level(kind, data, tuple(found)), nodes


def put_together(level: Level | None, leaves: Iterator[Any]) -> Any:
    """The tree of a structure, with the next of the leaves; there must be enough of them."""
    if level is None:
        return next(leaves)
    kind, data, children = level
    parts = [put_together(child, leaves) for child in children]
    if kind is dict:
        return dict(zip(data, parts, strict=True))
    if kind is NoneType:
        return None
    return tuple(parts) if kind is tuple else parts
