"""Operations of StableHLO, with the marks of their results: the base of lowering contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.folding import KNOWN, fold_of, roots_of
from xpr.lowering.ir.builder import Builder, Results
from xpr.lowering.ir.graph import NO_ATTRIBUTES, Attributes, Block, Op
from xpr.lowering.ir.rewrite import BARRIER, barrier_behind
from xpr.lowering.registry import find_rule
from xpr.lowering.value import Shape, Value

if TYPE_CHECKING:
    from xpr.lowering.module import ModuleBuilder

# What makes new elements, which are not folded, and what rearranges those of its first operand.
_UNFOLDED = frozenset(
    {
        *("reduce", "reduce_window", "dot_general", "convolution"),
        *("while", "case", "sort", "scatter"),
    }
)
_BARRIER = BARRIER.removeprefix("stablehlo.")
# What makes new elements, or is computed on its own: it does not come from narrower elements.
_SOURCES = frozenset(
    {
        *("reduce", "reduce_window", "dot_general", "convolution", "gather"),
        *("while", "case", "if", _BARRIER),
    }
)
_OF_FIRST = frozenset({"gather", "dynamic_slice", "reverse", "broadcast_in_dim"})


class Emitter(Builder):
    """The operations of one function or one region."""

    # Whether the operations are those of a function or of control flow, which IREE fuses into
    # dispatches; those of a reduction, and of a loop on registers, lie inside of one.
    makes_dispatches = True

    def __init__(
        self, module: ModuleBuilder, block: Block | None = None, *, in_region: bool = False
    ) -> None:
        super().__init__(Block() if block is None else block)
        # Whether the operations go into the region of another one, not into a function.
        self.in_region = in_region
        self.module = module
        self.target = module.target
        self.in_avals: list[ShapedArray] = []
        self.out_avals: list[ShapedArray] = []

    def rule_for(self, primitive: Primitive) -> Callable[..., Any]:
        """The lowering rule of a primitive here."""
        return find_rule(primitive, self.target)

    def assign(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: np.dtype[Any],
        attributes: Attributes = NO_ATTRIBUTES,
        of: Sequence[Value] = (),
    ) -> Value:
        """Appends an operation with one result, and returns that.

        `of` are those of the operands that the elements of the result are computed from.
        """
        out = Value(shape, dtype)
        self.append(name, operands, (out,), attributes)
        if of:
            op = name[10:]
            out.fold, out.roots = fold_of(op, of), roots_of(op, of)
            self._note_origin(of, out)
        return out

    def _note_origin(self, operands: Sequence[Value], result: Value) -> None:
        """Notes what a result on elements may be computed from, where it is read.

        Where it matters for more than speed, the narrowest elements are also those that are perhaps
        not kept in memory.
        """
        bits = result.narrowest
        least = min(v.narrowest for v in operands)
        result.narrowest = min(least, bits) if self.target.repeats_conversions else least
        known = [v for v in operands if v.fold != KNOWN]
        full = [v.source_width for v in known if not v.spread]
        result.spread = bool(known) and not full
        width = max(full, default=bits)
        # A narrow result may be kept in memory; one of comparisons is rarely worth it.
        result.source_width = width if result.dtype == np.bool_ else min(bits, width)
        result.mixed = len(result.roots) > 1 or any(v.mixed for v in operands)

    def defines(self, x: Value) -> bool:
        """Whether `x` is the only result of an operation that was written here."""
        op = x.op
        return op is not None and op.block is self.block and len(op.results) == 1

    def hold(self, op: Op) -> None:
        """Puts the results of an operation that has been written here behind a barrier.

        The barrier takes its results over, so that whatever uses them comes after it.
        """
        if op.name == BARRIER:
            return
        self.block.insert_after(op, barrier_behind(op))

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        results: Results,
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> list[Value]:
        """An operation with any number of results and regions."""
        found = [Value(shape, dtype) for shape, dtype in results]
        self.append(name, operands, found, attributes, regions)
        operation = name.removeprefix("stablehlo.")
        if len(found) == 1 and operands and operation not in _UNFOLDED:
            of = operands[:1] if operation in _OF_FIRST else operands
            found[0].fold = fold_of(operation, of)
        if operands and operation not in _SOURCES:
            for v in found:
                self._note_origin(operands, v)
        return found

    def op1(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: np.dtype[Any],
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Block] = (),
    ) -> Value:
        """`op` with one result."""
        return self.op(name, operands, [(shape, dtype)], attributes, regions)[0]

    def call(self, symbol: str, operands: Sequence[Value], results: Results) -> list[Value]:
        """A call of another function of the module."""
        found = [Value(shape, dtype) for shape, dtype in results]
        self.append("func.call", operands, found, {"callee": symbol})
        return found
