"""Arrays that are updated in place though others read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.lowering.dispatches.reads import maker, tied, uses, walk

_BARRIER = "util.optimization_barrier"
_IMPORT, _EXPORT = "hal.tensor.import", "hal.tensor.export"
_SHAPES = ("flow.tensor.reshape", "flow.tensor.bitcast", "hal.tensor.barrier")


def overwritten(function: Any, dispatches: Mapping[str, Any]) -> Iterator[str]:
    """The updates of a function by which others lose what they read, or a caller its argument.

    `dispatches` are the functions of dispatches, by their names.
    """
    order = {operation: i for i, operation in enumerate(walk(function))}
    for update in order:
        for place, value in tied(update):
            if _is_written_back(update, place, dispatches):
                continue
            own, other = _arrays(value)
            before, after = _before_and_after(update, order, own)
            reads = [
                use
                for v in other
                for use in uses(v)
                if use.name not in (_BARRIER, *_SHAPES) and order[use] > order[update]
            ]
            # IREE copies what it sees to be used later, and so keeps it for the other names, too.
            if reads and not after:
                yield f"{update.name} overwrites {value.type}, which {reads[0].name} reads later"
            is_given = any(map(_is_given, own))
            if is_given and not after:
                yield f"{update.name} overwrites an argument of type {value.type}"
            # What another buffer's name stands for is no read to IREE.
            if after and all(use.name == _EXPORT for use in after):
                if is_given or any(use.name == _EXPORT for use in before):
                    yield f"{update.name} overwrites {value.type}, which is handed on later"


def _is_written_back(update: Any, place: int, dispatches: Mapping[str, Any]) -> bool:
    """Whether a dispatch stores what it has loaded from there, and nothing else."""
    if "entry_points" not in update.attributes:
        return False
    names = [str(a).rsplit("@", 1)[1] for a in update.attributes["entry_points"]]
    if any(name not in dispatches for name in names):
        return False
    for name in names:
        (block,) = dispatches[name].regions[0].blocks
        array = block.arguments[place]
        for store in (use for use in uses(array) if use.name.endswith(".store")):
            load = maker(store.operands[0])
            if load is None or load.operands[0] != array or _part_of(load) != _part_of(store):
                return False
    return True


def _part_of(access: Any) -> list[str]:
    return [str(access.attributes[f"static_{k}"]) for k in ("offsets", "sizes", "strides")]


def _is_given(value: Any) -> bool:
    """Whether somebody else has the array: what the host gives is the program's own, if unused."""
    made = maker(value)
    if made is None or made.name != _IMPORT:
        return False
    (buffer,) = made.operands
    given = maker(buffer)
    return given is None or len(uses(buffer)) > 1


def _before_and_after(
    update: Any, order: dict[Any, int], arrays: list[Any]
) -> tuple[list[Any], list[Any]]:
    """What uses arrays before an update of them, and behind it."""
    using = [use for v in arrays for use in uses(v) if use.name not in _SHAPES]
    return (
        [use for use in using if order[use] < order[update]],
        [use for use in using if order[use] > order[update]],
    )


def _arrays(value: Any) -> tuple[list[Any], list[Any]]:
    """The values that are one array with this one: as IREE sees it, and of which it does not.

    These are what lies behind or before barriers, and what branches and loops may return. What an
    operation that updates in place gives is another array.
    """
    barred = {value: False}
    pending = [value]
    while pending:
        v = pending.pop()
        near: list[tuple[Any, bool]] = []
        made = maker(v)
        if made is not None and made.name in _SHAPES:
            near.append((made.operands[0], False))
        elif made is not None and made.name == _BARRIER:
            near.append((made.operands[list(made.results).index(v)], True))
        elif made is not None and made.name in (*_BRANCHES, _LOOP):
            near += [(other, True) for other in _returned(made, list(made.results).index(v))]
        for use in uses(v):
            if use.name in _SHAPES and use.operands[0] == v:
                near.append((use.results[0], False))
            elif use.name == _BARRIER:
                near += [
                    (r, True) for o, r in zip(use.operands, use.results, strict=True) if o == v
                ]
        for other, is_hidden in near:
            if other not in barred:
                barred[other] = barred[v] or is_hidden
                pending.append(other)
    return [v for v, b in barred.items() if not b], [v for v, b in barred.items() if b]


_BRANCHES, _LOOP = ("scf.if", "scf.index_switch"), "scf.while"


def _returned(operation: Any, i: int) -> Iterator[Any]:
    """What a result of a branch or a loop may be, and the other results that may be the same."""
    for region in operation.regions if operation.name in _BRANCHES else [operation.regions[0]]:
        # A loop's results are what its test hands on, behind the condition.
        *_, end = region.blocks[0].operations
        values = list(end.operands)[1 if operation.name == _LOOP else 0 :]
        yield values[i]
        yield from (
            result
            for k, result in enumerate(operation.results)
            if k != i and values[k] == values[i]
        )
        if maker(values[i]) is None and operation.name == _LOOP:
            place = list(region.blocks[0].arguments).index(values[i])
            yield operation.operands[place]
            *_, last = operation.regions[1].blocks[0].operations
            yield last.operands[place]
