"""Functions of this process that compiled programs call: IREE's module `xpr`, made per program.

A program declares `func.func private @xpr.<symbol>(...)` for each `HostCall` of its signature.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from xpr.runtimes import hal, shutdown
from xpr.runtimes.base import ArrayType, HostCall, type_str

MODULE_NAME = "xpr"


class HostCallError(RuntimeError):
    """A host function gave a result of another type than it had promised."""


class Raised(threading.local):
    """The exception that a host function raised in this thread, until the program has ended."""

    error: BaseException | None = None

    def call(self, run: Callable[..., Any], *operands: Any) -> Any:
        """`run(*operands)`, which runs the program; raises what a host function has raised.

        What IREE raises then carries only the text of that exception.
        """
        try:
            return run(*operands)
        except Exception:
            error, self.error = self.error, None
            if error is None:
                raise
        try:
            raise error
        finally:
            del error  # else it would hold this frame, and the frame the operands


class Memory(Protocol):
    """The memory of the device that runs the program."""

    def to_host(self, view: Any, kind: ArrayType) -> np.ndarray[Any, Any]:
        """The values of a buffer view."""
        ...

    def from_host(self, array: np.ndarray[Any, Any]) -> Any:
        """A buffer view with a copy of `array`."""
        ...

    def changed(
        self, view: Any, kind: ArrayType, function: Callable[[np.ndarray[Any, Any]], Any]
    ) -> Any:
        """A buffer view with a copy of the values that the function has changed."""
        ...

    def filled(
        self,
        kinds: Sequence[ArrayType],
        function: Callable[[list[np.ndarray[Any, Any]]], Any],
    ) -> list[Any]:
        """Buffer views with the values that the function has written to arrays of these types."""
        ...


def load_functions(calls: Sequence[HostCall]) -> None:
    """Lets functions that want to know it know that a program with calls of them is loaded."""
    for call in calls:
        load = getattr(call.function, "load", None)
        if load is not None:
            load()


class HostCallModule:
    """The VM module that offers the host functions of one executable."""

    def __init__(self, calls: Sequence[HostCall], memory: Memory) -> None:
        names = [c.symbol for c in calls]
        if len(set(names)) != len(names):
            raise ValueError(f"host calls need distinct symbols, got {', '.join(names)}")
        load_functions(calls)
        self.raised = Raised()
        # IREE makes one instance per context and passes it to each function; there is no state.
        self._interface = hal.start().rt.PyModuleInterface(
            module_name=MODULE_NAME, ctor=lambda interface: None
        )
        for call in calls:
            results = "r" * len(call.outputs) or "v"
            convention = f"0{'r' * len(call.inputs) or 'v'}_{results}"
            self._interface.export(call.symbol, convention, _entry(call, memory, self.raised))
        self.vm_module = self._interface.create()


def _entry(call: HostCall, memory: Memory, raised: Raised) -> Callable[..., Any]:
    """The function that IREE calls: from references to arrays, and back."""
    buffer_view = hal.start().BufferView

    @shutdown.called_by_iree
    def entry(_: Any, *refs: Any) -> Any:
        try:
            made = run_host_call(call, memory, [ref.deref(buffer_view) for ref in refs])
        except BaseException as error:
            # IREE passes on the text only; the executable raises the exception itself.
            raised.error = error
            raise
        given = [view.ref for view in made]
        return given[0] if len(given) == 1 else tuple(given) if given else None

    return entry


def run_host_call(call: HostCall, memory: Memory, views: Sequence[Any]) -> list[Any]:
    """Calls the function on views of arrays in `memory`; views of what it returns."""
    function, inputs = call.function, call.inputs
    if call.in_place:
        return [memory.changed(views[0], inputs[0], function)]
    arrays = [memory.to_host(v, kind) for v, kind in zip(views, inputs, strict=True)]
    for a in arrays:
        a.setflags(write=False)
    if call.out:
        return memory.filled(call.outputs, lambda out: function(*arrays, out=out))
    values = _as_list(function(*arrays), call)
    return [memory.from_host(_checked(x, call, i)) for i, x in enumerate(values)]


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
