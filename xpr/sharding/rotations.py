"""Rotations along sharded axes: what `roll` writes as two slices, joined the other way round.

Taken one by one, each slice and the join would move borders between devices. Together each device
needs nothing but the elements that leave the device beside it, round the ring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xpr.core.jaxpr import Jaxpr, JaxprEqn, Var
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.sharding.layout import count
from xpr.sharding.place import MeshPlace, elements
from xpr.sharding.rule import Axes

if TYPE_CHECKING:
    from xpr.sharding.partition import Held, Walk


@dataclass(frozen=True)
class Rotation:
    """An equation that begins with the element `first` of `source` and ends with the one before."""

    source: Var
    dim: int
    first: int
    slices: tuple[JaxprEqn, JaxprEqn]


class Rotations:
    """Those of a program, by the identity of the equation that joins, and slices for them alone."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.of_join: dict[int, Rotation] = {}
        self.slices: set[int] = set()
        made_by: dict[Var, JaxprEqn] = {}
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            if name == "slice":
                made_by[eqn.outvars[0]] = eqn
            elif name == "concatenate" and len(eqn.invars) == 2:
                found = _rotation(eqn, made_by)
                if found is not None:
                    self.of_join[id(eqn)] = found
        if not self.of_join:
            return
        uses = Counter(v for e in jaxpr.eqns for v in e.invars if isinstance(v, Var))
        uses.update(v for v in jaxpr.outvars if isinstance(v, Var))
        uses.subtract(e.outvars[0] for r in self.of_join.values() for e in r.slices)
        self.slices = {
            id(e) for r in self.of_join.values() for e in r.slices if not uses[e.outvars[0]]
        }

    def rotated(self, walk: Walk, eqn: JaxprEqn) -> Held | None:
        """The result of a join, if it is a rotation along an axis in equal parts."""
        found = self.of_join.get(id(eqn))
        if found is None:
            return None
        dim = found.dim
        _, spec = walk.read(found.source)
        axes = spec[dim]
        if not axes or found.source.aval.shape[dim] % count(axes, walk.sizes):
            for e in found.slices:
                if e.outvars[0] not in walk.env:
                    walk.equation(e)
            return None
        return rotate(walk.place, walk.read_as(found.source, spec), axes, dim, found.first), spec


def _rotation(join: JaxprEqn, made_by: Mapping[Var, JaxprEqn]) -> Rotation | None:
    dim = join.params["dimension"]
    end, begin = (made_by.get(v) if isinstance(v, Var) else None for v in join.invars)
    if end is None or begin is None:
        return None
    source = end.invars[0]
    if not isinstance(source, Var) or begin.invars[0] is not source:
        return None
    first = end.params["start_indices"][dim]
    shape = source.aval.shape
    none = (0,) * len(shape)
    starts = (*none[:dim], first, *none[dim + 1 :])
    limits = (*shape[:dim], first, *shape[dim + 1 :])
    if (
        any(s != 1 for e in (begin, end) for s in e.params["strides"] or ())
        or (tuple(end.params["start_indices"]), tuple(end.params["limit_indices"]))
        != (starts, shape)
        or (tuple(begin.params["start_indices"]), tuple(begin.params["limit_indices"]))
        != (none, limits)
    ):
        return None
    return Rotation(source, dim, first, (end, begin))


def rotate(place: MeshPlace, x: Any, axes: Axes, dim: int, first: int) -> Any:
    """A device's block of an array that begins with the element `first` of the whole `x`."""
    devices, block = place.count(axes), get_aval(x).shape[dim]
    hops, rest = divmod(first, block)
    parts: list[Any] = []
    for start, stop, by in ((rest, block, hops), (0, rest, hops + 1)):
        if start == stop:
            continue
        part = elements(x, dim, start, stop)
        if by % devices:
            part = place.exchange_places(part, axes, [(i + by) % devices for i in range(devices)])
        parts.append(part)
    return ops.bind("concatenate", *parts, dimension=dim) if parts[1:] else parts[0]
