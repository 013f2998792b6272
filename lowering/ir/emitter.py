"""Operations of StableHLO, written for one equation after the other: the base of contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive
from xpr.lowering.ir.builder import Results
from xpr.lowering.ir.graph import NO_ATTRIBUTES, Attributes, Block, Value
from xpr.lowering.ir.stablehlo import StablehloBuilder
from xpr.lowering.registry import find_rule

if TYPE_CHECKING:
    from xpr.lowering.module import ModuleBuilder


class Emitter(StablehloBuilder):
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
        return found

    def call(self, symbol: str, operands: Sequence[Value], results: Results) -> list[Value]:
        """A call of another function of the module."""
        found = [Value(shape, dtype) for shape, dtype in results]
        self.append("func.call", operands, found, {"callee": symbol})
        return found
