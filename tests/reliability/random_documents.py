"""JSON documents with something replaced, removed or moved."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[Any, ...]

VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 7, 1 << 31, 1 << 70, 1.5, float("nan"), "", "x", "jit"),
    *("float64", "int8", "bool", "float0", "key<fry>", "pure_callback", "ffi_call", "c_kernel"),
    *([], {}, [[]], [None], [1 << 40], {"closed": 0}, {"closed": -1}, {"tuple": [1]}),
    *({"float": "0x1p+0"}, {"scalar": ["int32", "00000000"]}, {"array": "array0"}, {"dtype": "x"}),
)
"""What a value is replaced by."""


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """The paths of all values inside a document, itself among them."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def at_place(value: Any, at: Path) -> Any:
    """The value at a path."""
    for key in at:
        value = value[key]
    return value


def replaced(document: Any, at: Path, value: Any) -> Any:
    """A copy of the document with another value at a path; `...` removes what is there."""
    if not at:
        return value
    changed = copy.deepcopy(document)
    inside = at_place(changed, at[:-1])
    if value is ...:
        del inside[at[-1]]
    else:
        inside[at[-1]] = value
    return changed


def mutated(document: Any, rng: random.Random) -> Any:
    """A copy of the document with one thing changed.

    >>> document = {"a": [1, 2], "b": {"c": None}}
    >>> all(mutated(document, random.Random(i)) != document for i in range(40))
    True
    """
    found = list(places(document))[1:]
    while True:
        at = rng.choice(found)
        old = at_place(document, at)
        match rng.randrange(5):
            case 0:
                new: Any = ...
            case 1:
                new = copy.deepcopy(at_place(document, rng.choice(found)))
            case 2 if type(old) is int:
                new = old + rng.choice((-1, 1, 2, -old, 1 << 20))
            case 3 if isinstance(old, list) and old:
                new = old[:-1] if rng.random() < 0.5 else [*old, copy.deepcopy(rng.choice(old))]
            case _:
                new = rng.choice(VALUES)
        changed = replaced(document, at, new)
        if repr(changed) != repr(document):
            return changed
