"""Tree structures as JSON, and the names under which node types of the user's are written.

A node is `{"type": ..., "children": [...]}`; a leaf is `{"type": "leaf"}`. Tuples, lists,
dictionaries and None need nothing else. Named tuples carry their fields. Other nodes must have
been registered by `register_pytree_node_serialization`, whose functions turn their metadata into
bytes and back.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeVar

from xpr import tree_util
from xpr.tree_util._registry import registered

Json = Any
T = TypeVar("T")


class _Serialization(NamedTuple):
    nodetype: type
    name: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]
    build: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, _Serialization] = {}
_by_name: dict[str, _Serialization] = {}
# Nodes of xpr's own, which need no registration: the name that they are written under, and where
# their class is. It has `write_format` and `read_format` for its metadata.
_OWN = {"xpr.QuantizedArray": ("xpr.nn.quantize", "QuantizedArray")}


def register_pytree_node_serialization(
    nodetype: type[T],
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes | bytearray],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> type[T]:
    """Lets exported functions take and return nodes of type `nodetype`.

    `serialize_auxdata` turns the metadata of a node (what its flatten function returns beside the
    children) into bytes, `deserialize_auxdata` turns them back, and `from_children` makes a node of
    metadata and children; without it the registered unflatten function does. Returns `nodetype`.

    Raises ValueError if the type or the name is taken, or if the type is no pytree node and
    `from_children` is not given.

    >>> import xpr
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> xpr.tree_util.register_pytree_node(
    ...     Pair, lambda p: ((p.x, p.y), None), lambda _, children: Pair(*children))
    >>> register_pytree_node_serialization(
    ...     Pair, serialized_name="doctest.Pair", serialize_auxdata=lambda _: b"",
    ...     deserialize_auxdata=lambda _: None).__name__
    'Pair'
    """
    if nodetype in _by_type:
        raise ValueError(
            f"Duplicate serialization registration for type {nodetype}: it is written as "
            f"{_by_type[nodetype].name!r} already"
        )
    if serialized_name in _by_name:
        raise ValueError(
            f"Duplicate serialization registration for serialized_name {serialized_name!r}: it "
            f"stands for {_by_name[serialized_name].nodetype} already"
        )
    if from_children is None:
        node = registered(nodetype)
        if node is None:
            raise ValueError(
                "without from_children, xpr.tree_util.register_pytree_node must be called first "
                f"for {nodetype}"
            )
        from_children = node.unflatten
    entry = _Serialization(
        nodetype,
        serialized_name,
        lambda aux: bytes(serialize_auxdata(aux)),
        deserialize_auxdata,
        from_children,
    )
    _by_type[nodetype] = _by_name[serialized_name] = entry
    return nodetype


def register_namedtuple_serialization(nodetype: type[T], *, serialized_name: str) -> type[T]:
    """Lets serialised functions take and return named tuples of type `nodetype`, which it returns.

    Raises ValueError if `nodetype` is no named tuple, or if it or the name is taken.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: float
    ...     y: float
    >>> register_namedtuple_serialization(Point, serialized_name="doctest.Point").__name__
    'Point'
    """
    if not is_namedtuple(nodetype):
        raise ValueError(
            f"{nodetype} is no named tuple: use xpr.export.register_pytree_node_serialization"
        )
    fields: tuple[str, ...] = nodetype._fields  # pyright: ignore[reportAttributeAccessIssue]
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda _: json.dumps(fields).encode(),
        deserialize_auxdata=json.loads,
        from_children=lambda names, children: nodetype(**dict(zip(names, children, strict=True))),
    )


def is_namedtuple(kind: type) -> bool:
    """Whether a type is one that `collections.namedtuple` made, or a subclass."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _keys(keys: Sequence[Any]) -> list[Any]:
    for key in keys:
        if type(key) not in (str, int, bool):
            raise NotImplementedError(
                f"dictionaries of exported functions need strings or integers as keys, got {key!r}"
            )
    return list(keys)


def _own(name: str) -> _Serialization | None:
    """How a node of xpr's own is written and read."""
    if name not in _OWN:
        return None
    module, attribute = _OWN[name]
    kind: Any = getattr(importlib.import_module(module), attribute)
    return _Serialization(kind, name, kind.write_format, kind.read_format, kind.tree_unflatten)


def tree_data(tree: Any, *, named: bool = False) -> Json:
    """The structure `tree`, a PyTreeDef, as JSON.

    With `named`, named tuples that were not registered are written with their name and fields.

    Raises ValueError for node types that were not registered for serialization.
    """
    node = tree.node_data()
    if node is None:
        return {"type": "leaf"}
    kind, data = node
    out: dict[str, Json] = {"children": [tree_data(c, named=named) for c in tree.children()]}
    if kind is NoneType:
        return {"type": "none", "children": []}
    if kind is tuple or kind is list:
        return {"type": kind.__name__, **out}
    if kind is dict:
        return {"type": "dict", "keys": _keys(data), **out}
    entry = _by_type.get(kind) or _own(getattr(kind, "serialized_name", ""))
    if entry is not None:
        aux = base64.b64encode(entry.write(data)).decode()
        return {"type": "custom", "name": entry.name, "aux": aux, **out}
    if named and is_namedtuple(kind):
        fields = list(kind._fields)
        return {"type": "namedtuple", "name": kind.__name__, "fields": fields, **out}
    register = "namedtuple" if is_namedtuple(kind) else "pytree_node"
    raise ValueError(
        f"an exported function takes or returns a {kind.__name__}, which cannot be serialised "
        f"before xpr.export.register_{register}_serialization was called for {kind}"
    )


def _node(data: Json, children: Sequence[Any]) -> Any:
    """A node with these children, which may be anything."""
    match data["type"]:
        case "none":
            return None
        case "tuple":
            return tuple(children)
        case "list":
            return list(children)
        case "dict":
            return dict(zip(data["keys"], children, strict=True))
        case "custom":
            entry = _by_name.get(data["name"]) or _own(data["name"])
            if entry is None:
                raise ValueError(
                    f"the exported function takes or returns nodes written as {data['name']!r}; "
                    "register their type under this name by "
                    "xpr.export.register_pytree_node_serialization"
                )
            return entry.build(entry.read(base64.b64decode(data["aux"])), children)
        case other:
            raise ValueError(f"unknown kind of tree node: {other!r}")


def tree_from_data(data: Json) -> Any:
    """The PyTreeDef that `tree_data` wrote.

    Raises ValueError for damaged data and for node types that are not registered here.
    """

    def build(data: Json) -> Any:
        if data["type"] == "leaf":
            return 0
        return _node(data, [build(child) for child in data["children"]])

    try:
        return tree_util.tree_structure(build(data))
    except (KeyError, TypeError, binascii.Error) as error:
        raise ValueError(f"the tree's data is damaged: {error!r}") from error


def unflatten(data: Json, leaves: Sequence[Any]) -> Any:
    """The tree of the structure that `data` describes, with these leaves."""
    rest = iter(leaves)

    def build(data: Json) -> Any:
        if data["type"] == "leaf":
            return next(rest)
        return _node(data, [build(child) for child in data["children"]])

    return build(data)


def custom_children(name: str, node: Any) -> Sequence[Any] | None:
    """The children of a node of the user's type that is written as `name`; None for another."""
    entry = _by_name.get(name) or _own(name)
    if entry is None or type(node) is not entry.nodetype:
        return None
    if is_namedtuple(entry.nodetype) and registered(entry.nodetype) is None:
        return tuple(node)
    return tuple(tree_util.flatten_one_level(node)[0])


def _read_keys(text: bytes) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _write_keys(keys: Sequence[Any]) -> bytes:
    return json.dumps(_keys(keys)).encode()


register_pytree_node_serialization(
    OrderedDict,
    serialized_name="collections.OrderedDict",
    serialize_auxdata=_write_keys,
    deserialize_auxdata=_read_keys,
    from_children=lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
)
