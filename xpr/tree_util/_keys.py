"""Key entries: one step from a pytree node to a child, and the text of a path of them."""

from collections.abc import Hashable
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar


@dataclass(frozen=True)
class SequenceKey:
    """The step into a list or a tuple at position ``idx``.

    >>> SequenceKey(0), str(SequenceKey(0))
    (SequenceKey(idx=0), '[0]')
    """

    idx: int

    def __post_init__(self) -> None:
        _require_int("SequenceKey", self.idx)

    def __str__(self) -> str:
        return f"[{self.idx}]"


@dataclass(frozen=True)
class DictKey:
    """The step into a dictionary at ``key``.

    >>> DictKey("w"), str(DictKey("w"))
    (DictKey(key='w'), "['w']")
    """

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(frozen=True)
class GetAttrKey:
    """The step to the attribute ``name``, as in named tuples and dataclasses.

    >>> GetAttrKey("w"), str(GetAttrKey("w"))
    (GetAttrKey(name='w'), '.w')
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"GetAttrKey requires a str, got {self.name!r}")

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(frozen=True)
class FlattenedIndexKey:
    """The step to the child number ``key`` of a custom node that was registered without keys.

    >>> FlattenedIndexKey(1), str(FlattenedIndexKey(1))
    (FlattenedIndexKey(key=1), '[<flat index 1>]')
    """

    key: int

    def __post_init__(self) -> None:
        _require_int("FlattenedIndexKey", self.key)

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
