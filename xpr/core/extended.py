"""Extended dtypes: dtypes of arrays that hold no numbers, such as keys of random numbers.

Each element of such an array stands for a small array of numbers, its *physical element*. Programs
are traced, differentiated and vectorised with the extended dtype; before they are lowered a pass
over the jaxpr replaces it (`xpr/interpreters/physical.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xpr.core.aval import ShapedArray


class extended(np.generic):
    """The category of dtypes whose arrays hold no numbers."""


class prng_key(extended):
    """The category of dtypes of arrays of random keys."""


class ExtendedDType:
    """The base class of extended dtypes.

    `type` is the category, `name` what is printed. What the dtype means is said by the static
    methods of the class `_rules`: `physical_element_aval(dtype)` gives the type of an element's
    numbers; `tangent_dtype(dtype)`, `convert_from(dtype, other)` and `convert_to(other, dtype)`
    are left out by dtypes without derivatives and conversions. A subclass can be hashed.
    """

    type: Any = extended
    _rules: Any = None

    @property
    def name(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} must have a name")

    @property
    def itemsize(self) -> int:
        element = self._rules.physical_element_aval(self)
        return element.size * element.dtype.itemsize

    @property
    def kind(self) -> str:
        return "V"

    def __str__(self) -> str:
        return self.name


class KeyRules:
    """Keys are uint32 numbers; they have no derivatives and no conversions."""

    @staticmethod
    def physical_element_aval(dtype: KeyType) -> ShapedArray:
        from xpr.core.aval import ShapedArray  # noqa: PLC0415  avals are made of dtypes

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


def is_extended(dtype: Any) -> bool:
    """Whether `dtype` is an extended dtype, or a category of such."""
    if isinstance(dtype, ExtendedDType):
        return True
    return isinstance(dtype, type) and issubclass(dtype, extended)
