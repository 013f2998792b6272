"""Collectives over named axes of the mesh, as they stand in `shard_map`, as those of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xpr.core.jaxpr import JaxprEqn
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives.rules import expand_dims
from xpr.sharding.place import Groups, MeshPlace
from xpr.sharding.rule import Axes
from xpr.sharding.rules.collectives import kept_axes

if TYPE_CHECKING:
    from xpr.sharding.partition import Held, Walk


def mesh_groups(place: MeshPlace, axes: Axes, index_groups: Any) -> Groups:
    """The devices that meet: all along `axes`, or of them those of each index group."""
    groups = place.groups(axes)
    if index_groups is None:
        return groups
    return tuple(tuple(group[i] for i in part) for group in groups for part in index_groups)


def _axes(names: Any) -> Axes:
    return tuple(names) if isinstance(names, (tuple, list)) else (names,)


def _squeezed(x: Any, dim: int) -> Any:
    shape = get_aval(x).shape
    return ops.reshape(x, (*shape[:dim], *shape[dim + 1 :]))


def _reduction(op: str) -> Callable[[Walk, EqnOperands], Any]:
    def resolve(walk: Walk, given: EqnOperands) -> Any:
        x = given.value
        groups = mesh_groups(walk.place, _axes(given.params["axes"]), given.groups)
        return walk.place.collect(x, "all_reduce", groups, op=op)

    return resolve


class EqnOperands:
    """The operand and the parameters of one named collective."""

    def __init__(self, value: Any, params: dict[str, Any]) -> None:
        self.value = value
        self.params = params
        self.groups = params.get("axis_index_groups")


def _all_gather(walk: Walk, given: EqnOperands) -> Any:
    p, x = given.params, given.value
    dim = p["all_gather_dimension"]
    if not p["tiled"]:
        x = expand_dims(x, [dim])
    groups = mesh_groups(walk.place, _axes(p["axis_name"]), given.groups)
    return walk.place.collect(x, "all_gather", groups, axis=dim)


def _reduce_scatter(walk: Walk, given: EqnOperands) -> Any:
    p = given.params
    dim = p["scatter_dimension"]
    groups = mesh_groups(walk.place, _axes(p["axis_name"]), given.groups)
    out = walk.place.collect(given.value, "reduce_scatter", groups, op="sum", axis=dim)
    return out if p["tiled"] else _squeezed(out, dim)


def _all_to_all(walk: Walk, given: EqnOperands) -> Any:
    p, x = given.params, given.value
    split, concat = p["split_axis"], p["concat_axis"]
    groups = mesh_groups(walk.place, _axes(p["axis_name"]), given.groups)
    if p["tiled"]:
        return walk.place.collect(x, "all_to_all", groups, axis=split, concat_axis=concat)
    # The axis that is split goes, and one of the same size, of the senders, comes in at `concat`.
    x = ops.transpose(x, (split, *(i for i in range(get_aval(x).ndim) if i != split)))
    out = walk.place.collect(x, "all_to_all", groups, axis=0, concat_axis=0)
    order = list(range(1, get_aval(out).ndim))
    order.insert(concat, 0)
    return ops.transpose(out, order)


def _ppermute(walk: Walk, given: EqnOperands) -> Any:
    pairs: Sequence[tuple[int, int]] = given.params["perm"]
    groups = walk.place.groups(_axes(given.params["axis_name"]))
    return walk.place.permute(
        given.value, [(group[a], group[b]) for group in groups for a, b in pairs]
    )


def _axis_index(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    index = walk.place.index(_axes(eqn.params["axis_name"]))
    return [(ops.bind("copy", index) if isinstance(index, np.generic) else index, ())]


def _same(walk: Walk, eqn: JaxprEqn) -> list[Held]:
    return [walk.read(v) for v in eqn.invars]


def _resolver(resolve: Callable[[Walk, EqnOperands], Any]) -> Any:
    """Parts may be sharded over axes that the collective does not name, where it keeps these."""

    def rule(walk: Walk, eqn: JaxprEqn) -> list[Held]:
        held: list[Held] = []
        for v, out in zip(eqn.invars, eqn.outvars, strict=True):
            spec = walk.read(v)[1]
            before: list[Axes] = [()] * v.aval.ndim
            after: list[Axes] = [()] * out.aval.ndim
            for i, j in kept_axes(eqn.primitive.name, eqn.params, v.aval.ndim):
                before[i] = after[j] = spec[i]
            result = resolve(walk, EqnOperands(walk.read_as(v, tuple(before)), eqn.params))
            held.append((result, tuple(after)))
        return held

    return rule


RESOLVERS: dict[str, Callable[[Any, JaxprEqn], list[Any]]] = {
    "psum": _resolver(_reduction("sum")),
    "psum_invariant": _resolver(_reduction("sum")),
    "unreduced_psum": _resolver(_reduction("sum")),
    "pmax": _resolver(_reduction("max")),
    "pmin": _resolver(_reduction("min")),
    "all_gather": _resolver(_all_gather),
    "all_gather_invariant": _resolver(_all_gather),
    "all_gather_reduced": _resolver(_all_gather),
    "reduce_scatter": _resolver(_reduce_scatter),
    "unreduced_reduce_scatter": _resolver(_reduce_scatter),
    "all_to_all": _resolver(_all_to_all),
    "ppermute": _resolver(_ppermute),
    "axis_index": _axis_index,
    "pvary": _same,
    "preduced": _same,
    "vary_unreduced_cast": _same,
    "reduced_vary_cast": _same,
}
