"""Integer arithmetic that IREE does not compile for SPIR-V, or gets wrong there.

- Unsigned division and remainder do not compile where an invocation has one element, which is then
  a vector: they are made of signed division. So is what IREE knows not to be negative, which it
  divides as unsigned: `narrow_sources.py`, which comes before, has written that to memory.
- The remainder of the least integer is wrong: it is x - trunc(x / y) y.
- Leading zeros are counted in 32 bits only.
"""

from __future__ import annotations

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir.graph import Block, Module, Op, Value
from xpr.lowering.ir.traits import Kind
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_I32, _U32 = np.dtype(np.int32), np.dtype(np.uint32)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Rewrites divisions, remainders and counts of zeros, those of formulas included."""
    del target, hints
    for function in module.functions:
        _run_block(function.body)


def _run_block(block: Block) -> None:
    writer = Writer(block)

    def rewritten(op: Op) -> Value | None:
        if op.kind is not Kind.DISPATCH:
            for region in op.regions:
                _run_block(region)
        if op.name == "stablehlo.divide" and dtypes.kind(op.result.dtype) == "u":
            return _quotient(writer, *op.operands)
        if op.name == "stablehlo.remainder" and dtypes.kind(op.result.dtype) in "iu":
            return _rest(writer, *op.operands)
        if op.name == "stablehlo.count_leading_zeros" and op.result.dtype.itemsize != 4:
            return _leading_zeros(writer, *op.operands)
        return None

    rewrite_block(block, writer, rewritten)


def _wide(w: Writer, x: Value) -> Value:
    """Unsigned integers of less than 32 bits as signed ones; the product of no matrices."""
    return w.bitcast(w.convert(x, _U32), _I32)


def _quotient(w: Writer, x: Value, y: Value) -> Value:
    """Unsigned division by signed division.

    What fits into 31 bits has the same quotient. Otherwise that of half of `x` is half of it, to
    the next lower number, as in section 9-3 of Warren's "Hacker's Delight"; of a `y` whose upper
    bit is set, it is 0. Division by 0 gives ones only, as elsewhere.
    """
    if x.dtype.itemsize < _I32.itemsize:
        return w.convert(w.binary("divide", _wide(w, x), _wide(w, y)), x.dtype)
    signed = np.dtype(f"i{x.dtype.itemsize}")
    divisor = w.bitcast(y, signed)
    half = w.bitcast(w.binary("shift_right_logical", x, 1), signed)
    twice = w.binary("shift_left", w.binary("divide", half, divisor), 1)
    is_large = w.compare("LT", divisor, 0)
    found = w.bitcast(w.select(is_large, w.constant(0, signed, x.shape), twice), x.dtype)
    rest = w.sub(x, w.mul(found, y))
    return w.select(w.compare("GE", rest, y), w.add(found, 1), found)


def _rest(w: Writer, x: Value, y: Value) -> Value:
    is_unsigned = dtypes.kind(x.dtype) == "u"
    quotient = _quotient(w, x, y) if is_unsigned else w.binary("divide", x, y)
    return w.sub(x, w.mul(quotient, y))


def _leading_zeros(w: Writer, x: Value) -> Value:
    bits = 8 * x.dtype.itemsize
    y = w.bitcast(x, np.dtype(f"u{x.dtype.itemsize}"))
    low = w.unary("count_leading_zeros", w.convert(y, _U32))
    if bits < 32:
        return w.convert(w.sub(low, 32 - bits), x.dtype)
    upper = w.convert(w.binary("shift_right_logical", y, 32), _U32)
    high = w.unary("count_leading_zeros", upper)
    is_empty = w.compare("EQ", upper, 0)
    return w.convert(w.select(is_empty, w.add(low, 32), high), x.dtype)


GUARD = Guard(
    run=run,
    gives="signed division",
    needs=needs("wide sources"),
    targets=lambda target, hints: not target.integer_arithmetic,
    hazards=(
        Hazard(
            hazard=(
                "SPIR-V: unsigned division and remainder of as many elements as a subgroup has do "
                'not compile ("bitwidth emulation is not implemented yet"); the remainder of '
                "the least integer is wrong"
            ),
            guard=(
                "by signed division, the remainder from the quotient "
                "(`lowering/passes/spirv_arithmetic.py`)"
            ),
            tests=(
                "`test_the_remainder_*`, `test_unsigned_division_*`, "
                "`test_without_the_pass_division_*`, `test_division_in_a_reduction_*` in "
                "`tests/lowering/test_vulkan_hazards.py`"
            ),
        ),
        Hazard(
            hazard=("Vulkan: leading zeros of integers of 8, 16 and 64 bits do not compile"),
            guard="counted in 32 bits (`lowering/passes/spirv_arithmetic.py`)",
            tests=("`test_leading_zeros_*` in `tests/lowering/test_vulkan_hazards_elementwise.py`"),
        ),
    ),
)
