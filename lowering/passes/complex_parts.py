"""Complex numbers, which IREE gets wrong in whole: they are computed by their parts.

- Of a dispatch that returns one value twice it takes the second for another result. That happens
  where parts are taken of what was made elsewhere in the dispatch, with a reshape in between: sums,
  products, and what moves their elements are made of parts from the start.
- Pads and windows of them end the compiler's process; on some targets so do scans, and choices and
  tables do not compile.
- There are no constants of 128 bits: a splat is refused, and a table ends the process. A reduction
  would start from a number that a dispatch makes, which may be left where there can be none.
- An update of what is one complex number everywhere does not compile: its parts get barriers. With
  one around the whole array its buffer would be overwritten, whoever reads it.

The real operations that StableHLO leaves to the compiler, such as the four products in one of
matrices, are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.lowering.ir.attributes import Table
from xpr.lowering.ir.constants import number_of
from xpr.lowering.ir.graph import Block, Module, Op, Value
from xpr.lowering.ir.known_values import KnownValues
from xpr.lowering.ir.layouts import is_running_sum
from xpr.lowering.ir.rewrite import remove_unused
from xpr.lowering.ir.traits import MOVES, PURE, Kind
from xpr.lowering.ir.writer import Writer, rewrite_block
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_COMPLEX128 = np.dtype(np.complex128)
# By parts, long sums of all elements take three times as long on a CPU.
_SHORT_SUM = 1 << 12

Parts = Sequence[Value]
"""The real and the imaginary parts."""


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Takes complex numbers apart."""
    del hints
    known = KnownValues()
    for function in module.functions:
        _run_block(function.body, target, known)


def _run_block(block: Block, target: Target, known: KnownValues) -> None:
    has_complex = any(_is_complex(op) for op in block.ops)
    if has_complex:
        rewriter = _Rewriter(block, target, known)
        rewrite_block(block, rewriter.writer, rewriter.rewritten)
    for op in block.ops:
        if op.regions and op.kind is not Kind.DISPATCH:
            for region in op.regions:
                _run_block(region, target, known)
    if has_complex:
        remove_unused(block, lambda op: _is_complex(op) and op.kind in PURE)


def _is_complex(op: Op) -> bool:
    for v in op.results:
        if v.dtype.kind == "c":
            return True
    for v in op.operands:
        if v.dtype.kind == "c":
            return True
    return False


class _Rewriter:
    """The operations of one block."""

    def __init__(self, block: Block, target: Target, known: KnownValues) -> None:
        self.writer = Writer(block)
        self._target = target
        self._known = known
        # Other regions lie inside of a dispatch, where IREE takes sums and products apart itself.
        self._makes_dispatches = block.makes_dispatches
        self._parts: dict[Value, Parts] = {}

    def rewritten(self, op: Op) -> Value | None:
        """What takes the place of an operation, if it is made of parts."""
        if not _is_complex(op) or len(op.results) != 1:
            return None
        name = op.name.removeprefix("stablehlo.")
        form = _FORMS.get(name)
        if form is not None:
            return form(self, op)
        return self._moved(op) if op.kind in MOVES else None

    def parts(self, x: Value) -> Parts:
        """The parts of a complex value."""
        found = self._parts.get(x)
        if found is None:
            number = number_of(x)
            if number is None:
                found = self.writer.parts(x)
            else:
                part = _part(x.dtype)
                found = [self.writer.constant(n, part, x.shape) for n in (number.real, number.imag)]
            self._parts[x] = found
        return found

    def by_parts(self, of: Callable[..., Value], *operands: Value) -> Value:
        """The complex numbers whose parts are `of` the parts of the operands."""
        re, im = (of(*side) for side in zip(*map(self.parts, operands), strict=True))
        return self.writer.complex(re, im)

    def bilinear(self, of: Callable[..., Value], x: Value, y: Value) -> Value:
        """A product, by the four products of the operands' parts."""
        w = self.writer
        (a, b), (c, d) = self.parts(x), self.parts(y)
        ac, bd, ad, bc = of(a, c), of(b, d), of(a, d), of(b, c)
        return w.complex(w.binary("subtract", ac, bd), w.add(ad, bc))

    def same(self, op: Op) -> Callable[..., Value]:
        """Writes `op` for real operands in place of its complex ones, which come first."""

        def write(*operands: Value) -> Value:
            rest = op.operands[len(operands) :]
            operands = (*operands, *rest)
            part = _part(op.result.dtype)
            return self.writer.assign(op.name, operands, op.result.shape, part, op.attributes)

        return write

    # ---- the forms

    def constant(self, op: Op) -> Value | None:
        x = op.result
        table = op.attributes["value"]
        if isinstance(table, Table):
            if x.dtype != _COMPLEX128 and self._target.whole_complex:
                return None
            values = table.values
            re, im = (
                self.writer.assign(
                    "stablehlo.constant", (), x.shape, part.dtype, {"value": Table(part)}
                )
                for part in (values.real.copy(), values.imag.copy())
            )
            return self.writer.complex(re, im)
        return self.writer.complex(*self.parts(x)) if x.dtype == _COMPLEX128 else None

    def real(self, op: Op) -> Value | None:
        return self._one_part(op, 0)

    def imag(self, op: Op) -> Value | None:
        return self._one_part(op, 1)

    def _one_part(self, op: Op, side: int) -> Value | None:
        x = op.operands[0]
        return self.parts(x)[side] if _has_parts(x) or x in self._parts else None

    def linear(self, op: Op) -> Value | None:
        return self.by_parts(self.same(op), *op.operands) if self._makes_dispatches else None

    def product(self, op: Op) -> Value | None:
        return self.bilinear(self.same(op), *op.operands) if self._makes_dispatches else None

    def contraction(self, op: Op) -> Value:
        return self.bilinear(self.same(op), *op.operands)

    def select(self, op: Op) -> Value | None:
        if self._target.whole_complex:
            return None
        chosen, x, y = op.operands
        return self.by_parts(lambda a, b: self.writer.select(chosen, a, b), x, y)

    def pad(self, op: Op) -> Value:
        return self.by_parts(self.same(op), *op.operands)

    def _moved(self, op: Op) -> Value | None:
        """What moves elements that are made of parts."""
        if op.name == "stablehlo.dynamic_slice" or not any(map(_has_parts, op.operands)):
            return None
        if not all(_has_parts(x) or number_of(x) is not None for x in op.operands):
            return None
        return self.by_parts(self.same(op), *op.operands)

    def barrier(self, op: Op) -> Value | None:
        (x,) = op.operands
        return self.by_parts(self.writer.barrier, x) if _has_parts(x) else None

    def reduce(self, op: Op) -> Value | None:
        x = op.operands[0]
        if x.dtype != _COMPLEX128 or not _is_sum(op):
            return None
        if self._target.host_libraries and math.prod(x.shape) > _SHORT_SUM:
            return None
        return self._summed(op)

    def window(self, op: Op) -> Value | None:
        # By parts, scans of short rows take five times as long on a CPU.
        is_kept = self._target.whole_complex and is_running_sum(op)
        return self._summed(op) if _is_sum(op) and not is_kept else None

    def _summed(self, op: Op) -> Value:
        def write(x: Value, start: Value) -> Value:
            region = _sum_region(x.dtype)
            operands, shape = (x, start), op.result.shape
            return self.writer.assign(op.name, operands, shape, x.dtype, op.attributes, [region])

        return self.by_parts(write, *op.operands)

    def update(self, op: Op) -> Value | None:
        x, *rest = op.operands
        if not self._known.is_known(x):
            return None
        barred = self.by_parts(self.writer.barrier, x)
        return self.writer.assign(op.name, (barred, *rest), x.shape, x.dtype, op.attributes)


_FORMS: dict[str, Callable[[_Rewriter, Op], Value | None]] = {
    "constant": _Rewriter.constant,
    "real": _Rewriter.real,
    "imag": _Rewriter.imag,
    "add": _Rewriter.linear,
    "subtract": _Rewriter.linear,
    "negate": _Rewriter.linear,
    "multiply": _Rewriter.product,
    "dot_general": _Rewriter.contraction,
    "convolution": _Rewriter.contraction,
    "select": _Rewriter.select,
    "pad": _Rewriter.pad,
    "optimization_barrier": _Rewriter.barrier,
    "reduce": _Rewriter.reduce,
    "reduce_window": _Rewriter.window,
    "dynamic_update_slice": _Rewriter.update,
}


def _has_parts(x: Value) -> bool:
    return x.op is not None and x.op.name == "stablehlo.complex"


def _part(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"f{dtype.itemsize // 2}")


def _is_sum(op: Op) -> bool:
    """Whether the only operation of a reduction's body is an addition."""
    return [inner.name for inner in op.regions[0].ops] == ["stablehlo.add", "stablehlo.return"]


def _sum_region(dtype: np.dtype[Any]) -> Block:
    x, y = Value((), dtype), Value((), dtype)
    writer = Writer(Block([x, y]))
    writer.append("stablehlo.return", [writer.add(x, y)])
    return writer.block


GUARD = Guard(
    run=run,
    gives="parts of complex numbers",
    needs=needs("whole bytes"),
    hazards=(
        Hazard(
            hazard="SPIR-V: tables of complex numbers do not compile",
            guard="made of their parts (`lowering/passes/complex_parts.py`)",
            tests=(
                "`test_a_table_of_complex_numbers_*` in `tests/lowering/test_vulkan_hazards.py`, "
                "`linalg` rows in complex64"
            ),
        ),
        Hazard(
            hazard=(
                "Vulkan: choices and scans of complex numbers do not compile, or end the process"
            ),
            guard=(
                "parts alone (`lowering/passes/complex_parts.py`); products are scanned by "
                "doubling (`lowering/rules/cumulative.py`)"
            ),
            tests=("`test_a_choice_*`, `test_a_scan_*` in `tests/lowering/test_vulkan_hazards.py`"),
        ),
        Hazard(
            hazard=(
                "of a dispatch that returns one value twice, the second is taken for another "
                "result: parts of complex numbers are mixed up across reshapes, or the program "
                "does not compile, or the compiler's process ends"
            ),
            guard=(
                "complex arithmetic by parts, through reshapes too "
                "(`lowering/passes/complex_parts.py`)"
            ),
            tests="`tests/lowering/test_complex_parts.py`",
        ),
        Hazard(
            hazard=(
                "there are no constants of 128 bits: a splat of complex128 is refused, a table "
                "ends the process"
            ),
            guard="parts alone (`lowering/passes/complex_parts.py`)",
            tests="`test_without_the_pass_*` in `tests/lowering/test_complex_parts.py`",
        ),
        Hazard(
            hazard=("windows over complex numbers, and their pads, end the compiler's process"),
            guard=(
                "parts alone (`lowering/passes/complex_parts.py`); extremes axis by axis "
                "(`lowering/rules/window.py`)"
            ),
            tests="`test_a_window_over_complex_*`",
        ),
        Hazard(
            hazard=(
                "an update of an array that is one complex number everywhere does not compile, or "
                "ends the compiler's process"
            ),
            guard="a barrier on each part (`lowering/passes/complex_parts.py`)",
            tests=(
                "`test_an_update_of_a_complex_constant*`, also in "
                "`tests/primitives/test_slicing.py`"
            ),
        ),
        Hazard(
            hazard=(
                "a constant computed in the bodies of several loops is left outside of them "
                '("expected to be in an execution region")'
            ),
            guard=(
                "a choice by position in its place (`lowering/rules/_linalg_tridiagonal.py`); "
                "sums of complex128 by parts, which have constants to start from "
                "(`lowering/passes/complex_parts.py`)"
            ),
            tests=(
                "the rows of `eigh` in complex128 on Vulkan, `test_tridiagonal_equations` in "
                "`tests/lowering/test_linalg_loops.py`"
            ),
        ),
    ),
)
