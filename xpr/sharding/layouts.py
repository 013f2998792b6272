"""The order of an array's elements in memory, by the names of `jax.experimental.layout`.

Arrays of xpr are row-major and dense, on every device: there is one layout for each rank. Programs
that ask for it run; those that ask for another are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xpr.sharding.base import Sharding


class AutoLayout:
    """The layout that suits a program best, as the compiler chooses it."""

    def __repr__(self) -> str:
        return "AUTO"


class Layout:
    """The order of axes in memory, from the slowest to the fastest one.

    >>> Layout((0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    AUTO: ClassVar[AutoLayout] = AutoLayout()

    __slots__ = ("major_to_minor", "sub_byte_element_size_in_bits", "tiling")

    def __init__(
        self,
        major_to_minor: Sequence[int],
        tiling: Sequence[Sequence[int]] | None = None,
        sub_byte_element_size_in_bits: int = 0,
    ) -> None:
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _key(self) -> tuple[Any, ...]:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
            f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})"
        )

    def check_matches_aval(self, aval: Any) -> None:
        """Raises ValueError unless arrays of that type can have this layout."""
        if len(self.major_to_minor) != aval.ndim:
            raise ValueError(
                f"Length of major_to_minor and the rank of the value should match. Got "
                f"major_to_minor={self.major_to_minor} and shape={aval.shape}"
            )


class Format:
    """A layout together with a sharding.

    Raises ValueError for a layout that is given without a sharding.

    >>> Format()
    Format(layout=None, sharding=None)
    """

    __slots__ = ("layout", "sharding")

    def __init__(
        self, layout: Layout | AutoLayout | None = None, sharding: Sharding | None = None
    ) -> None:
        if isinstance(layout, Layout) and not isinstance(sharding, Sharding):
            raise ValueError(
                f"Sharding has to be concrete when layout is of type {type(layout)}. Please pass a "
                "`jax.sharding.NamedSharding` or `jax.sharding.SingleDeviceSharding` to the "
                f"sharding argument. Got sharding {sharding}"
            )
        self.layout = layout
        self.sharding = sharding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (
            other.layout,
            other.sharding,
        )

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def check_row_major(layout: Layout, aval: Any) -> None:
    """Raises ValueError for a layout of another rank, NotImplementedError for another order."""
    layout.check_matches_aval(aval)
    plain = layout.major_to_minor == tuple(range(aval.ndim)) and not layout.tiling
    if not plain or layout.sub_byte_element_size_in_bits:
        raise NotImplementedError(
            f"xpr's arrays are row-major and dense: {aval.str_short()} cannot have {layout}"
        )


def sharding_of(place: Format, aval: Any) -> Sharding | None:
    """Where an array of a type goes that is put to a format; errors as `check_row_major`."""
    if isinstance(place.layout, AutoLayout):
        raise ValueError(
            "sharding and layout in `Layout` instance should be concrete. Got layout: "
            f"{place} for input {aval.str_short()}"
        )
    if place.layout is not None:
        check_row_major(place.layout, aval)
    return place.sharding
