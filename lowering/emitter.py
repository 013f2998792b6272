"""Operations of StableHLO, written for one equation after the other: the base of contexts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import ClosedJaxpr, Jaxpr
from xpr.core.primitive import Primitive
from xpr.core.source_info import SourceInfo
from xpr.lowering.ir.builder import Results
from xpr.lowering.ir.graph import NO_ATTRIBUTES, Attributes, Block, Module, Value
from xpr.lowering.ir.stablehlo import StablehloBuilder
from xpr.lowering.registry import find_rule
from xpr.lowering.targets.base import Target


class Program(Protocol):
    """The module that operations are written into, as rules see it."""

    module: Module
    target: Target
    flops: float
    bytes_accessed: float

    def symbol(self, wish: str) -> str:
        """A free name for a function, like the one asked for."""
        ...

    def note_reduction(self, length: int) -> None:
        """Records how many values a reduction combines into one result."""
        ...

    def note_pass(self, jaxpr: Jaxpr) -> None:
        """Counts the equations that became one pass over memory."""
        ...

    def host_call(
        self,
        ctx: Any,
        wish: str,
        function: Callable[..., Any],
        operands: Sequence[Value],
        results: Results,
        *,
        in_place: bool = False,
        out: bool = False,
    ) -> list[Value]:
        """A call of a function of the host."""
        ...

    def call(
        self, ctx: Any, closed: ClosedJaxpr, name: str, operands: Sequence[Value]
    ) -> list[Value]:
        """A call of a private function that computes a jaxpr."""
        ...

    def inline(
        self,
        ctx: Any,
        function: Callable[..., Any],
        operands: Sequence[Value],
        params: dict[str, Any],
    ) -> Any:
        """Traces a function and lowers it in place."""
        ...

    def lower_jaxpr(
        self,
        ctx: Any,
        jaxpr: Jaxpr,
        consts: Sequence[Value],
        args: Sequence[Value],
        source: SourceInfo | None = None,
        *,
        as_they_are: bool = False,
        is_whole: bool = False,
    ) -> list[Value]:
        """Lowers the equations of a jaxpr in place."""
        ...


class Emitter(StablehloBuilder):
    """The operations of one function or one region."""

    # Whether the operations are those of a function or of control flow, which IREE fuses into
    # dispatches; those of a reduction, and of a loop on registers, lie inside of one.
    makes_dispatches = True

    def __init__(
        self, module: Program, block: Block | None = None, *, in_region: bool = False
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
