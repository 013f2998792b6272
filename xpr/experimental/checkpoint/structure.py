"""The structure of a tree as readable JSON: which containers there are, and where its leaves go."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.extended_array import ExtendedArray, seen_as
from xpr.core.key_types import GENERATORS, KeyType
from xpr.core.physical import physical_aval
from xpr.experimental.checkpoint.leaves import ArrayLeaf, Leaf
from xpr.experimental.checkpoint.plain import decode, encode
from xpr.transforms.tracing import ShapeDtypeStruct

_DICTS = {"dict", "OrderedDict", "defaultdict"}
_KINDS = {"list", "tuple", "namedtuple", "node", "key", *_DICTS}
_USUAL = "threefry2x32"


@dataclass(frozen=True)
class Node:
    """One node: its kind, the names of its children (keys, fields or numbers), and the children.

    A leaf has kind "leaf" and its number. `cls` names the class of what the user has defined.
    """

    kind: str
    names: tuple[Any, ...] = ()
    children: tuple[Node, ...] = ()
    number: int = -1
    cls: str = ""

    def path_to(self, name: Any) -> str:
        """The step to a child as a program would write it."""
        return f".{name}" if self.kind in ("namedtuple", "node", "key") else f"[{name!r}]"

    def __str__(self) -> str:
        if self.kind == "leaf":
            return "a leaf"
        if self.kind == "none":
            return "None"
        what = f"{self.kind} {self.cls}" if self.cls else self.kind
        if self.kind in ("list", "tuple"):
            return f"a {what} of {len(self.children)}"
        return f"a {what} of {', '.join(map(str, self.names)) or 'nothing'}"


def describe(tree: Any) -> tuple[Node, list[tuple[str, Any]]]:
    """The structure of a tree, and its leaves with their paths in the order of their numbers."""
    leaves: list[tuple[str, Any]] = []
    return _describe(tree, "", leaves), leaves


def _is_key(value: Any) -> bool:
    return isinstance(getattr(value, "dtype", None), KeyType)


def _numbers(key: Any) -> Any:
    """What a key is written as; of a key that stands for its type in `like`, the type of that."""
    if type(key) is ExtendedArray:
        return key._base
    sharding = getattr(key, "sharding", None)
    if sharding is not None:
        raise NotImplementedError(
            "restoring keys with a sharding in `like` is not supported: give an array of keys that "
            "lies there, or move the restored one with device_put"
        )
    aval = physical_aval(ShapedArray(key.shape, key.dtype))
    return ShapeDtypeStruct(aval.shape, aval.dtype)


def _describe(value: Any, path: str, leaves: list[tuple[str, Any]]) -> Node:
    kind = type(value)
    if _is_key(value):
        # Keys are written as their numbers; `cls` is their generator, unless it is the usual one.
        name = value.dtype.generator.name
        data = _describe(_numbers(value), f"{path}._data", leaves)
        return Node("key", ("_data",), (data,), cls="" if name == _USUAL else name)
    if not tree_util.is_tree_node(kind):
        leaves.append((path, value))
        return Node("leaf", number=len(leaves) - 1)
    keyed, _ = tree_util.flatten_one_level_with_keys(value)
    keys = [key for key, _ in keyed]
    if value is None:
        node = Node("none")
    elif kind is list or kind is tuple:
        node = Node(kind.__name__, tuple(range(len(keys))))
    elif kind.__name__ in _DICTS and issubclass(kind, dict):
        node = Node(kind.__name__, tuple(key.key for key in keys))
    else:
        names = tuple(tree_util.keystr((key,), simple=True) for key in keys)
        if len(set(names)) < len(names):
            names = tuple(map(str, range(len(keys))))
        is_named = issubclass(kind, tuple)
        node = Node("namedtuple" if is_named else "node", names, cls=kind.__qualname__)
    children = tuple(_describe(child, path + str(key), leaves) for key, child in keyed)
    return Node(node.kind, node.names, children, cls=node.cls)


# ---- as JSON


def to_json(node: Node) -> Any:
    """The node as JSON; TypeError for a dictionary key of a type that JSON cannot keep."""
    if node.kind == "leaf":
        return {"leaf": node.number}
    if node.kind == "none":
        return None
    children = [to_json(child) for child in node.children]
    if node.kind in ("list", "tuple"):
        return {node.kind: children}
    if node.kind in _DICTS and not all(type(name) is str for name in node.names):
        keys = [encode("a dictionary's key", name) for name in node.names]
        return {node.kind: [list(pair) for pair in zip(keys, children, strict=True)]}
    out: dict[str, Any] = {node.kind: dict(zip(node.names, children, strict=True))}
    if node.cls:
        out["class"] = node.cls
    return out


def from_json(found: Any, leaves: Sequence[Leaf]) -> Node:
    """The node that `to_json` has written, of a tree with these leaves.

    Raises ValueError, KeyError or TypeError for what `to_json` has not written.
    """
    numbers: list[int] = []
    node = _from_json(found, leaves, numbers)
    if sorted(numbers) != list(range(len(leaves))):
        raise ValueError(f"a tree names {len(numbers)} leaves, and there are {len(leaves)}")
    return node


def _from_json(found: Any, leaves: Sequence[Leaf], numbers: list[int]) -> Node:
    if found is None:
        return Node("none")
    if not isinstance(found, dict):
        raise ValueError(f"a node of a tree must be an object, got {found!r}")
    if "leaf" in found:
        number = found["leaf"]
        if len(found) != 1 or type(number) is not int or not 0 <= number < len(leaves):
            raise ValueError(f"a tree of {len(leaves)} leaves has a leaf {found!r}")
        numbers.append(number)
        return Node("leaf", number=number)
    cls = found.get("class", "")
    ((kind, content),) = ((k, v) for k, v in found.items() if k != "class")
    if kind not in _KINDS or not isinstance(cls, str):
        raise ValueError(f"a tree has a node of kind {kind!r} and class {cls!r}")
    if kind in ("list", "tuple"):
        if not isinstance(content, list):
            raise ValueError(f"a {kind} must have a list of children, got {content!r}")
        pairs = list(enumerate(content))
    elif isinstance(content, dict):
        pairs = list(content.items())
    else:
        pairs = [(decode(k), v) for k, v in content]
    names = tuple(name for name, _ in pairs)
    if len(set(names)) < len(names):
        raise ValueError(f"a {kind} has two children of one name")
    children = tuple(_from_json(child, leaves, numbers) for _, child in pairs)
    node = Node(kind, names, children, cls=cls)
    if kind == "key":
        _check_key(node, leaves)
    return node


def _check_key(node: Node, leaves: Sequence[Leaf]) -> None:
    generator = GENERATORS[node.cls or _USUAL]
    (child,) = node.children
    leaf = leaves[child.number] if child.kind == "leaf" else None
    if (
        not isinstance(leaf, ArrayLeaf)
        or (leaf.kind, leaf.dtype) != ("array", np.uint32)
        or leaf.shape[-len(generator.key_shape) :] != generator.key_shape
        or node.names != ("_data",)
    ):
        raise ValueError(
            f"keys of {generator.name} have other data than uint32{[*generator.key_shape]}"
        )


# ---- back to trees


def rebuild(node: Node, leaves: Sequence[Any]) -> Any:
    """The tree with these leaves. Classes of the user come back as dictionaries of their fields."""
    if node.kind == "leaf":
        return leaves[node.number]
    if node.kind == "none":
        return None
    children = [rebuild(child, leaves) for child in node.children]
    if node.kind == "list":
        return children
    if node.kind == "tuple":
        return tuple(children)
    if node.kind == "key":
        return seen_as(children[0], KeyType(GENERATORS[node.cls or _USUAL]))
    pairs = zip(node.names, children, strict=True)
    return OrderedDict(pairs) if node.kind == "OrderedDict" else dict(pairs)


def matched(saved: Node, like: Any) -> list[tuple[Any, int | None]]:
    """The leaves of `like`, each with the number of the saved leaf in the same place.

    It is None for `...`, which stands for whatever is not to be read. Raises TypeError, with the
    path, where the trees differ.
    """
    node, leaves = describe(like)
    numbers: list[int | None] = [None] * len(leaves)
    _match(saved, node, "", [leaf for _, leaf in leaves], numbers)
    return [(leaf, number) for (_, leaf), number in zip(leaves, numbers, strict=True)]


def _match(
    saved: Node, node: Node, path: str, leaves: list[Any], numbers: list[int | None]
) -> None:
    if node.kind == "leaf":
        if leaves[node.number] is Ellipsis:
            return
        if saved.kind == "leaf":
            numbers[node.number] = saved.number
            return
    if _family(saved) != _family(node):
        raise TypeError(
            f"the checkpoint has another tree: {path or 'the whole tree'} is {saved} in the "
            f"checkpoint and {node} in `like`"
        )
    own = dict(zip(saved.names, saved.children, strict=True))
    missing = [name for name in node.names if name not in own]
    extra = [name for name in saved.names if name not in set(node.names)]
    for names, there, not_there in (
        (missing, "`like`", "the checkpoint"),
        (extra, "the checkpoint", "`like`"),
    ):
        if names:
            listed = ", ".join(path + saved.path_to(name) for name in names[:8])
            more = f" and {len(names) - 8} more" if len(names) > 8 else ""
            raise TypeError(
                f"the checkpoint has another tree: {listed}{more} is in {there} and not in "
                f"{not_there}"
            )
    for name, child in zip(node.names, node.children, strict=True):
        _match(own[name], child, path + saved.path_to(name), leaves, numbers)


def with_keys(values: Sequence[Any], like: Any) -> list[Any]:
    """Values of the leaves that `matched` gives as leaves of `like`: keys from their numbers."""
    leaves = tree_util.tree_leaves(like)
    return [
        seen_as(x, leaf.dtype) if _is_key(leaf) and hasattr(x, "aval") else x
        for x, leaf in zip(values, leaves, strict=True)
    ]


def _family(node: Node) -> str:
    if node.kind == "key":
        return f"key {node.cls}"
    return "dict" if node.kind in _DICTS else node.kind
