"""Programs of the CPU that the native part runs, without IREE's runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xpr.runtimes import exhausted, shutdown
from xpr.runtimes.base import (
    ArrayType,
    Device,
    Executable,
    ExecutableSignature,
    HostCall,
    type_str,
)
from xpr.runtimes.cores import cores
from xpr.runtimes.extension import SHORT_COST, native
from xpr.runtimes.host import BlockMemory, HostBuffer
from xpr.runtimes.hostcalls import load_functions, run_host_call
from xpr.runtimes.queue import check_donations


def _memory_types(kinds: Sequence[ArrayType]) -> list[tuple[tuple[int, ...], int]]:
    return [(shape, dtype.itemsize) for shape, dtype in kinds]


class NativeExecutable(Executable):
    """A compiled module loaded by the native part; several threads may call it at once.

    Raises the native part's `Refusal` for a module that IREE has to run: one that has anything in
    it that the native part does not know.
    """

    def __init__(
        self,
        module: Any,
        vmfb: bytes,
        signature: ExecutableSignature,
        device: Device,
        parallel: bool,
        by_iree: Callable[[], Executable],
    ) -> None:
        """`by_iree` loads the module for IREE, which says what is wrong with operands."""
        self.signature = signature
        self.device = device
        self.parallel = parallel
        self._donated = frozenset(i for i, _ in signature.donations)
        entry = signature.entry.rpartition(".")[2]
        inputs, outputs = _memory_types(signature.inputs), _memory_types(signature.outputs)
        donated = [i in self._donated for i in range(len(inputs))]
        calls = signature.host_calls
        load_functions(calls)
        functions = [(c.symbol, _memory_types(c.inputs), _memory_types(c.outputs)) for c in calls]
        if parallel:
            module.use_threads(cores())
        self._program = module.Program(
            vmfb,
            entry,
            inputs,
            outputs,
            donated,
            functions,
            list(signature.donations),
            signature.elementwise,
            signature.may_run_long,
        )
        self._host = _caller(calls, BlockMemory(device)) if calls else None
        self._has_effects = bool(self._donated or calls)
        self._by_iree = by_iree
        self._inputs = list(signature.inputs)
        self._outputs = signature.outputs
        self._is_short = (
            self._program.is_fixed and signature.straight_line and signature.cost < SHORT_COST
        )
        self._keeps_lock = self._is_short and not signature.may_run_long

    def describe(self) -> str:
        """What it does in a call, in a few words."""
        return self._program.describe()

    def direct_program(self) -> Any:
        """The `Program` if the native part makes calls of it, which are short as far as is known.

        It gives up Python's lock for programs that may run long.
        """
        return self._program if self._is_short else None

    def lone_program(self) -> Any:
        """The `Program` if the calling thread alone runs it, and may do so again if it fails."""
        is_sure = self._program.is_fixed or not self._donated
        alone = is_sure and not self.parallel and self._host is None
        return self._program if alone else None

    @shutdown.enters_iree
    def __call__(self, buffers: Sequence[Any], times: list[Any] | None = None) -> list[Any]:
        """`times` gets the name, start and duration of each dispatch that the call runs."""
        if [b.kind for b in buffers] != self._inputs:
            return self._by_iree()(buffers)
        if self._has_effects:
            return self._call_with_effects(buffers, times)
        return self._run([b.block or b.native_block() for b in buffers], times)

    def _run(self, blocks: list[Any], times: list[Any] | None) -> list[HostBuffer]:
        if shutdown.is_near:
            shutdown.stop_other_threads()
        try:
            results = self._program(blocks, self.parallel, self._keeps_lock, self._host, times)
        except MemoryError as error:
            exhausted.reraise(error, self.device, executable=self)
            raise
        device = self.device
        found = zip(results, self._outputs, strict=True)
        return [HostBuffer(None, device, None, kind, block) for block, kind in found]

    def _call_with_effects(
        self, buffers: Sequence[Any], times: list[Any] | None
    ) -> list[HostBuffer]:
        """A call that donates operands or calls back into this process."""
        donated = self._donated
        if donated:
            check_donations(buffers, donated)
        queue = self.device.queue
        if queue is not None and not queue.is_idle:
            # Programs in the queue may still have to read what is donated, and what functions of
            # this process do is seen in the order of the calls.
            queue.drain()
        pairs = enumerate(buffers)
        blocks = [b.private_block() if i in donated else b.native_block() for i, b in pairs]
        try:
            return self._run(blocks, times)
        finally:
            # Also after a failure: the program may have written some of its results.
            for i in donated:
                buffers[i].delete()


def _caller(
    calls: Sequence[HostCall], memory: BlockMemory
) -> Callable[[int, list[Any]], list[Any]]:
    """The function by which programs call functions of this process: by numbers, on blocks."""

    @shutdown.called_by_iree
    def call(number: int, blocks: list[Any]) -> list[Any]:
        return run_host_call(calls[number], memory, blocks)

    return call


OWN = -1
"""The device that runs a program, as one of those whose buffers it reads."""


class GroupPart(NamedTuple):
    """A program that several devices run, and the columns of a table that it reads and makes.

    A column has one buffer for each device. An input is a column and the device whose buffer is
    read, `OWN` for that of the device that runs the program. `source` tells for each device the one
    whose results it gets: itself or an earlier one.
    """

    executable: NativeExecutable
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[int]
    source: Sequence[int]


def native_group(
    devices: Sequence[Device],
    columns: int,
    parts: Sequence[GroupPart],
    front: Sequence[tuple[int, Sequence[HostBuffer]]],
    leaves: Sequence[tuple[int, bool]],
    results: Sequence[tuple[int, Any]],
    donated: Sequence[int],
) -> Any:
    """The native part's `DevicePrograms`, which answer calls by themselves; None if they cannot.

    `front` are the columns that are the same in each call. `leaves` are the columns of the
    arguments, and whether they are Python numbers; `results` those of the results, which may be
    arguments, and how these are spread. `donated` are the arguments that are given up.
    """
    programs = [p.executable.lone_program() for p in parts]
    if any(p is None for p in programs):
        return None
    kinds: dict[int, ArrayType] = {}
    written: dict[int, Sequence[int]] = {}
    for p in parts:
        signature = p.executable.signature
        kinds.update(zip((column for column, _ in p.inputs), signature.inputs, strict=True))
        kinds.update(zip(p.outputs, signature.outputs, strict=True))
        written.update((p.inputs[i][0], p.source) for i, _ in signature.donations)
    places = {column: i for i, (column, _) in enumerate(leaves)}
    if not all(places.get(column) in donated for column in written):
        return None
    if any(is_number and column not in kinds for column, is_number in leaves):
        return None
    keeps_lock = all(
        p.executable.direct_program() is not None and not p.executable.signature.may_run_long
        for p in parts
    )
    found = zip(programs, parts, strict=True)
    return native().executor.DevicePrograms(
        devices,
        columns,
        [(program, p.inputs, p.outputs, p.source) for program, p in found],
        [(column, buffers) for column, buffers in front if column in kinds],
        [(column, kinds[column][1] if number else None) for column, number in leaves],
        [(column, kinds.get(column), sharding) for column, sharding in results],
        [(places[column], source) for column, source in written.items()],
        donated,
        None if keeps_lock else _run_without_lock,
    )


@shutdown.enters_iree
def _run_without_lock(run: Callable[[], None]) -> None:
    """Makes a run of `DevicePrograms`, which gives up Python's lock meanwhile."""
    if shutdown.is_near:
        shutdown.stop_other_threads()
    run()


class CheckedExecutable(Executable):
    """A program that is run both ways, whose results must have the same bits.

    Not for programs that call functions of this process: those would be called twice.
    """

    def __init__(self, direct: NativeExecutable, by_iree: Executable) -> None:
        self.signature = direct.signature
        self.device = direct.device
        self.parallel = direct.parallel
        self._direct = direct
        self._by_iree = by_iree

    def __call__(self, buffers: Sequence[Any]) -> list[HostBuffer]:
        donated = {i for i, _ in self.signature.donations}
        check_donations(buffers, donated)
        copies = [
            HostBuffer(np.array(b.host_view()), self.device) if i in donated else b
            for i, b in enumerate(buffers)
        ]
        try:
            wanted = self._by_iree(copies)
        except BaseException:
            # What was donated is given up whatever comes of the call, checked or not.
            for i in donated:
                buffers[i].delete()
            raise
        found = self._direct(buffers)
        for k, (mine, other) in enumerate(zip(found, wanted, strict=True)):
            if mine.host_view().tobytes() != other.host_view().tobytes():
                raise RuntimeError(
                    f"XPR_NATIVE=check: result {k} of {self.signature.entry!r}, "
                    f"{type_str(self.signature.outputs[k])}, has other bits when the native part "
                    "runs the program than when IREE does"
                )
        return found
