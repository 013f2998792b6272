"""Attributes of foreign functions as a parameter: hashed by their values and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_INT64 = np.iinfo(np.int64)


class HashableArray:
    """An array that is compared by its values; nobody writes to it any more."""

    __slots__ = ("_key", "val")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.val = np.array(array, order="C")
        self.val.setflags(write=False)
        self._key = (self.val.dtype, self.val.shape, self.val.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashableArray) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"HashableArray({self.val!r})"


class FrozenDict:
    """A dictionary that is compared by the values and types of what is in it."""

    __slots__ = ("_items", "_key")

    def __init__(self, items: Attributes) -> None:
        self._items = items

    @property
    def items(self) -> Attributes:
        return self._items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenDict) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"FrozenDict({{{', '.join(f'{k!r}: {v!r}' for k, v in self._items)}}})"


class Attributes(tuple[tuple[str, Any], ...]):
    """Pairs of a name and a value, sorted; 1, 1.0 and True are three values here."""

    __slots__ = ()

    def _key(self) -> tuple[Any, ...]:
        # Numbers by their bytes: zeros of either sign are equal, and NaN is not equal to itself.
        return tuple(
            (
                name,
                type(x),
                np.asarray(x).tobytes() if isinstance(x, (float, np.generic)) else x,
            )
            for name, x in self
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key())

    def encoded(self) -> dict[str, Any]:
        """The values with the dtypes that functions see."""
        return {name: _encoded(x) for name, x in self}


def attributes_of(values: Mapping[str, Any]) -> Attributes:
    """What the user has given, made hashable; TypeError for what functions cannot get."""
    for name in values:
        if not isinstance(name, str):
            raise TypeError(f"names of attributes of a foreign function are texts, got {name!r}")
    return Attributes((name, _hashable(name, values[name])) for name in sorted(values))


def _hashable(name: str, x: Any) -> Any:
    if isinstance(x, np.ndarray):
        if x.dtype.kind in "OSUMm":
            raise TypeError(
                f"Unsupported array element type for attribute: {name} is an array of {x.dtype}"
            )
        return HashableArray(x)
    if isinstance(x, Mapping):
        return FrozenDict(attributes_of(x))
    try:
        hash(x)
    except TypeError as error:
        raise TypeError(
            f"Non-hashable keyword argument to ffi_call {name}: {x}: attributes are numbers, "
            "texts, NumPy arrays and dictionaries of them"
        ) from error
    if isinstance(x, (bool, np.generic, float, str, bytes)):
        return x
    if isinstance(x, int):
        if not _INT64.min <= x <= _INT64.max:
            raise OverflowError(f"Python int too large for the attribute {name}, an int64: {x}")
        return x
    if isinstance(x, complex):
        raise TypeError(
            f"Unsupported scalar attribute type: {name} is {x!r}, a complex number: use a NumPy "
            "scalar"
        )
    raise TypeError(
        f"Unsupported attribute type for attribute: {name} is {x!r} of {type(x)}: No attribute "
        f"handler defined for type: {type(x)}; use numbers, texts, NumPy arrays or dictionaries"
    )


def _encoded(x: Any) -> Any:
    if isinstance(x, HashableArray):
        return x.val
    if isinstance(x, FrozenDict):
        return x.items.encoded()
    if isinstance(x, (str, bytes, np.generic)):
        return x
    if isinstance(x, bool):
        return np.bool_(x)
    return np.int64(x) if isinstance(x, int) else np.float64(x)
