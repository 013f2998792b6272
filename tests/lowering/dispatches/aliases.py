"""Arrays that are updated in place though others read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.lowering.dispatches.reads import maker, tied, uses, walk

_BARRIER = "util.optimization_barrier"
_SHAPES = ("flow.tensor.reshape", "flow.tensor.bitcast", "hal.tensor.barrier")


def overwritten(function: Any) -> Iterator[str]:
    """The updates of a function by which others lose what they read, or a caller its argument."""
    order = {operation: i for i, operation in enumerate(walk(function))}
    for update in order:
        for value in tied(update):
            own, other = _arrays(value)
            reads = [
                use
                for v in other
                for use in uses(v)
                if use.name not in (_BARRIER, *_SHAPES) and order[use] > order[update]
            ]
            if reads:
                yield f"{update.name} overwrites {value.type}, which {reads[0].name} reads later"
            is_argument = any(_name(v) == "hal.tensor.import" for v in own)
            if is_argument and not any(order[use] > order[update] for v in own for use in uses(v)):
                yield f"{update.name} overwrites an argument of type {value.type}"


def _name(value: Any) -> str:
    made = maker(value)
    return made.name if made is not None else ""


def _arrays(value: Any) -> tuple[list[Any], list[Any]]:
    """The values that are one array with this one: as IREE sees it, and behind or before barriers.

    What an operation that updates in place gives is another array.
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
        for use in uses(v):
            if use.name in _SHAPES and use.operands[0] == v:
                near.append((use.results[0], False))
            elif use.name == _BARRIER:
                near += [
                    (r, True) for o, r in zip(use.operands, use.results, strict=True) if o == v
                ]
        for other, through_barrier in near:
            if other not in barred:
                barred[other] = barred[v] or through_barrier
                pending.append(other)
    return [v for v, b in barred.items() if not b], [v for v, b in barred.items() if b]
