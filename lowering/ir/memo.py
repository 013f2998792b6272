"""What is known of values by what is known of others, found when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from xpr.lowering.ir.graph import Value

T = TypeVar("T")


def resolve(
    found: dict[Value, T],
    x: Value,
    sources: Callable[[Value], Sequence[Value]],
    compute: Callable[[Value, Sequence[Value]], T],
) -> T:
    """`found[x]`; `compute` gives that of a value whose sources, which it gets too, are in `found`.

    Without recursion: a program may be a chain of thousands of operations.
    """
    pending = [x]
    while pending:
        v = pending[-1]
        if v in found:
            pending.pop()
            continue
        needed = sources(v)
        missing = [u for u in needed if u not in found]
        if missing:
            pending += missing
        else:
            found[v] = compute(v, needed)
    return found[x]
