"""A program's statements and blocks as a C function."""

from __future__ import annotations

from collections.abc import Sequence

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

_TYPES = {"i32": "uint32_t", "i64": "uint64_t", "ptr": "uint8_t *"}
_INFIX = {
    **{"Add": "+", "Sub": "-", "Mul": "*", "And": "&", "Or": "|", "Xor": "^"},
    **{"CmpEq": "==", "CmpNe": "!=", "CmpLt": "<", "Div": "/", "Rem": "%"},
}
_PARTS = {"TruncI32I8": "uint8_t", "ExtI8I32U": "uint8_t", "TruncI32I16": "uint16_t"}
_PARTS |= {"ExtI16I32U": "uint16_t", "TruncI64I32": "uint32_t", "ExtI32I64U": "uint32_t"}


class BodyPrinter:
    """Prints one program. `constants` gives the C name of a constant's array."""

    def __init__(self, program: Program, constants: dict[int, str], weights: Sequence[str]) -> None:
        self._program = program
        self._constants = constants
        self._weights = weights
        self._names: dict[Name, str] = {}
        self._lines: list[str] = []

    def lines(self) -> list[str]:
        """The body: declarations, then the blocks."""
        blocks = self._program.blocks
        targets = {j.block for b in blocks for j in b.jumps()}
        for i, block in enumerate(blocks):
            if i in targets:
                self._lines.append(f"block{i}:;")
            self._block(block)
        declared = [
            f"{_TYPES[name.kind]}{'' if name.kind == 'ptr' else ' '}{text} = 0;"
            for name, text in self._names.items()
        ]
        return [*declared, *self._lines]

    def _add(self, line: str) -> None:
        self._lines.append("  " + line)

    def _name(self, name: Name) -> str:
        return self._names.setdefault(name, f"{name.kind[0]}{len(self._names)}")

    def _value(self, value: Value, wide: bool = False) -> str:
        if isinstance(value, int):
            return f"UINT64_C({value})" if wide else f"{value}u"
        return self._name(value)

    def _size(self, value: Value) -> str:
        return f"{value}u" if isinstance(value, int) else f"(size_t){self._name(value)}"

    def _place(self, place: Place) -> str:
        base = place.base
        if isinstance(base, Name):
            text = self._name(base)
        elif base.kind == "argument":
            weights = len(self._weights)
            known = base.number < weights
            text = self._weights[base.number] if known else f"arguments[{base.number - weights}]"
        elif base.kind == "result":
            text = f"results[{base.number}]"
        elif base.kind == "constant":
            text = f"XPR_BYTES({self._constants[base.number]})"
        else:
            site = self._program.sites[base.number]
            if isinstance(place.offset, int):
                return f"workspace + {site.offset + place.offset}u"
            text = f"workspace + {site.offset}u"
        if place.offset == 0:
            return text
        return f"{text} + {self._size(place.offset)}"

    # ---- statements

    def _block(self, block: Block) -> None:
        for s in block.statements:
            if isinstance(s, Call):
                self._call(s)
            elif isinstance(s, Copy):
                source, target = self._place(s.source.place), self._place(s.target.place)
                self._add(f"memcpy({target}, {source}, {self._size(s.source.length)});")
            elif isinstance(s, Fill):
                self._fill(s)
            elif isinstance(s, Compute):
                self._add(f"{self._name(s.target)} = {self._expression(s)};")
            elif isinstance(s, Address):
                self._add(f"{self._name(s.target)} = {self._place(s.place)};")
            elif isinstance(s, Load):
                place = self._place(s.place)
                self._add(f"{self._name(s.target)} = xpr_load{8 * s.bytes}({place});")
            elif isinstance(s, Check):
                smaller, larger = self._value(s.smaller, True), self._value(s.larger, True)
                self._add(f"if ({smaller} > {larger}) return XPR_FAILED;")
            else:
                self._allocate(s)
        self._end(block)

    def _fill(self, s: Fill) -> None:
        target, size = self._place(s.target.place), self._size(s.target.length)
        pattern = s.pattern & ((1 << 8 * s.pattern_bytes) - 1)
        raw = pattern.to_bytes(s.pattern_bytes, "little")
        if len(set(raw)) == 1:
            self._add(f"memset({target}, {raw[0]}, {size});")
        else:
            self._add(f"xpr_fill({target}, {size}, UINT64_C({pattern}), {s.pattern_bytes});")

    def _call(self, s: Call) -> None:
        self._add(f"{{ /* {s.name} */")
        constants = "NULL"
        if s.constants:
            self._add(f"  uint32_t constants[{len(s.constants)}];")
            constants = "constants"
        count = max(len(s.bindings), 1)
        self._add(f"  void *bindings[{count}];")
        self._add(f"  size_t lengths[{count}];")
        for i, r in enumerate(s.bindings):
            self._add(f"  bindings[{i}] = {self._place(r.place)};")
            self._add(f"  lengths[{i}] = {self._size(r.length)};")
        for i, c in enumerate(s.constants):
            self._add(f"  constants[{i}] = {self._value(c)};")
        number = self._program.executables.index(s.executable)
        groups = ", ".join(self._value(g) for g in s.groups)
        self._add(
            f"  if (xpr_run(kernels{number}[{s.kernel}], {groups}, {constants}, "
            f"{len(s.constants)}, bindings, lengths, {len(s.bindings)})) return XPR_KERNEL_FAILED;"
        )
        self._add("}")

    def _allocate(self, s: Allocate) -> None:
        site = self._program.sites[s.site]
        size = -(-site.size // 64) * 64
        target = self._name(s.target)
        held = [self._place(p) for p in s.occupied]
        for slot in range(site.slots):
            place = f"workspace + {site.offset + slot * size}u"
            if slot == site.slots - 1:
                self._add(f"{{ {target} = {place}; }}" if held else f"{target} = {place};")
            else:
                free = " && ".join(f"!xpr_inside({p}, {place}, {size}u)" for p in held)
                self._add(f"if ({free or '1'}) {{ {target} = {place}; }} else")

    def _expression(self, s: Compute) -> str:
        op, operands = s.op, s.operands
        wide = "I64" in op
        if op.startswith("Select"):
            a, b, c = self._value(operands[0]), *(self._value(x, wide) for x in operands[1:])
            return f"{a} ? {b} : {c}"
        if op in _PARTS:
            source = self._value(operands[0], op == "TruncI64I32")
            cast = f"({_PARTS[op]}){source}"
            return f"(uint64_t){cast}" if op == "ExtI32I64U" else f"(uint32_t){cast}"
        if op == "HighI64":
            return f"(uint32_t)({self._value(operands[0], True)} >> 32)"
        if op.startswith("Ext"):
            source = int(op[4 : op.index("I", 4)])
            target = 64 if "I64" in op else 32
            value = self._value(operands[0])
            return f"(uint{target}_t)(int{target}_t)(int{source}_t)(uint{source}_t){value}"
        for what, infix in _INFIX.items():
            if op.startswith(f"{what}I"):
                return self._infix(what, infix, op, operands, wide)
        bits = 64 if wide else 32
        x = [self._value(v, wide) for v in operands]
        if op.startswith("Fma"):
            return f"{x[0]} * {x[1]} + {x[2]}"
        if op.startswith("Not"):
            return f"~{x[0]}"
        if op.startswith("CmpNz"):
            return f"{x[0]} != 0"
        if op.startswith("Min") or op.startswith("Max"):
            a, b = x
            signed = f"(int{bits}_t)" if op.endswith("S") else ""
            compared = f"{signed}{a} < {signed}{b}"
            return f"{compared} ? {a} : {b}" if op.startswith("Min") else f"{compared} ? {b} : {a}"
        if op.startswith("Sh"):
            shift = f"({self._value(operands[1])} & {bits - 1})"
            if op.endswith("S"):
                return f"(uint{bits}_t)((int{bits}_t){x[0]} >> {shift})"
            return f"{x[0]} {'<<' if op.startswith('Shl') else '>>'} {shift}"
        raise RefusedError(f"the instruction {op} is not known")

    def _infix(self, what: str, infix: str, op: str, operands: Sequence[Value], wide: bool) -> str:
        a, b = (self._value(x, wide) for x in operands)
        bits = 64 if wide else 32
        signed = op.endswith("S")
        if what in ("Div", "Rem"):
            self._add(f"if ({b} == 0) return XPR_FAILED;")
            if signed:
                return f"xpr_{what.lower()}{bits}({a}, {b})"
        if signed:
            return f"(int{bits}_t){a} {infix} (int{bits}_t){b}"
        return f"{a} {infix} {b}"

    # ---- ends of blocks

    def _end(self, block: Block) -> None:
        end = block.end
        if isinstance(end, Jump):
            self._jump(end, "")
        elif isinstance(end, Branch):
            self._add(f"if ({self._value(end.condition)}) {{")
            self._jump(end.if_true, "  ")
            self._add("} else {")
            self._jump(end.if_false, "  ")
            self._add("}")
        elif isinstance(end, Switch):
            self._add(f"switch ({self._value(end.which)}) {{")
            for i, jump in enumerate(end.cases):
                self._add(f"  case {i}:")
                self._jump(jump, "    ")
            self._add("  default:")
            self._jump(end.default, "    ")
            self._add("}")
        else:
            self._stop(end)

    def _stop(self, end: Stop) -> None:
        self._add("return XPR_FAILED;" if end.failed else "return XPR_OK;")

    def _jump(self, jump: Jump, indent: str) -> None:
        """Sets the parameters of the next block, all at once, and goes there."""
        names = self._program.blocks[jump.block].parameters
        pairs = [
            (name, value) for name, value in zip(names, jump.values, strict=True) if name != value
        ]
        pairs = [(n, v) for n, v in pairs if v != Place(n, 0)]
        read = {x for _, v in pairs for x in _names_in(v)}
        late = [p for p in pairs if p[0] in read]
        texts = {}
        if late:
            self._add(f"{indent}{{")
        for k, (name, value) in enumerate(late):
            kind = _TYPES[name.kind]
            self._add(f"{indent}  {kind} next{k} = {self._passed(name, value)};")
            texts[name] = f"next{k}"
        for name, value in pairs:
            self._add(
                f"{indent}  {self._name(name)} = {texts.get(name) or self._passed(name, value)};"
            )
        if late:
            self._add(f"{indent}}}")
        self._add(f"{indent}goto block{jump.block};")

    def _passed(self, name: Name, value: Value | Place) -> str:
        if isinstance(value, Place):
            return self._place(value)
        return self._value(value, name.kind == "i64")


def _names_in(value: Value | Place) -> list[Name]:
    values: list[object] = [value.base, value.offset] if isinstance(value, Place) else [value]
    return [v for v in values if isinstance(v, Name)]
