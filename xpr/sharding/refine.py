"""Programs that name several meshes of the same devices: one mesh that all of them are parts of.

A mesh of 4 x 2 devices and one of 8 in the same order cut them at multiples of 2 and of 8, and of
1 and of 8: the refined mesh has axes of 4 and 2, and the axis of 8 is both of these together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from xpr.sharding.mesh import AbstractMesh, Mesh
from xpr.sharding.named import NamedSharding
from xpr.sharding.rule import Axes, Spec
from xpr.sharding.spec import UNCONSTRAINED, PartitionSpec, axes_of

Names = Mapping[str, Axes]
"""The refined axes that each axis of a mesh is made of, from major to minor."""


def as_partition_spec(spec: Spec) -> PartitionSpec:
    """A normalised spec as users write it, without trailing axes that are not sharded."""
    entries: list[Any] = [axes[0] if len(axes) == 1 else axes if axes else None for axes in spec]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


class Refinement:
    """The common refinement of meshes that have the same devices in the same order.

    Raises ValueError, naming two meshes, when their axes do not nest, or their devices differ.
    """

    def __init__(self, meshes: Sequence[Mesh]) -> None:
        first = meshes[0]
        for other in meshes[1:]:
            if other.flat_devices != first.flat_devices:
                raise ValueError(
                    f"one program cannot use the meshes {first} and {other}: they have the same "
                    "devices in another order"
                )
        self.meshes = tuple(meshes)
        cuts = sorted({c for m in meshes for c in _cuts(m)})
        for low, high in itertools.pairwise(cuts):
            if high % low:
                shown = " and ".join(str(m) for m in meshes)
                raise ValueError(
                    f"one program cannot use the meshes {shown}: groups of {low} and of {high} "
                    "devices do not nest"
                )
        pieces = list(itertools.pairwise(cuts))[::-1]
        names = [f"{first.axis_names[0]}_{i}" for i in range(len(pieces))]
        self._pieces = dict(zip(names, pieces, strict=True))
        sizes = [high // low for low, high in pieces]
        self.mesh = Mesh(np.array(first.flat_devices).reshape(sizes), tuple(names))
        self._names: dict[Any, Names] = {m.shape_tuple: self._names_of(m) for m in meshes}

    def _names_of(self, mesh: Mesh) -> Names:
        found: dict[str, Axes] = {}
        stride = mesh.size
        for name, size in mesh.shape.items():
            low = stride // size
            found[str(name)] = tuple(
                n for n, (a, b) in self._pieces.items() if low <= a and b <= stride
            )
            stride = low
        return found

    def axes(self, mesh: Mesh | AbstractMesh, names: Sequence[Any]) -> Axes:
        """The refined axes of some axes of a mesh; names of other things stay as they are."""
        known = self._names.get(mesh.shape_tuple, {})
        return tuple(r for n in names for r in known.get(n, (n,)))

    def spec(self, sharding: NamedSharding, ndim: int) -> Spec:
        """The refined spec of a sharding over one of the meshes."""
        return tuple(self.axes(sharding.mesh, axes) for axes in sharding.normalized_spec(ndim))

    def back(self, spec: Spec) -> NamedSharding:
        """The sharding that a refined spec means: over the first of the meshes that can say it."""
        for mesh in self.meshes:
            entries = [_said(axes, self._names[mesh.shape_tuple]) for axes in spec]
            if all(e is not None for e in entries):
                return NamedSharding(mesh, as_partition_spec(tuple(e or () for e in entries)))
        return NamedSharding(self.mesh, as_partition_spec(spec))

    # ---- programs

    def program(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with refined axes in place of those that it names."""
        return ClosedJaxpr(self._jaxpr(closed.jaxpr, None), closed.consts)

    def _jaxpr(self, jaxpr: Jaxpr, mesh: Any) -> Jaxpr:
        env: dict[Var, Var] = {}

        def bound(v: Var) -> Var:
            new = env[v] = type(v)(self._aval(v.aval))
            return new

        def read(v: Atom) -> Atom:
            return v if isinstance(v, Literal) else env[v]

        constvars = [bound(v) for v in jaxpr.constvars]
        invars = [bound(v) for v in jaxpr.invars]
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            operands = [read(v) for v in eqn.invars]
            results = [bound(v) for v in eqn.outvars]
            inner = eqn.params.get("mesh", mesh)
            params = {k: self._param(k, p, inner) for k, p in eqn.params.items()}
            eqns.append(eqn.replace(invars=operands, outvars=results, params=params))
        outvars = [read(v) for v in jaxpr.outvars]
        return jaxpr.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=eqns)

    def with_sets(self, sharding: NamedSharding, found: NamedSharding) -> NamedSharding:
        """`found`, unreduced and reduced along the refined axes of those of `sharding`."""
        spec = sharding.spec
        if not spec.unreduced and not spec.reduced:
            return found
        unreduced, reduced = (
            frozenset(self.axes(sharding.mesh, sorted(axes)))
            for axes in (spec.unreduced, spec.reduced)
        )
        return found.with_spec(found.spec.update(unreduced=unreduced, reduced=reduced))

    def _aval(self, aval: ShapedArray) -> ShapedArray:
        if aval.sharding is None:
            return aval
        return aval.update(sharding=self._sharding(aval.sharding, aval.ndim))

    def _sharding(self, sharding: NamedSharding, ndim: int) -> NamedSharding:
        mesh: Any = self.mesh
        if isinstance(sharding.mesh, AbstractMesh):
            kinds = (sharding.mesh.axis_types[0],) * len(mesh.axis_names)
            mesh = AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=kinds)
        found = NamedSharding(mesh, as_partition_spec(self.spec(sharding, ndim)))
        return self.with_sets(sharding, found)

    def _param(self, key: str, value: Any, mesh: Any) -> Any:
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(self._jaxpr(value.jaxpr, mesh), value.consts)
        if isinstance(value, Jaxpr):
            return self._jaxpr(value, mesh)
        if type(value) is tuple and value and isinstance(value[0], (ClosedJaxpr, Jaxpr)):
            return tuple(self._param(key, v, mesh) for v in value)
        if isinstance(value, NamedSharding):
            return self._sharding(value, len(value.spec))
        if isinstance(value, Mesh):
            return self.mesh
        if mesh is None:
            return value
        if key in ("in_specs", "out_specs"):
            return tuple(self._spec(s, mesh) for s in value)
        if key == "manual_axes":
            return frozenset(self.axes(mesh, sorted(value)))
        if key in ("axes", "axis_name"):
            return self.axes(mesh, value if isinstance(value, tuple) else (value,))
        return value

    def _spec(self, spec: PartitionSpec, mesh: Any) -> PartitionSpec:
        entries: list[Any] = [
            e if e is UNCONSTRAINED or e is None else self.axes(mesh, axes_of(e))
            for e in spec.partitions
        ]
        sets = {
            name: frozenset(self.axes(mesh, sorted(axes)))
            for name, axes in (("unreduced", spec.unreduced), ("reduced", spec.reduced))
        }
        return PartitionSpec(*entries, **sets)


def _cuts(mesh: Mesh) -> list[int]:
    """The numbers of neighbouring devices that share their place along the first axes."""
    found = [1]
    for size in reversed(mesh.axis_sizes):
        found.append(found[-1] * size)
    return found


def _said(axes: Axes, names: Names) -> Axes | None:
    """The axes of a mesh that are these refined ones; None if there are none."""
    found: list[str] = []
    rest = axes
    while rest:
        name = next((n for n, parts in names.items() if parts and rest[: len(parts)] == parts), "")
        if not name:
            return None
        found.append(name)
        rest = rest[len(names[name]) :]
    return tuple(found)
