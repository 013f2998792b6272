"""Names in C for the arguments and results of functions, out of the structure of their pytrees."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xpr import tree_util
from xpr.lowering.no_runtime.interface import Array, Group, Item

# Of C up to C23 and of C++ up to C++23, and what generated code uses.
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq NULL
    """.split()
)
_TAKEN = frozenset({"workspace", "workspace_bytes", "arguments", "results", "status", "mode", "i"})
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)


def identifier(text: str, place: str) -> str:
    """The text as a name in C; ValueError, naming its place, if it cannot be one."""
    if not text.isascii():
        raise ValueError(f"{place}: the name {text!r} has characters that C has no names of")
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    if _IDENTIFIER.match(name) is None or name.lower().startswith("xpr_"):
        raise ValueError(f"{place}: {text!r} cannot be a name in C; rename it")
    if name in _KEYWORDS:
        raise ValueError(f"{place}: {text!r} is a word of C or C++; rename it")
    return name


def _text_of(key: Any) -> str:
    """A step into a container, as a member's name."""
    for attribute in ("name", "key", "idx"):
        found = getattr(key, attribute, None)
        if found is not None:
            return found if isinstance(found, str) else f"item{found}"
    return f"item{key}"


class _Node:
    """A container while its members are found."""

    def __init__(self) -> None:
        self.members: dict[str, _Node | Array] = {}

    def item(self, name: str) -> Group:
        members: list[Item] = [
            m if isinstance(m, Array) else m.item(n) for n, m in self.members.items()
        ]
        return Group(name, tuple(members))


def items_of(
    paths: Sequence[tuple[Any, ...]],
    places: Sequence[str],
    types: Sequence[tuple[str, int, tuple[int, ...]] | None],
    first_names: Sequence[str],
) -> tuple[Item, ...]:
    """Arrays at these paths, whose first steps have the names `first_names`, in containers.

    A type is a dtype's name, its bytes and a shape, or None for an array that is left out. Raises
    ValueError for names that C does not have, and for two that are one in C.
    """
    root = _Node()
    steps: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path, place, kind, first in zip(paths, places, types, first_names, strict=True):
        if kind is None:
            continue
        texts = [first, *map(_text_of, path)]
        names = [identifier(text, place) for text in texts]
        if names[0] in _TAKEN:
            names[0] += "_"
        for depth in range(1, len(names) + 1):
            known = steps.setdefault(tuple(names[:depth]), tuple(texts[:depth]))
            if known != tuple(texts[:depth]):
                raise ValueError(
                    f"{place}: the names {known[-1]!r} and {texts[depth - 1]!r} are both "
                    f"{names[depth - 1]} in C; rename one"
                )
        node = root
        for name in names[:-1]:
            inner = node.members.setdefault(name, _Node())
            assert isinstance(inner, _Node)
            node = inner
        node.members[names[-1]] = Array(names[-1], place, *kind)
    return root.item("").members


def paths_of(tree: Any) -> list[tuple[Any, ...]]:
    """The paths of a tree's leaves."""
    dummy = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [path for path, _ in tree_util.tree_flatten_with_path(dummy)[0]]
