"""Checks that a graph is a program: with `enable_checks`, before it is printed.

What the types of an operation's operands may be is for MLIR to say, which reads the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

from xpr.lowering.ir.graph import Block, Executable, Function, Module, Op, Value
from xpr.lowering.ir.traits import TRAITS, Kind


def verify(module: Module) -> None:
    """AssertionError, naming the operation, where the graph of `module` is not sound.

    Every operation is in the table of traits and has what the table says; every operand is
    defined before, in the block or around it; blocks, operations and values know each other; and
    blocks end in a terminator, which stands nowhere else.
    """
    symbols = {f.name for f in module.functions} | set(module.declarations) | set(module.sources)
    for function in module.functions:
        uses: Counter[tuple[Value, Op]] = Counter()
        _block(function.body, function, set(), symbols, uses)
        types = [v.type for v in function.body.ops[-1].operands]
        if types != list(function.result_types):
            _fail(function.body.ops[-1], f"returns {types}, not {list(function.result_types)}")
        _check_uses(uses)
    for executable in module.executables:
        uses = Counter()
        _block(executable.body, executable, set(), symbols, uses)
        _check_uses(uses)


def _fail(op: Op, what: str) -> NoReturn:
    raise AssertionError(f"{op.name} at {op.source} {what}")


def _block(
    block: Block,
    parent: Op | Function | Executable,
    known: set[Value],
    symbols: set[str],
    uses: Counter[tuple[Value, Op]],
) -> None:
    if block.parent is not parent:
        raise AssertionError(f"a block of {parent} has the parent {block.parent}")
    known = known | set(block.arguments)
    for v in block.arguments:
        if v.owner is not block:
            raise AssertionError(f"{v} is not owned by its block")
    for i, op in enumerate(block.ops):
        _op(op, block, known, symbols)
        if (op.kind is Kind.TERMINATOR) != (i == len(block.ops) - 1):
            _fail(op, "is a terminator in the middle of a block, or none at its end")
        uses.update((v, op) for v in op.operands)
        for region in op.regions:
            _block(region, op, known, symbols, uses)
        known.update(op.results)
    if not block.ops:
        raise AssertionError(f"a block of {parent} is empty")


def _op(op: Op, block: Block, known: set[Value], symbols: set[str]) -> None:
    traits = TRAITS.get(op.name)
    if traits is None:
        _fail(op, "is not in the table of traits")
    if op.block is not block:
        _fail(op, "is in another block than it says")
    missing = [key for key in traits.attributes if key not in op.attributes]
    if missing:
        _fail(op, f"lacks the attributes {missing}")
    if traits.regions != len(op.regions) and not (traits.regions < 0 < len(op.regions)):
        _fail(op, f"has {len(op.regions)} regions, not {traits.regions}")
    for v in op.operands:
        if v not in known:
            _fail(op, f"has an operand that is not defined before: {v}")
    for v in op.results:
        if v.owner is not op:
            _fail(op, f"does not own its result {v}")
        if v in known:
            _fail(op, f"gives {v} a second time")
    callee = op.attributes.get("callee")
    if callee is not None and callee not in symbols:
        _fail(op, f"calls {callee}, which is not in the module")


def _check_uses(uses: Counter[tuple[Value, Op]]) -> None:
    by_value: dict[Value, Counter[Op]] = {}
    for (v, op), count in uses.items():
        by_value.setdefault(v, Counter())[op] = count
    for v, ops in by_value.items():
        if Counter(v.uses) != ops:
            raise AssertionError(f"{v} is used by {_names(ops)}, and says {_names(v.uses)}")


def _names(ops: Iterable[Op]) -> list[str]:
    return sorted(op.name for op in ops)
