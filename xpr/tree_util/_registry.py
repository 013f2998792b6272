"""Which Python types are pytree nodes, and how one node is taken apart.

Custom nodes live in a private namespace of optree, so what is registered here stays unknown to
other users of optree. `_REGISTRY` repeats the entries: optree has no use for key entries.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import methodcaller
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from ._keys import DictKey, FlattenedIndexKey, GetAttrKey, KeyPath, SequenceKey

T = TypeVar("T")
_Class = TypeVar("_Class", bound=type)

KeyedChildren = Iterable[tuple[Any, Any]]
Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
FlattenWithKeys = Callable[[Any], tuple[KeyedChildren, Any]]
Unflatten = Callable[[Any, Any], Any]

NAMESPACE = "xpr"

# The nodes that need no registration, besides named tuples, which have no common type.
BUILTIN_NODES = frozenset({tuple, list, dict, NoneType, OrderedDict, defaultdict})


class NodeType(NamedTuple):
    """How the instances of one registered type are flattened and rebuilt."""

    flatten: Flatten
    unflatten: Unflatten
    flatten_with_keys: FlattenWithKeys | None
    attributes: tuple[str, ...] | None  # of the children, where the type alone determines them


class Level(NamedTuple):
    """One node: its type, its metadata (None, or keys, class or aux data) and its children."""

    type: type
    data: Any
    children: tuple[Any, ...]


_REGISTRY: dict[type, NodeType] = {}
# Types that optree will be told of when it is loaded.
_LATER: list[type] = []
_REGISTRY_LOCK = threading.Lock()


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[KeyedChildren, Any]] | None = None,
) -> None:
    """Make instances of ``nodetype`` (not of its subclasses) pytree nodes.

    ``flatten_func(x)`` returns ``(children, aux_data)``, ``unflatten_func(aux_data, children)``
    undoes it. ``aux_data`` must compare with ``==``, since it is part of the tree's structure, and
    should not change. ``flatten_with_keys_func(x)`` returns ``((key, child), ...), aux_data``;
    without it, the keys are `FlattenedIndexKey`.

    Raises ValueError if the type is a node already, TypeError if an argument is not callable.

    >>> import xpr.tree_util as tree_util
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> tree_util.register_pytree_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xy: Pair(*xy))
    >>> tree_util.tree_flatten(Pair(1, (2, 3)))
    ([1, 2, 3], PyTreeDef(CustomNode(Pair[None], [*, (*, *)])))
    """
    register(nodetype, NodeType(flatten_func, unflatten_func, flatten_with_keys_func, None))


def register(nodetype: type, entry: NodeType, kind: str = "") -> None:
    """Enter a type in optree's registry and in ours, or in neither."""
    if not isinstance(nodetype, type):
        raise TypeError(f"a pytree node type must be a class, got {nodetype!r}")
    for role, function in zip(("flatten", "unflatten"), entry, strict=False):
        if not callable(function):
            raise TypeError(f"the {role} function of {nodetype} must be callable, got {function!r}")
    with _REGISTRY_LOCK:
        if nodetype in _REGISTRY or nodetype in BUILTIN_NODES:
            raise ValueError(f"Duplicate custom {kind}PyTreeDef type registration for {nodetype}.")
        _tell_optree(nodetype, entry)
        _REGISTRY[nodetype] = entry


def _tell_optree(nodetype: type, entry: NodeType) -> None:
    import optree  # noqa: PLC0415  `_early` says why

    with warnings.catch_warnings():
        # optree warns when a named tuple gets its own rule; here that is an ordinary wish.
        warnings.simplefilter("ignore", UserWarning)
        optree.register_pytree_node(nodetype, entry.flatten, entry.unflatten, namespace=NAMESPACE)


def register_without_optree(nodetype: type, entry: NodeType) -> None:
    """Enters a type of this package, of which optree is told by `tell_optree`."""
    _REGISTRY[nodetype] = entry
    _LATER.append(nodetype)


def tell_optree() -> None:
    """Enters in optree's registry what only ours has; before its first use."""
    with _REGISTRY_LOCK:
        while _LATER:
            _tell_optree(_LATER[-1], _REGISTRY[_LATER[-1]])
            _LATER.pop()


def register_pytree_node_class(cls: _Class) -> _Class:
    """Class decorator: a pytree node by its ``tree_flatten`` and ``tree_unflatten`` methods.

    ``tree_flatten(self)`` returns ``(children, aux_data)``; the class method
    ``tree_unflatten(cls, aux_data, children)`` undoes it.

    >>> import xpr.tree_util as tree_util
    >>> @tree_util.register_pytree_node_class
    ... class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    ...     def tree_flatten(self):
    ...         return (self.content,), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux_data, children):
    ...         return cls(*children)
    >>> tree_util.tree_map(lambda x: x + 1, Box(3)).content
    4
    """
    register(cls, NodeType(methodcaller("tree_flatten"), cls.tree_unflatten, None, None))
    return cls


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[KeyedChildren, Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make instances of ``nodetype`` pytree nodes whose children have keys.

    As `register_pytree_node`; ``flatten_func`` may be given where it is faster than
    ``flatten_with_keys``.

    >>> import xpr.tree_util as tree_util
    >>> class Point:
    ...     def __init__(self, x):
    ...         self.x = x
    >>> key = tree_util.GetAttrKey("x")
    >>> tree_util.register_pytree_with_keys(
    ...     Point, lambda p: (((key, p.x),), None), lambda _, children: Point(*children))
    >>> tree_util.tree_leaves_with_path(Point(3))
    [((GetAttrKey(name='x'),), 3)]
    """

    def flatten_without_keys(node: T) -> tuple[Iterable[Any], Any]:
        keyed, aux_data = flatten_with_keys(node)
        return [child for _, child in keyed], aux_data

    flatten = flatten_without_keys if flatten_func is None else flatten_func
    register(nodetype, NodeType(flatten, unflatten_func, flatten_with_keys, None))


def register_pytree_with_keys_class(cls: _Class) -> _Class:
    """Class decorator: a pytree node by ``tree_flatten_with_keys`` and ``tree_unflatten``.

    A ``tree_flatten`` method is used where no keys are asked for.

    >>> import xpr.tree_util as tree_util
    >>> @tree_util.register_pytree_with_keys_class
    ... class Cell:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def tree_flatten_with_keys(self):
    ...         return ((tree_util.GetAttrKey("x"), self.x),), None
    ...     @classmethod
    ...     def tree_unflatten(cls, aux_data, children):
    ...         return cls(*children)
    >>> tree_util.keystr(tree_util.tree_leaves_with_path([Cell(3)])[0][0])
    '[0].x'
    """
    register_pytree_with_keys(
        cls,
        methodcaller("tree_flatten_with_keys"),
        cls.tree_unflatten,
        methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None,
    )
    return cls


def register_static(cls: _Class) -> _Class:
    """Class decorator: instances have no leaves; they are part of the tree's structure.

    Instances must compare with ``==`` and should not change: they are part of ``jit``'s cache key.

    >>> import xpr.tree_util as tree_util
    >>> @tree_util.register_static
    ... class Mode(str):
    ...     pass
    >>> tree_util.tree_flatten([1, Mode("fast")])
    ([1], PyTreeDef([*, CustomNode(Mode[fast], [])]))
    """
    register(cls, NodeType(lambda node: ((), node), lambda node, _: node, None, ()))
    return cls


def is_tree_node(typ: type) -> bool:
    """Whether instances of exactly this type are pytree nodes; False for what is no type.

    >>> is_tree_node(dict), is_tree_node(int)
    (True, False)
    """
    if not isinstance(typ, type):
        return False
    return typ in BUILTIN_NODES or typ in _REGISTRY or _is_namedtuple(typ)


def _is_namedtuple(kind: type) -> bool:
    if not issubclass(kind, tuple):
        return False
    import optree  # noqa: PLC0415  `_early` says why

    return optree.is_namedtuple_class(kind)


def registered(nodetype: type) -> NodeType | None:
    """The entry of a registered type; None for any other."""
    return _REGISTRY.get(nodetype)


def sorted_keys(keys: Iterable[Any]) -> list[Any]:
    """The keys of a dictionary in the order of its leaves; ValueError if they have no order."""
    keys = list(keys)
    try:
        return sorted(keys)
    except TypeError as error:
        raise ValueError(
            "Comparator raised exception while sorting pytree dictionary keys: "
            f"a dictionary in a pytree requires keys that can be sorted, got {keys!r} ({error})"
        ) from error


def one_level(node: Any) -> Level | None:
    """A node taken apart, children not followed; None for a leaf."""
    kind = type(node)
    if kind is tuple or kind is list:
        return Level(kind, None, tuple(node))
    if kind is dict:
        keys = sorted_keys(node)
        return Level(kind, keys, tuple(node[key] for key in keys))
    if node is None:
        return Level(kind, None, ())
    if (entry := _REGISTRY.get(kind)) is not None:
        children, aux_data = entry.flatten(node)
        return Level(kind, aux_data, tuple(children))
    if kind is OrderedDict:
        return Level(kind, list(node), tuple(node.values()))
    if kind is defaultdict:
        keys = sorted_keys(node)
        return Level(kind, (node.default_factory, keys), tuple(node[key] for key in keys))
    if _is_namedtuple(kind):
        # Not tuple(node), which asks for a length that the class may count in its own way.
        return Level(kind, kind, tuple(tuple.__iter__(node)))
    return None


def keys_by_type(level: Level) -> KeyPath:
    """Key entries of a node's children, as far as its type and metadata tell them."""
    kind, data, children = level
    if kind is tuple or kind is list:
        count = len(children)
        if count <= len(_SEQUENCE_KEYS):
            return _SEQUENCE_KEYS[:count]
        return tuple(map(SequenceKey, range(count)))
    if kind is dict or kind is OrderedDict:
        return tuple(map(_dict_key, data))
    if kind is defaultdict:
        return tuple(map(_dict_key, data[1]))
    if (entry := _REGISTRY.get(kind)) is not None:
        if entry.attributes is not None:
            return tuple(map(GetAttrKey, entry.attributes))
        return tuple(map(FlattenedIndexKey, range(len(children))))
    return tuple(map(_attribute_key, getattr(kind, "_fields", ())))


# Key entries that are made again and again. Keys other than strings are not shared: 1, 1.0 and
# True are equal, but not the same key.
_SEQUENCE_KEYS = tuple(map(SequenceKey, range(64)))
_attribute_key = lru_cache(maxsize=4096)(GetAttrKey)
_string_key = lru_cache(maxsize=4096)(DictKey)


def _dict_key(key: Any) -> DictKey:
    return _string_key(key) if type(key) is str else DictKey(key)


def children_with_keys(node: Any) -> tuple[KeyPath, Level] | None:
    """A node's key entries and the node taken apart; None for a leaf."""
    entry = _REGISTRY.get(type(node))
    if entry is None or entry.flatten_with_keys is None:
        level = one_level(node)
        return None if level is None else (keys_by_type(level), level)
    keyed, aux_data = entry.flatten_with_keys(node)
    pairs = tuple(keyed)
    level = Level(type(node), aux_data, tuple(child for _, child in pairs))
    return tuple(key for key, _ in pairs), level


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children and the metadata of the root node, children not followed.

    Raises ValueError if ``tree`` is a leaf.

    The children of tuples, dictionaries and None are a tuple, those of other nodes a list; those of
    a registered type are what its flatten function returns.

    >>> flatten_one_level({"b": [1, 2], "a": 3})
    ((3, [1, 2]), ('a', 'b'))
    """
    if (entry := _REGISTRY.get(type(tree))) is not None:
        return entry.flatten(tree)
    level = one_level(tree)
    if level is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    children: Iterable[Any] = level.children
    if level.type is not tuple and level.type is not dict and tree is not None:
        children = list(children)
    return children, public_metadata(level)


def blame_flatten_function(tree: Any) -> ValueError | None:
    """The error for a registered node in ``tree`` whose flatten function breaks its contract."""
    if (entry := _REGISTRY.get(type(tree))) is not None:
        role = "The to_iterable function for a custom PyTree node should return a"
        found: Any = entry.flatten(tree)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            return ValueError(f"{role} (children, aux_data) tuple, got {found!r}")
        if not isinstance(found[0], Iterable):
            return ValueError(
                f"{role} (children, aux_data) tuple where 'children' is iterable, got {found!r}"
            )
    level = one_level(tree)
    blamed = map(blame_flatten_function, () if level is None else level.children)
    return next((error for error in blamed if error is not None), None)


def flatten_one_level_with_keys(tree: Any) -> tuple[KeyedChildren, Any]:
    """The ``(key, child)`` pairs and the metadata of the root node, children not followed.

    Raises ValueError if ``tree`` is a leaf.

    >>> flatten_one_level_with_keys([7, (8,)])
    (((SequenceKey(idx=0), 7), (SequenceKey(idx=1), (8,))), None)
    """
    keyed = children_with_keys(tree)
    if keyed is None:
        raise ValueError(f"can't tree-flatten type: {type(tree)}")
    keys, level = keyed
    return tuple(zip(keys, level.children, strict=True)), public_metadata(level)


def public_metadata(level: Level) -> Any:
    """A node's metadata as users see it: keys as tuples."""
    kind, data, _ = level
    if kind is dict or kind is OrderedDict:
        return tuple(data)
    if kind is defaultdict:
        return data[0], tuple(data[1])
    return data
