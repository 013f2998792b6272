"""Products of matrices that are transposed, in programs that are tiled.

IREE ends the process when it tiles a product whose transposed elements are combined with their
indices, as in `tril((a @ b).T)`. In a program that may be compiled with data tiling a barrier lies
before each transpose of what was computed from a product, element by element or rearranged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.traits import ON_ELEMENTS, Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers before the transposes of products."""
    del target, hints
    walk = _Walk(module)
    walk.call(module.functions[-1], ())
    rewrite.bar_operands(dict.fromkeys(walk.transposes, (0,)))


class _Walk:
    """Which values come from products; functions are gone through as they are called."""

    def __init__(self, module: Module) -> None:
        self.transposes: dict[Op, None] = {}
        self._functions: Mapping[str, Function] = {f.name: f for f in module.functions}
        self._known: dict[tuple[str, tuple[int, ...]], list[bool]] = {}

    def call(self, function: Function, products: Sequence[int]) -> list[bool]:
        """Which results of a function come from products, if the arguments at these places do."""
        key = function.name, tuple(products)
        if key not in self._known:
            found = {function.body.arguments[i] for i in products}
            self._block(function.body, found)
            self._known[key] = [v in found for v in function.body.ops[-1].operands]
        return self._known[key]

    def _block(self, block: Block, found: set[Value]) -> None:
        for op in block.ops:
            traits = op.traits
            if traits.forms_dispatches:
                for region in op.regions:
                    self._block(region, found)
            elif op.name == "stablehlo.dot_general":
                found.update(op.results)
            elif traits.kind is Kind.CALL:
                self._inlined(op, found)
            elif found and self._is_of_product(op, traits.kind, found):
                if op.name == "stablehlo.transpose":
                    self.transposes[op] = None
                else:
                    found.update(op.results)

    def _is_of_product(self, op: Op, kind: Kind, found: set[Value]) -> bool:
        if op.name == "stablehlo.gather":
            return op.operands[0] in found
        return kind in ON_ELEMENTS and any(v in found for v in op.operands)

    def _inlined(self, op: Op, found: set[Value]) -> None:
        function = self._functions.get(op.attributes["callee"])
        if function is None:
            return  # a call of the host
        products = [i for i, v in enumerate(op.operands) if v in found]
        for v, is_product in zip(op.results, self.call(function, products), strict=True):
            if is_product:
                found.add(v)


GUARD = Guard(
    run=run,
    gives="products apart from transposes",
    needs=needs("distinct loop values"),
    targets=lambda target, hints: target.tiles_products(hints),
    hazards=(
        Hazard(
            hazard=(
                "a product that is tiled, transposed and combined with its indices, as in "
                "`tril((a @ b).T)`, ends the process"
            ),
            guard=(
                "a barrier before the transpose where a program is tiled "
                "(`lowering/passes/transposed_products.py`)"
            ),
            tests="`tests/lowering/test_data_tiling.py`",
        ),
    ),
)
