"""What a runtime offers: devices, buffers, and executables that run on them.

A runtime knows nothing of jaxprs. It takes a compiled program and buffers, and gives buffers.
Nothing here, nor in the modules that this one imports, loads IREE.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from xpr.runtimes.memories import Memory, kinds_of, unknown_kind

if TYPE_CHECKING:
    from xpr.runtimes.queue import DeviceQueue

ENTRY = "main"
"""The function of a module that a call of the program runs."""

Shape = tuple[int, ...]
ArrayType = tuple[Shape, np.dtype[Any]]
"""The shape and dtype of one input or result."""


def type_str(kind: ArrayType) -> str:
    """An array type as messages show it, such as `float32[2,3]`."""
    shape, dtype = kind
    return f"{dtype.name}[{','.join(map(str, shape))}]"


class HostCall(NamedTuple):
    """A function of this process that a compiled program calls by the name `xpr.<symbol>`.

    `function` gets one read-only array for each of `inputs` and returns one array for each of
    `outputs`: the array itself when there is one, otherwise a sequence. The arrays it gets hold
    their values until it returns; afterwards the program may use their memory for something else,
    so a function that keeps one must copy it.

    A call `in_place` has one input and one output of the same type. Its function gets a writable
    array with the input's values, writes the output into it, and returns nothing.

    The function of a call with `out` gets, as its keyword argument `out`, a list of C-contiguous
    arrays for `outputs`, whose values are not defined. It writes the results there and returns
    nothing, which saves copying them. It must not keep the arrays either.

    A `function` with a method `load` has it called when a program with the call is loaded.
    """

    symbol: str
    function: Callable[..., Any]
    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]
    in_place: bool = False
    out: bool = False


class ExecutableSignature(NamedTuple):
    """The types of a program and what a runtime needs to know to run it well."""

    entry: str
    """Name of the entry function, with or without the module's name before a dot."""

    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]

    donations: tuple[tuple[int, int], ...] = ()
    """Pairs (argument, result): the program writes the result into the argument's memory."""

    cost: float = 0.0
    """Estimated floating-point operations plus bytes moved in one call."""

    host_calls: tuple[HostCall, ...] = ()

    straight_line: bool = False
    """True promises that no branch or loop decides which memory a result lies in."""

    elementwise: bool = False
    """True promises that each element of what a program computes depends on the same element of
    arrays of the same shape, and on numbers: a result may take the memory of what it is made of."""

    may_run_long: bool = False
    """Whether it has loops whose work `cost` does not count: other threads run meanwhile, and
    Ctrl-C ends it."""


class Device:
    """One device of a runtime; compared by identity.

    >>> import xpr
    >>> device = xpr.devices()[0]
    >>> device.id, device.process_index
    (0, 0)
    """

    queue: DeviceQueue | None = None
    """The programs that wait for the device; None as long as there were none."""

    slice_index: int
    """The group of devices it belongs to; only where `xpr.distributed.initialize` was told one."""

    def __init__(self, runtime: Runtime, id: int, device_kind: str, process_index: int = 0) -> None:
        self.runtime = runtime
        self.id = id
        self._number = id
        self.platform = runtime.platform
        self.device_kind = device_kind
        self.process_index = process_index

    @property
    def client(self) -> Runtime:
        """The runtime, under JAX's name for it."""
        return self.runtime

    @property
    def local_hardware_id(self) -> int:
        """The number of the device within its process."""
        return self._number

    @property
    def host_id(self) -> int:
        """The number of the process, under the older of JAX's names for it."""
        return self.process_index

    def addressable_memories(self) -> list[Memory]:
        """The memories that the device reaches, its own first."""
        return [Memory(self, kind) for kind in kinds_of(self.platform)]

    def default_memory(self) -> Memory:
        """The device's own memory."""
        return Memory(self, "device")

    def memory(self, kind: str) -> Memory:
        """The memory of that kind; ValueError if the device reaches none."""
        if kind not in kinds_of(self.platform):
            raise ValueError(unknown_kind(kind, self.platform))
        return Memory(self, kind)

    def memory_stats(self) -> dict[str, int] | None:
        """Bytes in use and similar figures, or None where the runtime cannot tell."""
        return None

    def features(self) -> str:
        """What the device can do, in a few words for `xpr.print_devices`."""
        return ""

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Device:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} belongs to this process and cannot be pickled")


class Buffer(ABC):
    """An immutable array in a device's memory."""

    __slots__ = ()

    device: Device

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The extent of each axis."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The element type, a NumPy dtype or one of ml_dtypes."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * self.dtype.itemsize

    @abstractmethod
    def host_view(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array; no copy on host devices.

        Raises RuntimeError when the buffer has been deleted.
        """

    def alias(self) -> Buffer:
        """Another buffer with the same values, in the same memory where the runtime can do that.

        To delete one of them leaves the other as it is.
        """
        return self.device.runtime.buffer_from_host(self.host_view(), self.device, copy=False)

    def seen_from(self, device: Device) -> Buffer:
        """The same values for another device; on host devices in the same memory.

        To delete one of them leaves the other as it is.
        """
        return device.runtime.buffer_from_host(self.host_view(), device, copy=False)

    def retained(self) -> Buffer:
        """A buffer for one program that will run later, which reads it and shows it to nobody."""
        return self.alias()

    def taken(self) -> Buffer:
        """A buffer for one program that may write to it; this one is deleted."""
        moved = self.alias()
        self.delete()
        return moved

    @abstractmethod
    def is_deleted(self) -> bool:
        """Whether the memory has been given up by `delete` or by donation."""

    @abstractmethod
    def delete(self) -> None:
        """Gives the memory up; a second call does nothing."""

    @abstractmethod
    def block_until_ready(self) -> None:
        """Waits until the values are there.

        Raises RuntimeError when the buffer has been deleted.
        """

    def is_ready(self) -> bool:
        """Whether the values are there. Raises RuntimeError when the buffer has been deleted."""
        self.block_until_ready()
        return True

    def copy_to_host_async(self) -> None:  # noqa: B027  host memory needs nothing
        """Starts copying the values to the host."""

    @abstractmethod
    def memory_span(self) -> tuple[int, int]:
        """First address and the one past the last; two equal numbers when nothing is stored."""


def deleted_error(kind: ArrayType) -> RuntimeError:
    """The error for using a deleted buffer of this type."""
    error = RuntimeError(
        f"Array has been deleted with shape={type_str(kind)}. It was donated to a jitted function "
        "(donate_argnums, donate_argnames), or its delete() was called: use the function's result, "
        "or donate a copy."
    )
    error.add_note("Explained in docs/howto/errors/ArrayDeleted.md")
    return error


class Executable(ABC):
    """A program loaded on one device."""

    signature: ExecutableSignature
    device: Device
    name: str = "program"
    """What profiles call it."""

    lines: Callable[[], dict[str, set[tuple[str, int]]]] | None = None
    """Tells for each dispatch the lines of the user's files that it computes; None where that is
    not known."""

    values: Callable[[], list[str]] | None = None
    """Tells the largest arrays that the program computes with, in words."""

    @abstractmethod
    def __call__(self, buffers: Sequence[Any]) -> list[Any]:
        """Runs the program on one buffer for each input and returns one for each output.

        Each result has memory of its own, shared with no operand and no other result. Donated
        operands are deleted, also when the program fails.
        """


class Runtime(ABC):
    """A kind of device and the means to use it."""

    name: ClassVar[str]
    platform: ClassVar[str]
    target: ClassVar[str]
    """The lowering target that programs for this runtime are compiled for."""

    is_host: ClassVar[bool] = False
    """Whether NumPy rules may compute on views of this runtime's buffers."""

    runtime_type: ClassVar[str] = "xpr"
    """Whose runtime it is, which JAX's clients ask."""

    priority: int = 0
    """The runtime with the highest priority is the default; a negative one must be asked for."""

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order of their numbers."""

    @abstractmethod
    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> Buffer:
        """A buffer with the values of `array`.

        Without `copy` the buffer may share the array's memory, and the caller promises that
        nobody writes to it any more.
        """

    @abstractmethod
    def load(self, program: Any, signature: ExecutableSignature, device: Device) -> Executable:
        """Makes a compiled program ready to run on `device`."""

    def load_beside(
        self, program: Any, signature: ExecutableSignature, device: Device, count: int
    ) -> Executable:
        """As `load`, for a program that `count` devices run at the same time, each in a thread."""
        del count
        return self.load(program, signature, device)

    def synchronize(self, device: Device) -> None:
        """Waits until all work given to `device` is done."""
        if device.queue is not None:
            device.queue.drain()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"
