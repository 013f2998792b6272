"""The builder for IREE's interpreter (`vmvx`), whose compiler rewrites float arithmetic wrongly.

The interpreter's operations on floats are right, nearly all of them. What goes wrong is what its
compiler does to them once the program is a sequence of such operations on single elements: it
takes floats for exact numbers, and comparisons for those of numbers without NaN.
`tests/lowering/test_vmvx_hazards.py` shows each case. Here the operations are written so that none
of those rewrites applies, in all rules at once:

- comparisons are written with <, <= and ==, never of a value with itself;
- a sum that is added to, and a product that is multiplied by a constant, is `held`: the compiler
  cannot tell how it was made;
- constants of 0, for which it drops the other operand, are hidden from it;
- conversions between floats and integers go the ways that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.context import LoweringContext, Operand, Shape, Value
from xpr.lowering.ir.graph import NO_ATTRIBUTES, Attributes, Block

if TYPE_CHECKING:
    from xpr.lowering.module import ModuleBuilder

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_I32, _I64 = np.dtype(np.int32), np.dtype(np.int64)
_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)

# How the last operation made a value, as far as the compiler may see it: also through what only
# rearranges elements, and from other functions that it may take the place of a call of.
_SUM, _PRODUCT, _FROM_INTEGER = 1, 2, 4
_UNKNOWN = _SUM | _PRODUCT | _FROM_INTEGER
_CONSTANT, _CHOICE = 8, 16
_MADE = {"add": _SUM, "subtract": _SUM, "multiply": _PRODUCT, "select": _CHOICE}
_ARRANGED = frozenset(
    {"broadcast_in_dim", "reshape", "transpose", "slice", "concatenate", "convert", "select", "pad"}
)


# What reads all bits of a register, of which narrower integers fill only the lower ones.
_WHOLE_REGISTER = frozenset(
    {
        *("divide", "remainder", "maximum", "minimum"),
        *("shift_left", "shift_right_logical", "shift_right_arithmetic"),
    }
)


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    return dtypes.kind(dtype) in "iu" and dtype.itemsize < _I32.itemsize


class InterpretedContext(LoweringContext):
    """Emits operations in the forms that IREE's interpreter computes rightly."""

    def __init__(
        self, module: ModuleBuilder, block: Block | None = None, *, in_region: bool = False
    ) -> None:
        super().__init__(module, block, in_region=in_region)
        self._made: dict[Value, int] = {}
        self._held: dict[Value, Value] = {}
        self._operand: Value | None = None

    def inner(self, block: Block) -> LoweringContext:
        inner = InterpretedContext(self.module, block, in_region=True)
        inner._made = self._made  # regions use the values around them
        arguments = (v for v in block.arguments if isinstance(v, Value))
        numbers = (v for v in arguments if not v.shape and dtypes.kind(v.dtype) in "iuf")
        inner._operand = next(numbers, None)
        return inner

    # ---- how values were made

    def assign(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: np.dtype[Any],
        attributes: Attributes = NO_ATTRIBUTES,
        of: Sequence[Value] = (),
    ) -> Value:
        out = super().assign(name, operands, shape, dtype, attributes, of)
        op = name.removeprefix("stablehlo.") if of else ""
        made = _MADE.get(op, 0)
        if op in _ARRANGED:
            for v in of:
                made |= self._made.get(v, 0)
            if len(of) > 1:
                made &= ~_CONSTANT
        if made:
            self._made[out] = made
        return out

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Shape, np.dtype[Any]]],
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> list[Value]:
        return self._of_unknown_make(super().op(name, operands, results, attributes, regions))

    def call(
        self, symbol: str, operands: Sequence[Value], results: Sequence[tuple[Shape, np.dtype[Any]]]
    ) -> list[Value]:
        operands = [self.sealed(v) for v in operands]
        return self._of_unknown_make(super().call(symbol, operands, results))

    def _of_unknown_make(self, values: list[Value]) -> list[Value]:
        self._made.update((v, _UNKNOWN) for v in values)
        return values

    def _held_if(self, x: Value, made: int) -> Value:
        """`x`, held if it was made in one of these ways."""
        if not self._made.get(x, 0) & made or dtypes.kind(x.dtype) not in "fiu":
            return x
        return self._held_always(x)

    def _held_always(self, x: Value) -> Value:
        found = self._held.get(x)
        if found is None:
            found = self._held[x] = self._hidden(x, x)
        return found

    def sealed(self, x: Value) -> Value:
        return self._held_if(x, _UNKNOWN)

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

    def constant(self, value: Any, dtype: np.dtype[Any], shape: Shape = ()) -> Value:
        """A tensor filled with one number.

        Hidden are -0.0, for which the compiler takes 0.0, and 8-bit floats, which it refuses.
        """
        if dtypes.kind(dtype) != "f":
            return super().constant(value, dtype, shape)
        number = float(value)
        if dtype.itemsize > 1 and (number != 0 or not np.signbit(number)):
            found = super().constant(value, dtype, shape)
            self._made[found] = _CONSTANT
            return found
        if self.makes_dispatches or self._operand is None:
            return self.broadcast_in_dim(self.barrier(super().constant(value, dtype)), shape, ())
        unsigned = np.dtype(f"u{dtype.itemsize}")
        never = self.convert(self._never(self._operand), unsigned)
        bits = self.or_(never, int(np.asarray(value, dtype).view(unsigned)))
        return self.broadcast_in_dim(self.bitcast(bits, dtype), shape, ())

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
            return self.not_(self.compare("EQ", a, b))
        if direction == "LT" or self._is_constant(a) or self._is_constant(b):
            return super().compare(direction, a, b)
        # A value is taken to be equal to itself.
        if a is b:
            size, infinity = self._size_bits(a)
            return super().compare("LE", size, infinity)
        return super().compare(direction, a, self._held_always(b))

    def select(self, pred: Value, on_true: Operand, on_false: Operand) -> Value:
        """`on_true` where `pred`, else `on_false`.

        Of two choices by one condition, one of the other's result, a wrong one is made.
        """
        a, b = self.match(on_true, on_false)
        a, b = (self._held_if(v, _CHOICE) for v in (a, b))
        return super().select(pred, a, b)

    def _size_bits(self, x: Value) -> tuple[Value, int]:
        """The bits of |x|, and those of infinity; greater ones are NaN's."""
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        infinity = int(np.asarray(np.inf, x.dtype).view(unsigned))
        sign = 1 << (8 * x.dtype.itemsize - 1)
        return self.and_(self.bitcast(x, unsigned), sign - 1), infinity

    def binary(self, op: str, x: Operand, y: Operand) -> Value:
        a, b = self.match(x, y)
        kind = dtypes.kind(a.dtype)
        if kind == "f" and op in ("add", "subtract"):
            # (a + b) - b is taken for a.
            a, b = self._held_if(a, _SUM), self._held_if(b, _SUM)
        if kind == "f" and op in ("add", "multiply", "divide"):
            a, b = self._with_hidden_zero(op, a, b), self._with_hidden_zero(op, b, a)
        elif op in _WHOLE_REGISTER and _is_narrow(a.dtype):
            return self._in_32_bits(op, a, b)
        elif kind == "i" and op == "divide":
            # (a * b) / b is taken for a, which it is not where a * b overflows.
            a = self._held_if(a, _PRODUCT)
        return super().binary(op, a, b)

    def _with_hidden_zero(self, op: str, x: Value, other: Value) -> Value:
        """The operand `x`, hidden if it may be a constant 0, for which the result is then taken.

        0 * x and 0 / x are taken for 0, and x + 0 for x.
        """
        if self._is_constant(other):
            # (x * a) * b is taken for x * (a * b), which may overflow.
            return self._held_if(x, _PRODUCT) if op == "multiply" else x
        if not self.module.known_values.is_known(x) or x.splat:
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
            return self._population_count(x)
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

    def _population_count(self, x: Value) -> Value:
        """The set bits, counted in pairs, groups of four, of eight and so on, side by side."""
        width = 8 * x.dtype.itemsize
        count = self.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
        group = 1
        while group < width:
            mask = sum(((1 << group) - 1) << at for at in range(0, width, 2 * group))
            upper = self.binary("shift_right_logical", count, group)
            count = self.add(self.and_(count, mask), self.and_(upper, mask))
            group *= 2
        return self.bitcast(count, x.dtype)

    def convert(self, x: Value, dtype: Any) -> Value:
        d = np.dtype(dtype)
        if x.dtype == d:
            return x
        old, new = dtypes.kind(x.dtype), dtypes.kind(d)
        if old == "f" and new in "iu":
            return self._integer(x, d)
        if new == "f" and _is_narrow(x.dtype):
            x = self._wide(x, old == "i")
        if old in "biu" and d == _F64 and x.dtype.itemsize < _F64.itemsize:
            # Narrow integers do not compile, or give the bits of float32.
            wide = super().convert(x, _U64 if old == "u" else _I64)
            x = self._hidden(wide, wide)
        if x.dtype == _F64 and new == "f":
            x = self._single(x)
        if d == dtypes.bfloat16:
            # The two conversions are taken for one of integers to bfloat16, which does not compile.
            x = self._held_if(x, _FROM_INTEGER)
        out = super().convert(x, d)
        if old in "biu" and new == "f":
            self._made[out] = _FROM_INTEGER
        return out

    def _single(self, x: Value) -> Value:
        """A float64 as float32, by its bits: the conversion does not compile."""
        size, infinity = self._size_bits(x)
        dropped = 52 - 23
        # Half of the last place is added, less one where that place is even.
        odd = self.and_(self.binary("shift_right_logical", size, dropped), 1)
        rounded = self.add(self.add(size, odd), (1 << (dropped - 1)) - 1)
        kept = self.binary("shift_right_logical", rounded, dropped)
        bits = self.sub(kept, (1023 - 127) << 23)
        # Where numbers are denormal, a sum has the last place of the least of them.
        anchor = np.float64(2.0 ** (52 - 149))
        least = int(anchor.view(np.uint64))
        few = self.sub(self.bitcast(self.add(self.bitcast(size, _F64), anchor), _U64), least)
        bits = self.select(self.compare("LT", size, (1023 - 126) << 52), few, bits)
        beyond = self.compare("GE", kept, (1023 + 128) << 23)
        bits = self.select(beyond, 0xFF << 23, bits)
        bits = self.select(self.compare("GT", size, infinity), (0xFF << 23) + (1 << 22), bits)
        sign = self.binary("shift_right_logical", self.bitcast(x, _U64), 32)
        sign = self.and_(sign, 1 << 31)
        return self.bitcast(super().convert(self.or_(bits, sign), _U32), _F32)

    def _integer(self, x: Value, dtype: np.dtype[Any]) -> Value:
        """A float cut to an integer: the interpreter rounds, and has no such form of float64."""
        if x.dtype == _F64:
            return super().convert(self._whole_double(x, dtypes.kind(dtype) == "i"), dtype)
        x = super().convert(x, _F32)
        whole = self.select(
            self.compare("LT", x, 0.0), self.unary("ceil", x), self.unary("floor", x)
        )
        if dtype.itemsize < _I32.itemsize:
            whole = super().convert(whole, _I32)
        return super().convert(whole, dtype)

    def _whole_double(self, x: Value, signed: bool) -> Value:
        """The whole part of a float64 as 64-bit integer: its mantissa, shifted by its exponent."""
        bits = self.bitcast(x, _U64)
        stored, bias = 52, 1023
        exponent = self.and_(self.binary("shift_right_logical", bits, stored), 2 * bias + 1)
        left = self.sub(self.bitcast(exponent, _I64), bias + stored)
        mantissa = self.or_(self.and_(bits, (1 << stored) - 1), 1 << stored)
        amount = self.bitcast(self.minimum(self.abs(left), 63), _U64)
        size = self.select(
            self.compare("LT", left, 0),
            self.binary("shift_right_logical", mantissa, amount),
            self.binary("shift_left", mantissa, amount),
        )
        if not signed:
            return size
        whole = self.bitcast(size, _I64)
        negative = self.compare("LT", self.bitcast(x, _I64), 0)
        return self.select(negative, self.neg(whole), whole)
