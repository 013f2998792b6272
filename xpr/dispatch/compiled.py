"""Compiled programs: a closed jaxpr lowered, compiled and loaded on a device, and its calls."""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core import dtypes
from xpr.core.aval import ShapedArray
from xpr.core.config import state
from xpr.core.effects import INSPECT
from xpr.core.events import before_compile
from xpr.core.guards import check_transfer
from xpr.core.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Var, dce_jaxpr, sub_jaxprs
from xpr.core.jaxpr_trace import trace_to_jaxpr
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.dispatch import ending as ending  # registers what it does
from xpr.dispatch import known_programs
from xpr.dispatch.array import ArrayImpl, array_from_host
from xpr.dispatch.deferred import DeferredExecutable, deferred
from xpr.dispatch.host_values import host_value
from xpr.dispatch.known_programs import KnownModule
from xpr.dispatch.nonfinite import check_finite, check_operation
from xpr.interpreters.known_tables import with_known_tables
from xpr.interpreters.physical import physical_program
from xpr.interpreters.reference import interpret
from xpr.lowering.iree import stopwatch
from xpr.primitives.sharding import inspectors
from xpr.runtimes.base import ENTRY, Buffer, Device, Executable, ExecutableSignature
from xpr.runtimes.host import HostBuffer
from xpr.sharding import SingleDeviceSharding

if TYPE_CHECKING:
    from xpr.dispatch.compiling import PendingModule
    from xpr.lowering.module import LoweredModule


class CompiledProgram:
    """A program ready to run on one device.

    Unused inputs are not passed; a result that is an input is handed back without a computation;
    the rest is one executable.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        device: Device,
        donate: Sequence[int] = (),
        *,
        keep_unused: bool = False,
        beside: int = 0,
        wait: bool = True,
    ) -> None:
        """`beside` devices run it at once, each in its own thread; 0 is one that may queue it.

        Without `wait` it is compiled in the background, and is ready after `finish`. A program on
        extended dtypes is compiled as that on the numbers they stand for.
        """
        closed = with_known_tables(physical_program(closed))
        self.name = name
        self._beside = beside
        self.device = device
        self.out_avals = closed.out_avals
        jaxpr = closed.jaxpr
        inputs: dict[Var, int] = {v: i for i, v in enumerate(jaxpr.invars)}
        constants: dict[Var, int] = {v: i for i, v in enumerate(jaxpr.constvars)}
        # For each result: ("in", i), ("const", i), ("out", k-th result of the executable), or
        # ("float0", 0): tangents of integers, which have no values.
        self._routes: list[tuple[str, int]] = []
        computed: list[Any] = []
        place: dict[Var, int] = {}
        for v in jaxpr.outvars:
            if v.aval.dtype == dtypes.float0:
                self._routes.append(("float0", 0))
            elif isinstance(v, Var) and v in inputs:
                self._routes.append(("in", inputs[v]))
            elif isinstance(v, Var) and v in constants:
                self._routes.append(("const", constants[v]))
            elif isinstance(v, Var) and v in place:
                self._routes.append(("out", place[v]))
            else:
                if isinstance(v, Var):
                    place[v] = len(computed)
                self._routes.append(("out", len(computed)))
                computed.append(v)
        small = jaxpr.replace(outvars=computed)
        small, used = dce_jaxpr(small, instantiate=keep_unused)
        live = _read_vars(small)
        const_used = [v in live for v in small.constvars]
        used_consts = [c for c, u in zip(closed.consts, const_used, strict=True) if u]
        constvars = [v for v, u in zip(small.constvars, const_used, strict=True) if u]
        # Before anybody looks at the values: it may move them.
        self._const_buffers = [_constant_buffer(c, device) for c in used_consts]
        self.closed = ClosedJaxpr(
            small.replace(constvars=constvars), [np.asarray(c) for c in used_consts]
        )
        self.kept = tuple(i for i, u in enumerate(used) if u)
        self.donate = tuple(donate)
        # What is handed back as it came is given up after the call, not written to.
        written = {i for i in donate if ("in", i) not in self._routes}
        self.donated_kept = tuple(k for k, i in enumerate(self.kept) if i in written)
        self.all_kept = len(self.kept) == len(jaxpr.invars)
        # Constants that are results.
        self._const_results: dict[int, Buffer] = {
            i: _constant_buffer(closed.consts[i], device)
            for kind, i in self._routes
            if kind == "const"
        }
        self.in_place = True  # whether donated operands are written to, or only given up
        self.lowered: LoweredModule | None = None
        self.executable: Executable | None = None
        self.vmfb: bytes | None = None
        if INSPECT in small.effects:
            for callback in inspectors(small):
                callback(SingleDeviceSharding(device))
        self.direct = (
            self._routes == [("out", i) for i in range(len(self._routes))] and not self.donate
        )
        self.is_deferred = False
        # Whether it is one operation outside programs, and not what a user had compiled.
        self.is_operation = False
        self.simple = bool(computed) and self.all_kept and not self._const_buffers and self.direct
        self.pending: PendingModule | KnownModule | None = None
        self._finishing = threading.Lock()
        if computed or small.effects:
            self._begin(wanted=not wait)
        if wait:
            self.finish()

    def _begin(self, *, wanted: bool) -> None:
        closed, device = self.closed, self.device
        runtime = device.runtime
        if runtime.target == "reference":
            self.in_place = False
            self._signature = _signature(closed)
            self.executable = runtime.load(_interpreter(closed), self._signature, device)
            self.executable.name = self.name
            return  # NumPy holds Python's lock, so that nothing would run beside it
        key = known_programs.key_of(closed, self.name, device, self.donated_kept)
        known = None if key is None else known_programs.find(key)
        if known is not None:
            for announce in before_compile:
                announce(runtime.target)
            self.in_place = known.in_place
            self._tell_lost_donations(known.donations)
            self.pending = known
            return
        # A known program needs none of it, and it takes 80 ms.
        from xpr.dispatch import compiling  # noqa: PLC0415

        target = compiling.target_of(device)
        self.in_place = target.donation
        donated = self.donated_kept if self.in_place else ()
        stopwatch.passed("prepare")
        module = compiling.lower(closed, target, self.name, donated, device=device)
        stopwatch.passed("lower")
        self._tell_lost_donations(module.donations)
        self.pending = compiling.PendingModule(
            closed, module, target, donated, wanted=wanted, key=key
        )

    def _tell_lost_donations(self, donations: Sequence[tuple[int, int]]) -> None:
        """Warns of donated operands whose memory no result can be written to."""
        closed = self.closed
        paired = {i for i, _ in donations}
        offset = len(closed.consts)
        lost = [i for i in self.donated_kept if self.in_place and offset + i not in paired]
        if lost:
            shown = ", ".join(closed.in_avals[i].str_short() for i in lost)
            warnings.warn(
                f"Some donated buffers were not usable: {shown}. {self.name} has no result of that "
                "type, so the arrays stay as they are.",
                stacklevel=3,
            )

    def finish(self) -> None:
        """Waits until the program is compiled, and loads it."""
        if self.pending is None:
            return
        with self._finishing:
            pending = self.pending
            if pending is None:
                return  # another thread was faster
            if isinstance(pending, KnownModule):
                self.vmfb = pending.vmfb
                self._signature = _signature(
                    self.closed,
                    donations=pending.donations,
                    cost=pending.cost,
                    straight_line=pending.straight_line,
                    elementwise=pending.elementwise,
                )
            else:
                self.lowered, self.vmfb = module, _ = pending.result()
                self._signature = _signature(
                    self.closed,
                    donations=module.donations,
                    cost=module.flops + module.bytes_accessed,
                    host_calls=module.host_calls,
                    straight_line=not module.hints.has_control_flow,
                    elementwise=module.elementwise,
                )
            vmfb = self.vmfb
            runtime, device = self.device.runtime, self.device
            if self._beside:
                loaded = runtime.load_beside(vmfb, self._signature, device, self._beside)
            else:
                loaded = runtime.load(vmfb, self._signature, device)
            self._describe(loaded)
            self.executable = loaded if self._beside else deferred(loaded)
            self.is_deferred = isinstance(self.executable, DeferredExecutable)
            self.pending = None
        stopwatch.passed("load")

    def _describe(self, loaded: Executable) -> None:
        """Tells an executable what profiles say of it."""
        loaded.name = self.name
        loaded.values = functools.partial(_largest_values, self.closed.jaxpr)
        if self.vmfb is not None:
            donated = self.donated_kept if self.in_place else ()
            loaded.lines = functools.partial(
                _lines, self.closed, self.lowered, loaded.device, self.name, donated
            )

    def race(self) -> None:
        """Has calls computed by the reference rules as long as the compiler is not done.

        A program with effects is waited for: they are to happen once.
        """
        pending = self.pending
        if pending is None:
            return
        if pending.is_done() or self.closed.jaxpr.effects:
            self.finish()
        elif self.executable is None and not isinstance(pending, KnownModule):
            from xpr.dispatch.racing import RacingExecutable  # noqa: PLC0415  it is rarely asked for

            self.executable = RacingExecutable(self.closed, pending, self.device, self._compiled)

    def _compiled(self) -> Executable:
        self.finish()
        assert self.executable is not None
        return self.executable

    def loaded_on(self, device: Device, beside: int) -> CompiledProgram:
        """The same compiled program for another device, one of `beside` that run it together."""
        other = copy.copy(self)
        other.device = device
        other._const_buffers = [b.seen_from(device) for b in self._const_buffers]
        other._const_results = {i: b.seen_from(device) for i, b in self._const_results.items()}
        if self.executable is not None:
            program = _interpreter(self.closed) if self.vmfb is None else self.vmfb
            other.executable = device.runtime.load_beside(program, self._signature, device, beside)
            other._describe(other.executable)
        return other

    # ---- running

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """Runs the program on flat arguments and returns flat results.

        Arguments are arrays, or NumPy values and Python numbers, which are taken without a copy
        where nobody can see the difference.
        """
        if state.no_execution:
            raise RuntimeError(f"the program {self.name} was to run, but 'no_execution' is set")
        device = self.device
        committed = False
        buffers: list[Buffer] = []
        for a in args:
            if type(a) is ArrayImpl:
                buffer = a._buffers[0]
                if buffer.device is not device:
                    if state.transfer_guard_device_to_device != "allow":
                        moved = f"{a.aval} from {buffer.device!r} to {device!r}"
                        check_transfer("device_to_device", False, moved)
                    buffer = array_from_host(buffer.host_view(), a.aval, device)._buffers[0]
                elif a._committed:
                    committed = True
                buffers.append(buffer)
            else:
                buffers.append(operand_buffer(a, device, self.is_deferred))
        results: list[Buffer] = []
        if self.executable is not None:
            kept = buffers if self.all_kept else [buffers[i] for i in self.kept]
            results = self.executable([*self._const_buffers, *kept])
        if self.direct:
            out = [
                ArrayImpl(aval, (b,), committed)
                for aval, b in zip(self.out_avals, results, strict=True)
            ]
        else:
            out = self._route(args, buffers, results, committed)
        if state.debug_nans or state.debug_infs:
            for a in out:
                if type(a) is not ArrayImpl:
                    continue
                if self.is_operation:
                    check_operation(a._value, self.name, lambda: self._error_of_step(args))
                else:
                    check_finite(a._value, self.name)
        return out

    def _error_of_step(self, args: Sequence[Any]) -> FloatingPointError | None:
        from xpr.dispatch.nonfinite_steps import error_of_step  # noqa: PLC0415  only for an error

        return error_of_step(self.closed, args)

    def run(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """One run on the device's own buffers; results that are no arrays (float0) are left out.

        Donated buffers are given up.
        """
        results: list[Buffer] = []
        if self.executable is not None:
            kept = buffers if self.all_kept else [buffers[i] for i in self.kept]
            results = self.executable([*self._const_buffers, *kept])
        if self.direct:
            return results
        out: list[Any] = []
        taken: set[int] = set()
        for kind, index in self._routes:
            if kind == "float0":
                out.append(None)
            elif kind == "in":
                out.append(buffers[index].alias())
            elif kind == "const":
                out.append(self._const_results[index].alias())
            else:
                out.append(results[index].alias() if index in taken else results[index])
                taken.add(index)
        for i in self.donate:
            buffers[i].delete()
        return out

    def _route(
        self,
        args: Sequence[Any],
        buffers: Sequence[Buffer],
        results: Sequence[Buffer],
        committed: bool,
    ) -> list[Any]:
        """Results that are operands, constants or one another, each as an array of its own.

        They may share memory: whoever donates one of them gets a private copy to write to.
        """
        out: list[Any] = []
        taken: set[int] = set()
        for (kind, index), aval in zip(self._routes, self.out_avals, strict=True):
            if kind == "float0":
                out.append(np.zeros(aval.shape, dtypes.float0))
                continue
            if kind == "out" and index not in taken:
                taken.add(index)
                out.append(ArrayImpl(aval, (results[index],), committed))
                continue
            if kind == "out":
                buffer = results[index].alias()
            elif kind == "const":
                buffer = self._const_results[index].alias()
            elif type(args[index]) is ArrayImpl or not self.device.runtime.is_host:
                buffer = buffers[index].alias()
            else:  # the caller may write to the argument later
                host = np.array(buffers[index].host_view())
                buffer = array_from_host(host, aval, self.device)._buffers[0]
            out.append(ArrayImpl(aval, (buffer,), committed))
        for i in self.donate:
            if i not in self.kept or ("in", i) in self._routes or not self.in_place:
                _delete(args[i])
        return out


def _constant_buffer(x: Any, device: Device) -> Buffer:
    """The values of something that a program closes over, on the device.

    An array shares its memory, however many programs close over it. Of others, to which their
    owners may write, it is a copy, and of what lies in another memory than the device's.
    """
    if type(x) is ArrayImpl and _reaches(device, x._buffers[0]):
        buffer = x._buffers[0]
        if type(buffer) is not HostBuffer:
            return buffer.alias() if buffer.device is device else buffer.seen_from(device)
        if device.runtime.is_host and device.runtime.target != "reference":
            buffer.prepare()  # unaligned arrays move to aligned memory, once for all programs
        return buffer.seen_from(device)
    return array_from_host(np.array(x), get_aval(x), device)._buffers[0]


def _reaches(device: Device, buffer: Buffer) -> bool:
    """Whether the device computes on the memory where the buffer lies."""
    if device.runtime.is_host:
        return buffer.device.runtime.is_host
    return buffer.device is device and type(buffer) is not HostBuffer


def operand_buffer(x: Any, device: Device, later: bool = False) -> Buffer:
    """A buffer for an argument that is no array of xpr, used for the length of one call.

    With `later` the call may return before the program has run, and the owner write to `x` then.
    """
    aval, host = host_value(x)
    if state.transfer_guard_host_to_device != "allow":
        check_transfer("host_to_device", False, f"{aval} to {device!r}")
    copy = later and isinstance(x, np.ndarray)
    return device.runtime.buffer_from_host(host, device, copy=copy)


def _delete(x: Any) -> None:
    if type(x) is ArrayImpl:
        for b in x._buffers:
            b.delete()


def _largest_values(jaxpr: Jaxpr) -> list[str]:
    from xpr.dispatch.out_of_memory import largest_values  # noqa: PLC0415  only for an error

    return largest_values(jaxpr)


def _read_vars(jaxpr: Any) -> set[Var]:
    read = {v for v in jaxpr.outvars if isinstance(v, Var)}
    for eqn in jaxpr.eqns:
        read.update(v for v in eqn.invars if isinstance(v, Var))
    return read


def _lines(*program: Any) -> dict[str, set[tuple[str, int]]]:
    """What `compiling.lines_of` says of a program."""
    from xpr.dispatch import compiling  # noqa: PLC0415  a known program needs none of it

    return compiling.lines_of(*program)


def _signature(closed: ClosedJaxpr, **facts: Any) -> ExecutableSignature:
    jaxpr = closed.jaxpr
    inputs = tuple((v.aval.shape, v.aval.dtype) for v in (*jaxpr.constvars, *jaxpr.invars))
    outputs = tuple((v.aval.shape, v.aval.dtype) for v in jaxpr.outvars)
    return ExecutableSignature(ENTRY, inputs, outputs, **facts, may_run_long=_may_run_long(jaxpr))


_FEW_STEPS = 1e4
"""Equations that a loop of known length runs in some 10 us, so that nobody waits for it."""


def _may_run_long(jaxpr: Jaxpr, times: float = 1.0) -> bool:
    """Whether there is a `while` loop, or a `scan` of many steps."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name == "while":
            return True
        inner = times * eqn.params["length"] if name == "scan" else times
        for body in sub_jaxprs(eqn.params):
            if inner * len(body.eqns) > _FEW_STEPS or _may_run_long(body, inner):
                return True
    return False


def _interpreter(closed: ClosedJaxpr) -> Any:
    """The program of the reference runtime: reference rules applied equation by equation."""
    count = len(closed.consts)

    def program(arrays: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        return interpret(closed, arrays[:count], arrays[count:])

    return program


# ---- operations outside jit that are compiled alone

_single: dict[Any, CompiledProgram] = {}
_MAX_SINGLE = 4096


def apply_primitive(
    primitive: Primitive,
    args: Sequence[Any],
    params: dict[str, Any],
    device: Device,
    committed: bool,
) -> Any:
    """Compiles `primitive` alone (once per types and parameters) and runs it on `device`."""
    avals = tuple(get_aval(a) for a in args)
    key = (
        primitive,
        avals,
        tuple((k, v, type(v)) for k, v in params.items()),
        device,
        state.trace_key,
    )
    try:
        program = _single.get(key)
    except TypeError:  # a parameter that cannot be hashed
        key, program = None, None
    if program is None:
        program = CompiledProgram(
            _one_equation(primitive, avals, params), _name(primitive, params), device
        )
        program.is_operation = primitive.name != "jit"
        if key is not None:
            if len(_single) >= _MAX_SINGLE:
                _single.clear()
            _single[key] = program
    out = program(args)
    if committed:
        out = [ArrayImpl(a.aval, a._buffers, True) for a in out]
    return out if primitive.multiple_results else out[0]


def _one_equation(
    primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> ClosedJaxpr:
    if primitive.name == "jit":
        return params["jaxpr"]

    def flat(*xs: Any) -> Sequence[Any]:
        out = primitive.bind(*xs, **params)
        return out if primitive.multiple_results else [out]

    return trace_to_jaxpr(flat, avals, DebugInfo(func_name=primitive.name))


def _name(primitive: Primitive, params: dict[str, Any]) -> str:
    return params["name"] if primitive.name == "jit" else primitive.name


def clear() -> None:
    """Forgets every operation that was compiled alone."""
    _single.clear()
