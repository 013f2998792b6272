"""Products of matrices that become parts of complex numbers, in programs that are tiled.

With data tiling IREE keeps a product in tiles while it computes on with its elements. It cannot
read complex numbers that lie in tiles: such a dispatch is invalid, and the compiler's process ends
where its intermediate forms are not checked. In a program that may be compiled with data tiling a
product gets a barrier where complex numbers take part in what is computed from its elements.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xpr.lowering.ir import rewrite
from xpr.lowering.ir.graph import Block, Function, Module, Op, Value
from xpr.lowering.ir.traits import ON_ELEMENTS, Kind
from xpr.lowering.passes.guard import Guard, Hazard, needs
from xpr.lowering.targets.base import Target
from xpr.lowering.targets.flags import ProgramHints

_COMPLEX = np.dtype(np.complex64).kind


def run(module: Module, target: Target, hints: ProgramHints) -> None:
    """Puts barriers behind the products that are computed on with complex numbers."""
    del target, hints
    groups = _Groups(module)
    rewrite.bar_results(op for op in groups.products if groups.has_complex(op.result))


class _Groups:
    """Values that operations on elements connect: a dispatch may hold all of a group."""

    def __init__(self, module: Module) -> None:
        self.products: list[Op] = []
        self._parents: dict[Value, Value] = {}
        self._complex: list[Value] = []
        self._functions: Mapping[str, Function] = {f.name: f for f in module.functions}
        for function in module.functions:
            self._block(function.body)
        self._roots = {self._root(x) for x in self._complex}

    def has_complex(self, x: Value) -> bool:
        """Whether there are complex numbers in the group of a value."""
        return self._root(x) in self._roots

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.traits.forms_dispatches:
                for region in op.regions:
                    self._block(region)
            elif op.name == "stablehlo.dot_general":
                self.products.append(op)
            elif op.kind is Kind.CALL:
                self._call(op)
            elif op.kind in ON_ELEMENTS:
                self._connect(op)

    def _connect(self, op: Op) -> None:
        for v in (*op.operands, *op.results):
            self._join(v, op.result)
            if v.dtype.kind == _COMPLEX:
                self._complex.append(v)

    def _call(self, op: Op) -> None:
        """The compiler inlines the functions of a program."""
        function = self._functions.get(op.attributes["callee"])
        if function is None:
            return  # a call of the host
        for v, parameter in zip(op.operands, function.body.arguments, strict=True):
            self._join(v, parameter)
        for v, returned in zip(op.results, function.body.ops[-1].operands, strict=True):
            self._join(v, returned)

    def _join(self, x: Value, y: Value) -> None:
        x, y = self._root(x), self._root(y)
        if x is not y:
            self._parents[x] = y

    def _root(self, x: Value) -> Value:
        root = x
        while (parent := self._parents.get(root)) is not None:
            root = parent
        while x is not root:
            self._parents[x], x = root, self._parents[x]
        return root


GUARD = Guard(
    run=run,
    gives="products apart from complex numbers",
    needs=needs("products apart from transposes"),
    targets=lambda target, hints: target.tiles_products(hints),
    hazards=(
        Hazard(
            hazard=(
                "a product that is tiled and computed on with complex numbers, as any product of "
                'complex matrices: IREE cannot read complex numbers in tiles ("requires valid '
                'padding vector elemental type"), and ends the process where its intermediate '
                "forms are not checked"
            ),
            guard=(
                "a barrier behind such products where a program is tiled "
                "(`lowering/passes/complex_products.py`)"
            ),
            tests="`tests/lowering/test_complex_products.py`",
        ),
    ),
)
