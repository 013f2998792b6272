"""The builder that lowering rules write StableHLO with: values in, operations of a graph out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr.lowering.emitter import Emitter, Program
from xpr.lowering.ir.graph import Block, Shape, Value


class LoweringContext(Emitter):
    """Emits the operations of one function (or one region) in order."""

    def __init__(
        self, module: Program, block: Block | None = None, *, in_region: bool = False
    ) -> None:
        super().__init__(module, block, in_region=in_region)

    # Whether elementwise formulas are written out operation by operation, not as `stablehlo.map`.
    formulas_inline = False

    # ---- what holds other operations

    def region(
        self,
        arguments: Sequence[tuple[Shape, np.dtype[Any]]],
        body: Callable[..., Sequence[Value]],
        terminator: str = "stablehlo.return",
        *,
        control_flow: bool = False,
    ) -> Block:
        """A region whose block has `arguments`; `body(ctx, *values)` writes its operations.

        `control_flow` says that it is a branch or a loop's, whose operations are dispatches.
        """
        values = [Value(s, d) for s, d in arguments]
        inner = self.inner(Block(values))
        inner.source = self.source
        inner.makes_dispatches = control_flow
        results = body(inner, *values)
        inner.append(terminator, results)
        return inner.block

    def inner(self, block: Block) -> LoweringContext:
        """The builder of a region."""
        return LoweringContext(self.module, block, in_region=True)

    def inline(self, function: Callable[..., Any], *operands: Value, **params: Any) -> Any:
        """Traces `function` (written with primitives) on the operands' types and lowers it here.

        Returns a Value, or a list where the function returns a tuple or list.
        """
        return self.module.inline(self, function, operands, params)

    def reduce(
        self,
        xs: Sequence[Value],
        inits: Sequence[Value],
        axes: Sequence[int],
        body: Callable[..., Sequence[Value]],
    ) -> list[Value]:
        """`stablehlo.reduce`: `body(ctx, *accumulators, *elements)` on rank-0 values."""
        kept = tuple(s for i, s in enumerate(xs[0].shape) if i not in axes)
        scalars = [((), x.dtype) for x in xs]
        region = self.region([*scalars, *scalars], body)
        return self.op(
            "stablehlo.reduce",
            [*xs, *inits],
            [(kept, x.dtype) for x in xs],
            {"dimensions": tuple(axes)},
            [region],
        )
