"""From one sharding to another, in few bytes.

In this order: axes that move from one array axis to another are exchanged (all_to_all); axes that
come new are cut off, which moves nothing; axes that are no longer wanted are gathered.
"""

from __future__ import annotations

from typing import Any

from xpr.core.aval import Shape
from xpr.sharding.layout import Sizes, common_start, count, is_even
from xpr.sharding.place import MeshPlace, first_elements
from xpr.sharding.rule import Axes, Spec

Step = tuple[str, Axes, int, int]
"""Of one step: "exchange", "cut" or "gather", mesh axes, array axis, array axis it moves to."""


def steps(old: Spec, new: Spec) -> list[Step]:
    """What leads from `old` to `new`."""
    if old == new:
        return []
    current = list(old)
    found: list[Step] = []
    for dim in range(len(current)):
        _exchange(current, new, dim, found)
    _cuts(current, new, found)
    for dim, axes in enumerate(current):
        kept = common_start(axes, new[dim])
        if len(kept) < len(axes):
            found.append(("gather", axes[len(kept) :], dim, dim))
            current[dim] = kept
    _cuts(current, new, found)
    return found


def _cuts(current: list[Axes], new: Spec, found: list[Step]) -> None:
    for dim, axes in enumerate(current):
        wanted = new[dim]
        if axes == wanted[: len(axes)] and len(wanted) > len(axes):
            used = {a for other in current for a in other}
            more: Axes = ()
            for a in wanted[len(axes) :]:
                if a in used:
                    break
                more += (a,)
            if more:
                found.append(("cut", more, dim, dim))
                current[dim] = axes + more


def _exchange(current: list[Axes], new: Spec, dim: int, found: list[Step]) -> None:
    axes = current[dim]
    kept = common_start(axes, new[dim])
    moving = axes[len(kept) :]
    if not moving:
        return
    for to, wanted in enumerate(new):
        here = current[to]
        if (
            to != dim
            and wanted[: len(here)] == here
            and wanted[len(here) :][: len(moving)] == moving
        ):
            found.append(("exchange", moving, dim, to))
            current[dim], current[to] = kept, here + moving
            return


def reshard(place: MeshPlace, x: Any, old: Spec, new: Spec, shape: Shape) -> Any:
    """One device's part of an array of `shape` under `new`, from its part under `old`.

    Axes in blocks that they do not fill are gathered and cut anew.
    """
    sizes = place.sizes
    rough = [
        dim
        for dim, n in enumerate(shape)
        if old[dim] != new[dim]
        and not (is_even(n, old[dim], sizes) and is_even(n, new[dim], sizes))
    ]
    before, after = list(old), list(new)
    for dim in rough:
        x = first_elements(place.gather(x, old[dim], dim), dim, shape[dim])
        before[dim] = after[dim] = ()
    for kind, axes, dim, to in steps(tuple(before), tuple(after)):
        if kind == "exchange":
            x = place.exchange(x, axes, to, dim)
        elif kind == "cut":
            x = place.cut(x, axes, dim)
        else:
            x = place.gather(x, axes, dim)
    for dim in rough:
        if new[dim]:
            x = place.cut(x, new[dim], dim)
    return x


def reshard_bytes(shape: Shape, itemsize: int, old: Spec, new: Spec, sizes: Sizes) -> float:
    """Bytes that each device receives when an array of `shape` goes from `old` to `new`."""
    if old == new:
        return 0.0
    part = float(itemsize)
    for n, axes in zip(shape, old, strict=True):
        part *= n / count(axes, sizes)
    moved = 0.0
    for kind, axes, _, _ in steps(old, new):
        n = count(axes, sizes)
        if kind == "exchange":
            moved += part * (n - 1) / n
        elif kind == "cut":
            part /= n
        else:
            moved += part * (n - 1)
            part *= n
    return moved
