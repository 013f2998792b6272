"""A model as one WebAssembly module: the linked kernels, the schedules and the constants."""

from __future__ import annotations

from dataclasses import dataclass

from xpr.lowering.no_runtime.interface import Model
from xpr.lowering.no_runtime.memory import aligned
from xpr.lowering.no_runtime.refusal import require
from xpr.lowering.no_runtime.wasm.binary import (
    CODE,
    DATA,
    DATA_COUNT,
    EXPORT,
    FUNCTION,
    I32,
    I64,
    MEMORY,
    TYPE,
    Export,
    function_type,
    signed,
    sized,
    unsigned,
    vector,
)
from xpr.lowering.no_runtime.wasm.body import BodyWriter, filler, runner
from xpr.lowering.no_runtime.wasm.linker import kernel_names, linked

_PAGE = 65536
_MEMORY_EXPORT = 2


@dataclass(frozen=True)
class Built:
    """A module, and where the memory begins that its callers share out."""

    module: bytes
    free: int
    code_bytes: int
    """Without constants."""


class _Constants:
    """Constants behind the linked module's data; equal ones are one."""

    def __init__(self, start: int) -> None:
        self.end = aligned(start)
        self.segments: list[bytes] = []
        self._places: dict[bytes, int] = {}

    def place(self, data: bytes) -> int:
        if data not in self._places:
            self._places[data] = self.end
            head = b"\0\x41" + signed(self.end) + b"\x0b"
            if data.strip(b"\0"):
                self.segments.append(head + sized(data))
            self.end = aligned(self.end + len(data))
        return self._places[data]


def built(model: Model) -> Built:
    """The module. Each entry's function takes addresses: arguments, results, workspace."""
    objects: list[bytes] = []
    names: list[str] = []
    places: list[dict[int, int]] = []
    for entry in model.entries:
        places.append({})
        for constant, data in entry.objects.items():
            places[-1][constant] = 1 + len(names)
            objects.append(data)
            names += kernel_names(data)
    module = linked(objects)
    require(module.table() == names, "the linker has put the kernels into another order")
    exports = {e.name: e for e in module.exports()}
    constants = _Constants(module.global_value(exports["__heap_base"].index))
    types, type_bytes = module.items(TYPE)
    count, function_bytes = module.items(FUNCTION)
    made_types = [
        function_type([I32] * 3, [I32]),
        function_type([I32] * 7, [I32]),
        function_type([I32, I32, I64, I32], []),
    ]
    bodies, kinds = [runner(types), filler()], [types + 1, types + 2]
    made_exports = [Export("memory", _MEMORY_EXPORT, exports["memory"].index)]
    for entry, tables in zip(model.entries, places, strict=True):
        program = entry.program
        writer = BodyWriter(
            program,
            {n: constants.place(data) for n, data in entry.constants.items()},
            [constants.place(data) for data in entry.weights],
            tables,
            (count, count + 1),
        )
        taken = len(program.arguments) - len(entry.weights) + len(program.results) + 1
        made_exports.append(Export(entry.name, 0, count + len(bodies)))
        kinds.append(types + len(made_types))
        made_types.append(function_type([I32] * taken, [I32]))
        bodies.append(writer.written())
    module.sections[TYPE] = unsigned(types + len(made_types)) + type_bytes + b"".join(made_types)
    module.sections[FUNCTION] = (
        unsigned(count + len(kinds)) + function_bytes + b"".join(map(unsigned, kinds))
    )
    code_count, code = module.items(CODE)
    module.sections[CODE] = unsigned(code_count + len(bodies)) + code + b"".join(bodies)
    module.sections[EXPORT] = vector([e.encoded() for e in made_exports])
    data_count, data = module.items(DATA)
    size = len(module.encoded())
    total = data_count + len(constants.segments)
    module.sections[DATA] = unsigned(total) + data + b"".join(constants.segments)
    if DATA_COUNT in module.sections:
        module.sections[DATA_COUNT] = unsigned(total)
    pages = -(-constants.end // _PAGE)
    module.sections[MEMORY] = unsigned(1) + b"\0" + unsigned(pages)
    return Built(module.encoded(), constants.end, size)
