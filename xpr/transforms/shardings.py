"""`in_shardings` and `out_shardings` of `jit`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray
from xpr.core.errors import shown
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.placement import incompatible, where
from xpr.runtimes.base import Device
from xpr.runtimes.memories import HOST_KINDS
from xpr.sharding import Mesh, NamedSharding, PartitionSpec, Sharding
from xpr.sharding.context import concrete_mesh, entered_mesh
from xpr.sharding.layouts import AutoLayout, Format, Layout, check_plain
from xpr.sharding.named import explicit_sharding
from xpr.sharding.spec import UNCONSTRAINED


class UnspecifiedValue:
    """The default of `in_shardings` and `out_shardings`: placement follows the arguments."""

    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED = UnspecifiedValue()


def _is_place(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, UnspecifiedValue, PartitionSpec, Format))


def _layouts(spec: Any) -> Any:
    """The tree of the formats that name a layout, None elsewhere; None if there are none.

    Raises NotImplementedError for layouts that arrays cannot have.
    """
    found = [
        leaf.layout if isinstance(leaf, Format) and isinstance(leaf.layout, Layout) else None
        for leaf in tree_util.tree_leaves(spec, is_leaf=_is_place)
    ]
    if all(layout is None for layout in found):
        return None
    for layout in found:
        if layout is not None:
            check_plain(layout, "an argument or a result")
    tree = tree_util.tree_structure(spec, is_leaf=_is_place)
    return tree_util.tree_unflatten(tree, found)


def _check_layouts(layouts: Any, values: Any) -> None:
    """ValueError for a layout of another rank than its array."""
    known = tree_util.broadcast_prefix(
        layouts, values, is_leaf=lambda x: x is None or isinstance(x, Layout)
    )
    for layout, x in zip(known, tree_util.tree_leaves(values), strict=True):
        if layout is not None and len(layout.major_to_minor) != len(x.shape):
            raise layout.other_rank(x.shape)


class Shardings:
    """What `jit` was told about the places of arguments and results.

    Trees of shardings are prefixes of the tuple of arguments (static ones left out) and of the
    result; a bare partition spec means the mesh in use. They agree about one device, or about the
    devices of one mesh.
    """

    __slots__ = (
        "_kinds",
        "_known",
        "_layouts",
        "arguments",
        "device",
        "has_kinds",
        "key",
        "mesh",
        "results",
        "source",
    )

    def __init__(self, in_shardings: Any, out_shardings: Any) -> None:
        if isinstance(in_shardings, list):
            in_shardings = tuple(in_shardings)
        self._layouts = _layouts(in_shardings), _layouts(out_shardings)
        self.arguments = _with_mesh("in_shardings", in_shardings)
        self.results = _with_mesh("out_shardings", out_shardings)
        inputs = _leaves("in_shardings", self.arguments)
        outputs = _leaves("out_shardings", self.results)
        self.device: Device | None = None
        self.mesh: Mesh | None = None
        self.source = ""
        for source, leaf in [
            *(("ARG_SHARDING", s) for s in inputs),
            *(("explicit output sharding", s) for s in outputs),
        ]:
            if isinstance(leaf, Sharding):
                _refuse_unconstrained(source, leaf)
                self._add(source, leaf)
        trees = tuple(
            tree_util.tree_structure(t, is_leaf=_is_place) for t in (self.arguments, self.results)
        )
        self.key = (*trees, tuple(inputs), tuple(outputs))
        self._kinds = self.arguments, self.results
        self.has_kinds = any(
            isinstance(s, Sharding) and s.memory_kind in HOST_KINDS for s in (*inputs, *outputs)
        )
        """Whether some are in another memory than the devices' own."""

        if self.has_kinds:
            # Programs know of no other memory: calls move what they take and give.
            self.arguments, self.results = (
                tree_util.tree_map(_on_devices, t, is_leaf=_is_place) for t in self._kinds
            )
        self._known: dict[Any, list[Sharding | None]] = {}

    def kinds(self, args: tuple[Any, ...], out_tree: Any) -> list[list[str | None]]:
        """For each leaf of the arguments, and of the results, the kind of memory asked for."""
        result = tree_util.tree_unflatten(out_tree, range(out_tree.num_leaves))
        found: list[list[str | None]] = []
        for spec, tree in zip(self._kinds, (args, result), strict=True):
            if isinstance(spec, UnspecifiedValue):
                found.append([None] * len(tree_util.tree_leaves(tree)))
                continue
            places = tree_util.broadcast_prefix(spec, tree, is_leaf=_is_place)
            found.append([p.memory_kind if isinstance(p, Sharding) else None for p in places])
        return found

    def _add(self, source: str, sharding: Sharding) -> None:
        devices = sharding.device_set
        mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
        if isinstance(mesh, Mesh):
            self.mesh = self.mesh or mesh
        if len(devices) != 1:
            if not isinstance(mesh, Mesh):
                raise NotImplementedError(f"jit takes shardings of a mesh, got {sharding}")
            return
        device = next(iter(devices))
        if self.device is not None and device is not self.device:
            first = f"{self.source} {where(self.device)}"
            raise incompatible(first, f"{source} {where(device)}")
        if self.device is None:
            self.device, self.source = device, source

    def of_call(
        self, parts: Any, out_tree: Any, function: str
    ) -> tuple[list[Sharding | None], list[Sharding | None]]:
        """For each leaf of the arguments, and of the results, the sharding that was given."""
        args, named = tree_util.tree_unflatten(parts.tree, parts.leaves)
        inputs: list[Sharding | None] = [None] * len(parts.leaves)
        if not isinstance(self.arguments, UnspecifiedValue):
            self._refuse_named(named)
            inputs = self.of_arguments(args)
        del function
        return inputs, self.of_results(out_tree)

    def typed(self, avals: Sequence[ShapedArray], args: tuple[Any, ...]) -> list[ShapedArray]:
        """The types of the arguments: those without a sharding have that of `in_shardings`."""
        if isinstance(self.arguments, UnspecifiedValue):
            return list(avals)
        given = self.of_arguments(args)
        return [
            a.update(sharding=explicit_sharding(s, a.ndim)) if a.sharding is None else a
            for a, s in zip(avals, given, strict=True)
        ]

    def of_results(self, out_tree: Any) -> list[Sharding | None]:
        """For each leaf of the results the sharding that was given."""
        if isinstance(self.results, UnspecifiedValue):
            return [None] * out_tree.num_leaves
        result = tree_util.tree_unflatten(out_tree, range(out_tree.num_leaves))
        places = tree_util.broadcast_prefix(self.results, result, is_leaf=_is_place)
        return [p if isinstance(p, Sharding) else None for p in places]

    @staticmethod
    def _refuse_named(named: dict[str, Any]) -> None:
        if named:
            raise ValueError(
                "jit does not take keyword arguments when in_shardings is given, got "
                f"{', '.join(sorted(named))}"
            )

    def check_arguments(
        self, args: tuple[Any, ...], named: dict[str, Any], leaves: Sequence[Any],
        names: Iterable[str], function: str,
    ) -> None:  # fmt: skip
        """Raises ValueError for arguments that do not fit the shardings.

        That is: a structure of which `in_shardings` is no prefix, keyword arguments beside it, and
        arrays without a sharding that were put on another device.
        """
        if isinstance(self.arguments, UnspecifiedValue):
            moved = [False] * len(leaves)
        else:
            self._refuse_named(named)
            moved = [s is not None for s in self.of_arguments(args)]
        for leaf, may_move, name in zip(leaves, moved, names, strict=True):
            if may_move or type(leaf) is not ArrayImpl or not leaf.committed:
                continue
            if self.device is not None and leaf.device is not self.device:
                argument = f"argument {name} of {function} with shape {leaf.aval.strip_weak_type()}"
                raise incompatible(
                    f"{argument} and {where(leaf.device)}", f"{self.source} {where(self.device)}"
                )

    def of_arguments(self, args: tuple[Any, ...]) -> list[Sharding | None]:
        """For each leaf of the arguments the sharding that was given."""
        key = tree_util.tree_structure(args)
        found = self._known.get(key)
        if found is None:
            spec = self.arguments
            if isinstance(spec, tuple) and type(spec) is tuple and len(spec) != len(args):
                raise ValueError(
                    "in_shardings must be one sharding or a tuple with one entry for each "
                    f"positional argument that is not static: got {len(spec)} for {len(args)}"
                )
            places = tree_util.broadcast_prefix(spec, args, is_leaf=_is_place)
            found = self._known[key] = [p if isinstance(p, Sharding) else None for p in places]
        return found

    def check_results(self, out_tree: Any) -> None:
        """Raises ValueError when `out_shardings` is no prefix of the result's structure."""
        self.of_results(out_tree)

    def check_layouts(self, args: Any, result: Any) -> None:
        """Raises ValueError for layouts of another rank than an argument or a result has."""
        for layouts, values in zip(self._layouts, (args, result), strict=True):
            if layouts is not None:
                _check_layouts(layouts, values)


def _refuse_unconstrained(source: str, sharding: Sharding) -> None:
    if isinstance(sharding, NamedSharding) and UNCONSTRAINED in sharding.spec.partitions:
        name = "in_shardings" if source == "ARG_SHARDING" else "out_shardings"
        raise ValueError(
            f"Unconstrained dims are not allowed when passed to {name}: {sharding}. Leave the "
            "sharding out, or use lax.with_sharding_constraint inside"
        )


def _on_devices(place: Any) -> Any:
    is_named = isinstance(place, Sharding) and place.memory_kind is not None
    return place.with_memory_kind("device") if is_named else place


def _with_mesh(name: str, spec: Any) -> Any:
    """A tree of places with bare partition specs as shardings over the mesh in use."""

    def placed(leaf: Any) -> Any:
        if isinstance(leaf, (Layout, AutoLayout)):
            raise ValueError(
                "`xpr.jit` does not accept device-local layouts directly. Create a `Format` "
                f"instance wrapping this device-local layout and pass that to `jit`: got {leaf} "
                f"in {name}"
            )
        if isinstance(leaf, Format):  # arrays have one layout, which is that of AUTO, too
            return leaf.sharding
        if not isinstance(leaf, PartitionSpec):
            return leaf
        mesh = concrete_mesh()
        if mesh.empty:
            mesh = entered_mesh()
        if mesh.empty:
            raise RuntimeError(
                f"jit requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
                f"{name}. You can define a context mesh via `xpr.set_mesh(mesh)`. Alternatively, "
                f"provide `Sharding`s to {name} and then the mesh context manager is not required."
            )
        return NamedSharding(mesh, leaf)

    return tree_util.tree_map(placed, spec, is_leaf=_is_place)


def _leaves(name: str, spec: Any) -> list[Any]:
    leaves = tree_util.tree_leaves(spec, is_leaf=_is_place)
    for leaf in leaves:
        if not _is_place(leaf):
            raise TypeError(
                f"{name} takes shardings (such as xpr.sharding.SingleDeviceSharding(device)) or "
                f"None, got {shown(leaf)} of type {type(leaf)}"
            )
    return leaves


def requested(in_shardings: Any, out_shardings: Any, device: Any) -> Shardings | None:
    """The shardings given to `jit`, or None without any; ValueError beside a device or backend."""
    given = [
        name
        for name, spec in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
        if not isinstance(spec, UnspecifiedValue)
    ]
    if not given:
        return None
    if device is not None:
        raise ValueError(f"jit takes {given[0]} or a device or backend, not both: got {device!r}")
    return Shardings(in_shardings, out_shardings)
