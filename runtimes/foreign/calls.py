"""Calls of foreign functions on arrays."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_int, c_int64, pointer
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpr.runtimes.base import ArrayType
from xpr.runtimes.foreign import api, layouts, targets
from xpr.runtimes.foreign.attributes import Attribute, AttributeMemory
from xpr.runtimes.foreign.element_types import TOKEN, is_packed, number_of, packed, unpacked
from xpr.runtimes.foreign.handles import raised
from xpr.runtimes.foreign.layouts import HANDLER
from xpr.runtimes.host import ALIGNMENT, aligned_copy, aligned_empty

Arrays = Sequence[np.ndarray[Any, Any]]


def address(array: np.ndarray[Any, Any] | None) -> int | None:
    """Where an array lies; None for a token, which has no memory."""
    return None if array is None else array.__array_interface__["data"][0]


def _is_aligned(array: np.ndarray[Any, Any]) -> bool:
    """Whether the memory is contiguous, and begins where handlers may expect it."""
    return array.flags.c_contiguous and array.__array_interface__["data"][0] % ALIGNMENT == 0


@dataclass(frozen=True)
class Operand:
    """An argument or a result: its type, None for a token, and its axes from slowest to fastest."""

    kind: ArrayType | None
    major_to_minor: tuple[int, ...] = ()

    @property
    def is_row_major(self) -> bool:
        return self.major_to_minor == tuple(range(len(self.major_to_minor)))

    def laid_out(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Contiguous memory with the array's elements as the function wants them."""
        if not self.is_row_major:
            array = array.transpose(self.major_to_minor)
        if is_packed(array.dtype):
            return aligned_copy(packed(np.ascontiguousarray(array)))
        return array if _is_aligned(array) else aligned_copy(array)

    def memory_for(self, out: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Memory that the function writes a result to: that of the result where it can be."""
        if self.is_row_major and _is_aligned(out) and not is_packed(out.dtype):
            return out
        if is_packed(out.dtype):
            return aligned_copy(packed(np.zeros(out.shape, out.dtype)))
        return aligned_empty(tuple(out.shape[i] for i in self.major_to_minor), out.dtype)

    def finish(self, memory: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
        """Brings what the function has written to the result."""
        if memory is out:
            return
        if is_packed(out.dtype):
            shape = tuple(out.shape[i] for i in self.major_to_minor)
            elements = np.empty(shape, out.dtype)
            unpacked(memory, elements)
            memory = elements
        out[...] = memory.transpose(np.argsort(self.major_to_minor))


class Laid:
    """A call's arrays in the memory that a function is given."""

    def __init__(
        self,
        operands: Sequence[Operand],
        results: Sequence[Operand],
        aliases: Sequence[tuple[int, int]],
        arrays: Arrays,
        out: Arrays,
    ) -> None:
        given, wanted = iter(arrays), iter(out)
        self._results = results
        self._out = [None if r.kind is None else next(wanted) for r in results]
        self.results = [
            None if a is None else r.memory_for(a) for r, a in zip(results, self._out, strict=True)
        ]
        self.operands = [None if o.kind is None else o.laid_out(next(given)) for o in operands]
        for i, o in aliases:
            source, to = self.operands[i], self.results[o]
            if source is not None and to is not None:
                to.reshape(-1)[...] = source.reshape(-1)
                self.operands[i] = to

    def finish(self) -> None:
        """Brings the results to where they belong."""
        for kind, memory, out in zip(self._results, self.results, self._out, strict=True):
            if memory is not None and out is not None:
                kind.finish(memory, out)


class _FrameMemory:
    """A frame with all that it points to, for one execution at a time."""

    def __init__(self, call: ForeignCall) -> None:
        self._kept: list[Any] = []
        self.context, self.number = api.new_context(call.states)
        self.frame = layouts.Frame.new(api=api.table(), context=self.number)
        self.frame.attributes = call.attributes.attributes
        self.operands = self._buffers(call.operands)
        self.results = self._buffers(call.results)
        self.frame.arguments = self._list_of(self.operands)
        self.frame.results = self._list_of(self.results)
        weakref.finalize(self, api.drop_context, self.number)

    def _buffers(self, kinds: Sequence[Operand]) -> list[Any]:
        return [self._buffer(k) for k in kinds]

    def _buffer(self, operand: Operand) -> Any:
        shape, number = (), TOKEN
        if operand.kind is not None:
            shape, number = operand.kind[0], number_of(operand.kind[1])
        dims = (c_int64 * len(shape))(*shape)
        self._kept.append(dims)
        return layouts.Buffer.new(type=number, rank=len(shape), dims=dims)

    def _list_of(self, buffers: Sequence[Any]) -> Any:
        count = len(buffers)
        kinds = (c_int * count)(*[layouts.BUFFER] * count)
        pointers = (POINTER(layouts.Buffer) * count)(*map(pointer, buffers))
        self._kept += [kinds, pointers]
        return layouts.Buffers.new(count=count, kinds=kinds, buffers=pointers)

    def run(self, handler: Any, stage: int) -> None:
        """Calls the handler of a stage, and waits for what it does later."""
        frame = self.frame
        frame.stage = stage
        frame.future = None
        error = raised(handler(byref(frame)))
        later = api.awaited(frame.future)
        if error or later:
            raise error or later  # type: ignore[misc]


class ForeignCall:
    """A call of a handler, in one place of one program. Several threads may make it at once.

    The handler of the stage "instantiate" is called once, by `load` or before the first call; its
    state ends with this object.
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[Operand],
        results: Sequence[Operand],
        *,
        aliases: Sequence[tuple[int, int]] = (),
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """`aliases` are pairs of an operand and a result that are to lie in the same memory."""
        self.name = name
        self.operands = tuple(operands)
        self.results = tuple(results)
        self._aliases = tuple(aliases)
        self.attributes = AttributeMemory(attributes or {})
        self.states = api.States()
        self._handlers: list[tuple[int, Any]] | None = None
        self._lock = threading.Lock()
        self._frames: list[_FrameMemory] = []
        weakref.finalize(self, self.states.clear)

    def load(self) -> list[tuple[int, Any]]:
        """Finds the handlers, and makes the instance; ForeignError if that fails.

        The handlers of what remains to be done, by stages.
        """
        found = self._handlers
        if found is None:
            with self._lock:
                if self._handlers is None:
                    self._handlers = self._instantiate()
                found = self._handlers
        return found

    def _instantiate(self) -> list[tuple[int, Any]]:
        target = targets.target_of(self.name)
        pairs = [(stage, HANDLER(h)) for stage, h in enumerate(target.handlers) if h]
        if pairs[0][0] == layouts.INSTANTIATE:
            memory = _FrameMemory(self)
            memory.frame.arguments = layouts.Buffers.new()
            memory.frame.results = layouts.Buffers.new()
            memory.run(pairs[0][1], layouts.INSTANTIATE)
        return [(stage, h) for stage, h in pairs if stage != layouts.INSTANTIATE]

    def __call__(self, *arrays: np.ndarray[Any, Any], out: Arrays) -> None:
        """Calls the function on arrays, and writes its results to `out`; raises ForeignError."""
        handlers = self.load()
        laid = Laid(self.operands, self.results, self._aliases, arrays, out)
        frames = self._frames
        try:
            memory = frames.pop()
        except IndexError:
            memory = _FrameMemory(self)
        for buffer, array in zip(memory.operands, laid.operands, strict=True):
            buffer.data = address(array)
        for buffer, array in zip(memory.results, laid.results, strict=True):
            buffer.data = address(array)
        try:
            for stage, handler in handlers:
                memory.run(handler, stage)
        finally:
            memory.context.renew()
            frames.append(memory)
        laid.finish()

    def __str__(self) -> str:
        return f"the foreign function {self.name}"


class UntypedCall:
    """A call of a function of the older kind, which gets the addresses of its arrays and no more.

    `version` 1 is `void f(void* out, const void** in)`; 2 has the address of a status behind these;
    3 has `const char* options, size_t length` and the status. `out` is the address of the one
    result, or that of the addresses of several ones.
    """

    def __init__(
        self,
        name: str,
        operands: Sequence[Operand],
        results: Sequence[Operand],
        *,
        aliases: Sequence[tuple[int, int]] = (),
        version: int = 1,
        options: str | bytes = b"",
    ) -> None:
        self.name = name
        self.operands = tuple(operands)
        self.results = tuple(results)
        self._aliases = tuple(aliases)
        self._version = version
        self._options = options.encode() if isinstance(options, str) else options
        self._function: Any = None

    def load(self) -> Any:
        """Finds the function; ForeignError if there is none of that name."""
        if self._function is None:
            pointers: tuple[Any, ...] = (ctypes.c_void_p, ctypes.c_void_p)
            if self._version == 3:
                pointers += (ctypes.c_char_p, ctypes.c_size_t)
            if self._version > 1:
                pointers += (ctypes.c_void_p,)
            kind = ctypes.CFUNCTYPE(None, *pointers)
            self._function = kind(targets.untyped_of(self.name))
        return self._function

    def __call__(self, *arrays: np.ndarray[Any, Any], out: Arrays) -> None:
        """Calls the function on arrays, and writes its results to `out`."""
        function = self.load()
        laid = Laid(self.operands, self.results, self._aliases, arrays, out)
        given = (ctypes.c_void_p * len(laid.operands))(*map(address, laid.operands))
        wanted = (ctypes.c_void_p * len(laid.results))(*map(address, laid.results))
        to: Any = wanted[0] if len(laid.results) == 1 else wanted
        values: list[Any] = [to, given]
        if self._version == 3:
            values += [self._options, len(self._options)]
        if self._version > 1:
            # The library that defines what a status is would be XLA's: to a function that sets none
            # it is memory that is zero.
            values.append(ctypes.create_string_buffer(64))
        function(*values)
        laid.finish()

    def __str__(self) -> str:
        return f"the foreign function {self.name}"
