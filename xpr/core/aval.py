"""Abstract values: what is known of an array while a function is traced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes

Shape = tuple[int, ...]

_interned: dict[tuple[Any, ...], ShapedArray] = {}
_MAX_INTERNED = 1 << 16


class ShapedArray:
    """Shape, dtype and weak type of an array (and the sharding it carries, if any).

    Equal avals are nearly always the same object, which makes them cheap dictionary keys.

    >>> ShapedArray((3, 4), np.dtype("float32"))
    ShapedArray(float32[3,4])
    """

    __slots__ = ("_hash", "dtype", "shape", "sharding", "size", "weak_type")

    shape: Shape
    dtype: np.dtype[Any]
    weak_type: bool
    sharding: Any
    size: int
    _hash: int

    def __new__(
        cls, shape: Shape, dtype: Any, weak_type: bool = False, sharding: Any = None
    ) -> ShapedArray:
        key = (shape, dtype, weak_type, sharding)
        found = _interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        set_ = object.__setattr__
        set_(self, "shape", tuple(int(d) for d in shape))
        set_(self, "dtype", dtype if isinstance(dtype, np.dtype) else np.dtype(dtype))
        set_(self, "weak_type", bool(weak_type))
        set_(self, "sharding", sharding)
        set_(self, "size", math.prod(self.shape))
        set_(self, "_hash", hash((self.shape, self.dtype, self.weak_type, sharding)))
        if len(_interned) >= _MAX_INTERNED:
            # Equality does not need identity, so forgetting avals is safe and bounds memory.
            _interned.clear()
        return _interned.setdefault((self.shape, self.dtype, self.weak_type, sharding), self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ShapedArray is immutable: use update({name}=...)")

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype, self.weak_type, self.sharding)

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
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def update(self, **changes: Any) -> ShapedArray:
        """A copy with some of shape, dtype, weak_type and sharding replaced."""
        fields = {
            "shape": self.shape,
            "dtype": self.dtype,
            "weak_type": self.weak_type,
            "sharding": self.sharding,
        }
        return ShapedArray(**(fields | changes))

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def str_short(self) -> str:
        """The form that jaxprs print, such as `f32[3,4]`."""
        return dtypes.SHORT_NAMES.get(self.dtype, self.dtype.name) + self._extent()

    def __str__(self) -> str:
        weak = "~" if self.weak_type else ""
        return f"{weak}{self.dtype.name}{self._extent()}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.dtype.name}{self._extent()}{weak})"

    def _extent(self) -> str:
        """The sizes in brackets, each with the mesh axes that it is sharded over: `[8@x,16]`."""
        if self.sharding is None:
            return f"[{','.join(map(str, self.shape))}]"
        spec = self.sharding.spec
        entries = [*spec.partitions, *(None,) * (self.ndim - len(spec.partitions))]
        sizes = [
            _sharded_size(size, entry) for size, entry in zip(self.shape, entries, strict=True)
        ]
        sets = [
            f"{letter}:{_axes_text(tuple(sorted(axes, key=str)))}"
            for letter, axes in (("U", spec.unreduced), ("R", spec.reduced))
            if axes
        ]
        return f"[{','.join(sizes)}]" + (f"{{{', '.join(sets)}}}" if sets else "")


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


def same_type(a: ShapedArray, b: ShapedArray) -> bool:
    """Whether shapes and dtypes agree; weak types may differ."""
    return a.shape == b.shape and a.dtype == b.dtype
