"""Where and how two pytrees, or their structures, differ."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ._keys import KeyPath, keystr
from ._registry import (
    Level,
    children_with_keys,
    is_tree_node,
    keys_by_type,
    public_metadata,
    registered,
)

_LONGEST_STRUCTURE = 1000


class View(NamedTuple):
    """How to look at a tree: as Python objects, or as nested `Level`s with None for leaves."""

    expand: Callable[[Any], tuple[KeyPath, Level] | None]
    describe: Callable[[Any], str]


def _expand_level(level: Level | None) -> tuple[KeyPath, Level] | None:
    return None if level is None else (keys_by_type(level), level)


OBJECTS = View(children_with_keys, lambda node: str(type(node)))
STRUCTURE = View(_expand_level, lambda level: "a pytree leaf" if level is None else str(level.type))


class Mismatch(NamedTuple):
    """One place where two trees differ."""

    path: KeyPath
    kind: str
    first: str
    second: str
    explanation: str
    nodes: tuple[Any, Any]

    def __call__(self, name: str) -> ValueError:
        """The error for a prefix that is called ``name``, which JAX has in this place."""
        return ValueError(self.text(name, "the prefix pytree", "the full pytree"))

    def text(self, name: str, first: str, second: str) -> str:
        """The mismatch in words; ``name`` stands before the path, the others name the trees."""
        return (
            f"pytree structure error: {self.kind} at key path\n    {name}{keystr(self.path)}\n"
            f"where {first} has {self.first}, but {second} has {self.second}; {self.explanation}"
        )


def mismatches(
    first: Any,
    second: Any,
    first_view: View = OBJECTS,
    second_view: View = OBJECTS,
    *,
    prefix: bool = False,
    path: KeyPath = (),
) -> Iterator[Mismatch]:
    """All outermost mismatches; with ``prefix``, leaves of ``first`` match any subtree."""
    one, two = first_view.expand(first), second_view.expand(second)
    if one is None and (prefix or two is None):
        return
    if one is None or two is None or one[1].type is not two[1].type:
        types = first_view.describe(first), second_view.describe(second)
        why = "their Python types differ"
        yield Mismatch(path, "different types", *types, why, (first, second))
        return
    _, level = one
    keys, other = two
    if (found := _difference(path, level, other)) is not None:
        yield found._replace(nodes=(first, second))
        return
    for key, child, other_child in zip(keys, level.children, other.children, strict=True):
        yield from mismatches(
            child, other_child, first_view, second_view, prefix=prefix, path=(*path, key)
        )


def _difference(path: KeyPath, first: Level, second: Level) -> Mismatch | None:
    """How two nodes of one type differ, their children left aside."""
    name = first.type.__name__
    counts = len(first.children), len(second.children)
    one_keys, two_keys = _dict_keys(first), _dict_keys(second)
    if one_keys is not None and two_keys is not None and set(one_keys) != set(two_keys):
        same = counts[0] == counts[1]
        return Mismatch(
            path,
            "different pytree metadata" if same else "different numbers of pytree children",
            f"a {name} with the keys {one_keys}",
            f"a {name} with the keys {two_keys}",
            f"the keys that only one of them has: {_only_in_one(one_keys, two_keys)}",
            (first, second),
        )
    if counts[0] != counts[1]:
        return Mismatch(
            path,
            f"different lengths of {name}",
            f"a {name} of length {counts[0]}",
            f"a {name} of length {counts[1]}",
            "their lengths differ",
            (first, second),
        )
    if not first.data == second.data:
        return Mismatch(
            path,
            "different pytree metadata",
            f"{first.type} with metadata {first.data}",
            f"{second.type} with metadata {second.data}",
            "their metadata differ",
            (first, second),
        )
    return None


def _dict_keys(level: Level) -> list[Any] | None:
    if level.type is dict or level.type is OrderedDict:
        return level.data
    return level.data[1] if level.type is defaultdict else None


def _only_in_one(first: list[Any], second: list[Any]) -> list[Any]:
    return [k for k in first if k not in second] + [k for k in second if k not in first]


def prefix_error(caller: str, prefix: Level | None, tree: Any, structures: list[str]) -> ValueError:
    """The error for a structure that is not a prefix of ``tree`` though it has to be.

    ``caller`` is the function to blame; ``structures`` are the texts of the two structures.
    """
    found = next(mismatches(prefix, tree, STRUCTURE, OBJECTS, prefix=True))
    names = ("prefix tree", "full tree") if "prefix" in caller else ("first tree", "other tree")
    lines = [f"The {name}: {shortened(text)}" for name, text in zip(names, structures, strict=True)]
    lines.insert(0, found.text(f"{caller} tree", f"the {names[0]}", f"the {names[1]}"))
    if caller == "flatten_up_to":
        lines.insert(0, _in_short(*found.nodes))
    return ValueError("\n".join(lines))


_NODE_NAMES = {list: "list", tuple: "tuple", dict: "dict", type(None): "None"}


def _in_short(expected: Level, node: Any) -> str:
    """The sentence that JAX's ``flatten_up_to`` raises, which callers may look for."""
    kind, value = expected.type, shortened(repr(node))
    name = _NODE_NAMES.get(kind)
    if name is None and (registered(kind) is not None or not issubclass(kind, tuple)):
        if type(node) is not kind:
            return f"Custom node type mismatch: expected type: {kind}, value: {value}."
        found = children_with_keys(node)
        assert found is not None, "a node of a registered type is no leaf"
        data = public_metadata(expected), public_metadata(found[1])
        return f"Mismatch custom node data: {data[0]} != {data[1]}; value: {value}."
    if type(node) is kind:
        if kind is dict:
            keys = f"expected keys: {expected.data}; present keys: {sorted(node)}"
            return f"Dict key mismatch; {keys}."
        lengths = f"{len(node)} != {len(expected.children)}"
        return f"{str(name).capitalize()} arity mismatch: {lengths}; {name}: {value}."
    if name is not None:
        return f"Expected {name}, got {value}."
    if isinstance(node, tuple) and type(node) is not tuple and is_tree_node(type(node)):
        return f"Named tuple type mismatch: expected type: {kind}, tuple: {value}."
    return f"Expected named tuple, got {value}."


def shortened(text: str) -> str:
    """The text, its middle left out where it is longer than a screenful."""
    if len(text) <= _LONGEST_STRUCTURE:
        return text
    half = _LONGEST_STRUCTURE // 2
    return f"{text[:half]} ... {text[-half:]}"
