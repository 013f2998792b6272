"""Partition specs: over which mesh axes each axis of an array is spread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn


class UnconstrainedType:
    """The type of `PartitionSpec.UNCONSTRAINED`: the partitioner decides about this axis."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> Any:
        return _unconstrained, ()


def _unconstrained() -> UnconstrainedType:
    return UNCONSTRAINED


UNCONSTRAINED = UnconstrainedType()


def _entry(entry: Any) -> Any:
    """One entry in its shortest form: None, a name, or a tuple of two names or more."""
    if entry is None or isinstance(entry, (str, UnconstrainedType)):
        return entry
    if not isinstance(entry, (tuple, list)):
        return entry
    for part in entry:
        if isinstance(part, (tuple, list)):
            raise ValueError(
                "A tuple inside PartitionSpec cannot contain a nested tuple. Got partition: "
                f"{entry} and the nested tuple: {part}"
            )
    if not entry:
        return None
    return entry[0] if len(entry) == 1 else tuple(entry)


def _axes(name: str, axes: Any) -> frozenset[Any]:
    if not isinstance(axes, (set, frozenset)):
        raise TypeError(
            f"{name} argument of PartitionSpec should be of type `frozenset` or `set`. Got {axes} "
            f"of type {type(axes)}"
        )
    if None in axes:
        raise ValueError(
            f"{name} cannot contain None. All elements in {name} should refer to the mesh axes."
        )
    return frozenset(axes)


_lock = threading.Lock()
_specs: weakref.WeakValueDictionary[Any, PartitionSpec] = weakref.WeakValueDictionary()


class PartitionSpec:
    """For each axis of an array None, the name of a mesh axis, or a tuple of names.

    Axes without an entry are not sharded. `unreduced` names mesh axes over which parts are still
    to be summed, `reduced` those over which a cotangent will be. Equal specs are the same object.
    Raises ValueError for an axis that is given in two of these ways.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("__weakref__", "partitions", "reduced", "unreduced")

    UNCONSTRAINED = UNCONSTRAINED

    partitions: tuple[Any, ...]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __new__(
        cls, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()
    ) -> PartitionSpec:
        entries = tuple(map(_entry, partitions))
        unreduced, reduced = _axes("unreduced", unreduced), _axes("reduced", reduced)
        if unreduced & reduced:
            raise ValueError(
                "`unreduced` and `reduced` argument to PartitionSpec cannot overlap. Got "
                f"unreduced: {unreduced} and reduced: {reduced}"
            )
        for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
            if axes and any(a in axes for e in entries for a in axes_of(e)):
                raise ValueError(
                    f"partitions cannot overlap with {name} axes passed to PartitionSpec. Got "
                    f"partitions: {entries} and {name} axes: {axes}"
                )
        key = (entries, unreduced, reduced)
        with _lock:
            found = _specs.get(key)
            if found is None:
                found = object.__new__(cls)
                set_ = object.__setattr__
                set_(found, "partitions", entries)
                set_(found, "unreduced", unreduced)
                set_(found, "reduced", reduced)
                _specs[key] = found
            return found

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("PartitionSpec cannot be subclassed")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __reduce__(self) -> Any:
        return _spec, (self.partitions, self.unreduced, self.reduced)

    def __copy__(self) -> PartitionSpec:
        return self

    def __deepcopy__(self, memo: Any) -> PartitionSpec:
        return self

    def update(
        self, partitions: Any = None, unreduced: Any = None, reduced: Any = None
    ) -> PartitionSpec:
        """A spec with some of the three replaced."""
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def to_ct_spec(self) -> PartitionSpec:
        """The spec of cotangents: along reduced axes they are unreduced, and the other way.

        >>> PartitionSpec("x", reduced={"y"}).to_ct_spec()
        P('x', unreduced={'y'})
        """
        if not self.unreduced and not self.reduced:
            return self
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def check_rank(self, ndim: int, what: str) -> None:
        """Raises ValueError when an array of `ndim` axes has fewer than there are entries."""
        if ndim < len(self.partitions):
            hint = " For scalars the PartitionSpec should be P()" if ndim == 0 else ""
            raise ValueError(
                f"{what} is only valid for values of rank at least {len(self.partitions)}, but "
                f"was applied to a value of rank {ndim}.{hint}"
            )

    # ---- a sequence of its entries

    def _sequence(self, use: str) -> tuple[Any, ...]:
        if self.unreduced or self.reduced:
            raise ValueError(
                f"Using {use} is dangerous when PartitionSpec has non-empty unreduced/reduced "
                "set. Please use spec.partitions"
            )
        return self.partitions

    def __getitem__(self, index: Any) -> Any:
        return self._sequence("pspec[...]")[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._sequence("*pspec"))

    def __len__(self) -> int:
        return len(self.partitions)

    def index(self, value: Any) -> int:
        """The place of the first entry that is `value`."""
        return self.partitions.index(_entry(value))

    def count(self, value: Any) -> int:
        """How many entries are `value`."""
        return self.partitions.count(_entry(value))

    def __add__(self, other: Any) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        return PartitionSpec(*self.partitions, *self._entries_beside(other))

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self._entries_beside(other), *self.partitions)

    def _entries_beside(self, other: Any) -> tuple[Any, ...]:
        if not isinstance(other, tuple):
            raise NotImplementedError(
                f"a PartitionSpec can be joined with a tuple or another one, got {type(other)}"
            )
        if self.unreduced or self.reduced:
            raise TypeError(
                f"{other} cannot be joined with {self}, which has unreduced or reduced axes: "
                "use a PartitionSpec"
            )
        return other

    def __repr__(self) -> str:
        text = repr(self.partitions)[1:-1]
        sets = ", ".join(
            f"{name}={set(axes)!r}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        )
        if text and sets:
            return f"P({text} {sets})" if text.endswith(",") else f"P({text}, {sets})"
        return f"P({text}{sets})"


P = PartitionSpec


def _spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def axes_of(entry: Any) -> tuple[Any, ...]:
    """The mesh axes of one entry, major to minor; `()` for None and UNCONSTRAINED.

    >>> axes_of("x"), axes_of(None), axes_of(("x", "y"))
    (('x',), (), ('x', 'y'))
    """
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)
