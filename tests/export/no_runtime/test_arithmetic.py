"""Integer instructions of IREE's virtual machine: folded, in C, in WebAssembly, as in NumPy."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpr.lowering.no_runtime import arithmetic
from xpr.lowering.no_runtime.c_body import BodyPrinter
from xpr.lowering.no_runtime.c_prelude import HELPERS
from xpr.lowering.no_runtime.program import (
    Base,
    Block,
    Branch,
    Compute,
    Jump,
    Load,
    Name,
    Place,
    Program,
    Stop,
    Value,
)
from xpr.lowering.no_runtime.wasm import binary
from xpr.lowering.no_runtime.wasm.body import BodyWriter

_SPECIAL = (0, 1, 0x8A, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
Binary = Callable[[Any, Any], Any]


def _truncated(a: Any, b: Any) -> Any:
    """The quotient towards zero."""
    return int(np.sign(int(a)) * np.sign(int(b))) * (abs(int(a)) // abs(int(b)))


_EXPECTED: dict[str, Binary] = {
    "Add": lambda a, b: int(a) + int(b),
    "Sub": lambda a, b: int(a) - int(b),
    "Mul": lambda a, b: int(a) * int(b),
    "And": lambda a, b: int(a & b),
    "Or": lambda a, b: int(a | b),
    "Xor": lambda a, b: int(a ^ b),
    "Shl": lambda a, b: int(a) << (int(b) % (8 * a.itemsize)),
    "Shr": lambda a, b: int(a) >> (int(b) % (8 * a.itemsize)),
    "Min": lambda a, b: int(np.minimum(a, b)),
    "Max": lambda a, b: int(np.maximum(a, b)),
    "CmpEq": lambda a, b: int(a == b),
    "CmpNe": lambda a, b: int(a != b),
    "CmpLt": lambda a, b: int(a < b),
    "Div": _truncated,
    "Rem": lambda a, b: int(a) - int(b) * _truncated(a, b),
}
_SIGNED = ("Shr", "Min", "Max", "CmpLt", "Div", "Rem")


def _cases() -> list[tuple[str, int, int, int]]:
    """An instruction, its operands of 32 bits (extended where it takes 64), and its result."""
    found = []
    for what, expected in _EXPECTED.items():
        for bits in (32, 64):
            for sign in ("S", "U") if what in _SIGNED else ("",):
                kind: Any = np.dtype(f"{'int' if sign == 'S' else 'uint'}{bits}").type
                op = f"{what}I{bits}{sign}"
                mask = (1 << (64 if arithmetic.result_kind(op) == "i64" else 32)) - 1
                for a in _SPECIAL:
                    for b in _SPECIAL:
                        x, y = (np.int32(np.uint32(v)).astype(np.int64) for v in (a, b))
                        if what in ("Div", "Rem") and b == 0:
                            continue
                        found.append((op, a, b, expected(x.astype(kind), y.astype(kind)) & mask))
    return found


def _program(cases: list[tuple[str, int, int, int]]) -> Program:
    """Fails unless all results are as expected; operands are read, so that none is folded."""
    numbers = np.array([v for _, a, b, _ in cases for v in (a, b)], np.uint32)
    block, failed = Block(), Name(("none",), "i32")
    block.statements.append(Compute(failed, "XorI32", (0, 0)))
    for n, (op, _, _, expected) in enumerate(cases):
        operands: list[Value] = []
        for k in range(2):
            name = Name((n, k), "i32")
            place = Place(Base("argument", 0), 4 * (2 * n + k))
            block.statements.append(Load(name, place, 4))
            if "I64" in op and not (op.startswith("Sh") and k == 1):
                wide = Name((n, k, "wide"), "i64")
                block.statements.append(Compute(wide, "ExtI32I64S", (name,)))
                name = wide
            operands.append(name)
        kind = arithmetic.result_kind(op)
        result, differs = Name((n, "result"), kind), Name((n, "differs"), "i32")
        block.statements.append(Compute(result, op, tuple(operands)))
        block.statements.append(Compute(differs, f"CmpNeI{kind[1:]}", (result, expected)))
        before, failed = failed, Name((n, "failed"), "i32")
        block.statements.append(Compute(failed, "OrI32", (before, differs)))
    block.end = Branch(failed, Jump(1), Jump(2))
    blocks = [block, Block(end=Stop(True)), Block()]
    return Program(blocks, [], (), (numbers.nbytes,), ())


def _words(cases: list[tuple[str, int, int, int]]) -> list[int]:
    return [v for _, a, b, _ in cases for v in (a, b)]


def test_known_numbers() -> None:
    for op, a, b, expected in _cases():
        operands = [a, b]
        if "I64" in op:
            whole = [int(np.int32(np.uint32(v))) & (1 << 64) - 1 for v in (a, b)]
            operands = [whole[0], b] if op.startswith("Sh") else whole
        assert arithmetic.folded(op, operands) == expected, (op, a, b)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_in_c(tmp_path: Path) -> None:
    cases = _cases()
    body = BodyPrinter(_program(cases), {}, []).lines()
    declared = [line for line in body if not line.startswith((" ", "block"))]
    lines = [
        *("#include <stdint.h>", "#include <stddef.h>", "#include <string.h>"),
        *("#define XPR_OK 0", "#define XPR_FAILED 6"),
        *(helper for name, helper in HELPERS.items() if f"{name}(" in "\n".join(body)),
        f"static uint32_t words[] = {{{', '.join(f'{w}u' for w in _words(cases))}}};",
        "int main(void) {",
        "uint8_t *arguments[] = {(uint8_t *)words};",
        *declared,
        *body[len(declared) :],
        "}",
    ]
    (tmp_path / "cases.c").write_text("\n".join(lines))
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O0", "-fsanitize=undefined")
    command = ["gcc", *flags, "-fno-sanitize-recover", "cases.c", "-o", "cases"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    assert subprocess.run([tmp_path / "cases"]).returncode == 0


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")
def test_in_webassembly(tmp_path: Path) -> None:
    cases = _cases()
    words = np.array(_words(cases), np.uint32).tobytes()
    body = BodyWriter(_program(cases), {}, [], {}, (0, 0)).written()
    sections = {
        binary.TYPE: binary.vector([binary.function_type([binary.I32] * 2, [binary.I32])]),
        binary.FUNCTION: binary.vector([b"\0"]),
        binary.MEMORY: b"\1\0" + binary.unsigned(8),
        binary.EXPORT: binary.vector([binary.Export("run", 0, 0).encoded()]),
        binary.CODE: binary.vector([body]),
        binary.DATA: binary.vector([b"\0\x41\0\x0b" + binary.sized(words)]),
    }
    data = b"".join(bytes([k]) + binary.sized(sections[k]) for k in binary.ORDER if k in sections)
    (tmp_path / "cases.wasm").write_bytes(binary.MAGIC + data)
    script = (
        "const { readFileSync } = require('fs');"
        "WebAssembly.instantiate(readFileSync('cases.wasm'))"
        f".then(({{ instance }}) => process.exit(instance.exports.run(0, {len(words) + 64})));"
    )
    done = subprocess.run(["node", "-e", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
