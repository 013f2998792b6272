"""Operations of MLIR: what a value is made of, and how it is read."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

# Its stubs leave most of it out.
ir: Any = importlib.import_module("iree.compiler.ir")

AccessMap = tuple[object, ...]
"""For each axis of a value the axis that it runs along of the operation's result: -1 for none, -2
for one that was reduced. What is another arrangement is a tuple of what was done instead."""

_NONE, _REDUCED = -1, -2
_PART = "tensor.extract_slice"
_SHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
# What lies in memory, or holds nothing yet.
_NOT_COMPUTED = frozenset({"linalg.fill", "tensor.empty", "arith.constant"})


def walk(operation: Any) -> Iterator[Any]:
    """The operations inside of another one, outer ones first."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from walk(inner.operation)


def named(operation: Any, name: str) -> list[Any]:
    """Those with a name."""
    return [inner for inner in walk(operation) if inner.name == name]


def maker(value: Any) -> Any | None:
    """The operation whose result a value is; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def uses(value: Any) -> list[Any]:
    """The operations that take a value."""
    return [use.owner.operation for use in value.uses]


def tied(operation: Any) -> list[tuple[int, Any]]:
    """The operands that an operation on whole arrays writes its results into, and their places."""
    if operation.name == "flow.tensor.update":
        return [(0, operation.operands[0])]
    attributes = operation.attributes
    if "tied_operands" not in attributes:
        return []
    # Before the arguments of a dispatch stands what its size is computed from.
    sizes = _segments(operation)
    arguments = list(operation.operands)[sizes[0] if len(sizes) > 1 else 0 :]
    places = [ir.IntegerAttr(a).value for a in attributes["tied_operands"]]
    return [(i, arguments[i]) for i in places if i >= 0]


def _segments(operation: Any) -> list[int]:
    """The numbers of operands of each kind, where there are several."""
    for name in ("operandSegmentSizes", "operand_segment_sizes"):
        if name in operation.attributes:
            return list(ir.DenseI32ArrayAttr(operation.attributes[name]))
    return []


def is_computed(operation: Any) -> bool:
    """Whether it computes an array in its dispatch."""
    return is_elements(operation) and operation.name not in _NOT_COMPUTED


def is_elements(operation: Any) -> bool:
    """Whether it is one of those on the elements of arrays, as `linalg.generic`."""
    return operation.name.startswith(("linalg.", "iree_linalg_ext."))


# Operations whose maps their names stand for.
_BY_NAME: dict[str, list[tuple[str, ...]]] = {"linalg.dot": [("d0",), ("d0",), ()]}
_MAP = re.compile(r"affine_map<\((.*)\) -> \((.*)\)>")


def maps(operation: Any) -> list[tuple[str, ...]]:
    """For each operand the expressions of its axes in those of the operation, as `d0`.

    Empty where an operation does not say so.
    """
    if "indexing_maps" not in operation.attributes:
        return _BY_NAME.get(operation.name, [])
    found = []
    for attribute in operation.attributes["indexing_maps"]:
        parts = _MAP.fullmatch(str(attribute))
        assert parts is not None, attribute
        found.append(tuple(e for e in parts[2].split(", ") if e))
    return found


def iterators(operation: Any) -> list[str]:
    """The kinds of its axes: parallel or reduction."""
    attributes = operation.attributes
    if "iterator_types" in attributes:
        return [str(a) for a in attributes["iterator_types"]]
    return []


def inputs(operation: Any) -> list[Any]:
    """What it reads, without the arrays that its results are written into."""
    sizes = _segments(operation)
    operands = list(operation.operands)
    return operands[: sizes[0]] if sizes else operands


Reads = dict[Any, set[AccessMap]]
"""For each value that is computed in the dispatch, how it is read."""


def access_maps(operation: Any, known: dict[Any, Reads]) -> Reads:
    """How an operation on elements reads what is computed in its dispatch, element by element.

    `known` tells of the values before it, and is told of the operation's results.
    """
    along, kinds = maps(operation), iterators(operation)
    values = inputs(operation)
    found: Reads = {}
    result = along[-1] if along else ()
    for i, value in enumerate(values):
        for producer, read in _of(value, known).items():
            for access in read:
                moved = _moved(access, along[i], result, kinds) if along else ("read by", i, access)
                found.setdefault(producer, set()).add(moved)
    found = {producer: _distinct(read) for producer, read in found.items()}
    for v in operation.results:
        # What is read by two access maps is told once.
        known[v] = {p: read for p, read in found.items() if len(read) == 1}
    return found


def _of(value: Any, known: dict[Any, Reads]) -> Reads:
    made = maker(value)
    if made is None:
        return {}
    if made.name == _PART:
        what = (_PART, str(made.attributes["static_offsets"]), str(value.type))
        inner = _of(made.operands[0], known)
        return {p: {(*what, access) for access in read} for p, read in inner.items()}
    if made.name in _SHAPES:
        inner = _of(made.operands[0], known)
        return {p: {(str(value.type), access) for access in read} for p, read in inner.items()}
    found = dict(known.get(value, {}))
    if is_computed(made):
        found[value] = {tuple(range(len(ir.ShapedType(value.type).shape)))}
    return found


def _moved(
    access: AccessMap, along: tuple[str, ...], result: tuple[str, ...], kinds: list[str]
) -> AccessMap:
    """An access map of an operand as one of the result."""
    axes: list[int] = []
    for expression in along:
        if expression in result:
            axes.append(result.index(expression))
        else:
            axes.append(_REDUCED if _is_reduced(expression, kinds) else _NONE)
    if not all(isinstance(k, int) for k in access):
        return ("of", access, *axes)
    return tuple(axes[k] if isinstance(k, int) and k >= 0 else k for k in access)


def _is_reduced(expression: str, kinds: list[str]) -> bool:
    """Whether it is an axis that the result lacks: products of matrices do not name its kind."""
    if not expression[1:].isdigit():
        return False
    return not kinds or "reduction" in kinds[int(expression[1:])]


def _distinct(read: set[AccessMap]) -> set[AccessMap]:
    """Ways that differ: an axis that was reduced goes with any."""
    kept: set[AccessMap] = set()
    for access in sorted(read, key=lambda w: (_REDUCED in w, str(w))):
        if not any(_agree(access, other) for other in kept):
            kept.add(access)
    return kept


def _agree(a: AccessMap, b: AccessMap) -> bool:
    return len(a) == len(b) and all(x == y or _REDUCED in (x, y) for x, y in zip(a, b, strict=True))
