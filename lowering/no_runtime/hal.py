"""The functions of IREE's module `hal` that compiled modules call, evaluated without data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xpr.lowering.no_runtime.program import (
    Base,
    Call,
    Check,
    Copy,
    Fill,
    Load,
    Name,
    Range,
    Statement,
    Value,
)
from xpr.lowering.no_runtime.refusal import require
from xpr.lowering.no_runtime.values import (
    Buffer,
    Command,
    CommandList,
    Commands,
    Executable,
    File,
    Marker,
    Null,
    Slot,
    State,
    View,
)

_WHOLE = (1 << 64) - 1


class Evaluator(Protocol):
    """Evaluates the instructions around a call."""

    state: State

    def emit(self, statement: Statement) -> None:
        """Adds a statement to the block."""
        ...

    def name(self, kind: str) -> Name:
        """A new name."""
        ...

    def compute(self, op: str, *operands: Value) -> Value:
        """A number; folded where all operands are known."""
        ...

    def constant(self, number: int) -> bytes:
        """A constant of the module."""
        ...

    def kernels(self, constant: int) -> Sequence[str]:
        """The names of the kernels in a constant."""
        ...

    def allocate(self, size: Value) -> Buffer:
        """Memory of the program's own."""
        ...

    def key(self) -> tuple[object, ...]:
        """The place of the instruction."""
        ...


Arguments = Sequence[Any]
HalFunction = Callable[[Evaluator, Arguments], list[Any]]


def _at_most(e: Evaluator, smaller: Value, larger: Value) -> None:
    if isinstance(smaller, int) and isinstance(larger, int):
        require(smaller <= larger, "it reads outside of a buffer")
    elif smaller != 0:
        e.emit(Check(smaller, larger))


def part(e: Evaluator, buffer: Any, offset: Value, length: Value) -> Buffer:
    """A part of a buffer, which is checked to lie in it."""
    require(isinstance(buffer, Buffer), "it uses an object as one of another kind")
    _at_most(e, offset, buffer.size)
    rest = e.compute("SubI64", buffer.size, offset)
    if length == _WHOLE:
        length = rest
    _at_most(e, length, rest)
    return Buffer(buffer.base, e.compute("AddI64", buffer.offset, offset), length, buffer.sites)


def _range(buffer: Buffer) -> Range:
    return Range(buffer.place, buffer.size)


def _known(value: Any, what: str) -> int:
    require(isinstance(value, int), f"{what} depends on data")
    return value


def _nothing(e: Evaluator, a: Arguments) -> list[Any]:
    return []


def _marker(e: Evaluator, a: Arguments) -> list[Any]:
    return [Marker()]


def _device_query(e: Evaluator, a: Arguments) -> list[Any]:
    category, key = (e.constant(x.number).decode() for x in a[1:3])
    require(
        category in ("hal.device.id", "hal.executable.format"),
        f"it asks the device for {category}, which is not known",
    )
    return [1, int(category != "hal.device.id" or key in ("local*", "*"))]


def _view_assert(e: Evaluator, a: Arguments) -> list[Any]:
    view = a[0]
    require(isinstance(view, View), "it uses an object as one of another kind")
    same = view.bits == a[2] & 0xFF and tuple(a[4:]) == view.shape
    require(same, "an argument has another type than the program is for")
    return []


def _view_create(e: Evaluator, a: Arguments) -> list[Any]:
    return [View(part(e, a[0], a[1], a[2]), _known(a[3], "a type") & 0xFF, tuple(a[5:]))]


def _buffer_assert(e: Evaluator, a: Arguments) -> list[Any]:
    _at_most(e, a[3], a[0].size)
    return []


def _buffer_load(e: Evaluator, a: Arguments) -> list[Any]:
    require(a[2] in (1, 2, 4), "a value on the host is of a type that is not known")
    found = part(e, a[0], a[1], a[2])
    name = e.name("i32")
    e.emit(Load(name, found.place, a[2]))
    return [name]


def _import(e: Evaluator, a: Arguments) -> list[Any]:
    size = len(e.constant(a[5].number))
    whole = Buffer(Base("constant", a[5].number), 0, size)
    return [part(e, whole, a[6], a[7])]


def _file(e: Evaluator, a: Arguments) -> list[Any]:
    return [File(a[3].number, _known(a[4], "an offset"), _known(a[5], "a length"))]


def _executable_create(e: Evaluator, a: Arguments) -> list[Any]:
    constants = a[4]
    empty = isinstance(constants, Null) or not e.constant(constants.number)
    require(empty, "its kernels need constants of the device")
    return [Executable(a[3].number)]


def _lookup(e: Evaluator, a: Arguments) -> list[Any]:
    name = e.constant(a[1].number).decode()
    kernels = e.kernels(a[0].constant)
    require(name in kernels, f"the kernel {name} does not exist")
    return [kernels.index(name)]


def _create(e: Evaluator, a: Arguments) -> list[Any]:
    made = Commands(e.key())
    e.state.commands[made.key] = CommandList()
    return [made]


def _record(e: Evaluator, commands: Any, command: Command) -> list[Any]:
    found = e.state.commands.get(commands.key)
    require(found is not None and not found.is_final, "it adds to a list that is closed")
    assert found is not None
    e.state.commands[commands.key] = CommandList((*found.commands, command))
    return []


def _finalize(e: Evaluator, a: Arguments) -> list[Any]:
    found = e.state.commands.get(a[0].key)
    require(found is not None, "it closes a list that it has not made")
    assert found is not None
    e.state.commands[a[0].key] = CommandList(found.commands, is_final=True)
    return []


def _slot(buffer: Any, slot: Value, offset: Value, length: Value) -> tuple[Buffer | None, Slot]:
    number = _known(slot, "a slot")
    return (buffer if isinstance(buffer, Buffer) else None), Slot(number, offset, length)


def _dispatch(e: Evaluator, a: Arguments) -> list[Any]:
    executable, kernel = a[1].constant, _known(a[2], "a kernel")
    require(a[6] == 0, "a kernel is run in a way that is not known")
    count = a[7]
    constants = tuple(a[8 : 8 + count])
    rest = a[8 + count :]
    rest = rest[1:]  # the number of bindings
    bindings = [rest[i : i + 5] for i in range(0, len(rest), 5)]
    ranges = tuple(_slot(b, s, o, n) for _, s, b, o, n in bindings)
    groups, name = tuple(a[3:6]), e.kernels(executable)[kernel]

    def make(found: list[Range]) -> Call:
        return Call(executable, kernel, groups, constants, tuple(found), name)

    return _record(e, a[0], Command(make, ranges, (executable, kernel, groups, constants)))


def _fill(e: Evaluator, a: Arguments) -> list[Any]:
    pattern, size = _known(a[5], "a pattern"), _known(a[6], "a pattern")

    def make(found: list[Range]) -> Fill:
        return Fill(found[0], pattern, size)

    ranges = (_slot(a[1], a[4], a[2], a[3]),)
    return _record(e, a[0], Command(make, ranges, ("fill", pattern, size)))


def _copy(e: Evaluator, a: Arguments) -> list[Any]:
    def make(found: list[Range]) -> Copy:
        return Copy(*found)

    ranges = (_slot(a[3], a[1], a[4], a[7]), _slot(a[5], a[2], a[6], a[7]))
    return _record(e, a[0], Command(make, ranges, ("copy",)))


def _run(e: Evaluator, commands: Any, table: Sequence[Buffer]) -> list[Any]:
    if isinstance(commands, Null):
        return []  # a barrier
    found = e.state.commands.get(commands.key)
    require(found is not None and found.is_final, "it runs a list of commands that is not closed")
    assert found is not None
    for command in found.commands:
        ranges = []
        for buffer, slot in command.ranges:
            if buffer is None:
                require(slot.number < len(table), "it uses a buffer that was not given")
                buffer = table[slot.number]
            ranges.append(_range(part(e, buffer, slot.offset, slot.length)))
        e.emit(command.make(ranges))
    return []


def _execute(e: Evaluator, a: Arguments) -> list[Any]:
    return _run(e, a[4], ())


def _execute_indirect(e: Evaluator, a: Arguments) -> list[Any]:
    rest = a[6:]
    table = [part(e, *rest[i : i + 3]) for i in range(0, len(rest), 3)]
    return _run(e, a[4], table)


def _queue_fill(e: Evaluator, a: Arguments) -> list[Any]:
    pattern, size = _known(a[7], "a pattern"), _known(a[8], "a pattern")
    e.emit(Fill(_range(part(e, a[4], a[5], a[6])), pattern, size))
    return []


def _queue_copy(e: Evaluator, a: Arguments) -> list[Any]:
    source, target = part(e, a[4], a[5], a[8]), part(e, a[6], a[7], a[8])
    e.emit(Copy(_range(source), _range(target)))
    return []


def _queue_read(e: Evaluator, a: Arguments) -> list[Any]:
    file = a[4]
    whole = Buffer(Base("constant", file.constant), file.offset, file.length)
    e.emit(Copy(_range(part(e, whole, a[5], a[8])), _range(part(e, a[6], a[7], a[8]))))
    return []


FUNCTIONS: dict[tuple[str, str], HalFunction] = {
    ("allocator.allocate", "0rIiiI_r"): lambda e, a: [e.allocate(a[4])],
    ("allocator.import", "0riIiirII_r"): _import,
    ("buffer.assert", "0rrrIii_v"): _buffer_assert,
    ("buffer.length", "0r_I"): lambda e, a: [a[0].size],
    ("buffer.load", "0rIi_i"): _buffer_load,
    ("buffer.subspan", "0rII_r"): lambda e, a: [part(e, *a)],
    ("buffer_view.assert", "0rriiCID_v"): lambda e, a: _view_assert(e, [*a[:4], *a[5:]]),
    ("buffer_view.buffer", "0r_r"): lambda e, a: [a[0].buffer],
    ("buffer_view.create", "0rIIiiCID_r"): lambda e, a: _view_create(e, [*a[:5], *a[6:]]),
    ("buffer_view.dim", "0ri_I"): lambda e, a: [a[0].shape[_known(a[1], "an axis")]],
    ("command_buffer.copy_buffer", "0riirIrIII_v"): _copy,
    ("command_buffer.create", "0riiIi_r"): _create,
    ("command_buffer.dispatch", "0rrIiiiICiDCiirIID_v"): _dispatch,
    ("command_buffer.execution_barrier", "0riiI_v"): _nothing,
    ("command_buffer.fill_buffer", "0rrIIiIiI_v"): _fill,
    ("command_buffer.finalize", "0r_v"): _finalize,
    ("device.allocator", "0r_r"): _marker,
    ("device.query.i64", "0rrr_iI"): _device_query,
    ("device.queue.alloca", "0rIrrIiiII_r"): lambda e, a: [e.allocate(a[7])],
    ("device.queue.copy", "0rIrrrIrIII_v"): _queue_copy,
    ("device.queue.dealloca", "0rIrrrI_v"): _nothing,
    ("device.queue.execute", "0rIrrrI_v"): _execute,
    ("device.queue.execute.indirect", "0rIrrrICrIID_v"): lambda e, a: _execute_indirect(
        e, [*a[:6], *a[7:]]
    ),
    ("device.queue.fill", "0rIrrrIIIiI_v"): _queue_fill,
    ("device.queue.read", "0rIrrrIrIII_v"): _queue_read,
    ("devices.count", "0v_i"): lambda e, a: [1],
    ("devices.get", "0i_r"): _marker,
    ("ex.file.from_memory", "0rIirIIi_r"): _file,
    ("executable.create", "0rIrrr_r"): _executable_create,
    ("executable.lookup.function", "0rr_I"): _lookup,
    ("fence.await", "0iICrD_i"): lambda e, a: [0],
    ("fence.create", "0rI_r"): _marker,
    ("fence.join", "0ICrD_r"): _marker,
}
"""By name and calling convention. A part that is repeated comes with its count in front."""
