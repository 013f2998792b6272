"""Dataclasses as pytree nodes."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from ._keys import GetAttrKey
from ._registry import KeyedChildren, NodeType, register

_Class = TypeVar("_Class", bound=type)


def static(**kwargs: Any) -> Any:
    """A dataclass field that `register_dataclass` takes for metadata, not for a child.

    Takes the arguments of ``dataclasses.field``.

    >>> from dataclasses import dataclass
    >>> import xpr.tree_util as tree_util
    >>> @tree_util.register_dataclass
    ... @dataclass
    ... class Layer:
    ...     weight: float
    ...     activation: str = static(default="relu")
    >>> tree_util.tree_flatten(Layer(0.5))
    ([0.5], PyTreeDef(CustomNode(Layer[('relu',)], [*])))
    """
    import dataclasses  # noqa: PLC0415  not of use to every program

    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_dataclass(
    nodetype: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> _Class:
    """Make a dataclass a pytree node: data fields are its children, meta fields its metadata.

    Without field names, those with ``metadata={"static": True}`` are meta fields, the others data
    fields. Together they must be the fields that ``__init__`` takes, less ``drop_fields``, which
    get their defaults when a tree is rebuilt. Other classes need both lists; their constructor must
    take the names as keywords. Can be used as a decorator. Returns ``nodetype``.

    Raises TypeError if one list is missing, ValueError if a field is in both or in none of them.

    >>> from dataclasses import dataclass, field
    >>> import xpr.tree_util as tree_util
    >>> @tree_util.register_dataclass
    ... @dataclass
    ... class Model:
    ...     w: float
    ...     b: float
    ...     name: str = field(metadata={"static": True})
    >>> tree_util.tree_map(lambda x: 2 * x, Model(1.0, 2.0, "linear"))
    Model(w=2.0, b=4.0, name='linear')
    """
    if not isinstance(nodetype, type):
        raise TypeError(f"register_dataclass requires a class, got {nodetype!r}")
    data, meta = _field_names(nodetype, data_fields, meta_fields, drop_fields)
    if repeated := set(data) & set(meta):
        raise ValueError(
            f"data_fields and meta_fields must not overlap. Overlapping fields: {repeated}."
        )
    _check_fields(nodetype, data, meta, set(drop_fields))
    register(nodetype, _node_type(nodetype, data, meta), "dataclass ")
    return nodetype


def _field_names(
    nodetype: type,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
    drop_fields: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    import dataclasses  # noqa: PLC0415  not of use to every program

    if data_fields is not None and meta_fields is not None:
        return tuple(data_fields), tuple(meta_fields)
    if data_fields is not None or meta_fields is not None:
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either"
            f" is specified. Got data_fields={data_fields} meta_fields={meta_fields}."
        )
    if not dataclasses.is_dataclass(nodetype):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields are required when nodetype is not a"
            f" dataclass. Got nodetype={nodetype}."
        )
    fields = [field for field in dataclasses.fields(nodetype) if field.name not in drop_fields]
    return (
        tuple(field.name for field in fields if not field.metadata.get("static", False)),
        tuple(field.name for field in fields if field.metadata.get("static", False)),
    )


def _check_fields(
    nodetype: type, data: tuple[str, ...], meta: tuple[str, ...], drop: set[str]
) -> None:
    import dataclasses  # noqa: PLC0415  not of use to every program

    if not dataclasses.is_dataclass(nodetype):
        return
    wanted = {field.name for field in dataclasses.fields(nodetype) if field.init} - drop
    named = {*data, *meta}
    if named == wanted:
        return
    message = (
        "data_fields and meta_fields must include all dataclass fields with ``init=True`` and"
        f" only them: {nodetype} has {sorted(wanted)}, got {sorted(named)}."
    )
    if missing := wanted - named:
        message += f" Missing fields: {missing}. To leave them out, add them to drop_fields."
    if unexpected := named - wanted:
        message += f" Unexpected fields: {unexpected}."
        if unexpected <= {field.name for field in dataclasses.fields(nodetype)} - drop:
            message += " To leave out a field with ``init=False``, add it to drop_fields."
    raise ValueError(message)


def _node_type(nodetype: type, data: tuple[str, ...], meta: tuple[str, ...]) -> NodeType:
    get_data, get_meta = _tuple_getter(data), _tuple_getter(meta)
    keys = tuple(map(GetAttrKey, data))

    def flatten(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return get_data(node), get_meta(node)

    def flatten_with_keys(node: Any) -> tuple[KeyedChildren, tuple[Any, ...]]:
        return zip(keys, get_data(node), strict=True), get_meta(node)

    def unflatten(values: Iterable[Any], children: Iterable[Any]) -> Any:
        fields = dict(zip(meta, values, strict=True))
        return nodetype(**fields, **dict(zip(data, children, strict=True)))

    return NodeType(flatten, unflatten, flatten_with_keys, data)


def _tuple_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads these attributes, in C where there are several."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda node: ()
    [name] = names
    return lambda node: (getattr(node, name),)
