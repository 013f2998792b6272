"""The `reference` runtime: a program is a Python function on NumPy arrays.

It compiles nothing. What it computes is the definition that compiled programs are compared with.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.runtimes.base import Device, Executable, ExecutableSignature, Runtime, type_str
from xpr.runtimes.host import HostBuffer, host_copy, memory_of_the_host

Program = Callable[[list[np.ndarray[Any, Any]]], Sequence[np.ndarray[Any, Any]]]


class ReferenceExecutable(Executable):
    """A Python function with the type of a program."""

    def __init__(self, program: Program, signature: ExecutableSignature, device: Device) -> None:
        self.program = program
        self.signature = signature
        self.device = device

    def __call__(self, buffers: Sequence[HostBuffer]) -> list[HostBuffer]:
        signature = self.signature
        operands = [b.host_view() for b in buffers]
        _check("takes", "argument", signature.inputs, operands)
        try:
            results = [np.asarray(r) for r in self.program(operands)]
        finally:
            for index, _ in signature.donations:
                buffers[index].delete()
        _check("promises", "result", signature.outputs, results)
        taken = list(operands)
        out = []
        for result in results:
            # A rule may return a view of its operand, or the same array twice.
            if any(np.may_share_memory(result, t) for t in taken):
                result = host_copy(result)
            taken.append(result)
            out.append(HostBuffer(result, self.device))
        return out


def _check(verb: str, noun: str, kinds: Sequence[Any], arrays: Sequence[Any]) -> None:
    if len(arrays) != len(kinds):
        raise TypeError(f"the program {verb} {len(kinds)} {noun}s, got {len(arrays)}")
    for i, (kind, array) in enumerate(zip(kinds, arrays, strict=True)):
        if (array.shape, array.dtype) != kind:
            raise TypeError(
                f"the program {verb} {type_str(kind)} as {noun} {i}, "
                f"got {type_str((array.shape, array.dtype))}"
            )


class ReferenceDevice(Device):
    """The interpreter, as a device with the memory of the host."""

    def memory_stats(self) -> dict[str, int]:
        """Bytes of the buffers that are alive, and the memory of the machine."""
        used = sum(
            b.nbytes
            for b in gc.get_objects()
            if type(b) is HostBuffer and b.device is self and not b.is_deleted()
        )
        return {"bytes_in_use": used, **memory_of_the_host()}

    def features(self) -> str:
        return f"NumPy {np.__version__}, no compiler"


class ReferenceRuntime(Runtime):
    """Devices that interpret programs with NumPy; they are used only when asked for.

    There are as many of them as CPU devices.
    """

    name = "reference"
    platform = "reference"
    target = "reference"
    is_host = True
    priority = -1

    def __init__(self, num_devices: int = 1) -> None:
        self._devices = tuple(ReferenceDevice(self, i, "NumPy") for i in range(num_devices))

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> HostBuffer:
        return HostBuffer(host_copy(array) if copy else array, device)

    def load(
        self, program: Program, signature: ExecutableSignature, device: Device
    ) -> ReferenceExecutable:
        """Wraps `program`, a function from a list of arrays to a list of arrays."""
        if not callable(program):
            raise TypeError(
                f"the reference runtime runs Python functions, got {type(program).__name__}"
            )
        return ReferenceExecutable(program, signature, device)
