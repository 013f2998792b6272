"""The `cpu` runtime: modules compiled for this machine, run on host memory.

The native part runs them where it was built and knows all that is in them
(`native_executable.py`). IREE runs the others: small programs on its `local-sync` device, in the
calling thread; large ones on `local-task`, which distributes them over all cores and costs ten
times as much per call. Buffers are the same for all three.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.runtimes import exhausted, fork, hal, shutdown
from xpr.runtimes.base import (
    ArrayType,
    Device,
    Executable,
    ExecutableSignature,
    Runtime,
    type_str,
)
from xpr.runtimes.cores import cores
from xpr.runtimes.extension import native
from xpr.runtimes.host import HostBuffer, HostMemory, block_copied, host_copy, memory_of_the_host
from xpr.runtimes.loading import load_module
from xpr.runtimes.native_executable import CheckedExecutable, NativeExecutable
from xpr.runtimes.queue import check_donations

_PARALLEL_COST = 4e6
"""Operations plus bytes, about 50 us of work, from which several threads beat one: to hand a
program over to them costs 10 to 30 us."""

_NO_KEYWORDS: dict[str, Any] = {}


class CpuExecutable(Executable):
    """A compiled module loaded on one CPU device; several threads may call it at once."""

    def __init__(
        self, vmfb: bytes, signature: ExecutableSignature, device: CpuDevice, parallel: bool
    ) -> None:
        self.signature = signature
        self.device = device
        self._queue = device
        self.parallel = parallel
        self._vmfb = vmfb
        self._count = len(signature.inputs)
        self._outputs: tuple[tuple[int, ArrayType], ...] = tuple(enumerate(signature.outputs))
        self._donated = frozenset(i for i, _ in signature.donations)
        self._plain = not signature.donations and not signature.host_calls
        # Whether to look which results share memory or an allocation with something else. Where no
        # branch decides about it, what the first call shows holds for all later ones.
        self._look = True
        self._checked = False
        self._aliases: tuple[int, ...] = ()
        # What was found so far: a copy too many does no harm, and to look costs as much as one.
        self._suballocated: tuple[int, ...] = ()
        self._unseen = 1 if signature.straight_line else _LOOKS
        # The type of the only result, once it is known that a call takes none of the care above.
        self._only: ArrayType | None = None
        self._bind()
        _executables.add(self)

    def _bind(self) -> None:
        """Loads the module into a context of its own."""
        shared = hal.start()
        hal_device, hal_module = self._queue.hal_device(self.parallel)
        memory = HostMemory(self.device)
        # The parts of a call, ready to hand: a call must cost little more than IREE's own share.
        self._context, self._function, self._raised = load_module(
            self._vmfb, self.signature, hal_module, memory
        )
        self._invoke: Callable[[Any, Any, Any], None] = self._context.invoke
        self._pack = shared.pack
        self._pack_context = shared.InvokeContext(hal_device)
        self._list = shared.rt.VmVariantList
        self._buffer_view = shared.BufferView
        if shutdown.is_near:
            self.stop_other_threads()

    def load_on_next_call(self) -> None:
        """Replaces the context by a fresh one as soon as the program is called."""
        hal.keep_forever(self._context)  # to end it means to wait for threads that are no more

        def invoke(function: Any, operands: Any, results: Any) -> None:
            self._bind()
            self._invoke(self._function, operands, results)

        self._invoke = invoke

    def stop_other_threads(self) -> None:
        """At the end of the process; until then a call does not pay for looking whether it is."""
        go_on = self._invoke

        def invoke(function: Any, operands: Any, results: Any) -> None:
            shutdown.stop_other_threads()
            go_on(function, operands, results)

        self._invoke = invoke

    @shutdown.enters_iree
    def __call__(self, buffers: Sequence[HostBuffer]) -> list[HostBuffer]:
        if not self._plain:
            return self._call_with_effects(buffers)
        views = [b.view or b.hal_view() for b in buffers]
        only = self._only
        if only is not None and len(views) == self._count:
            out = self._list(1)
            self._invoked(views, out)
            return [HostBuffer(None, self.device, out.get_as_object(0, self._buffer_view), only)]
        return self._run(buffers, views)

    def _invoked(self, views: list[Any], out: Any) -> None:
        try:
            self._invoke(self._function, self._pack(self._pack_context, views, _NO_KEYWORDS), out)
        except RuntimeError as error:
            exhausted.reraise(error, self.device, executable=self)
            raise

    def _run(self, buffers: Sequence[HostBuffer], views: list[Any]) -> list[HostBuffer]:
        if len(views) != self._count:
            raise TypeError(f"the program takes {self._count} arguments, got {len(views)}")
        outputs = self._outputs
        out = self._list(len(outputs))
        self._invoked(views, out)
        get, buffer_view, device = out.get_as_object, self._buffer_view, self.device
        results = [HostBuffer(None, device, get(i, buffer_view), kind) for i, kind in outputs]
        aliases, suballocated = self._aliases, self._suballocated
        if self._look:
            if not self._checked:
                _check_results(results)
                self._checked = True
            aliases = self._find_aliases(buffers, results)
            if self._unseen:
                self._unseen -= 1
                self._suballocated = tuple({*suballocated, *find_suballocated(results, aliases)})
            suballocated = tuple(k for k in self._suballocated if k not in aliases)
            if self.signature.straight_line:
                self._aliases = aliases
                self._look = False
                if self._plain and not (aliases or suballocated) and len(outputs) == 1:
                    self._only = outputs[0][1]
        for k in aliases:
            results[k] = HostBuffer(None, device, results[k].copied_view(), results[k].kind)
        for k in suballocated:
            results[k] = results[k].detached()
        return results

    def _call_with_effects(self, buffers: Sequence[HostBuffer]) -> list[HostBuffer]:
        """A call that donates operands or calls back into this process."""
        donated = self._donated
        if donated:
            check_donations(buffers, donated)
        queue = self.device.queue
        if queue is not None and not queue.is_idle:
            # Programs in the queue may still have to read what is donated, and what functions of
            # this process do is seen in the order of the calls.
            queue.drain()
        views = [b.private_view() if i in donated else b.hal_view() for i, b in enumerate(buffers)]
        try:
            if self._raised is None:
                return self._run(buffers, views)
            return self._raised.call(self._run, buffers, views)
        finally:
            # Also after a failure: the program may have written some of its results.
            for i in donated:
                buffers[i].delete()

    def _find_aliases(
        self, buffers: Sequence[HostBuffer], results: Sequence[HostBuffer]
    ) -> tuple[int, ...]:
        """The results that lie in the memory of an operand or of an earlier result.

        IREE returns an operand itself for a reshape or for a loop that ran no round, and one
        buffer for two equal results.
        """
        donated = self._donated
        taken = [b.memory_span() for i, b in enumerate(buffers) if i not in donated]
        found = []
        for k, result in enumerate(results):
            low, high = result.memory_span()
            if any(low < end and start < high for start, end in taken):
                found.append(k)
            elif low < high:
                taken.append((low, high))
        return tuple(found)


_WASTE = 4096
"""Bytes that an array may keep alive beside its own."""

_LOOKS = 8
"""Calls in which a program with branches is looked at, which may differ from one to the next."""

_SHARE = 8
"""Copied out of an allocation is at most one part in so many."""


def find_suballocated(results: Sequence[HostBuffer], aliases: Sequence[int]) -> tuple[int, ...]:
    """The small results in large allocations, which they would keep alive for as long as they live.

    IREE makes one allocation for all results of a call and for what a loop carries. Copies are made
    of the smallest arrays in it, so few that they cost little beside the call. `aliases` are the
    results that are copied anyway.
    """
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for k, result in enumerate(results):
        allocation = None if k in aliases else result.allocation()
        if allocation is not None and allocation[1] - result.nbytes > _WASTE:
            groups.setdefault(allocation, []).append((result.nbytes, k))
    found = []
    for (_, size), members in groups.items():
        room = size // _SHARE
        for nbytes, k in sorted(members):
            room -= nbytes
            if room < 0:
                break
            found.append(k)
    return tuple(found)


def _check_results(results: Sequence[HostBuffer]) -> None:
    for k, result in enumerate(results):
        found = result.view
        if tuple(found.shape) != result.shape or found.byte_length != result.nbytes:
            raise TypeError(
                f"the signature promises {type_str(result.kind)} as result {k}, the module "
                f"returns shape {tuple(found.shape)} in {found.byte_length} bytes"
            )


class CpuDevice(Device):
    """A queue of programs on this machine's processor.

    Each one has a `local-sync` device of its own. All share one `local-task` device, because a
    pool of threads for each would have more threads than cores.
    """

    def __init__(self, runtime: Runtime, id: int) -> None:
        super().__init__(runtime, id, "cpu")
        self._sync: hal.DevicePair | None = None

    def hal_device(self, parallel: bool) -> hal.DevicePair:
        """The IREE device that runs programs, and the HAL module bound to it."""
        shared = hal.start()
        if parallel:
            return shared.task()
        pair = self._sync
        if pair is None:
            pair = self._sync = shared.sync_device(self.id)
        return pair

    def memory_stats(self) -> dict[str, int]:
        """Bytes that IREE's allocators hold, and the memory of the machine.

        All CPU devices share the host's memory and give the same figures. Arrays that NumPy
        allocated do not count, even while a program uses them.
        """
        used = sum(
            s["host_bytes_allocated"]
            - s["host_bytes_freed"]
            + s["device_bytes_allocated"]
            - s["device_bytes_freed"]
            for s in hal.statistics()
        )
        module = native().module
        if module is not None:
            used += module.bytes_in_use()
        return {"bytes_in_use": used, **memory_of_the_host()}

    def features(self) -> str:
        count = cores()
        sets = _instruction_sets()
        return f"{count} core{'s' * (count > 1)}" + (f", {' '.join(sets)}" if sets else "")


_LARGE_BYTES = 1 << 20
"""A copy of this size is worth loading IREE for, if that has not happened yet."""


class CpuRuntime(Runtime):
    """The processor of this machine, as one or more devices."""

    name = "cpu"
    platform = "cpu"
    target = "cpu"
    is_host = True

    def __init__(self, num_devices: int = 1) -> None:
        _tune_malloc()
        self._devices = tuple(CpuDevice(self, i) for i in range(num_devices))

    def devices(self) -> tuple[CpuDevice, ...]:
        return self._devices

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> HostBuffer:
        if copy and array.nbytes >= _LARGE_BYTES:
            # In memory of the runtime's own, so that it can be donated without another copy.
            kind = (array.shape, array.dtype)
            if native().executor is not None:
                return HostBuffer(None, device, None, kind, block_copied(array))
            return HostBuffer(None, device, hal.start().copied(array), kind)
        return HostBuffer(host_copy(array) if copy else array, device)

    def load(
        self,
        program: bytes,
        signature: ExecutableSignature,
        device: Device,
        *,
        parallel: bool | None = None,
    ) -> Executable:
        """Loads a `.vmfb`, which is native code and can do whatever this process can.

        `parallel` overrides the choice, by the signature's cost, between one thread and all.
        """
        if not isinstance(device, CpuDevice):
            raise TypeError(f"the cpu runtime needs one of its own devices, got {device!r}")
        if parallel is None:
            parallel = signature.cost >= _PARALLEL_COST and cores() > 1
        found = native()
        if found.executor is not None:

            def by_iree() -> Executable:
                return CpuExecutable(program, signature, device, parallel)

            try:
                direct = NativeExecutable(
                    found.executor, program, signature, device, parallel, by_iree
                )
            except found.executor.Refusal:
                pass  # IREE runs it, or says what is wrong with it
            else:
                if not found.checks or signature.host_calls:
                    return direct
                return CheckedExecutable(direct, by_iree())
        return CpuExecutable(program, signature, device, parallel)

    def load_beside(
        self, program: bytes, signature: ExecutableSignature, device: Device, count: int
    ) -> Executable:
        # Where the devices' own threads fill the cores, each program runs in its thread alone.
        # One that runs alone between stages pays later for its threads than a program of one
        # device: 0.30 ms in one thread, 0.34 ms in two, for the update of 330 000 parameters.
        parallel = signature.cost >= 4 * _PARALLEL_COST and cores() >= 2 * count
        return self.load(program, signature, device, parallel=parallel)


_SETS = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")
"""Instruction sets that decide about speed, by the names that Linux gives them."""


def _instruction_sets() -> list[str]:
    """Those of `_SETS` that the processor has; none where the system does not tell."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    flags = next((li for li in lines if li.lower().startswith(("flags", "features"))), "")
    found = set(flags.partition(":")[2].split())
    return [name for name in _SETS if name in found]


_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def _tune_malloc() -> None:
    """Makes glibc keep large blocks that are freed, so that the next result can have them.

    Otherwise each result of a megabyte and more is fresh memory from the kernel, and touching it
    for the first time costs several times what computing it does. `XPR_TUNE_MALLOC=0` leaves
    glibc as it is: then memory goes back to the system sooner.
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return
    if os.environ.get("XPR_TUNE_MALLOC", "1") == "0":
        return
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


_executables: weakref.WeakSet[CpuExecutable] = weakref.WeakSet()


def _stop_other_threads() -> None:
    for executable in list(_executables):
        executable.stop_other_threads()


shutdown.when_near(_stop_other_threads)


@fork.in_child
def _forget_threads() -> None:
    """In a forked child, which has none of the threads that `local-task` programs run on."""
    hal.forget_threads()
    for executable in list(_executables):
        if executable.parallel:
            executable.load_on_next_call()
