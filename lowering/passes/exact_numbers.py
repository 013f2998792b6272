"""Arithmetic of targets whose compiler takes floats for exact numbers: IREE's interpreter, `vmvx`.

The interpreter's operations are right, nearly all of them. What goes wrong is what its compiler
does to them once the program is a sequence of such operations on single elements: it takes floats
for exact numbers, comparisons for those of numbers without NaN, and narrow integers for whole
registers. Here the operations are written so that none of those rewrites applies:

- comparisons are written with <, <= and ==, never of a value with itself;
- a sum that is added to, and a product that is multiplied by a constant, is copied: the compiler
  cannot tell how it was made;
- constants of 0, for which it drops the other operand, are hidden from it;
- narrow integers are computed in 32 bits, as the upper ones where they are compared;
- conversions between floats and integers go the ways that there are (`by_bits.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.constants import splat_of
from xpr.lowering.ir.graph import (
    NO_ATTRIBUTES,
    Attributes,
    Block,
    Module,
    Op,
    Shape,
    Value,
)
from xpr.lowering.ir.known_values import KnownValues
from xpr.lowering.ir.stablehlo import Operand
from xpr.lowering.ir.traits import MOVES, Kind
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.numerics import by_bits
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_I32, _I64 = np.dtype(np.int32), np.dtype(np.int64)
_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)

# How the last operation made a value, as far as the compiler may see it: also through what only
# rearranges elements, and from other functions that it may take the place of a call of.
_SUM, _PRODUCT, _FROM_INTEGER = 1, 2, 4
_UNKNOWN = _SUM | _PRODUCT | _FROM_INTEGER
_CONSTANT, _CHOICE = 8, 16
_MADE = {
    "stablehlo.add": _SUM,
    "stablehlo.subtract": _SUM,
    "stablehlo.multiply": _PRODUCT,
    "stablehlo.select": _CHOICE,
}
# What is made as its operands were.
_PASS_ON = ("stablehlo.select", "stablehlo.convert", "stablehlo.broadcast_in_dim")
_OF_UNKNOWN_MAKE = frozenset(
    {Kind.REDUCTION, Kind.CONTRACTION, Kind.INDEXED, Kind.SORT, Kind.CONTROL, Kind.CALL}
)

# What reads all bits of a register, of which narrower integers fill only the lower ones.
_WHOLE_REGISTER = frozenset(
    {
        *("divide", "remainder", "maximum", "minimum"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
    }
)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Rewrites the operations on elements of a program."""
    del target, hints
    known = KnownValues()
    made: dict[Value, int] = {}
    for function in module.functions:
        _run_block(function.body, known, made)


def _run_block(block: Block, known: KnownValues, made: dict[Value, int]) -> None:
    arithmetic = _Arithmetic(block, known, made)
    rewrite_block(block, arithmetic, arithmetic.rewritten)


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    return dtypes.kind(dtype) in "iu" and dtype.itemsize < _I32.itemsize


class _Arithmetic(Writer):
    """Writes operations in the forms that come out right.

    `made` says how values were made, those of the blocks around this one included.
    """

    def __init__(self, block: Block, known: KnownValues, made: dict[Value, int]) -> None:
        super().__init__(block)
        self._known = known
        self._made = made
        self._copies: dict[Value, Value] = {}
        self._makes_dispatches = block.makes_dispatches
        numbers = (v for v in block.arguments if not v.shape and dtypes.kind(v.dtype) in "iuf")
        self._number = next(numbers, None)

    def rewritten(self, op: Op) -> Value | None:
        """What takes the place of an operation; None if that stays."""
        name = op.name.removeprefix("stablehlo.")
        traits = op.traits
        if name == "map" or traits.kind is Kind.CALL:
            op.replace_operands([self._copied_if(v, _UNKNOWN) for v in op.operands])
        for region in op.regions:
            _run_block(region, self._known, self._made)
        if name == "constant":
            return self._of_constant(op)
        write = self._writer_of(name, traits.syntax)
        if write is not None and op.name.startswith("stablehlo."):
            return write(op)
        if name == "map" or traits.kind in _OF_UNKNOWN_MAKE:
            self._made.update((v, _UNKNOWN) for v in op.results)
        elif traits.kind in MOVES:
            self._note(op.result, self._made_of(op.operands))
        return None

    def _writer_of(self, name: str, syntax: str) -> Callable[[Op], Value] | None:
        if name == "compare":
            return lambda op: self.compare(
                op.attributes["direction"], op.operands[0], op.operands[1]
            )
        if name == "select":
            return lambda op: self.select(*op.operands)
        if name == "convert":
            return lambda op: self.convert(op.operands[0], op.result.dtype)
        if syntax == "unary":
            return lambda op: self.unary(name, *op.operands)
        if syntax == "binary":
            return lambda op: self.binary(name, *op.operands)
        return None

    # ---- how values were made

    def assign(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: np.dtype[Any],
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> Value:
        out = super().assign(name, operands, shape, dtype, attributes, regions)
        made = _MADE.get(name, 0)
        if name in _PASS_ON:
            made |= self._made_of(operands)
        self._note(out, made)
        return out

    def _made_of(self, operands: Sequence[Value]) -> int:
        """How what the same elements are taken from was made."""
        made = 0
        for v in operands:
            made |= self._made.get(v, 0)
        return made & ~_CONSTANT if len(operands) > 1 else made

    def _note(self, x: Value, made: int) -> None:
        if made:
            self._made[x] = made

    def _copied_if(self, x: Value, made: int) -> Value:
        """`x`, or a copy if it was made in one of these ways."""
        if not self._made.get(x, 0) & made or dtypes.kind(x.dtype) not in "fiu":
            return x
        return self._copy(x)

    def _copy(self, x: Value) -> Value:
        found = self._copies.get(x)
        if found is None:
            found = self._copies[x] = self._hidden(x, x)
        return found

    def _never(self, by: Value) -> Value:
        """0 of an unsigned type, computed from the bits of `by` so that the compiler cannot tell.

        It is the last bit of the product of two neighbours.
        """
        bits = self.bitcast(by, np.dtype(f"u{by.dtype.itemsize}"))
        return self.and_(self.mul(bits, self.add(bits, 1)), 1)

    def _hidden(self, x: Value, by: Value) -> Value:
        """`x`, of which the compiler cannot tell that it is a constant, or how it was made."""
        never = self._never(by)
        return self.bitcast(self.xor(self.bitcast(x, never.dtype), never), x.dtype)

    def _is_constant(self, x: Value) -> bool:
        return bool(self._made.get(x, 0) & _CONSTANT)

    # ---- constants

    def _of_constant(self, op: Op) -> Value | None:
        number, out = op.attributes.get("number"), op.result
        if number is None:
            return None
        if _is_plain(number, out.dtype):
            known = self.known_constant(number, out)
            if known is not None:
                return known
            if dtypes.kind(out.dtype) == "f":
                self._made[out] = _CONSTANT
            return None
        return self.constant(number, out.dtype, out.shape)

    def constant(self, value: Any, dtype: np.dtype[Any], shape: Shape = ()) -> Value:
        """A tensor filled with one number, hidden from the compiler where it must be."""
        if _is_plain(value, dtype):
            found = super().constant(value, dtype, shape)
            if dtypes.kind(dtype) == "f":
                self._made[found] = _CONSTANT
            return found
        if self._makes_dispatches or self._number is None:
            found = self.barrier(super().constant(value, dtype))
        else:
            unsigned = np.dtype(f"u{dtype.itemsize}")
            never = self.convert(self._never(self._number), unsigned)
            bits = self.or_(never, int(np.asarray(value, dtype).view(unsigned)))
            found = self.bitcast(bits, dtype)
        return self.broadcast_in_dim(found, shape, ())

    # ---- elementwise

    def compare(self, direction: str, x: Operand, y: Operand, kind: str | None = None) -> Value:
        a, b = self.match(x, y)
        if _is_narrow(a.dtype):
            # Of shifted numbers, since the compiler takes back what only makes them wider.
            a, b = (self._shifted(v, dtypes.kind(v.dtype) == "i") for v in (a, b))
        if dtypes.kind(a.dtype) != "f":
            return super().compare(direction, a, b, kind)
        if direction in ("GT", "GE"):
            # The opposite of > is taken for <=, and >= for the opposite of <, also of NaN.
            return self.compare({"GT": "LT", "GE": "LE"}[direction], b, a)
        if direction == "NE":
            # The opposite of != is taken for "equal or NaN".
            return self.unary("not", self.compare("EQ", a, b))
        if direction == "LT" or self._is_constant(a) or self._is_constant(b):
            return super().compare(direction, a, b)
        # A value is taken to be equal to itself.
        if a is b:
            size, infinity = by_bits.size(self, a)
            return super().compare("LE", size, infinity)
        return super().compare(direction, a, self._copy(b))

    def select(self, pred: Value, on_true: Operand, on_false: Operand) -> Value:
        """`on_true` where `pred`, else `on_false`.

        Of two choices by one condition, one of the other's result, a wrong one is made.
        """
        a, b = self.match(on_true, on_false)
        a, b = (self._copied_if(v, _CHOICE) for v in (a, b))
        return super().select(pred, a, b)

    def binary(self, op: str, x: Operand, y: Operand) -> Value:
        a, b = self.match(x, y)
        kind = dtypes.kind(a.dtype)
        if kind == "f" and op in ("add", "subtract"):
            # (a + b) - b is taken for a.
            a, b = self._copied_if(a, _SUM), self._copied_if(b, _SUM)
        if kind == "f" and op in ("add", "multiply", "divide"):
            a, b = self._with_hidden_zero(op, a, b), self._with_hidden_zero(op, b, a)
        elif op in _WHOLE_REGISTER and _is_narrow(a.dtype):
            return self._in_32_bits(op, a, b)
        elif kind == "i" and op == "divide":
            # (a * b) / b is taken for a, which it is not where a * b overflows.
            a = self._copied_if(a, _PRODUCT)
        return super().binary(op, a, b)

    def _with_hidden_zero(self, op: str, x: Value, other: Value) -> Value:
        """The operand `x`, hidden if it may be a constant 0, for which the result is then taken.

        0 * x and 0 / x are taken for 0, and x + 0 for x.
        """
        if self._is_constant(other):
            # (x * a) * b is taken for x * (a * b), which may overflow.
            return self._copied_if(x, _PRODUCT) if op == "multiply" else x
        if not self._known.is_known(x) or splat_of(x):
            return x
        return self._hidden(x, other)

    def _in_32_bits(self, op: str, x: Value, y: Value) -> Value:
        shift = op.startswith("shift")
        signed = op == "shift_right_arithmetic" if shift else dtypes.kind(x.dtype) == "i"
        a, b = self._wide(x, signed), self._wide(y, signed and not shift)
        if signed and shift:
            b = self.bitcast(b, _I32)
        return self.convert(super().binary(op, a, b), x.dtype)

    def _shifted(self, x: Value, signed: bool) -> Value:
        """The bits of a byte or a 16-bit integer as the upper ones of 32.

        Above the bits of such an integer its register holds any others.
        """
        bits = self.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
        upper = self.binary("shift_left", super().convert(bits, _U32), 32 - 8 * x.dtype.itemsize)
        return self.bitcast(upper, _I32) if signed else upper

    def _wide(self, x: Value, signed: bool) -> Value:
        """A byte or a 16-bit integer in 32 bits."""
        right = "shift_right_arithmetic" if signed else "shift_right_logical"
        return self.binary(right, self._shifted(x, signed), 32 - 8 * x.dtype.itemsize)

    def unary(self, op: str, x: Value) -> Value:
        if op == "popcnt":
            return by_bits.population_count(self, x)
        if op == "count_leading_zeros" and _is_narrow(x.dtype):
            zeros = super().unary(op, self._wide(x, signed=False))
            return self.convert(self.sub(zeros, 32 - 8 * x.dtype.itemsize), x.dtype)
        if op in ("abs", "sign") and _is_narrow(x.dtype):
            return self.convert(
                super().unary(op, self._wide(x, dtypes.kind(x.dtype) == "i")), x.dtype
            )
        out = super().unary(op, x)
        if op != "round_nearest_even":
            return out
        # Small negative numbers become 0.0, and not -0.0.
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        sign = self.and_(self.bitcast(x, unsigned), 1 << (8 * x.dtype.itemsize - 1))
        return self.bitcast(self.or_(self.bitcast(out, unsigned), sign), x.dtype)

    # ---- conversions

    def convert(self, x: Value, dtype: np.dtype[Any]) -> Value:
        if x.dtype == dtype:
            return x
        old, new = dtypes.kind(x.dtype), dtypes.kind(dtype)
        if old == "f" and new in "iu":
            return self._integer(x, dtype)
        if new == "f" and _is_narrow(x.dtype):
            x = self._wide(x, old == "i")
        if old in "biu" and dtype == _F64 and x.dtype.itemsize < _F64.itemsize:
            # Narrow integers do not compile, or give the bits of float32.
            wide = super().convert(x, _U64 if old == "u" else _I64)
            x = self._hidden(wide, wide)
        if x.dtype == _F64 and new == "f":
            x = super().convert(by_bits.as_float32_bits(self, x), _U32)
            x = self.bitcast(x, _F32)
        if dtype == dtypes.bfloat16:
            # The two conversions are taken for one of integers to bfloat16, which does not compile.
            x = self._copied_if(x, _FROM_INTEGER)
        out = super().convert(x, dtype) if x.dtype != dtype else x
        if old in "biu" and new == "f":
            self._made[out] = _FROM_INTEGER
        return out

    def _integer(self, x: Value, dtype: np.dtype[Any]) -> Value:
        """A float cut to an integer: the interpreter rounds, and has no such form of float64."""
        if x.dtype == _F64:
            whole = by_bits.whole_part(self, x, signed=dtypes.kind(dtype) == "i")
            return whole if whole.dtype == dtype else super().convert(whole, dtype)
        if x.dtype != _F32:
            x = super().convert(x, _F32)
        whole = self.select(
            self.compare("LT", x, 0.0), self.unary("ceil", x), self.unary("floor", x)
        )
        if dtype.itemsize < _I32.itemsize:
            whole = super().convert(whole, _I32)
        return whole if whole.dtype == dtype else super().convert(whole, dtype)


def _is_plain(number: float, dtype: np.dtype[Any]) -> bool:
    """Whether the compiler takes a constant for what it is.

    For -0.0 it takes 0.0, and 8-bit floats it refuses.
    """
    if dtypes.kind(dtype) != "f":
        return True
    return dtype.itemsize > 1 and (number != 0 or not np.signbit(number))


GUARD = Guard(
    run=run,
    gives="opaque arithmetic",
    needs=needs("slices in memory"),
    targets=lambda target, hints: target.exact_numbers,
    hazards=(
        Hazard(
            hazard=(
                "vmvx: comparisons are taken for those of numbers without NaN: x == x is true, >= "
                "the opposite of <, and the opposite of > is <="
            ),
            guard=(
                "written with <, <= and == of values that the compiler cannot tell to be one "
                "(`lowering/passes/exact_numbers.py`)"
            ),
            tests="`test_comparisons_of_nan` in `tests/lowering/test_vmvx_hazards.py`",
        ),
        Hazard(
            hazard=(
                "vmvx: floats are taken for exact numbers: (x + y) - y is x, x * 0 and 0 / x are "
                "0, x * a * b is x * (a * b), -0.0 is 0.0; so (x * y) / y of integers is x"
            ),
            guard=(
                "copies of sums and products that go on, constants hidden "
                "(`lowering/passes/exact_numbers.py`)"
            ),
            tests=(
                "`test_sums_are_taken_for_exact`, `test_constants_are_taken_together`, "
                "`test_a_product_is_*`, `test_without_the_pass_*` in "
                "`tests/lowering/test_vmvx_hazards.py`"
            ),
        ),
        Hazard(
            hazard=(
                "vmvx: floats are rounded to integers, small negative ones to 0.0; bytes become "
                "wrong float64 values"
            ),
            guard=(
                "cut first, the sign put back, by way of 64-bit integers "
                "(`lowering/passes/exact_numbers.py`)"
            ),
            tests=(
                "`test_floats_are_rounded_*`, `test_rounding_loses_*`, `test_bytes_as_float64` in "
                "`tests/lowering/test_vmvx_hazards.py`"
            ),
        ),
        Hazard(
            hazard=(
                "vmvx: bytes and 16-bit integers are compared, divided and shifted with what is "
                "above them in a register"
            ),
            guard=(
                "in 32 bits, where they are the upper ones first "
                "(`lowering/passes/exact_numbers.py`)"
            ),
            tests=(
                "`test_bytes_are_shifted_*`, `test_narrow_integers_*` in "
                "`tests/lowering/test_vmvx_hazards.py`"
            ),
        ),
        Hazard(
            hazard=(
                "vmvx: of two choices by one condition, one of the other's result, a wrong one is "
                "made"
            ),
            guard=("a copy of a choice that is chosen from (`lowering/passes/exact_numbers.py`)"),
            tests="`test_two_choices_*` in `tests/lowering/test_vmvx_hazards.py`",
        ),
        Hazard(
            hazard="vmvx: conversions of float64, and counts of bits, do not compile",
            guard="by the bits (`lowering/passes/exact_numbers.py`)",
            tests=(
                "`test_conversions_that_*`, `test_bits_are_not_counted` in "
                "`tests/lowering/test_vmvx_hazards.py`"
            ),
        ),
    ),
)
