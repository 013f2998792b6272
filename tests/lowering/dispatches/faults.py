"""What is wrong with the dispatches that IREE formed of a program: the hazards that show there.

Each check looks for one hazard of docs/hazards.md, in IREE's own terms and knowing nothing of the
passes that are to avoid it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from tests.lowering.dispatches.aliases import overwritten
from tests.lowering.dispatches.reads import (
    access_maps,
    inputs,
    ir,
    is_computed,
    is_elements,
    iterators,
    maker,
    maps,
    named,
    uses,
)

MOST_BINDINGS = 32


def faults(program: Any) -> list[str]:
    """What is wrong, with the names of dispatches and functions."""
    found = []
    # Functions of objects that are linked in are declared only.
    functions = [f for f in named(program, "func.func") if len(f.regions[0].blocks) > 0]
    dispatches = {_name(dispatch): dispatch for dispatch in functions}
    for name, dispatch in dispatches.items():
        found += [f"{name}: {what}" for check in _CHECKS for what in check(dispatch)]
    for function in named(program, "util.func"):
        found += [f"{_name(function)}: {what}" for what in overwritten(function, dispatches)]
    return found


def _name(function: Any) -> str:
    return str(function.attributes["sym_name"]).strip('"')


def _bindings(dispatch: Any) -> Iterator[str]:
    """More arrays than a dispatch can be given."""
    (block,) = dispatch.regions[0].blocks
    count = sum("dispatch.tensor<" in str(a.type) for a in block.arguments)
    if count > MOST_BINDINGS:
        yield f"{count} bindings"


def _producers(dispatch: Any) -> Iterator[str]:
    """Values that a dispatch computes, and reads by two access maps for another one."""
    known: dict[Any, Any] = {}
    for operation in filter(is_elements, _ordered(dispatch)):
        for producer, found in access_maps(operation, known).items():
            if len(found) > 1 and not _is_computed_anew(producer):
                yield f"{producer.type} of this dispatch is read as {sorted(map(str, found))}"


def _is_computed_anew(value: Any) -> bool:
    """Whether it is elementwise, and only one operation reads it, which computes it for each map.

    IREE leaves so what is computed from narrower elements. What is a result, too, is not.
    """
    made = maker(value)
    if made is None or made.name != "linalg.generic" or _reduces(made):
        return False
    reading = set(uses(value))
    is_elementwise = all(inner.name != "tensor.extract" for inner in _body(made))
    is_alone = len(made.results) == len(reading) == 1
    return is_elementwise and is_alone and all(map(is_elements, reading))


def _narrow_sources(dispatch: Any) -> Iterator[str]:
    """A part of what is computed from narrower elements is reduced in the same dispatch."""
    for operation in filter(_reduces, _ordered(dispatch)):
        for value in inputs(operation):
            part = maker(value)
            if part is None or part.name != "tensor.extract_slice":
                continue
            source = maker(part.operands[0])
            # A conversion of one array alone is reduced right.
            if source is None or not is_computed(source) or len(set(inputs(source))) < 2:
                continue
            if _widens(source):
                yield f"a reduction of a part of {part.operands[0].type}, widened by {source.name}"


def _known_numbers(dispatch: Any) -> Iterator[str]:
    """A sum or product of an array whose elements are one constant; others may count any of it."""
    for operation in filter(_reduces, _ordered(dispatch)):
        values = inputs(operation)
        counts = not operation.regions or any(i.name in _COUNTING for i in _body(operation))
        if counts and values and all(map(_is_constant, values)):
            yield f"{operation.name} of constants {[str(v.type) for v in values]}"


_COUNTING = ("arith.addf", "arith.addi", "arith.mulf", "arith.muli")


def _results(dispatch: Any) -> Iterator[str]:
    """One array that is given as two results."""
    for operation in _ordered(dispatch):
        if operation.name == "linalg.generic":
            yielded = [_stored(v) for v in _end(operation).operands]
            # By another map the same values are another array.
            given = list(zip(yielded, maps(operation)[-len(yielded) :], strict=True))
            if len(set(given)) < len(given):
                yield f"one array is two of {len(given)} results"


def _stored(value: Any) -> Any:
    """What an element is stored as: booleans lie in bytes, as what they are converted to."""
    made = maker(value)
    if made is not None and made.name == "arith.extui" and str(value.type) == "i8":
        return made.operands[0]
    return value


def _scatters(dispatch: Any) -> Iterator[str]:
    """Updates that are computed in the dispatch of their scatter."""
    for operation in named(dispatch, "iree_linalg_ext.scatter"):
        updates = maker(operation.operands[0])
        if updates is not None and is_computed(updates):
            yield f"the updates of a scatter are computed by {updates.name}"


def _signed_booleans(dispatch: Any) -> Iterator[str]:
    """A product or sum of booleans that are taken for signed integers."""
    for operation in filter(_reduces, _ordered(dispatch)):
        for inner in named(operation, "arith.extsi") + named(operation, "arith.sitofp"):
            if str(inner.operands[0].type) == "i1":
                yield f"{inner.name} of a boolean in {operation.name}"


def _single_elements(dispatch: Any) -> Iterator[str]:
    """A single element of what a dispatch computes, with which it computes on: no tiling ends."""
    for part in named(dispatch, "tensor.extract_slice"):
        (element,) = part.results
        source = maker(part.operands[0])
        if source is None or source.name != "linalg.generic" or _size(element) != 1:
            continue
        if any(user.name == "linalg.generic" for user in uses(element)):
            yield f"a single element is cut out of {part.operands[0].type} of this dispatch"


def _size(value: Any) -> int:
    return math.prod(ir.RankedTensorType(value.type).shape)


_CHECKS: tuple[Callable[[Any], Iterator[str]], ...] = (
    *(_bindings, _producers, _narrow_sources, _known_numbers, _results, _scatters),
    *(_signed_booleans, _single_elements),
)


# ---- operations


def _ordered(dispatch: Any) -> list[Any]:
    """The operations of a dispatch's own block."""
    return [inner.operation for block in dispatch.regions[0].blocks for inner in block.operations]


def _end(operation: Any) -> Any:
    return operation.regions[0].blocks[0].operations[-1].operation


_PRODUCTS = ("mat", "conv", "dot", "contract")


def _reduces(operation: Any) -> bool:
    if any(word in operation.name for word in _PRODUCTS):
        return is_elements(operation)
    return is_elements(operation) and any("reduction" in kind for kind in iterators(operation))


def _is_constant(value: Any) -> bool:
    """Whether all elements are one number that is written in the dispatch."""
    made = maker(value)
    if made is None:
        return False
    if made.name == "arith.constant":
        attribute = made.attributes["value"]
        return isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
    if made.name == "linalg.fill":
        return _is_number(made.operands[0])
    if made.name in ("tensor.extract_slice", "tensor.expand_shape", "tensor.collapse_shape"):
        return _is_constant(made.operands[0])
    if made.name == "linalg.generic" and all(_is_constant(v) for v in inputs(made)):
        return "linalg.index" not in {inner.name for inner in _body(made)}
    return False


def _is_number(value: Any) -> bool:
    made = maker(value)
    return made is not None and made.name == "arith.constant"


def _body(operation: Any) -> list[Any]:
    return [inner.operation for inner in operation.regions[0].blocks[0].operations]


_WIDENING = ("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp")


def _widens(operation: Any) -> bool:
    return (
        any(inner.name in _WIDENING for inner in _body(operation)) if operation.regions else False
    )
