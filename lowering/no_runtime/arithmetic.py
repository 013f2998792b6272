"""The integer instructions of IREE's virtual machine, on numbers that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xpr.lowering.no_runtime.program import Value
from xpr.lowering.no_runtime.refusal import require

_WIDTH = re.compile(r"I(32|64)")


def _signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def _quotient(a: int, b: int) -> int:
    require(b != 0, "it divides an integer by zero")
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "And": lambda a, b: a & b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
    "Div": _quotient,
    "Rem": lambda a, b: a - b * _quotient(a, b),
    "Min": min,
    "Max": max,
    "CmpEq": lambda a, b: a == b,
    "CmpNe": lambda a, b: a != b,
    "CmpLt": lambda a, b: a < b,
}
_FORM = re.compile(r"(?P<what>\D+?)I(?P<bits>32|64)(?P<sign>[SU]?)\Z")
_RESIZE = re.compile(r"(?:Trunc|Ext)I(?P<source>\d+)I(?P<target>\d+)(?P<sign>[SU]?)\Z")


def result_kind(op: str) -> str:
    """i32 or i64: the kind of an instruction's result."""
    if op.startswith("Cmp") or op == "HighI64":
        return "i32"
    resize = _RESIZE.match(op)
    if resize:
        return "i64" if resize["target"] == "64" else "i32"
    return "i64" if "I64" in op else "i32"


def folded(op: str, operands: Sequence[Value]) -> int | None:
    """The result of an instruction, if it is known."""
    if op.startswith("Select") and isinstance(operands[0], int):
        chosen = operands[1] if operands[0] else operands[2]
        return chosen if isinstance(chosen, int) else None
    if op in ("CmpLtI32U", "CmpLtI64U") and operands[1] == 0:
        return 0
    if not all(isinstance(x, int) for x in operands):
        return None
    known = [x for x in operands if isinstance(x, int)]
    return _known(op, known) & ((1 << (64 if result_kind(op) == "i64" else 32)) - 1)


def _known(op: str, x: Sequence[int]) -> int:
    if op == "HighI64":
        return x[0] >> 32
    resize = _RESIZE.match(op)
    if resize:
        source = int(resize["source"])
        if op.startswith("Trunc"):
            return x[0] & ((1 << int(resize["target"])) - 1)
        return _signed(x[0], source) if resize["sign"] == "S" else x[0] & ((1 << source) - 1)
    form = _FORM.match(op)
    require(form is not None, f"the instruction {op} is not known")
    assert form is not None
    what, bits, sign = form["what"], int(form["bits"]), form["sign"]
    if sign == "S":
        x = [_signed(y, bits) for y in x]
    if what == "Fma":
        return x[0] * x[1] + x[2]
    if what == "Not":
        return ~x[0]
    if what == "CmpNz":
        return int(x[0] != 0)
    if what in ("Shl", "Shr"):
        shift = x[1] & (bits - 1)
        return x[0] << shift if what == "Shl" else x[0] >> shift
    require(what in _BINARY and len(x) == 2, f"the instruction {op} is not known")
    return int(_BINARY[what](x[0], x[1]))
