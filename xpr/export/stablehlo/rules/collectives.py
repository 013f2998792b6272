"""Shardy's manual computations as `shard_map`, the collectives inside, and sharding constraints."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xpr import lax
from xpr.export.stablehlo import patterns
from xpr.export.stablehlo.importer import Rule, Site
from xpr.export.stablehlo.rules.elements import over_elements
from xpr.sharding import AbstractMesh, NamedSharding, PartitionSpec
from xpr.transforms.constraints import with_sharding_constraint
from xpr.transforms.shard_map import shard_map


def _mesh(site: Site, name: Any) -> AbstractMesh:
    axes = site.importer.module.meshes.get(str(name))
    if axes is None:
        raise site.error(f"the module has no mesh {name}")
    return AbstractMesh(tuple(axes.values()), tuple(axes))


def _spec(site: Site, sharding: Any) -> PartitionSpec:
    if not isinstance(sharding, dict) or "axes" not in sharding:
        raise site.error(f"a sharding that is unknown: {sharding!r}")
    entries = []
    for axes in sharding["axes"]:
        if not all(isinstance(a, str) for a in axes):
            raise site.error("a sharding over a part of a mesh axis")
        entries.append(None if not axes else axes[0] if len(axes) == 1 else tuple(axes))
    return PartitionSpec(*entries)


def _manual_computation(site: Site) -> Any:
    shardings = site.need("in_shardings"), site.need("out_shardings")
    manual = tuple(map(str, site.need("manual_axes")))
    named = [s for side in shardings for s in side if isinstance(s, dict)]
    if not named:
        raise site.error("a manual computation without a mesh")
    importer, region = site.importer, site.region(0)
    mesh = _mesh(site, named[0]["mesh"]) if importer.mesh is None else importer.mesh
    outer = importer.mesh, importer.manual_axes

    def body(*args: Any) -> tuple[Any, ...]:
        importer.mesh, importer.manual_axes = mesh, (*outer[1], *manual)
        try:
            return tuple(region(*args))
        finally:
            importer.mesh, importer.manual_axes = outer

    def only_manual(spec: PartitionSpec) -> PartitionSpec:
        entries = []
        for entry in spec:
            axes = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
            kept = tuple(a for a in axes if a in manual)
            entries.append(None if not kept else kept[0] if len(kept) == 1 else kept)
        return PartitionSpec(*entries)

    ins, outs = (tuple(only_manual(_spec(site, s)) for s in side) for side in shardings)
    mapped = shard_map(
        body, mesh=mesh, in_specs=ins, out_specs=outs, axis_names=set(manual), check_vma=False
    )
    return list(mapped(*site.operands))


def _constraint(site: Site) -> Any:
    sharding = site.need("sharding")
    if not isinstance(sharding, dict) or site.importer.manual_axes:
        return site.operand(0)
    mesh = _mesh(site, sharding["mesh"])
    if mesh.size == 1:
        return site.operand(0)
    return with_sharding_constraint(site.operand(0), NamedSharding(mesh, _spec(site, sharding)))


# ---- collectives


def _axes(site: Site) -> tuple[str, ...]:
    """The mesh's axes, all of which must be manual."""
    mesh, manual = site.importer.mesh, site.importer.manual_axes
    if mesh is None:
        raise site.error(
            "a collective outside a manual computation of Shardy's: xpr runs programs of several "
            "devices that name a mesh"
        )
    return tuple(a for a in mesh.axis_names if a in manual)


def _groups(site: Site) -> tuple[Any, Any]:
    """The axes over which the groups go, and the groups along a single axis that no axes are."""
    mesh, manual = site.importer.mesh, _axes(site)
    found = site.need("replica_groups")
    if not isinstance(found, np.ndarray) or found.ndim != 2:
        raise site.error("the groups must be a table of devices")
    names, sizes = mesh.axis_names, mesh.axis_sizes
    ids = np.arange(mesh.size).reshape(sizes)
    wanted = sorted(map(tuple, found.tolist()))
    for count in range(1, len(manual) + 1):
        for axes in itertools.permutations(manual, count):
            places = [names.index(a) for a in axes]
            rest = [i for i in range(len(names)) if i not in places]
            rows = ids.transpose(*rest, *places).reshape(-1, found.shape[1] or 1)
            if rows.shape == found.shape and sorted(map(tuple, rows.tolist())) == wanted:
                return axes if count > 1 else axes[0], None
    if len(names) == 1:
        return names[0], found.tolist()
    raise site.error(f"groups of devices that are along no axes of the mesh: {found.tolist()}")


def _reduced(site: Site, x: Any, number: int = 0) -> Any:
    axes, groups = _groups(site)
    name = patterns.named_body(site.block(0))
    kind = getattr(x, "dtype", np.dtype(bool)).kind
    known: dict[str, Callable[..., Any]] = {
        "add": lax.psum,
        "maximum": lax.pmax,
        "minimum": lax.pmin,
    }
    if name in known and kind not in "b":
        return known[name](x, axes, axis_index_groups=groups)
    every = lax.all_gather(x, axes, axis_index_groups=groups)
    found = lax.index_in_dim(every, 0, 0, keepdims=False)
    region = site.region(0)
    for i in range(1, every.shape[0]):
        found = over_elements(region, [found, lax.index_in_dim(every, i, 0, keepdims=False)])[0]
    return found


def _all_reduce(site: Site) -> Any:
    return [_reduced(site, x) for x in site.operands]


def _all_gather(site: Site) -> Any:
    axes, groups = _groups(site)
    axis = site.int("all_gather_dim")
    return [
        lax.all_gather(x, axes, axis=axis, tiled=True, axis_index_groups=groups)
        for x in site.operands
    ]


def _reduce_scatter(site: Site) -> Any:
    axes, groups = _groups(site)
    axis = site.int("scatter_dimension")
    if patterns.named_body(site.block(0)) != "add":
        raise site.error("a scattered reduction other than a sum")
    return lax.psum_scatter(
        site.operand(0), axes, scatter_dimension=axis, tiled=True, axis_index_groups=groups
    )


def _all_to_all(site: Site) -> Any:
    axes, groups = _groups(site)
    split, joined = site.int("split_dimension"), site.int("concat_dimension")
    return [
        lax.all_to_all(x, axes, split, joined, tiled=True, axis_index_groups=groups)
        for x in site.operands
    ]


def _pairs(site: Site) -> list[tuple[int, int]]:
    table = np.asarray(site.need("source_target_pairs"))
    if table.ndim != 2 or table.shape[1] != 2:
        raise site.error("pairs of devices are expected")
    return [(int(a), int(b)) for a, b in table]


def _permute(site: Site) -> Any:
    """Along the axis in which sources and targets differ, in the same way everywhere."""
    manual, mesh = _axes(site), site.importer.mesh
    pairs = _pairs(site)
    sizes, names = mesh.axis_sizes, mesh.axis_names
    for name in manual:
        axis = names.index(name)
        seen: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for source, target in pairs:
            a, b = (list(np.unravel_index(i, sizes)) for i in (source, target))
            step = int(a.pop(axis)), int(b.pop(axis))
            if a != b:
                break
            seen.setdefault(tuple(map(int, a)), set()).add(step)
        else:
            every = list(seen.values())
            if len(every) == mesh.size // sizes[axis] and all(s == every[0] for s in every):
                return lax.ppermute(site.operand(0), name, sorted(every[0]))
    if len(manual) == len(names):
        return lax.ppermute(site.operand(0), names, pairs)
    raise site.error("pairs of devices that go along no axis of the mesh")


def _broadcast(site: Site) -> Any:
    axes, groups = _groups(site)
    if groups is not None or len(site.operands) != 1:
        raise site.error("a broadcast in groups that are along no axis of the mesh")
    every = lax.all_gather(site.operand(0), axes)
    return lax.index_in_dim(every, 0, 0, keepdims=False)


def _partition_id(site: Site) -> Any:
    """The number of this device in the mesh."""
    _axes(site)
    mesh = site.importer.mesh
    found: Any = np.int32(0)
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        place = lax.axis_index(name)
        found = lax.add(lax.mul(found, np.int32(size)), place)
    return lax.convert_element_type(found, np.uint32)


def _cast(site: Site) -> Sequence[Any]:
    return list(site.operands)


def _elsewhere(what: str) -> Rule:
    def refuse(site: Site) -> Any:
        raise site.error(what)

    return refuse


RULES: dict[str, Rule] = {
    "builtin.unrealized_conversion_cast": _cast,
    "sdy.manual_computation": _manual_computation,
    "sdy.propagation_barrier": _cast,
    "sdy.reshard": _constraint,
    "sdy.sharding_constraint": _constraint,
    "sdy.sharding_group": lambda site: [],
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_broadcast": _broadcast,
    "stablehlo.collective_permute": _permute,
    "stablehlo.infeed": _elsewhere("infeed has no counterpart: pass an argument"),
    "stablehlo.outfeed": _elsewhere("outfeed has no counterpart: return a result"),
    "stablehlo.partition_id": _partition_id,
    "stablehlo.recv": _elsewhere("recv has no counterpart: use collective_permute"),
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.replica_id": lambda site: np.uint32(0),
    "stablehlo.send": _elsewhere("send has no counterpart: use collective_permute"),
}
