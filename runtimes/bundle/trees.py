"""Nested containers of arrays, as a manifest describes their structure."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from xpr.runtimes.bundle.archive import MANIFEST
from xpr.runtimes.bundle.errors import ArgumentTypeError, CorruptBundleError

Children = Callable[[str, Any], Sequence[Any] | None]

_SEQUENCES = ("tuple", "list", "custom")


def count_leaves(structure: Any) -> int:
    """How many leaves a structure has; CorruptBundleError if it is none."""
    kind = structure["type"]
    if kind == "leaf":
        return 1
    children = structure["children"]
    sound = type(children) is list
    if kind in ("dict", "namedtuple"):
        names = structure["keys" if kind == "dict" else "fields"]
        sound = sound and type(names) is list and len(set(names)) == len(names) == len(children)
        if sound and kind == "namedtuple":
            _named_tuple(structure["name"], tuple(names))
    elif kind == "none":
        sound = sound and not children
    elif kind not in _SEQUENCES:
        sound = False
    if not sound:
        raise CorruptBundleError(f"{MANIFEST} is damaged: a node of type {kind!r} is unsound")
    return sum(map(count_leaves, children))


def check_structure(in_tree: Any, out_tree: Any, inputs: int, outputs: int) -> None:
    """Raises CorruptBundleError unless these are a call's arguments and its result."""
    found = count_leaves(in_tree), count_leaves(out_tree)
    if found != (inputs, outputs):
        raise CorruptBundleError(
            f"{MANIFEST} is damaged: its structures have {found} inputs and results, its tables "
            f"{(inputs, outputs)}"
        )
    if [child["type"] for child in in_tree["children"]] != ["tuple", "dict"]:
        raise CorruptBundleError(f"{MANIFEST} is damaged: the inputs are no arguments of a call")


def flatten(
    structure: dict[str, Any], tree: Any, path: str = "", custom: Children | None = None
) -> list[Any]:
    """The leaves of `tree`, whose structure must be the given one.

    Nodes of types that only the exporting program knew are given as sequences of their children.
    Raises ArgumentTypeError that names the place where the structures differ.
    """
    kind, children = structure["type"], structure.get("children", ())
    if kind == "leaf":
        return [tree]
    if kind == "none":
        if tree is not None:
            raise ArgumentTypeError(f"argument {path or '()'}: expected None, got {type(tree)}")
        return []
    if kind == "dict":
        keys = structure["keys"]
        if not isinstance(tree, dict) or set(tree) != set(keys):
            shown = sorted(map(repr, tree)) if isinstance(tree, dict) else type(tree)
            raise ArgumentTypeError(
                f"argument {path or '()'}: expected a dict with the keys {keys}, got {shown}"
            )
        items, names = [tree[k] for k in keys], [f"[{k!r}]" for k in keys]
    else:
        items = custom(structure["name"], tree) if kind == "custom" and custom else None
        if items is None:
            wanted = {"list": list, "tuple": tuple}.get(kind, (list, tuple))
            if not isinstance(tree, wanted):
                raise ArgumentTypeError(
                    f"argument {path or '()'}: expected a {kind}, got {type(tree)}"
                )
            items = list(tree)
        names = [f"[{i}]" for i in range(len(items))]
        if len(items) != len(children):
            raise ArgumentTypeError(
                f"argument {path or '()'}: expected {len(children)} items, got {len(items)}"
            )
    leaves: list[Any] = []
    for child, item, name in zip(children, items, names, strict=True):
        leaves += flatten(child, item, path + name, custom)
    return leaves


def unflatten(structure: dict[str, Any], leaves: Sequence[Any]) -> Any:
    """The tree of that structure with these leaves; unknown types of nodes become tuples."""
    rest = iter(leaves)

    def build(node: dict[str, Any]) -> Any:
        kind = node["type"]
        if kind == "leaf":
            return next(rest)
        children = [build(child) for child in node.get("children", ())]
        if kind == "none":
            return None
        if kind == "dict":
            return dict(zip(node["keys"], children, strict=True))
        if kind == "list":
            return children
        if kind == "namedtuple":
            return _named_tuple(node["name"], tuple(node["fields"]))(*children)
        return tuple(children)

    return build(structure)


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def flatten_call(
    structure: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    custom: Children | None = None,
) -> list[Any]:
    """The leaves of a call's arguments; ArgumentTypeError for a wrong number or structure."""
    positional, named = structure["children"]
    wanted = positional["children"]
    if len(args) != len(wanted):
        raise ArgumentTypeError(
            f"the program takes {len(wanted)} positional arguments, got {len(args)}"
        )
    if set(kwargs) != set(named["keys"]):
        raise ArgumentTypeError(
            f"the program takes the keyword arguments {named['keys']}, got {sorted(kwargs)}"
        )
    leaves: list[Any] = []
    for i, (child, arg) in enumerate(zip(wanted, args, strict=True)):
        leaves += flatten(child, arg, f"args[{i}]", custom)
    for key, child in zip(named["keys"], named["children"], strict=True):
        leaves += flatten(child, kwargs[key], f"kwargs[{key!r}]", custom)
    return leaves
