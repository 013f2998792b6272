"""Operations of the same operands in another order, as `x * y` and `y * x`.

The derivative of `x * x` is made of two such products. IREE finds out that they are equal only
inside of a dispatch that gives both, where it then drops one of the results and takes the first
result of the dispatch for it: numbers of another operation, without a word, or a type that does not
fit, so that the program is compiled with plainer flags. Operands in one order are merged before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from xpr.lowering.ir.graph import Module, Value, dispatched
from xpr.lowering.ir.numbering import Numbering
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_COMMUTATIVE = frozenset(
    f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
)


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Gives an operation the order of an earlier one with the same operands."""
    del target, hints
    for function in module.functions:
        found = [op for op in dispatched(function.body) if op.name in _COMMUTATIVE]
        makers = [(op.name, *map(_maker, op.operands)) for op in found]
        counts = Counter(makers)
        numbering = Numbering()
        orders: set[tuple[str, int, int]] = set()
        for op, (name, first, second) in zip(found, makers, strict=True):
            # To number values takes ten times as long as to look at what made them.
            if counts[name, second, first] == (1 if first == second else 0):
                continue
            a, b = (numbering.of(x) for x in op.operands)
            if (name, b, a) in orders:
                op.replace_operands(op.operands[::-1])
            else:
                orders.add((name, a, b))


def _maker(x: Value) -> Hashable:
    """The name of the operation that gives it; itself if none does."""
    return x if x.op is None else x.op.name
