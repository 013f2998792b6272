"""A hand-written program as one dispatch of IREE's."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.context import LoweringContext, Value
from xpr.lowering.ir import graph
from xpr.lowering.ir.builder import Builder, Results


def emit_dispatch(
    ctx: LoweringContext, inner: Builder, results: Sequence[graph.Value], types: Results
) -> list[Value]:
    """A dispatch of one workgroup with the operations of `inner`, which compute `results`.

    They may use values of the program around them.
    """
    inner.append("flow.return", results)
    found = [Value(shape, dtype) for shape, dtype in types]
    ctx.append("flow.dispatch.region", (), found, regions=[inner.block])
    return found
