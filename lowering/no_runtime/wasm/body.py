"""A program's statements and blocks as a function in WebAssembly."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.no_runtime.arithmetic import result_kind
from xpr.lowering.no_runtime.program import (
    Address,
    Allocate,
    Block,
    Branch,
    Call,
    Check,
    Compute,
    Copy,
    Fill,
    Jump,
    Load,
    Name,
    Place,
    Program,
    Stop,
    Switch,
    Value,
)
from xpr.lowering.no_runtime.refusal import RefusedError
from xpr.lowering.no_runtime.wasm.binary import I32, I64, signed, sized, unsigned, vector

SCRATCH_BYTES = 1536
"""Behind the workspace: what a kernel is told."""
_STATE, _GROUP, _ENVIRONMENT, _BINDINGS, _LENGTHS, _CONSTANTS = 0, 64, 96, 192, 320, 448
_LEAST_CLEARED = 192

KERNEL_FAILED, FAILED = 5, 6
_EMPTY = b"\x40"
_ARITHMETIC = {
    **{"Add": 0x6A, "Sub": 0x6B, "Mul": 0x6C, "DivS": 0x6D, "DivU": 0x6E, "RemS": 0x6F},
    **{"RemU": 0x70, "And": 0x71, "Or": 0x72, "Xor": 0x73, "Shl": 0x74, "ShrS": 0x75},
    "ShrU": 0x76,
}
_COMPARED = {"CmpEq": 0x46, "CmpNe": 0x47, "CmpLtS": 0x48, "CmpLtU": 0x49}
_GREATER = {"S": 0x4A, "U": 0x4B}


class Code:
    """Instructions."""

    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, *parts: int | bytes) -> None:
        for part in parts:
            self.data += bytes([part]) if isinstance(part, int) else part

    def i32(self, value: int) -> None:
        value &= 0xFFFFFFFF
        self.put(0x41, signed(value - (1 << 32) if value >> 31 else value))

    def i64(self, value: int) -> None:
        value &= 0xFFFFFFFFFFFFFFFF
        self.put(0x42, signed(value - (1 << 64) if value >> 63 else value))

    def get(self, local: int) -> None:
        self.put(0x20, unsigned(local))

    def set(self, local: int) -> None:
        self.put(0x21, unsigned(local))

    def store(self, bits: int, offset: int) -> None:
        """Stores a number of 32 bits, or the lower part of one."""
        op, align = {8: (0x3A, 0), 16: (0x3B, 1), 32: (0x36, 2)}[bits]
        self.put(op, align, unsigned(offset))

    def function(self, local_types: Sequence[int]) -> bytes:
        groups = [unsigned(1) + bytes([kind]) for kind in local_types]
        return sized(vector(groups) + bytes(self.data) + b"\x0b")


def runner(kernel_type: int) -> bytes:
    """The function that runs a kernel.

    It takes (kernel, x, y, z, constants, bindings, scratch), and returns whether one failed.
    """
    c = Code()
    kernel, x, y, z, constants, bindings, scratch, i, j, k = range(10)
    for offset, bits in ((0, 32), (4, 32), (8, 16), (22, 8)):
        c.get(scratch)
        c.i32(1)
        c.store(bits, offset)
    for local, offset, bits in (
        *((constants, 10, 16), (x, 12, 32), (y, 16, 32), (z, 20, 16)),
        (bindings, 23, 8),
    ):
        c.get(scratch)
        c.get(local)
        c.store(bits, offset)
    for place, offset in ((_CONSTANTS, 24), (_BINDINGS, 28), (_LENGTHS, 32)):
        c.get(scratch)
        c.get(scratch)
        c.i32(place)
        c.put(0x6A)
        c.store(32, offset)
    for counter, end in ((k, z), (j, y), (i, x)):
        c.i32(0)
        c.set(counter)
        c.put(0x02, _EMPTY, 0x03, _EMPTY)  # block, loop
        c.get(counter)
        c.get(end)
        c.put(0x4F, 0x0D, 1)
    for counter, offset, bits in ((i, 0, 32), (j, 4, 32), (k, 8, 16)):
        c.get(scratch)
        c.get(counter)
        c.store(bits, _GROUP + offset)
    for place in (_ENVIRONMENT, _STATE, _GROUP):
        c.get(scratch)
        c.i32(place)
        c.put(0x6A)
    c.get(kernel)
    c.put(0x11, unsigned(kernel_type), 0)
    c.put(0x04, _EMPTY)
    c.i32(1)
    c.put(0x0F, 0x0B)
    for counter in (i, j, k):
        c.get(counter)
        c.i32(1)
        c.put(0x6A)
        c.set(counter)
        c.put(0x0C, 0, 0x0B, 0x0B)
    c.i32(0)
    return c.function([I32, I32, I32])


def filler() -> bytes:
    """The function that repeats a pattern: (target, bytes, pattern, pattern bytes)."""
    c = Code()
    target, size, pattern, width, i = range(5)
    c.put(0x02, _EMPTY, 0x03, _EMPTY)
    c.get(i)
    c.get(size)
    c.put(0x4F, 0x0D, 1)
    c.get(target)
    c.get(i)
    c.put(0x6A)
    c.get(pattern)
    c.get(i)
    c.get(width)
    c.put(0x70)
    c.i32(3)
    c.put(0x74, 0xAD)
    c.put(0x88, 0x3C, 0, 0)  # shifts, and stores one byte
    c.get(i)
    c.i32(1)
    c.put(0x6A)
    c.set(i)
    c.put(0x0C, 0, 0x0B, 0x0B)
    return c.function([I32])


class BodyWriter:
    """Writes one program. Its parameters are arguments, results and workspace.

    `constants` and `weights` are addresses, `tables` the places where the kernels of executables
    begin in the table of functions, and `helpers` are `runner` and `filler`.
    """

    def __init__(
        self,
        program: Program,
        constants: dict[int, int],
        weights: Sequence[int],
        tables: dict[int, int],
        helpers: tuple[int, int],
    ) -> None:
        self._program, self._constants, self._weights = program, constants, weights
        self._tables, (self._run, self._fill_with) = tables, helpers
        self._inputs = len(program.arguments) - len(weights)
        self._workspace = self._inputs + len(program.results)
        self._block_local = self._workspace + 1
        self._locals: dict[Name, int] = {}
        self._types: list[int] = [I32]
        self.code = Code()

    def written(self) -> bytes:
        c, blocks = self.code, self._program.blocks
        self._scratch()
        c.i32(0)
        c.i32(_LEAST_CLEARED)
        c.put(0xFC, 11, 0)
        if len(blocks) == 1:
            self._statements(blocks[0])
            self._stop(blocks[0].end)
        else:
            self._all(blocks)
        return c.function(self._types)

    def _all(self, blocks: Sequence[Block]) -> None:
        """A loop around a choice of the block that is next."""
        c, count = self.code, len(blocks)
        c.put(0x03, _EMPTY)
        for _ in blocks:
            c.put(0x02, _EMPTY)
        c.get(self._block_local)
        c.put(0x0E, unsigned(count - 1), b"".join(map(unsigned, range(count))))
        for i, block in enumerate(blocks):
            c.put(0x0B)
            self._statements(block)
            self._end(block, count - 1 - i)
        c.put(0x0B, 0x00)  # the end is never come to

    # ---- values

    def _local(self, name: Name) -> int:
        if name not in self._locals:
            self._locals[name] = self._block_local + len(self._types)
            self._types.append(I64 if name.kind == "i64" else I32)
        return self._locals[name]

    def _value(self, value: Value, wide: bool) -> None:
        c = self.code
        if isinstance(value, Name):
            c.get(self._local(value))
        elif wide:
            c.i64(value)
        else:
            c.i32(value)

    def _size(self, value: Value) -> None:
        """A number of bytes, in 32 bits."""
        self._value(value, False)
        if isinstance(value, Name) and value.kind == "i64":
            self.code.put(0xA7)

    def _scratch(self) -> None:
        self.code.get(self._workspace)
        self.code.i32(self._program.workspace)
        self.code.put(0x6A)

    def _place(self, place: Place) -> None:
        c, base, offset = self.code, place.base, place.offset
        more = offset if isinstance(offset, int) else 0
        if isinstance(base, Name):
            c.get(self._local(base))
        elif base.kind == "constant":
            c.i32(self._constants[base.number] + more)
            more = 0
        elif base.kind == "argument" and base.number < len(self._weights):
            c.i32(self._weights[base.number] + more)
            more = 0
        elif base.kind == "argument":
            c.get(base.number - len(self._weights))
        elif base.kind == "result":
            c.get(self._inputs + base.number)
        else:
            c.get(self._workspace)
            more += self._program.sites[base.number].offset
        if more:
            c.i32(more)
            c.put(0x6A)
        if isinstance(offset, Name):
            self._size(offset)
            c.put(0x6A)

    # ---- statements

    def _statements(self, block: Block) -> None:
        c = self.code
        for s in block.statements:
            if isinstance(s, Call):
                self._call(s)
            elif isinstance(s, Copy):
                self._place(s.target.place)
                self._place(s.source.place)
                self._size(s.source.length)
                c.put(0xFC, 10, 0, 0)
            elif isinstance(s, Fill):
                self._fill(s)
            elif isinstance(s, Compute):
                self._compute(s)
                c.set(self._local(s.target))
            elif isinstance(s, Address):
                self._place(s.place)
                c.set(self._local(s.target))
            elif isinstance(s, Load):
                op, align = {1: (0x2D, 0), 2: (0x2F, 1), 4: (0x28, 2)}[s.bytes]
                self._place(s.place)
                c.put(op, align, 0)
                c.set(self._local(s.target))
            elif isinstance(s, Check):
                self._value(s.smaller, True)
                self._value(s.larger, True)
                c.put(0x56)
                self._fail_if(FAILED)
            else:
                self._allocate(s)

    def _fail_if(self, status: int) -> None:
        self.code.put(0x04, _EMPTY)
        self.code.i32(status)
        self.code.put(0x0F, 0x0B)

    def _fill(self, s: Fill) -> None:
        c = self.code
        raw = (s.pattern & ((1 << 8 * s.pattern_bytes) - 1)).to_bytes(s.pattern_bytes, "little")
        self._place(s.target.place)
        if len(set(raw)) == 1:
            c.i32(raw[0])
            self._size(s.target.length)
            c.put(0xFC, 11, 0)
            return
        self._size(s.target.length)
        c.i64(s.pattern)
        c.i32(s.pattern_bytes)
        c.put(0x10, unsigned(self._fill_with))

    def _call(self, s: Call) -> None:
        c = self.code
        for i, r in enumerate(s.bindings):
            self._scratch()
            self._place(r.place)
            c.store(32, _BINDINGS + 4 * i)
            self._scratch()
            self._size(r.length)
            c.store(32, _LENGTHS + 4 * i)
        for i, constant in enumerate(s.constants):
            self._scratch()
            self._value(constant, False)
            c.store(32, _CONSTANTS + 4 * i)
        c.i32(self._tables[s.executable] + s.kernel)
        for groups in s.groups:
            self._value(groups, False)
        c.i32(len(s.constants))
        c.i32(len(s.bindings))
        self._scratch()
        c.put(0x10, unsigned(self._run))
        self._fail_if(KERNEL_FAILED)

    def _allocate(self, s: Allocate) -> None:
        """Tries the slots one after the other, in nested choices."""
        c, site = self.code, self._program.sites[s.site]
        size, target = -(-site.size // 64) * 64, self._local(s.target)
        c.put(0x02, _EMPTY)
        for slot in range(site.slots):
            c.get(self._workspace)
            c.i32(site.offset + slot * size)
            c.put(0x6A)
            c.set(target)
            if slot == site.slots - 1:
                break
            c.i32(0)
            for place in s.occupied:
                self._place(place)
                c.get(target)
                c.put(0x6B)
                c.i32(size)
                c.put(0x49, 0x72)
            c.put(0x45, 0x0D, 0)  # leaves the block if none is inside
        c.put(0x0B)

    def _compute(self, s: Compute) -> None:
        c, op, operands = self.code, s.op, s.operands
        wide = "I64" in op
        if op.startswith("Select"):
            for x in operands[1:]:
                self._value(x, wide)
            self._value(operands[0], False)
            c.put(0x1B)
            return
        if op in ("TruncI64I32", "HighI64"):
            self._value(operands[0], True)
            if op == "HighI64":
                c.i64(32)
                c.put(0x88)
            c.put(0xA7)
            return
        if op.startswith(("Trunc", "Ext")):
            self._resize(op, operands[0])
            return
        what, _, sign = op.replace("I64", "I32").partition("I32")
        if what == "Div" and sign == "S":
            self._divide(operands, wide)
            return
        for n, x in enumerate(operands):
            self._value(x, wide and not (what.startswith("Sh") and n == 1))
            if wide and what.startswith("Sh") and n == 1:
                c.put(0xAD)
            if what == "Fma" and n == 1:
                c.put(0x7E if wide else 0x6C)
        if what == "Fma":
            c.put(0x7C if wide else 0x6A)
        elif what == "Not":
            self._value(-1, wide)
            c.put(0x85 if wide else 0x73)
        elif what == "CmpNz":
            c.put(0x50 if wide else 0x45, 0x45)
        elif what in ("Min", "Max"):
            for x in operands:
                self._value(x, wide)
            code = _COMPARED[f"CmpLt{sign}"] if what == "Min" else _GREATER[sign]
            c.put(code + (0x0B if wide else 0), 0x1B)
        elif what + sign in _ARITHMETIC:
            c.put(_ARITHMETIC[what + sign] + (0x12 if wide else 0))
        elif what + sign in _COMPARED:
            c.put(_COMPARED[what + sign] + (0x0B if wide else 0))
        else:
            raise RefusedError(f"the instruction {op} is not known")

    def _divide(self, operands: Sequence[Value], wide: bool) -> None:
        """A signed quotient. For -1 it is the negative, since the instruction traps on overflow."""
        c, (a, b) = self.code, operands
        more = (0x12, 0x0B) if wide else (0, 0)

        def is_minus_one() -> None:
            self._value(b, wide)
            self._value(-1, wide)
            c.put(_COMPARED["CmpEq"] + more[1])

        self._value(0, wide)
        self._value(a, wide)
        c.put(_ARITHMETIC["Sub"] + more[0])
        self._value(a, wide)
        self._value(1, wide)
        self._value(b, wide)
        is_minus_one()
        c.put(0x1B, _ARITHMETIC["DivS"] + more[0])
        is_minus_one()
        c.put(0x1B)

    def _resize(self, op: str, value: Value) -> None:
        c = self.code
        self._value(value, False)
        source = int(op[op.index("I") + 1 : op.rindex("I")])
        if op.startswith("Trunc") or (op.endswith("U") and source < 32):
            bits = int(op[op.rindex("I") + 1 :].rstrip("SU")) if op.startswith("Trunc") else source
            c.i32((1 << bits) - 1)
            c.put(0x71)
        elif op.endswith("S") and source < 32:
            c.put(0xC0 if source == 8 else 0xC1)
        if result_kind(op) == "i64":
            c.put(0xAC if op.endswith("S") else 0xAD)

    # ---- ends of blocks

    def _end(self, block: Block, depth: int) -> None:
        """`depth` is how many blocks lie between here and the loop."""
        c, end = self.code, block.end
        if isinstance(end, Stop):
            self._stop(end)
        elif isinstance(end, Jump):
            self._jump(end, depth)
        elif isinstance(end, Branch):
            self._value(end.condition, False)
            c.put(0x04, _EMPTY)
            self._jump(end.if_true, depth + 1)
            c.put(0x0B)
            self._jump(end.if_false, depth)
        elif isinstance(end, Switch):
            for i, jump in enumerate(end.cases):
                self._value(end.which, False)
                c.i32(i)
                c.put(0x46, 0x04, _EMPTY)
                self._jump(jump, depth + 1)
                c.put(0x0B)
            self._jump(end.default, depth)

    def _stop(self, end: object) -> None:
        failed = isinstance(end, Stop) and end.failed
        self.code.i32(FAILED if failed else 0)
        self.code.put(0x0F)

    def _jump(self, jump: Jump, depth: int) -> None:
        """Sets the parameters of the next block, all at once, and goes around."""
        c, names = self.code, self._program.blocks[jump.block].parameters
        for name, value in zip(names, jump.values, strict=True):
            if isinstance(value, Place):
                self._place(value)
            else:
                self._value(value, name.kind == "i64")
        for name in reversed(names):
            c.set(self._local(name))
        c.i32(jump.block)
        c.set(self._block_local)
        c.put(0x0C, unsigned(depth))
