"""`ArrayImpl`: a concrete array, a list of device buffers with an aval."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.array import Array, surface
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.guards import check_transfer
from xpr.core.trace import Tracer, register_aval
from xpr.core.tracebacks import export_methods, register_mutable
from xpr.dispatch.default_device import default_device
from xpr.dispatch.printing import array_repr
from xpr.runtimes.base import Buffer, Device, deleted_error
from xpr.runtimes.extension import native
from xpr.runtimes.host import HostBuffer
from xpr.sharding import Shard, Sharding, SingleDeviceSharding
from xpr.sharding.layouts import Format, Layout


class _NoOperators:
    """Without the native part the operators are those of `Array`."""

    __slots__ = ()


_native: Any = native().module
# Its operators mean the same as those of `Array`, which they call for all that is unusual.
_Operators: Any = _NoOperators if _native is None else _native.NativeOperators


@export_methods
class ArrayImpl(_Operators, Array):
    """A concrete array. `_buffers` has one buffer for each device that holds a part of it."""

    __slots__ = ("__weakref__", "_buffers", "_committed", "_sharding", "aval")

    aval: ShapedArray

    def __init__(
        self,
        aval: ShapedArray,
        buffers: tuple[Buffer, ...],
        committed: bool = False,
        sharding: Sharding | None = None,
    ) -> None:
        self.aval = aval
        self._buffers = buffers
        self._committed = committed
        self._sharding = sharding

    # ---- type and place

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def committed(self) -> bool:
        """Whether the user placed the array: work on it stays on its device."""
        return self._committed

    @property
    def sharding(self) -> Sharding:
        """How the array is spread over devices."""
        if self._sharding is None:
            self._sharding = SingleDeviceSharding(self._buffers[0].device)
        return self._sharding

    @property
    def format(self) -> Format:
        """The layout in memory, which is row-major, and the sharding."""
        return Format(Layout(range(self.ndim), ()), self.sharding)

    @property
    def device(self) -> Device:
        """The device that holds the array."""
        return self._buffers[0].device

    def devices(self) -> set[Device]:
        """The devices that hold the array."""
        return {b.device for b in self._buffers}

    def platform(self) -> str:
        """The platform of the array's device."""
        return self._buffers[0].device.platform

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach all of the array."""
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return self.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts that this process can reach."""
        whole = (slice(None),) * self.ndim
        return [Shard(b.device, whole, i, self) for i, b in enumerate(self._buffers)]

    @property
    def global_shards(self) -> list[Shard]:
        """All parts."""
        return self.addressable_shards

    def addressable_data(self, index: int) -> ArrayImpl:
        """The part number `index` of those that this process can reach."""
        return self.addressable_shards[index].data

    # ---- life time

    @property
    def _value(self) -> np.ndarray[Any, Any]:
        """The values on the host, read-only; no copy on host devices."""
        return self._buffers[0].host_view()

    def block_until_ready(self) -> ArrayImpl:
        """Waits until the values are there, and returns the array."""
        for b in self._buffers:
            b.block_until_ready()
        return self

    def is_ready(self) -> bool:
        """Whether the values are there already."""
        return all([b.is_ready() for b in self._buffers])

    def copy_to_host_async(self) -> None:
        """Starts copying the values to the host; on host devices they are there."""
        self._check_alive()
        for b in self._buffers:
            b.copy_to_host_async()

    def delete(self) -> None:
        """Frees the memory at once; using the array afterwards raises RuntimeError."""
        for b in self._buffers:
            b.delete()

    def is_deleted(self) -> bool:
        """Whether the memory was freed by `delete` or given away by donation."""
        return any(b.is_deleted() for b in self._buffers)

    def _check_alive(self) -> None:
        if self.is_deleted():
            raise deleted_error((self.shape, self.dtype))

    def on_device_size_in_bytes(self) -> int:
        """Bytes that the array takes on its devices."""
        return sum(b.nbytes for b in self._buffers)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory, for foreign functions; it must not be written to."""
        return self._buffers[0].memory_span()[0]

    # ---- values for Python and NumPy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if state.transfer_guard_device_to_host != "allow":
            if not all(b.device.runtime.is_host for b in self._buffers):
                check_transfer("device_to_host", False, f"{self.aval} from {self.device!r}")
        value = self._value
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(
                    f"a view of a {value.dtype} array as {np.dtype(dtype)} needs a copy, but "
                    "copy=False"
                )
            return value.astype(dtype)
        return np.array(value) if copy else value

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule: shared and read-only for consumers of DLPack 1.0, else a copy."""
        if stream is not None:
            raise ValueError(f"__dlpack__ on a CPU array takes stream=None, got {stream!r}")
        value = self._value
        if value.dtype.kind not in "biufc":
            raise BufferError(
                f"DLPack through NumPy has no type for {value.dtype}; convert it first"
            )
        shared = max_version is not None and max_version[0] >= 1 and not copy
        if not shared and copy is False:
            raise BufferError(
                "the consumer's DLPack version has no read-only arrays, so the values must be "
                "copied, but copy=False"
            )
        # A consumer that knows nothing of read-only memory could change the array.
        source = value if shared else np.array(value)
        if shared:
            return source.__dlpack__(max_version=max_version, dl_device=dl_device)
        return source.__dlpack__(dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._value.__dlpack_device__()

    def __bool__(self) -> bool:
        if self.size != 1:
            what = "an empty array" if self.size == 0 else "an array with more than one element"
            raise ValueError(f"The truth value of {what} is ambiguous. Use a.any() or a.all()")
        return bool(self._value.reshape(())[()])

    def _scalar(self, what: str) -> Any:
        if self.ndim:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; {what} got an array of "
                f"shape {self.shape}"
            )
        return self._value[()]

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index, got "
                f"{self.aval.str_short()}"
            )
        return int(self._value[()])

    def item(self, *args: int) -> Any:
        """The single element, or the one at the index given, as a Python number."""
        return self._value.item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._value.tolist()

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array, as `np.asarray` gives them.

        JAX's arrays have no such method. Plotting libraries look for it in arrays that are not
        NumPy's; without it they take a million elements one by one.
        """
        return self.__array__()

    def tobytes(self, order: str | None = "C") -> bytes:
        """The bytes of the elements: "C" the last axis fastest, "F" the first.

        "A" and "K" are as "C". Raises ValueError for another order.
        """
        if order not in ("C", "F", "A", "K", None):
            raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
        return self._value.tobytes("F" if order == "F" else "C")

    def __str__(self) -> str:
        return str(self._value)

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"<deleted Array of type {self.aval.str_short()}>"
        return array_repr(self._value, self.aval.weak_type)

    def _repr_html_(self) -> str:
        """What notebooks show: type, place and values, of a large array its corners."""
        from xpr.dispatch.html import array_html  # noqa: PLC0415  only notebooks ask for it

        if self.is_deleted():
            return array_html(repr(self), None)
        about = f"{self.aval.str_short()} on {self._buffers[0].device!r}"
        return array_html(about, self._value)

    def __format__(self, spec: str) -> str:
        return format(self._value[()], spec) if not self.shape else format(self._value, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (np.array(self._value), self.aval.weak_type)

    # ---- copies: the values cannot change, yet a copy must survive the deletion of the original

    def _aliases(self) -> tuple[Buffer, ...]:
        """Buffers over the same memory: who donates one of them gets a copy of it to write to."""
        self._check_alive()
        return tuple([b.alias() for b in self._buffers])

    def _copied(self) -> ArrayImpl:
        """The same array in memory of its own."""
        return array_from_host(np.array(self._value), self.aval, self.device, self._committed)

    def __copy__(self) -> ArrayImpl:
        return type(self)(self.aval, self._aliases(), self._committed, self._sharding)

    def __deepcopy__(self, memo: Any) -> ArrayImpl:
        return self._copied()

    # ---- assignment, where the setting `mutable_arrays` allows it

    def __setitem__(self, index: Any, value: Any) -> None:
        """Gives the array new buffers; whatever shares the old ones keeps its values."""
        if not state.mutable_arrays:
            super().__setitem__(index, value)
        if not isinstance(value, Tracer):
            value = surface().asarray(value).astype(self.dtype)
        updated = self.at[index].set(value)
        if not isinstance(updated, ArrayImpl):
            raise TypeError(
                f"x[{index!r}] = ... cannot be traced, and its index or value is traced: write "
                f"x = x.at[{index!r}].set(...)"
            )
        self._buffers = updated._buffers
        self._sharding = updated._sharding


register_mutable(ArrayImpl)
register_aval(ArrayImpl, lambda x: x.aval)
if _native is not None:
    _native.learn_arrays(ArrayImpl, HostBuffer)


def freeze(value: np.ndarray[Any, Any]) -> None:
    """Makes `value`, and whatever array it is a view of, read-only for good."""
    value.setflags(write=False)
    base = value.base
    while isinstance(base, np.ndarray):
        base.setflags(write=False)
        base = base.base


def array_from_host(
    value: np.ndarray[Any, Any], aval: ShapedArray, device: Device, committed: bool = False
) -> ArrayImpl:
    """An array on `device` with the values of `value`, which nobody may write to afterwards."""
    freeze(value)
    if device.runtime.is_host:
        return ArrayImpl(aval, (HostBuffer(value, device),), committed)
    return ArrayImpl(aval, (device.runtime.buffer_from_host(value, device, copy=True),), committed)


def _unpickle(value: np.ndarray[Any, Any], weak_type: bool) -> ArrayImpl:
    return array_from_host(
        value, ShapedArray(value.shape, value.dtype, weak_type), default_device()
    )
