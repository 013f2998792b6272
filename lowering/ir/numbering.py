"""Which values are equal, as far as the compiler sees it: those of one number."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xpr.lowering.ir.constants import LITERAL
from xpr.lowering.ir.graph import Op, Value
from xpr.lowering.ir.memo import resolve
from xpr.lowering.ir.traits import PURE

_SHAPES = frozenset({"stablehlo.reshape", "stablehlo.bitcast_convert"})


class Numbering:
    """Numbers for values; equal ones have the same.

    Shapes and types are left aside: an array has one number however its elements are arranged in
    axes or looked at, and so have the complex numbers that are made of its parts.
    """

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, x: Value) -> int:
        """The number of a value."""
        return resolve(self._numbers, x, _operands, self._number)

    def _number(self, x: Value, values: Sequence[Value]) -> int:
        op, operands = x.op, [self._numbers[v] for v in values]
        if op is not None and op.name in _SHAPES:
            return operands[0]
        key: Hashable = x
        if op is not None and _is_pure(op):
            made = x.type if not operands else None
            about = sorted((k, v) for k, v in op.attributes.items() if k != LITERAL)
            key = op.name, made, *operands, repr(about)
        return self._known.setdefault(key, len(self._known))


def _operands(x: Value) -> Sequence[Value]:
    """What the number of a value depends on."""
    op = x.op
    return op.operands if op is not None and _is_pure(op) else ()


def _is_pure(op: Op) -> bool:
    return op.kind in PURE and not op.regions
