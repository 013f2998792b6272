"""Abstract values: what is known of an array while a function is traced."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from xpr.core import dtypes

Shape = tuple[int, ...]

_interned: dict[tuple[Any, ...], ShapedArray] = {}
_MAX_INTERNED = 1 << 16
_NOWHERE: frozenset[str] = frozenset()
_DTYPES = (np.dtype, dtypes.ExtendedDType)


class ManualAxisType:
    """How a value of a `shard_map` body behaves along the manual mesh axes.

    It differs from device to device along `varying` axes; along `unreduced` ones it is a part of a
    sum. Raises ValueError for an axis that is varying and also unreduced or reduced.

    >>> ManualAxisType(varying={"x"}).varying
    frozenset({'x'})
    """

    __slots__ = ("reduced", "unreduced", "varying")
    varying: frozenset[Any]
    unreduced: frozenset[Any]
    reduced: frozenset[Any]

    def __init__(
        self,
        *,
        varying: Iterable[Any] = frozenset(),
        unreduced: Iterable[Any] = frozenset(),
        reduced: Iterable[Any] = frozenset(),
    ) -> None:
        for name, axes in (("varying", varying), ("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(axes, (set, frozenset)):
                raise TypeError(f"ManualAxisType: {name} must be a set, got {axes!r}")
        for name, axes in (("varying", varying), ("unreduced", unreduced), ("reduced", reduced)):
            object.__setattr__(self, name, frozenset(axes))
        for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)):
            if self.varying & axes:
                raise ValueError(
                    f"varying and {name} cannot have common mesh axes. Got "
                    f"varying={set(self.varying)} and {name}={set(axes)}"
                )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ManualAxisType cannot be changed: {name} is set when it is made")

    def __reduce__(self) -> Any:
        return _manual_axis_type, (self.varying, self.unreduced, self.reduced)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManualAxisType) and (
            (self.varying, self.unreduced, self.reduced)
            == (other.varying, other.unreduced, other.reduced)
        )

    def __hash__(self) -> int:
        return hash((self.varying, self.unreduced, self.reduced))

    def __repr__(self) -> str:
        return (
            f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, "
            f"reduced={self.reduced})"
        )


def _manual_axis_type(varying: Any, unreduced: Any, reduced: Any) -> ManualAxisType:
    return ManualAxisType(varying=varying, unreduced=unreduced, reduced=reduced)


def _name(dtype: np.dtype[Any]) -> str:
    return "float0" if dtype == dtypes.float0 else dtype.name


class ShapedArray:
    """Shape, dtype and weak type of an array (and the sharding it carries, if any).

    `vma` holds the manual axes along which the value varies; only values inside the body of a
    `shard_map` have any (see `xpr.core.manual`). `memory_space` is "device", or "host" for arrays
    that lie in the host's memory beside their device.

    Equal avals are nearly always the same object, which makes them cheap dictionary keys.

    >>> ShapedArray((3, 4), np.dtype("float32"))
    ShapedArray(float32[3,4])
    """

    __slots__ = (
        "_hash",
        "dtype",
        "memory_space",
        "shape",
        "sharding",
        "size",
        "vma",
        "weak_type",
    )

    shape: Shape
    dtype: np.dtype[Any]
    weak_type: bool
    sharding: Any
    vma: frozenset[str]
    memory_space: str
    size: int
    _hash: int

    def __new__(
        cls,
        shape: Shape,
        dtype: Any,
        weak_type: bool = False,
        sharding: Any = None,
        vma: frozenset[str] = _NOWHERE,
        memory_space: str = "device",
    ) -> ShapedArray:
        key = (shape, dtype, weak_type, sharding, vma, memory_space)
        found = _interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        set_ = object.__setattr__
        set_(self, "shape", tuple(int(d) for d in shape))
        set_(self, "dtype", dtype if isinstance(dtype, _DTYPES) else np.dtype(dtype))
        set_(self, "weak_type", bool(weak_type))
        set_(self, "sharding", sharding)
        set_(self, "vma", vma)
        set_(self, "memory_space", memory_space)
        set_(self, "size", math.prod(self.shape))
        key = (self.shape, self.dtype, self.weak_type, sharding, vma, memory_space)
        set_(self, "_hash", hash(key))
        if len(_interned) >= _MAX_INTERNED:
            # Equality does not need identity, so forgetting avals is safe and bounds memory.
            _interned.clear()
        return _interned.setdefault(key, self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ShapedArray is immutable: use update({name}=...)")

    def __getnewargs__(self) -> tuple[Any, ...]:
        fields = (self.shape, self.dtype, self.weak_type, self.sharding, self.vma)
        return (*fields, self.memory_space)

    def __reduce__(self) -> tuple[Any, ...]:
        return (ShapedArray, self.__getnewargs__())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not ShapedArray:
            return NotImplemented
        return (
            self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self.sharding == other.sharding
            and self.vma == other.vma
            and self.memory_space == other.memory_space
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def mat(self) -> ManualAxisType:
        """How the value behaves along manual axes, under JAX's name."""
        sharding = self.sharding
        if sharding is None or not sharding.mesh.are_all_axes_manual:
            return ManualAxisType(varying=self.vma)
        spec = sharding.spec
        return ManualAxisType(varying=self.vma, unreduced=spec.unreduced, reduced=spec.reduced)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def update(self, **changes: Any) -> ShapedArray:
        """A copy with some of its fields replaced."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "sharding": self.sharding,
            "vma": self.vma,
            "memory_space": self.memory_space,
        }
        return ShapedArray(**(fields | changes))

    is_high = False
    has_qdd = False

    def lo_ty(self) -> list[ShapedArray]:
        """The types of the arrays that values are made of, as of high types: this one."""
        return [self]

    def lower_val(self, value: Any) -> list[Any]:
        """The arrays that a value is made of: itself."""
        return [value]

    def raise_val(self, value: Any) -> Any:
        """The value that is made of an array: itself."""
        return value

    def normalize(self) -> ShapedArray:
        """The type without what may differ between values of one type: the weak type."""
        return self.strip_weak_type()

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def to_tangent_aval(self) -> ShapedArray:
        """The type of tangents of values of this type: itself, or of `float0` for integers.

        That of an extended dtype is what the dtype says, or `float0`.
        """
        kind = dtypes.kind(self.dtype)
        if kind in "fc":
            return self
        if kind == "x":
            tangent = getattr(getattr(self.dtype, "_rules", None), "tangent_dtype", None)
            if tangent is not None:
                return self.update(dtype=tangent(self.dtype))
        return ShapedArray(self.shape, dtypes.float0, False, self.sharding)

    def str_short(self) -> str:
        """The form that jaxprs print, such as `f32[3,4]`."""
        return dtypes.SHORT_NAMES.get(self.dtype, self.dtype.name) + self._extent()

    def __str__(self) -> str:
        weak = "~" if self.weak_type else ""
        return f"{weak}{_name(self.dtype)}{self._extent()}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({_name(self.dtype)}{self._extent()}{weak})"

    def _extent(self) -> str:
        """The sizes in brackets, each with the mesh axes that it is sharded over: `[8@x,16]`.

        Manual axes along which the value varies follow: `[8]{V:x}`."""
        if self.sharding is None:
            sets = [("V", self.vma)]
            sizes = [str(size) for size in self.shape]
        else:
            spec = self.sharding.spec
            sets = [("V", self.vma), ("U", spec.unreduced), ("R", spec.reduced)]
            entries = [*spec.partitions, *(None,) * (self.ndim - len(spec.partitions))]
            sizes = [
                _sharded_size(size, entry) for size, entry in zip(self.shape, entries, strict=True)
            ]
        shown = [
            f"{letter}:{_axes_text(tuple(sorted(axes, key=str)))}" for letter, axes in sets if axes
        ]
        space = "" if self.memory_space == "device" else f"<{self.memory_space}>"
        return f"{space}[{','.join(sizes)}]" + (f"{{{', '.join(shown)}}}" if shown else "")


class MappingSpec:
    """How values of a high type are mapped over, in place of an axis: programs derive from it."""


def without_dim(aval: ShapedArray, dim: int) -> ShapedArray:
    """The type with the axis `dim` left out; the other axes are sharded as before."""
    shape, sharding = aval.shape, aval.sharding
    if sharding is not None:
        spec = sharding.normalized_spec(len(shape))
        sharding = sharding.with_spec(
            sharding.spec.update(partitions=(*spec[:dim], *spec[dim + 1 :]))
        )
    return ShapedArray(
        (*shape[:dim], *shape[dim + 1 :]), aval.dtype, aval.weak_type, sharding, aval.vma
    )


def with_dim(aval: ShapedArray, dim: int, size: int, axes: tuple[Any, ...] = ()) -> ShapedArray:
    """The type with an axis more, at `dim`, sharded over the mesh axes `axes` if it has a mesh."""
    shape, sharding = aval.shape, aval.sharding
    if sharding is not None:
        spec = sharding.normalized_spec(len(shape))
        sharding = sharding.with_spec(
            sharding.spec.update(partitions=(*spec[:dim], axes, *spec[dim:]))
        )
    return ShapedArray(
        (*shape[:dim], size, *shape[dim:]), aval.dtype, aval.weak_type, sharding, aval.vma
    )


def same_sharding(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether types of one shape agree about shardings; a type without one agrees with any.

    One whose values are parts of sums agrees only with one whose values are, too.
    """
    if a.sharding is b.sharding:
        return True
    if unreduced_axes(a) != unreduced_axes(b):
        return False
    if a.sharding is None or b.sharding is None:
        return True
    return reduced_axes(a) == reduced_axes(b) and a.sharding.is_equivalent_to(b.sharding, a.ndim)


def without_replication(aval: ShapedArray) -> ShapedArray:
    """The type of an array that is whole on all devices, as one that may go with any other."""
    spec = None if aval.sharding is None else aval.sharding.spec
    if spec is None or any(spec.partitions) or spec.unreduced or spec.reduced:
        return aval
    return aval.update(sharding=None)


def _sharded_size(size: int, axes: Any) -> str:
    """A size and the mesh axes that it is sharded over, as an entry of a partition spec."""
    return str(size) if axes is None else f"{size}@{_axes_text(axes)}"


def _axes_text(axes: Any) -> str:
    if not isinstance(axes, tuple):
        return str(axes)
    return str(axes[0]) if len(axes) == 1 else f"({','.join(map(str, axes))})"


def scalar_aval(kind: str) -> ShapedArray:
    """The weakly typed aval of a Python scalar of that kind (bool has no weak type)."""
    return ShapedArray((), dtypes.default_dtype(kind), kind != "b")


def unreduced_axes(aval: ShapedArray) -> frozenset[str]:
    """The mesh axes along which values of this type are parts of sums."""
    return _NOWHERE if aval.sharding is None else aval.sharding.spec.unreduced


def reduced_axes(aval: ShapedArray) -> frozenset[str]:
    """The mesh axes along which cotangents of values of this type are parts of sums."""
    return _NOWHERE if aval.sharding is None else aval.sharding.spec.reduced


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether shapes and dtypes agree; weak types may differ."""
    if a.is_high or b.is_high:
        return bool(a == b or a.normalize() == b.normalize())
    return a.shape == b.shape and a.dtype == b.dtype
