"""Key entries: one step from a pytree node to a child, and the text of a path of them."""

from collections.abc import Hashable
from operator import index
from typing import Any, NoReturn, TypeVar


class _Entry:
    """What the key entries share: each has one attribute, which cannot be set.

    They are no dataclasses: to make four of these takes 2 ms of the start of each process.
    """

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self).__name__, *vars(self).values()))

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__qualname__}({parts})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot assign to field {name!r} of {self!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete field {name!r} of {self!r}")


class SequenceKey(_Entry):
    """The step into a list or a tuple at position ``idx``.

    >>> SequenceKey(0), str(SequenceKey(0))
    (SequenceKey(idx=0), '[0]')
    """

    idx: int
    __match_args__ = ("idx",)

    def __init__(self, idx: int) -> None:
        _require_int("SequenceKey", idx)
        vars(self)["idx"] = idx

    def __str__(self) -> str:
        return f"[{self.idx}]"


class DictKey(_Entry):
    """The step into a dictionary at ``key``.

    >>> DictKey("w"), str(DictKey("w"))
    (DictKey(key='w'), "['w']")
    """

    key: Hashable
    __match_args__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        vars(self)["key"] = key

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class GetAttrKey(_Entry):
    """The step to the attribute ``name``, as in named tuples and dataclasses.

    >>> GetAttrKey("w"), str(GetAttrKey("w"))
    (GetAttrKey(name='w'), '.w')
    """

    name: str
    __match_args__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"GetAttrKey requires a str, got {name!r}")
        vars(self)["name"] = name

    def __str__(self) -> str:
        return f".{self.name}"


class FlattenedIndexKey(_Entry):
    """The step to the child number ``key`` of a custom node that was registered without keys.

    >>> FlattenedIndexKey(1), str(FlattenedIndexKey(1))
    (FlattenedIndexKey(key=1), '[<flat index 1>]')
    """

    key: int
    __match_args__ = ("key",)

    def __init__(self, key: int) -> None:
        _require_int("FlattenedIndexKey", key)
        vars(self)["key"] = key

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


# Custom nodes may use any hashable object as a key entry, hence a type variable and no union.
KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[Any, ...]


def _require_int(name: str, value: object) -> None:
    try:
        index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise TypeError(f"{name} requires an int, got {value!r}") from None


def _simple_text(key: object) -> str:
    match key:
        case SequenceKey(idx=part) | DictKey(key=part) | GetAttrKey(name=part):
            return str(part)
        case FlattenedIndexKey(key=part):
            return str(part)
        case _:
            return str(key)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """The text of a key path, as one would write it after the name of the tree.

    ``simple=True`` leaves out brackets, dots and quotes; ``separator`` stands between entries.

    >>> path = (SequenceKey(1), DictKey("w"), GetAttrKey("x"))
    >>> keystr(path)
    "[1]['w'].x"
    >>> keystr(path, simple=True, separator="/")
    '1/w/x'
    """
    return separator.join(map(_simple_text if simple else str, keys))
