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
        return self.major_to_minor, self.tiling or (), self.sub_byte_element_size_in_bits

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
            raise self.other_rank(aval.shape)

    def other_rank(self, shape: Sequence[Any]) -> ValueError:
        """The error for an array of another rank."""
        return ValueError(
            "Length of major_to_minor and the rank of the value should match. Got "
            f"major_to_minor={self.major_to_minor} and shape={tuple(shape)}"
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
    check_plain(layout, aval.str_short())


def check_plain(layout: Layout, what: str) -> None:
    """Raises NotImplementedError for a layout that no array of xpr has."""
    plain = layout.major_to_minor == tuple(range(len(layout.major_to_minor))) and not layout.tiling
    if not plain or layout.sub_byte_element_size_in_bits:
        raise NotImplementedError(
            f"xpr's arrays are row-major and dense: {what} cannot have {layout}"
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


def concrete_sharding(place: Any, shape: tuple[Any, ...], what: str) -> Any:
    """The sharding of a `Format` for arrays of that shape; anything else as it is.

    Raises TypeError for the layout AUTO; `what` says where it was given.
    """
    if not isinstance(place, Format):
        return place
    if isinstance(place.layout, AutoLayout):
        raise TypeError(
            f"`Layout.AUTO` cannot be used in place of a device-local layout in {what}: got {place}"
        )
    if place.layout is not None:
        if len(place.layout.major_to_minor) != len(shape):
            raise place.layout.other_rank(shape)
        check_plain(place.layout, what)
    return place.sharding
