"""Regions that are known by their shape: bodies of one operation, argmax, counted loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core.trace import Tracer
from xpr.export.stablehlo.errors import StableHLOError
from xpr.export.stablehlo.form import Block, Operation, Value, walk
from xpr.export.stablehlo.importer import Scope

_COMMUTATIVE = frozenset("add multiply maximum minimum and or xor".split())


def named_body(block: Block) -> str | None:
    """The operation that a region of two arguments is: `add`, `first`, `second`, ...; else None.

    Of `subtract` the first argument is the one subtracted from.
    """
    if len(block.arguments) != 2 or len(block.terminator.operands) != 1:
        return None
    first, second = block.arguments
    out = block.terminator.operands[0]
    if not block.body:
        return "first" if out is first else "second" if out is second else None
    if len(block.body) != 1 or block.body[0].results != [out]:
        return None
    op = block.body[0]
    name = op.name.removeprefix("stablehlo.")
    if op.operands == [first, second] and (name in _COMMUTATIVE or name == "subtract"):
        return name
    return name if op.operands == [second, first] and name in _COMMUTATIVE else None


def compared(block: Block) -> str | None:
    """The direction of a region that compares its two arguments, such as GE."""
    if len(block.arguments) != 2 or len(block.body) != 1:
        return None
    op = block.body[0]
    if op.name != "stablehlo.compare" or op.operands != block.arguments:
        return None
    if block.terminator.operands != op.results or op.attributes.get("compare_type") == "TOTALORDER":
        return None
    return str(op.attributes.get("comparison_direction"))


def ignores(block: Block, number: int) -> bool:
    """Whether a region does not use an argument."""
    if number >= len(block.arguments):
        return True
    argument = block.arguments[number]
    return not any(argument in op.operands for op in walk(block))


def captured(block: Block) -> bool:
    """Whether a region uses values from around it."""
    inside: set[Value] = set(block.arguments)
    for op in walk(block):
        inside.update(op.results)
        for region in op.regions:
            inside.update(region.arguments)
    return any(v not in inside for op in walk(block) for v in op.operands)


def signature(block: Block) -> tuple[Any, ...]:
    """The operations of a region, with its values numbered."""
    numbers: dict[Value, int] = {v: i for i, v in enumerate(block.arguments)}
    out: list[Any] = []
    for op in block.operations:
        operands = tuple(numbers.get(v, -1) for v in op.operands)
        direction = op.attributes.get("comparison_direction", "")
        out.append((op.name.split(".")[-1], direction, operands))
        for v in op.results:
            numbers[v] = len(numbers)
    return tuple(out)


def _index_reducer(direction: str, floats: bool) -> tuple[Any, ...]:
    """The body with which JAX writes argmax (GT) and argmin (LT)."""
    if floats:
        return (
            ("compare", direction, (0, 2)),
            ("compare", "NE", (0, 0)),
            ("or", "", (4, 5)),
            ("compare", "EQ", (0, 2)),
            ("compare", "LT", (1, 3)),
            ("and", "", (7, 8)),
            ("or", "", (6, 9)),
            ("select", "", (6, 0, 2)),
            ("select", "", (10, 1, 3)),
            ("return", "", (11, 12)),
        )
    return (
        ("compare", direction, (0, 2)),
        ("compare", "EQ", (0, 2)),
        ("compare", "LT", (1, 3)),
        ("and", "", (5, 6)),
        ("or", "", (4, 7)),
        ("select", "", (4, 0, 2)),
        ("select", "", (8, 1, 3)),
        ("return", "", (9, 10)),
    )


_REDUCERS = {
    _index_reducer(direction, floats): name
    for direction, name in (("GT", "argmax"), ("LT", "argmin"))
    for floats in (True, False)
}


def index_reducer(block: Block) -> str | None:
    """`argmax` or `argmin` for the bodies that JAX writes for these."""
    return _REDUCERS.get(signature(block)) if len(block.arguments) == 4 else None


_LOG_SUM = (
    ("maximum", "", (0, 1)),
    ("subtract", "", (0, 1)),
    ("compare", "NE", (3, 3)),
    ("add", "", (0, 1)),
    ("abs", "", (3,)),
    ("negate", "", (6,)),
    ("exponential", "", (7,)),
    ("log_plus_one", "", (8,)),
    ("add", "", (2, 9)),
    ("select", "", (4, 5, 10)),
    ("return", "", (11,)),
)


def is_log_sum(block: Block) -> bool:
    """Whether a region is log(exp(x) + exp(y)), as JAX writes it."""
    return len(block.arguments) == 2 and signature(block) == _LOG_SUM


def is_iota(value: Value, axis: int) -> bool:
    """Whether a value counts along an axis."""
    op = value.owner
    return (
        op is not None
        and op.name == "stablehlo.iota"
        and op.attributes.get("iota_dimension") == axis
    )


def constant(value: Value, scope: Scope | None = None) -> int | None:
    """The integer scalar that a value is known to be."""
    op = value.owner
    found: Any = None
    if op is not None and op.name == "stablehlo.constant":
        found = op.attributes.get("value")
    elif scope is not None:
        try:
            found = scope.get(value)
        except StableHLOError:
            return None
    if found is None or isinstance(found, Tracer | tuple) or not hasattr(found, "dtype"):
        return None
    array = np.asarray(found)
    return int(array.reshape(())) if array.size == 1 and array.dtype.kind in "iu" else None


def trip_count(op: Operation, scope: Scope) -> int | None:
    """How often the body of a while loop runs, of one that counts up or down to a constant."""
    if len(op.regions) != 2:
        return None
    cond, body = op.regions
    if len(cond.terminator.operands) != 1:
        return None
    test = cond.terminator.operands[0].owner
    if test is None or test.name != "stablehlo.compare" or len(test.operands) != 2:
        return None
    counter = test.operands[0]
    direction = test.attributes.get("comparison_direction")
    if counter not in cond.arguments or direction not in ("LT", "NE"):
        return None
    place = cond.arguments.index(counter)
    stop = constant(test.operands[1], scope)
    start = constant(op.operands[place], scope)
    if stop is None or start is None or place >= len(body.terminator.operands):
        return None
    step = body.terminator.operands[place].owner
    if step is None or step.name != "stablehlo.add" or len(step.operands) != 2:
        return None
    left, right = step.operands
    argument = body.arguments[place]
    other = right if left is argument else left if right is argument else None
    by = None if other is None else constant(other, scope)
    if by != 1 or (direction == "NE" and stop < start):
        return None
    return max(0, stop - start)
