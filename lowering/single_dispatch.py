"""A hand-written program as one dispatch of IREE's."""

from __future__ import annotations

from collections.abc import Sequence

from xpr.lowering.context import LoweringContext


def emit_dispatch(
    ctx: LoweringContext, lines: Sequence[str], results: Sequence[str], types: Sequence[str]
) -> list[str]:
    """Emits a dispatch of one workgroup: the names of its results, of the given tensor types.

    `lines` compute `results`; they may use the names of the program around them.
    """
    base = ctx.fresh()
    left = f"{base} = " if len(results) == 1 else f"{base}:{len(results)} = "
    body, indent, joined = "\n".join(lines), ctx._indent, ", ".join(types)
    ctx.emit(
        f"{left}flow.dispatch.region -> ({joined}) {{\n{body}\n"
        f"{indent}  flow.return {', '.join(results)} : {joined}\n"
        f"{indent}}} count() -> (index, index, index) {{\n"
        f"{indent}  %one = arith.constant 1 : index\n"
        f"{indent}  flow.return %one, %one, %one : index, index, index\n"
        f"{indent}}}"
    )
    return [base] if len(results) == 1 else [f"{base}#{i}" for i in range(len(results))]
