"""Named axes: which are bound, their sizes, and small things that collectives need."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from xpr.core.context import context
from xpr.core.trace import get_aval
from xpr.interpreters.batching import BatchAxis
from xpr.primitives import _ops as ops

Names = Hashable | tuple[Hashable, ...]
Groups = tuple[tuple[int, ...], ...] | None


def as_names(axis_name: Names) -> tuple[Hashable, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def size_of(name: Hashable, what: str) -> int:
    """The size of the innermost axis of that name; NameError if there is none."""
    for known, size in reversed(context.axis_env):
        if known == name:
            return size
    known = ", ".join(repr(n) for n, _ in context.axis_env) or "none"
    raise NameError(
        f"Found an unbound axis name: {name}. {what} needs an enclosing transformation with that "
        f"axis, such as vmap(..., axis_name={name!r}); the names bound here are: {known}"
    )


def total_size(axis_name: Names, what: str) -> int:
    return math.prod(size_of(name, what) for name in as_names(axis_name))


def groups_of(what: str, axis_name: Names, groups: Any, equal: bool = False) -> Groups:
    """The groups of places among which a collective works, checked; None for one of all.

    Every place of the axis is in one group; with `equal`, all groups have one size.
    """
    if groups is None:
        return None
    found = tuple(tuple(int(i) for i in group) for group in groups)
    size = total_size(axis_name, what)
    if sorted(i for group in found for i in group) != list(range(size)):
        raise ValueError(
            f"{what}: axis_index_groups must cover all indices exactly once, which are 0 to "
            f"{size - 1} along {axis_name!r}, got {groups}"
        )
    if equal and len({len(group) for group in found}) > 1:
        raise ValueError(
            f"{what}: axis_index_groups must have groups of one size, got sizes "
            f"{[len(group) for group in found]}"
        )
    return found


def group_size(what: str, axis_name: Names, groups: Groups) -> int:
    """How many take part together (groups of one size)."""
    return total_size(axis_name, what) if groups is None else len(groups[0])


def refuse_groups(what: str, groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(f"{what}: axis_index_groups is not supported under vmap")


def split_names(axis: BatchAxis, names: tuple[Hashable, ...], what: str) -> bool:
    """Whether the batch axis is the one named; NotImplementedError if it is one of several."""
    if axis.name not in names or axis.name is None:
        return False
    if len(names) > 1:
        raise NotImplementedError(
            f"{what} over several axes {names}, of which vmap maps {axis.name!r}, is not "
            "supported: name one axis"
        )
    return True


def merged(x: Any, axis: int) -> Any:
    """`x` with the axes `axis` and `axis + 1` made one."""
    shape = get_aval(x).shape
    return ops.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def cut_axis(x: Any, axis: int, count: int) -> Any:
    """`x` with its axis `axis` made two, the first of size `count`."""
    shape = get_aval(x).shape
    return ops.reshape(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


def place(what: str, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"{what}: axis {axis} is out of bounds for {rank} axes")
    return axis + rank if axis < 0 else axis


def runs_of(sources: Sequence[int | None]) -> list[list[int | None]]:
    """Stretches of neighbours that come from neighbours, or from nobody."""
    runs: list[list[int | None]] = []
    for source in sources:
        last = runs[-1][-1] if runs else -2
        follows = last is None if source is None else last is not None and source == last + 1
        if runs and follows:
            runs[-1].append(source)
        else:
            runs.append([source])
    return runs
