"""Concrete arrays of extended dtypes: an array of numbers, seen as an array of its elements."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.extended import ExtendedDType
from xpr.core.key_types import KeyType
from xpr.core.physical import element_aval
from xpr.core.trace import is_eager, register_aval


class ExtendedArray(Array):
    """An array of keys, say. `_base` holds its numbers, with the axes of an element last.

    >>> import xpr
    >>> keys = xpr.random.split(xpr.random.key(0), 3)
    >>> keys.shape, keys.dtype
    ((3,), key<fry>)
    >>> isinstance(keys, xpr.Array)
    True
    """

    __slots__ = ("__weakref__", "_base", "aval")

    def __init__(self, aval: ShapedArray, base: Any) -> None:
        self.aval = aval
        self._base = base

    # ---- type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return False

    # ---- place and life time: those of the numbers

    @property
    def sharding(self) -> Any:
        """How the array is sharded over devices."""
        found = self._base.sharding
        spec = getattr(found, "spec", None)
        if spec is None or len(spec) <= self.ndim:
            return found
        return found.with_spec(spec.update(partitions=tuple(spec.partitions)[: self.ndim]))

    @property
    def device(self) -> Any:
        """The device that holds the array, or its sharding if there are several."""
        found = self._base.device
        return found if not hasattr(found, "spec") else self.sharding

    @property
    def committed(self) -> bool:
        """Whether the user placed the array: work on it stays on its device."""
        return self._base.committed

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach all of the array."""
        return self._base.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return self._base.is_fully_replicated

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        return self._base.devices()

    def platform(self) -> str:
        """The platform of the array's devices."""
        return self._base.platform()

    @property
    def addressable_shards(self) -> list[Any]:
        """The parts that this process can reach."""
        return [self._shard(s) for s in self._base.addressable_shards]

    @property
    def global_shards(self) -> list[Any]:
        """All parts; those of other processes have None for their data."""
        return [self._shard(s) for s in self._base.global_shards]

    def _shard(self, shard: Any) -> Any:
        data = None if shard.data is None else seen_as(shard.data, self.dtype)
        return type(shard)(shard.device, shard.index[: self.ndim], shard.replica_id, data)

    def addressable_data(self, index: int) -> ExtendedArray:
        """The part number `index` of those that this process can reach."""
        return seen_as(self._base.addressable_data(index), self.dtype)

    def block_until_ready(self) -> ExtendedArray:
        """Waits until the values are there, and returns the array."""
        self._base.block_until_ready()
        return self

    def is_ready(self) -> bool:
        """Whether the values are there already."""
        return self._base.is_ready()

    def copy_to_host_async(self) -> None:
        """Starts copying the values to the host."""
        self._base.copy_to_host_async()

    def delete(self) -> None:
        """Frees the memory at once; using the array afterwards raises RuntimeError."""
        self._base.delete()

    def is_deleted(self) -> bool:
        """Whether the memory was freed by `delete` or given away by donation."""
        return self._base.is_deleted()

    def on_device_size_in_bytes(self) -> int:
        """Bytes that the array takes on its devices."""
        return self._base.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory, for foreign functions; it must not be written to."""
        return self._base.unsafe_buffer_pointer()

    def to_device(self, device: Any, *, stream: Any = None) -> Any:
        """The array on another device."""
        return seen_as(self._base.to_device(device, stream=stream), self.dtype)

    # ---- what arrays of numbers alone can do

    def __getitem__(self, index: Any) -> Any:
        if not is_eager():
            return super().__getitem__(index)
        # At once on the numbers: the axes of an element stay whole.
        parts = index if isinstance(index, tuple) else (index,)
        used = sum(1 for p in parts if p is not None and p is not Ellipsis)
        if used > self.ndim:
            raise IndexError(
                f"Too many indices: array is {self.ndim}-dimensional, but {used} were indexed"
            )
        rest = (slice(None),) * (self._base.ndim - self.ndim)
        if not any(p is Ellipsis for p in parts):
            rest = (..., *rest)
        return seen_as(self._base[(*parts, *rest)], self.dtype)

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d key array" if self._is_key() else _NO_AXIS)
        return (self[i] for i in range(self.shape[0]))

    def _is_key(self) -> bool:
        return isinstance(self.dtype, KeyType)

    def _refuse(self, what: str) -> NoReturn:
        hint = (
            " Use xpr.random.key_data(arr) if you wish to extract the underlying integer array."
            if self._is_key()
            else ""
        )
        kind = "PRNGKey" if self._is_key() else str(self.dtype)
        raise TypeError(f"JAX array with {kind} dtype cannot be converted to {what}.{hint}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._refuse("a NumPy array")

    def __bool__(self) -> bool:
        raise TypeError(
            "key array cannot be converted to boolean."
            if self._is_key()
            else f"array of dtype {self.dtype} cannot be converted to boolean."
        )

    def __int__(self) -> int:
        self._refuse("an integer")

    def __float__(self) -> float:
        self._refuse("a float")

    def __complex__(self) -> complex:
        self._refuse("a complex number")

    def __index__(self) -> int:
        self._refuse("an index")

    def item(self, *args: int) -> Any:
        self._refuse("a Python number")

    def tolist(self) -> Any:
        self._refuse("a list of Python numbers")

    def tobytes(self, order: str | None = "C") -> bytes:
        self._refuse("bytes")

    def to_numpy(self) -> Any:
        self._refuse("a NumPy array")

    def __dlpack__(self, **_: Any) -> Any:
        self._refuse("a DLPack capsule")

    def __dlpack_device__(self) -> Any:
        self._refuse("a DLPack capsule")

    # ---- printing, copies

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"<deleted Array of type {self.aval.str_short()}>"
        return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{self._base}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        return seen_as, (self._base, self.dtype)

    def __copy__(self) -> ExtendedArray:
        return seen_as(self._base.__copy__(), self.dtype)

    def __deepcopy__(self, memo: Any) -> ExtendedArray:
        return ExtendedArray(self.aval, self._base.__deepcopy__(memo))


_NO_AXIS = "iteration over a 0-d array"
register_aval(ExtendedArray, operator.attrgetter("aval"))


def seen_as(base: Any, dtype: ExtendedDType) -> ExtendedArray:
    """An array of numbers as the array of elements of `dtype` that they stand for."""
    element = element_aval(dtype)
    aval = base.aval
    ndim = aval.ndim - element.ndim
    sharding = aval.sharding
    if sharding is not None:
        spec = sharding.normalized_spec(aval.ndim)
        sharding = sharding.with_spec(sharding.spec.update(partitions=tuple(spec[:ndim])))
    logical = ShapedArray(aval.shape[:ndim], dtype, False, sharding, aval.vma, aval.memory_space)
    return ExtendedArray(logical, base)


class HostElements:
    """Values on the host of an array of an extended dtype: what a callback is called with."""

    __slots__ = ("dtype", "numbers")

    def __init__(self, numbers: Any, dtype: ExtendedDType) -> None:
        self.numbers = numbers
        self.dtype = dtype


def base_of(x: Any) -> Any:
    """The numbers of an array of an extended dtype; any other value itself."""
    return x._base if type(x) is ExtendedArray else x


def with_type(aval: ShapedArray, value: Any) -> Any:
    """A physical result as what its type `aval` says: an `ExtendedArray`, or itself."""
    return seen_as(value, aval.dtype) if isinstance(aval.dtype, ExtendedDType) else value


def mapped(x: ExtendedArray, function: Callable[[Any], Any]) -> ExtendedArray:
    """The array whose numbers are what `function` makes of those of `x`."""
    base = function(x._base)
    return x if base is x._base else seen_as(base, x.dtype)
