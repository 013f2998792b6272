"""Conversions that IREE gets wrong, or does not compile.

- Of a product of matrices whose operand was converted to a wider type it makes one of the narrow
  type, signed even where that type is not: such conversions go by way of signed integers of the
  result's width, or get the other sign and become bits.
- Of a loop's counter, which the host keeps, it makes signed integers only, no floats of 16 bits.
- A boolean and its byte, both of them results of a dispatch, would become one value, and IREE does
  not get through with the copy: the byte is made of the negation, of which LLVM leaves nothing.
- A rounding to bfloat16 whose result is widened again in the same dispatch is removed, and some
  targets do not round to bfloat16 at all: it is integer arithmetic.
- Some compute a conversion to a wider type again in each dispatch that reads it, and leave the wide
  values in the memory that a workgroup shares, which is too small for them where a dispatch reduces
  long rows: what several operations read gets a barrier. Integers of 64 bits always do: Mesa's
  driver compares what it knows to have been narrower with constants, and is wrong. Two conversions
  of two shapes of one value do not compile there.
- One element of the reshaped result of a conversion to a wider type, when it is broadcast
  afterwards, is never compiled: two rewrites of its tiling undo each other for ever.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.layouts import widening_of
from xpr.lowering.ir.traits import SLICES, Kind
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.numerics.bfloat16 import BFLOAT16, mapped, round_to_bfloat16
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_I1 = np.dtype(np.bool_)
_F32 = np.dtype(np.float32)
_HALVES = (np.dtype(np.float16), BFLOAT16)
_CONVERT = "stablehlo.convert"


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Rewrites the conversions of a program."""
    del hints
    barred: dict[Op, None] = {}
    for function in module.functions:
        _run_block(function.body, target, barred)
    rewrite.bar_results(barred)


def _run_block(block: Block, target: Target, barred: dict[Op, None]) -> None:
    if any(op.name == _CONVERT for op in block.ops):
        conversions = _Conversions(block, target)
        barred.update(dict.fromkeys(op for op in block.ops if _is_one_of_widened(op)))
        rewrite_block(block, conversions.writer, conversions.rewritten)
        barred.update(dict.fromkeys(conversions.repeated()))
    for op in block.ops:
        if op.regions and op.kind is not Kind.DISPATCH:
            for region in op.regions:
                _run_block(region, target, barred)


def _is_one_of_widened(op: Op) -> bool:
    if op.name not in SLICES or math.prod(op.result.shape) != 1:
        return False
    widening = widening_of(op.operands[0])
    return widening is not None and widening.block is op.block


class _Conversions:
    """The conversions of one block."""

    def __init__(self, block: Block, target: Target) -> None:
        self.writer = Writer(block)
        self._target = target
        self._makes_dispatches = block.makes_dispatches
        self._is_private = isinstance(block.parent, Function) and (
            block.parent.visibility == "private"
        )
        self._in_region = not isinstance(block.parent, Function)
        # By operand and type: two of the same are one to the compiler.
        self._known: dict[tuple[Value, np.dtype[Any]], Value] = {}
        self._candidates: list[Value] = []

    def rewritten(self, op: Op) -> Value | None:
        """What takes the place of an operation, if it is a conversion."""
        if op.name != _CONVERT:
            return None
        return self._of(op.operands[0], op.result.dtype)

    def _of(self, x: Value, d: np.dtype[Any]) -> Value:
        w = self.writer
        if not x.shape and x.dtype.kind == "i" and d.kind == "u":
            return w.bitcast(self._converted(x, np.dtype(f"i{d.itemsize}")), d)
        if not x.shape and self._in_region and self._makes_dispatches and d in _HALVES:
            x = w.barrier(x)
        if x.dtype == _I1 and d.itemsize == 1 and self._target.host_memory:
            return w.xor(self._unsigned(w.unary("not", x), d), 1)
        if d == BFLOAT16:
            return mapped(w, round_to_bfloat16, (self._converted(x, _F32),), d)
        if x.dtype == BFLOAT16 and d == np.float16:
            return w.convert(self._converted(x, _F32), d)
        if not (self._makes_dispatches and self._repeats(x.dtype, d)):
            return self._unsigned(x, d)
        plain = _unshaped(x)
        if plain is not x:
            return w.reshape(self._converted(plain, d), x.shape)
        found = self._known.get((x, d))
        if found is None:
            found = self._known[x, d] = self._kept(self._unsigned(x, d))
        return found

    def _converted(self, x: Value, d: np.dtype[Any]) -> Value:
        return x if x.dtype == d else self._of(x, d)

    def _repeats(self, x: np.dtype[Any], d: np.dtype[Any]) -> bool:
        """Whether the target repeats conversions from `x` to `d`, which only add bits."""
        if not self._target.repeats_conversions:
            return False
        integers = dtypes.kind(x) in "iub" and dtypes.kind(d) in "iu"
        floats = dtypes.kind(x) == dtypes.kind(d) == "f"
        return (integers or floats) and (d.itemsize > x.itemsize or dtypes.kind(x) == "b")

    def _kept(self, out: Value) -> Value:
        """A conversion that is repeated, as it is to be used."""
        if out.dtype.itemsize == 8 and out.dtype.kind in "iu":
            return self.writer.barrier(out) if out.shape else self.writer.copied(out)
        self._candidates.append(out)
        return out

    def _unsigned(self, x: Value, d: np.dtype[Any]) -> Value:
        """A conversion that products of its result do not take in as one of signed elements."""
        w = self.writer
        widens = x.dtype == _I1 or (x.dtype.kind == "u" and d.itemsize > x.dtype.itemsize)
        if not widens or not x.shape or d.itemsize == 1:
            return w.convert(x, d)
        if dtypes.kind(d) in "iu":
            other = np.dtype(f"{'i' if d.kind == 'u' else 'u'}{d.itemsize}")
            return w.bitcast(w.convert(x, other), d)
        signed = np.dtype(np.int32 if x.dtype.itemsize < 4 else np.int64)
        if signed.name in self._target.missing_types:
            return w.barrier(w.convert(x, d))
        return w.convert(self._unsigned(x, signed), d)

    def repeated(self) -> list[Op]:
        """The conversions that are read more than once.

        The results of a function that may be inlined, and the operands of one that is called, may
        be read often.
        """
        return [v.op for v in self._candidates if v.op is not None and self._uses(v) > 1]

    def _uses(self, x: Value) -> int:
        often = {"func.call"} | ({"func.return"} if self._is_private else set())
        return sum(2 if op.name in often else 1 for op in x.uses)


def _unshaped(x: Value) -> Value:
    """The value whose elements these are, in another shape."""
    while (op := x.op) is not None and _only_reshapes(op):
        x = op.operands[0]
    return x


def _only_reshapes(op: Op) -> bool:
    if op.name != "stablehlo.broadcast_in_dim":
        return op.name == "stablehlo.reshape"
    dims = list(op.attributes["dims"])
    same_size = math.prod(op.result.shape) == math.prod(op.operands[0].shape)
    return same_size and dims == sorted(dims)


GUARD = Guard(
    run=run,
    gives="plain conversions",
    needs=needs("rounded arithmetic"),
    hazards=(
        Hazard(
            hazard=(
                "booleans and the bytes that they are converted to, both results of one dispatch, "
                'are one array to IREE, which does not get through with the copy ("workgroup '
                'distributed contexts")'
            ),
            guard=(
                "the bytes are made of the negation (`lowering/passes/conversions.py`), with "
                "plainer flags to fall back on (`lowering/targets/flags.py`)"
            ),
            tests=(
                "`test_booleans_and_their_bytes_*` in `tests/lowering/test_iree_hazards.py`, "
                "`tests/lax/test_loops.py`"
            ),
        ),
        Hazard(
            hazard=(
                "Vulkan: each dispatch that reads a conversion to a wider type computes it again, "
                "and leaves it in the memory that a workgroup shares: long rows do not fit "
                '("uses 200256 bytes of shared memory")'
            ),
            guard=(
                "barriers behind conversions that are read twice (`lowering/passes/conversions.py`)"
            ),
            tests=(
                "`test_a_conversion_that_is_read_twice_*`, `test_long_rows_*` in "
                "`tests/lowering/test_vulkan_hazards_conversions.py`"
            ),
        ),
        Hazard(
            hazard=(
                "a product of matrices, or a convolution, of an operand that was converted from a "
                "narrower type becomes a signed one of the narrow type: of images in bytes those "
                "above 127 count as negative, on Vulkan booleans, too, or they do not compile "
                '("arith.sitofp")'
            ),
            guard=(
                "conversions of unsigned integers and booleans by way of integers of the result's "
                "width, with the other signedness and then as bits "
                "(`lowering/passes/conversions.py`)"
            ),
            tests=(
                "`test_a_product_of_unsigned_integers_*`, `test_products_of_converted_operands` "
                "in `tests/lowering/test_converted_products.py`"
            ),
        ),
        Hazard(
            hazard=(
                "Vulkan: conversions to a wider type of two shapes of one slice do not compile "
                '("failed to legalize unresolved source materialization")'
            ),
            guard=(
                "the slice is converted before it gets another shape "
                "(`lowering/passes/conversions.py`)"
            ),
            tests=(
                "`test_conversions_of_two_shapes_*` in "
                "`tests/lowering/test_vulkan_hazards_conversions.py`"
            ),
        ),
        Hazard(
            hazard=(
                "Vulkan: Mesa's driver compares integers of 64 bits that were narrower with "
                "constants wrongly: with `enable_x64` indices counted as outside"
            ),
            guard=("barriers behind conversions to them (`lowering/passes/conversions.py`)"),
            tests=(
                "`test_integers_that_were_narrower_*`, `test_indices_of_64_bits_*` in "
                "`tests/lowering/test_vulkan_hazards_conversions.py`"
            ),
        ),
        Hazard(
            hazard=("Vulkan: integers converted to bfloat16 give a shader that drivers refuse"),
            guard="rounded by integer arithmetic (`lowering/passes/conversions.py`)",
            tests=(
                "`test_integers_as_bfloat16_*` in `tests/lowering/test_vulkan_hazards.py`, "
                "`test_conversions_to_bfloat16_*` in "
                "`tests/lowering/test_vulkan_hazards_elementwise.py`"
            ),
        ),
        Hazard(
            hazard=(
                "CPUs without an instruction that rounds to bfloat16: integers converted to "
                "bfloat16, by way of float32 too, do not link"
            ),
            guard="rounded by integer arithmetic (`lowering/passes/conversions.py`)",
            tests=("`test_integers_become_bfloat16_*` in `tests/lowering/test_iree_hazards.py`"),
        ),
        Hazard(
            hazard=(
                "a loop's counter that is converted to unsigned integers or floats of 16 bits "
                'does not compile: "arith.trunci", "arith.sitofp"'
            ),
            guard=("bits of the signed integer; a barrier (`lowering/passes/conversions.py`)"),
            tests="`test_counters_of_loops_*` in `tests/lowering/test_loop_starts.py`",
        ),
    ),
)
