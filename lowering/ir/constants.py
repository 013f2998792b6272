"""Numbers that are written in a program."""

from __future__ import annotations

from xpr.lowering.ir.graph import Value

_LAYOUT = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape"})


def splat_of(x: Value) -> float | None:
    """The real number that all elements of a constant are, however it is broadcast; else None."""
    op = x.op
    while op is not None and op.name in _LAYOUT:
        op = op.operands[0].op
    return op.attributes.get("number") if op is not None and x.dtype.kind in "biuf" else None
