"""Portable artifacts of StableHLO text: VHLO, in bytecode of a stated version.

VHLO has StableHLO's operations alone. An operation of CHLO becomes a composite of its name, whose
decomposition in StableHLO MLIR's pass makes: a reader that knows the operation takes it, another
one the decomposition.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from xpr.export.stablehlo.bytecode import read_bytecode
from xpr.export.stablehlo.bytecode_writer import write_bytecode
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.text import bytecode_of, parse, remembered

_LEGALIZE = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
_COMPOSITE_VERSION = 1


def portable_artifact(text: str) -> bytes:
    """The portable artifact of a module as text.

    Raises StableHLOError for text that is none, for operations that have no form in VHLO, and
    where MLIR's bindings, which parse the text, are not installed.
    """
    return remembered("artifact 4", text, lambda: _written(text))


def _written(text: str) -> bytes:
    parsed = parse(text)
    if "chlo." in text:
        _legalize(parsed)
    return write_bytecode(read_bytecode(bytecode_of(parsed)))


def _legalize(parsed: Any) -> None:
    """Turns the operations of CHLO into composites, with their decompositions in StableHLO."""
    ir: Any = importlib.import_module("iree.compiler.ir")  # large, and only text needs it
    passmanager: Any = importlib.import_module("iree.compiler.passmanager")
    with parsed.context, ir.Location.unknown():
        _Outliner(ir, parsed).run()
        try:
            passmanager.PassManager.parse(_LEGALIZE).run(parsed.operation)
        except ir.MLIRError as error:
            raise StableHLOError(f"CHLO could not be decomposed: {error}") from error
        for function in parsed.body.operations:
            for op in list(_inside(function.operation)):
                if op.name == "shape.shape_of":
                    _replace_shape(ir, op)


def _inside(op: Any) -> Iterator[Any]:
    """All operations in the regions of one."""
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                yield inner.operation
                yield from _inside(inner.operation)


def _replace_shape(ir: Any, op: Any) -> None:
    """A shape as a row of sizes: VHLO has no operation for the one that the pass leaves."""
    number = ir.IntegerType.get_signless(32)
    axis_type = ir.IntegerType.get_signless(64)
    scalar, one = (ir.RankedTensorType.get(s, number) for s in ([], [1]))
    place = ir.InsertionPoint(op)

    def make(name: str, out: Any, operands: list[Any], **attributes: Any) -> Any:
        made = ir.Operation.create(
            f"stablehlo.{name}", results=[out], operands=operands, attributes=attributes, ip=place
        )
        return made.result

    (x,) = op.operands
    rows = []
    for axis in range(ir.RankedTensorType(x.type).rank):
        dimension = ir.IntegerAttr.get(axis_type, axis)
        size = make("get_dimension_size", scalar, [x], dimension=dimension)
        rows.append(make("reshape", one, [size]))
    if len(rows) == 1:
        row = rows[0]
    else:
        along = ir.IntegerAttr.get(axis_type, 0)
        row = make(
            "concatenate", ir.RankedTensorType.get([len(rows)], number), rows, dimension=along
        )
    op.result.replace_all_uses_with(row)
    op.erase()


class _Outliner:
    """Operations of CHLO as functions of their own; equal ones share one."""

    def __init__(self, ir: Any, parsed: Any) -> None:
        self._ir, self._parsed = ir, parsed
        self._functions: dict[str, str] = {}

    def run(self) -> None:
        for function in list(self._parsed.body.operations):
            self._visit(function.operation)

    def _visit(self, op: Any) -> None:
        for region in op.regions:
            for block in region:
                for inner in list(block.operations):
                    self._visit(inner.operation)
        is_plain = op.name.startswith("chlo.") and not len(op.regions) and len(op.operands)
        if is_plain and not _is_open(op):
            self._replace(op)

    def _replace(self, op: Any) -> None:
        ir = self._ir
        own = {name: op.attributes[name] for name in _names(op)}
        attributes = {
            "name": ir.StringAttr.get(op.name),
            "decomposition": ir.FlatSymbolRefAttr.get(self._function(op, own)),
            "version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _COMPOSITE_VERSION),
        }
        if own:
            attributes["composite_attributes"] = ir.DictAttr.get(own)
        composite = ir.Operation.create(
            "stablehlo.composite",
            results=[r.type for r in op.results],
            operands=list(op.operands),
            attributes=attributes,
            ip=ir.InsertionPoint(op),
        )
        for old, new in zip(op.results, composite.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()

    def _function(self, op: Any, own: dict[str, Any]) -> str:
        """The name of the function that computes an operation."""
        ir = self._ir
        func: Any = importlib.import_module("iree.compiler.dialects.func")
        inputs, results = [v.type for v in op.operands], [v.type for v in op.results]
        key = f"{op.name} {[str(t) for t in (*inputs, *results)]} {own}"
        known = self._functions.get(key)
        if known is not None:
            return known
        name = f"{op.name}.impl{len(self._functions) or ''}"
        place = ir.InsertionPoint(self._parsed.body)
        kind = ir.FunctionType.get(inputs, results)
        function = func.FuncOp(name, kind, visibility="private", ip=place)
        with ir.InsertionPoint(function.add_entry_block()):
            made = ir.Operation.create(
                op.name, results=results, operands=list(function.arguments), attributes=own
            )
            func.ReturnOp(list(made.results))
        self._functions[key] = name
        return name


def _is_open(op: Any) -> bool:
    """Whether sizes are open: XLA refines them in operations, not in functions of composites."""
    return any("?" in str(v.type) for v in (*op.operands, *op.results))


def _names(op: Any) -> list[str]:
    """The names of an operation's attributes."""
    return [a if isinstance(a, str) else a.name for a in op.attributes]
