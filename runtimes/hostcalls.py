"""Functions of this process that compiled programs call: IREE's module `xpr`, made per program.

A program declares `func.func private @xpr.<symbol>(...)` for each `HostCall` of its signature.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.runtimes import hal
from xpr.runtimes.base import Device, HostCall, type_str
from xpr.runtimes.host import HostBuffer, writable

MODULE_NAME = "xpr"


class HostCallError(RuntimeError):
    """A host function gave a result of another type than it had promised."""


class Raised(threading.local):
    """The exception that a host function raised in this thread, until the caller takes it."""

    error: BaseException | None = None

    def take(self) -> BaseException | None:
        """The exception since the last call, which is forgotten; None if there was none."""
        error, self.error = self.error, None
        return error


class HostCallModule:
    """The VM module that offers the host functions of one executable."""

    def __init__(self, calls: Sequence[HostCall], device: Device) -> None:
        names = [c.symbol for c in calls]
        if len(set(names)) != len(names):
            raise ValueError(f"host calls need distinct symbols, got {', '.join(names)}")
        self.raised = Raised()
        # IREE makes one instance per context and passes it to each function; there is no state.
        self._interface = hal.start().rt.PyModuleInterface(
            module_name=MODULE_NAME, ctor=lambda interface: None
        )
        for call in calls:
            results = "r" * len(call.outputs) or "v"
            convention = f"0{'r' * len(call.inputs) or 'v'}_{results}"
            self._interface.export(call.symbol, convention, _entry(call, device, self.raised))
        self.vm_module = self._interface.create()


def _entry(call: HostCall, device: Device, raised: Raised) -> Callable[..., Any]:
    """The function that IREE calls: from references to arrays, and back."""
    buffer_view = hal.start().BufferView
    function, inputs, outputs = call.function, call.inputs, call.outputs

    def entry(_: Any, *refs: Any) -> Any:
        try:
            arrays = [
                HostBuffer(None, device, ref.deref(buffer_view), kind).host_view()
                for ref, kind in zip(refs, inputs, strict=True)
            ]
            if call.in_place:
                return _changed_copy(function, arrays[0])
            values = _as_list(function(*arrays), call)
            given = []
            for i in range(len(outputs)):
                # Popped, so that the buffer holds the only reference to an array that the
                # function does not keep: then it need not be copied.
                buffer = HostBuffer(_checked(values.pop(0), call, i), device)
                given.append(buffer.private_view().ref)
        except BaseException as error:
            # IREE passes on the text only; the executable raises the exception itself.
            raised.error = error
            raise
        return given[0] if len(given) == 1 else tuple(given) if given else None

    return entry


def _changed_copy(function: Callable[..., Any], array: np.ndarray[Any, Any]) -> Any:
    """A reference to a copy of `array`, in memory of IREE's own, that the function has changed."""
    view = hal.start().copied(array)
    memory = writable(np.asarray(view.map()))
    function(memory[: array.nbytes].view(array.dtype).reshape(array.shape))
    return view.ref


def _as_list(values: Any, call: HostCall) -> list[Any]:
    count = len(call.outputs)
    if count == 1 and not isinstance(values, (tuple, list)):
        return [values]
    if count == 0 and values is None:
        return []
    if not isinstance(values, (tuple, list)) or len(values) != count:
        got = f"{len(values)}" if isinstance(values, (tuple, list)) else type(values).__name__
        raise HostCallError(f"host call {call.symbol} must return {count} arrays, got {got}")
    return list(values)


def _checked(value: Any, call: HostCall, index: int) -> np.ndarray[Any, Any]:
    shape, dtype = call.outputs[index]
    array = np.asarray(value)
    if array.shape != shape or array.dtype != dtype:
        raise HostCallError(
            f"host call {call.symbol} must return {type_str((shape, dtype))} as result {index}, "
            f"got {type_str((array.shape, array.dtype))}"
        )
    return array
