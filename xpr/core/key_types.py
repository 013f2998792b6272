"""The dtypes of arrays of random keys, one for each generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.extended import ExtendedDType, prng_key


class KeyRules:
    """Keys are uint32 numbers; they have no derivatives and no conversions."""

    @staticmethod
    def physical_element_aval(dtype: KeyType) -> ShapedArray:
        return ShapedArray(dtype.generator.key_shape, np.dtype(np.uint32))


class Generator:
    """A generator of random bits: its name, its tag in types, and the shape of a key's data."""

    __slots__ = ("key_shape", "name", "tag")

    def __init__(self, name: str, tag: str, key_shape: tuple[int, ...]) -> None:
        self.name = name
        self.tag = tag
        self.key_shape = key_shape

    def __repr__(self) -> str:
        return self.tag

    def __reduce__(self) -> tuple[Any, ...]:
        return (generator_named, (self.name,))


GENERATORS = {
    g.name: g
    for g in (
        Generator("threefry2x32", "fry", (2,)),
        Generator("rbg", "rbg", (4,)),
        Generator("unsafe_rbg", "urbg", (4,)),
    )
}


def generator_named(name: str) -> Generator:
    """The generator of that name."""
    return GENERATORS[name]


class KeyType(ExtendedDType):
    """The dtype of arrays of keys of one generator.

    >>> KeyType(generator_named("threefry2x32"))
    key<fry>
    """

    type = prng_key
    _rules = KeyRules

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    @property
    def name(self) -> str:
        return f"key<{self.generator.tag}>"

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(other) is KeyType and self.generator is other.generator

    def __hash__(self) -> int:
        return hash((KeyType, self.generator.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return (KeyType, (self.generator,))
