"""What `shard_map` refuses, in words that name the argument, its spec and what was found."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.trace import get_aval
from xpr.primitives.shard_map import named_axes
from xpr.sharding.mesh import AxisType
from xpr.sharding.spec import PartitionSpec, axes_of
from xpr.transforms.signature import name_of, signature_of

# A leaf: its key path, its type and its spec.
Leaf = tuple[Any, ShapedArray, PartitionSpec]


def _paths(specs: Any) -> list[tuple[Any, Any]]:
    return tree_util.tree_flatten_with_path(specs)[0]


def _axes_text(names: Iterable[Any]) -> str:
    return "{" + ", ".join(sorted(map(repr, names))) + "}"


def check_are_specs(name: str, specs: Any, infer: Any, mesh: Any, names: frozenset[str]) -> None:
    """TypeError unless `specs` is a pytree of partition specs (or to be inferred, and can be)."""
    if infer is not None and specs is infer:
        kinds = {a: mesh.axis_type(a) for a in names}
        if all(kind.name == "Explicit" for kind in kinds.values()):
            return
        shown = ", ".join(f"{a!r}: {kind}" for a, kind in sorted(kinds.items()))
        raise TypeError(
            f"shard_map {name} argument must be a pytree of `xpr.sharding.PartitionSpec` "
            f"instances, but it was not given (of smap: in_axes was not specified), and the axes "
            f"are not all Explicit: {shown}"
        )
    bad = [(p, s) for p, s in _paths(specs) if not isinstance(s, PartitionSpec)]
    if bad:
        lines = "\n".join(
            f"  {name}{tree_util.keystr(p)} is {s!r} of type {type(s).__name__}" for p, s in bad
        )
        raise TypeError(
            f"shard_map {name} argument must be a pytree of `xpr.sharding.PartitionSpec` "
            f"instances, but:\n\n{lines}\n\nCheck the {name} values passed to shard_map."
        )


def check_manual(name: str, specs: Any, mesh: Any, names: frozenset[str]) -> None:
    """ValueError for specs that name other axes than those that the function is manual over."""
    lines = []
    for path, spec in _paths(specs):
        if not isinstance(spec, PartitionSpec):
            continue
        where = f"{name}{tree_util.keystr(path)}"
        for axis in sorted(named_axes(spec) - names, key=str):
            lines.append(f"  {where} refers to {axis!r}")
        for axis in sorted(named_axes(spec) & frozenset(mesh.manual_axes), key=str):
            lines.append(
                f"  {where} refers to {axis!r}, over which a shard_map around it cuts already"
            )
        flat = [a for entry in spec.partitions for a in axes_of(entry)]
        for axis in sorted({a for a in flat if flat.count(a) > 1}, key=str):
            lines.append(f"  {where}, {spec}, refers to {axis!r} more than once")
        _check_sets(name, spec, mesh, names)
    if lines:
        raise ValueError(
            f"shard_map {name} argument must refer to an axis marked as manual "
            f"({_axes_text(names)}), but:\n\n"
            + "\n\n".join(lines)
            + f"\n\nCheck the {name} values "
            "passed to shard_map."
        )


def _check_sets(name: str, spec: PartitionSpec, mesh: Any, names: frozenset[str]) -> None:
    """Unreduced and reduced axes are for functions that are manual over an Explicit mesh."""
    if not spec.unreduced and not spec.reduced:
        return
    if names != frozenset(mesh.axis_names):
        raise NotImplementedError(
            f"unreduced/reduced can only be passed to {name} when shard_map is in full manual "
            f"mode. Got mesh axis names {tuple(mesh.axis_names)}, manual axes: "
            f"{_axes_text(names)}, spec: {spec}"
        )
    for kind, axes in (("unreduced", spec.unreduced), ("reduced", spec.reduced)):
        for axis in sorted(axes, key=str):
            if axis not in mesh.axis_names:
                raise ValueError(
                    f"{kind} axes of {name}, {spec}, refer to {axis!r}, which is no axis of {mesh}"
                )
            if mesh.axis_type(axis) is not AxisType.Explicit:
                raise ValueError(
                    f"{kind} in {name} {spec} can only be used when the mesh passed to shard_map "
                    f"contains axis names all of type `Explicit`. Got mesh {mesh}"
                )


def check_sets(fun: Callable[..., Any], leaves: Sequence[Leaf]) -> None:
    """ValueError for results that are unreduced or reduced along other axes than the specs say."""
    for path, aval, spec in leaves:
        for kind, found, wanted in (
            ("unreduced", unreduced_axes(aval), spec.unreduced),
            ("reduced", reduced_axes(aval), spec.reduced),
        ):
            if found != wanted:
                raise ValueError(
                    f"out_specs passed to shard_map should be equal to the {kind} axes of the "
                    f"result. Got out_specs={spec} and {_result(fun, path)} of type "
                    f"{aval.str_short()}. lax.psum completes sums, and lax.pcast casts values"
                )


def check_ranks(name: str, fun: Callable[..., Any], leaves: Sequence[Leaf]) -> None:
    """ValueError for specs with more entries than the array has axes."""
    lines = []
    scalar = False
    for path, aval, spec in leaves:
        if len(spec) <= aval.ndim:
            continue
        what = _argument(fun, path) if name == "in_specs" else _result(fun, path)
        lines.append(
            f"{name} is {spec} which has length {len(spec)}, but {what} has shape {aval}, which "
            f"has rank {aval.ndim} (and {aval.ndim} < {len(spec)})"
        )
        scalar |= not aval.ndim
    if not lines:
        return
    which, way = ("input", "from") if name == "in_specs" else ("output", "from")
    text = (
        f"shard_map applied to the function '{name_of(fun)}' was given an {name} entry which is "
        f"too long to be compatible with the corresponding {which} value {way} the function:\n\n"
        + "\n\n".join(lines)
        + f"\n\nEntries in {name} must be of length no greater than the number of axes in the "
        f"corresponding {which} value.\n\nEither revise the spec to be shorter, or modify "
        f"'{name_of(fun)}' so that its {which}s have sufficient rank."
    )
    if scalar:
        text += f"\n\nFor scalar values (rank 0), consider using an {name} entry of `P()`."
        if name == "out_specs":
            text += (
                " Results of rank 0 that are not the same all over the mesh need an axis, of size "
                "1, along which the parts can be joined."
            )
    raise ValueError(text)


def check_divisible(
    fun: Callable[..., Any], mesh: Any, leaves: Sequence[Leaf], in_specs: Any
) -> None:
    """ValueError for axes that cannot be cut evenly."""
    lines = []
    for path, aval, spec in leaves:
        for i, entry in enumerate(spec.partitions):
            axes = axes_of(entry)
            count = math.prod(mesh.shape[a] for a in axes)
            if aval.shape[i] % count == 0:
                continue
            one = len(axes) == 1
            lines.append(
                f"the passed {_argument(fun, path, aval)} corresponds to "
                f"{_spec_path(in_specs, path)} of value {spec}, which maps array axis {i} (of size "
                f"{aval.shape[i]}) to mesh {'axis' if one else 'axes'} "
                f"{axes[0] if one else axes!r} (of {'' if one else 'total '}size {count}), but "
                f"{count} does not evenly divide {aval.shape[i]}"
            )
    if lines:
        raise ValueError(
            f"shard_map applied to the function '{name_of(fun)}' was given argument arrays with "
            "axis sizes that are not evenly divisible by the corresponding mesh axis sizes:\n\n"
            f"{_mesh_text(mesh)}\n\n" + "\n\n".join(lines) + "\n\nArray arguments' axis sizes must "
            "be evenly divisible by the mesh axis or axes indicated by the corresponding elements "
            "of the argument's in_specs entry. Consider checking that in_specs are correct, and if "
            "so consider changing the mesh axis sizes or else padding the input and adapting "
            f"'{name_of(fun)}' appropriately."
        )


def check_matches_types(avals: Sequence[ShapedArray], specs: Sequence[PartitionSpec]) -> None:
    """ValueError where explicit types are not sharded as the specs say.

    An array that no mesh holds is cut as its spec says, as earlier versions of JAX did and programs
    rely on.
    """
    for aval, spec in zip(avals, specs, strict=True):
        if aval.sharding is None:
            continue
        found = aval.sharding.spec
        one = [axes_of(e) for e in found.partitions]
        other = [axes_of(e) for e in spec.partitions]
        pad = aval.ndim
        parts = one + [()] * (pad - len(one)), other + [()] * (pad - len(other))
        sets = (found.unreduced, found.reduced), (spec.unreduced, spec.reduced)
        if parts[0] != parts[1] or sets[0] != sets[1]:
            entries = (*found.partitions, *[None] * (pad - len(one)))
            shown = found.update(partitions=entries)
            raise ValueError(
                f"in_specs passed to shard_map: {spec} does not match the specs of the input: "
                f"{shown} for arg: {aval}. `in_specs` is an optional argument so you can omit "
                "specifying it and shard_map will infer the in_specs from the arguments. If you "
                "want to reshard your inputs, you can use `xpr.reshard` on the arguments and then "
                "pass those to shard_map."
            )


def check_closed_over(
    fun: Callable[..., Any], values: Sequence[Any], mesh: Any, manual: frozenset[str]
) -> None:
    """NotImplementedError for values whose types belong to a mesh with Explicit axes.

    Where some axes stay Explicit inside, one that is whole along the manual ones is let through.
    """
    stays = frozenset(mesh.explicit_axes) - manual
    for x in values:
        sharding = get_aval(x).sharding
        if sharding is None or not sharding.mesh.explicit_axes:
            continue
        if stays and not named_axes(sharding.spec) & manual:
            continue
        raise NotImplementedError(
            "Closing over inputs to shard_map where the input is sharded on `Explicit` axes is not "
            "implemented. As a workaround, please pass those inputs as an argument to shard_map. "
            f"{name_of(fun)} closes over an array of type {get_aval(x).str_short()}"
        )


def check_replication(
    fun: Callable[..., Any], mesh: Any, manual: frozenset[str], leaves: Sequence[Leaf]
) -> None:
    """ValueError for results that vary along an axis that their spec does not name."""
    lines = []
    for path, aval, spec in leaves:
        varying = aval.vma & manual
        if varying <= named_axes(spec):
            continue
        lines.append(
            f"{_result(fun, path)} has type {aval}: out_specs is {spec}, which implies that it is "
            f"the same along {_axes_text(varying - named_axes(spec))}, but it was inferred to vary "
            f"along {_axes_text(varying)}"
        )
    if lines:
        raise ValueError(
            f"shard_map applied to the function '{name_of(fun)}' was given out_specs which require "
            "replication which can't be statically inferred given the mesh:\n\n"
            f"{_mesh_text(mesh)}\n\n" + "\n\n".join(lines) + "\n\nCheck if these output values are "
            "meant to be replicated over those mesh axes. If not, consider revising the "
            "corresponding out_specs entries. If so, consider disabling the check by passing the "
            "check_vma=False argument to `xpr.shard_map`."
        )


def _mesh_text(mesh: Any) -> str:
    return (
        f"The mesh given has shape {tuple(mesh.shape.values())} with corresponding axis names "
        f"{tuple(mesh.axis_names)}."
    )


def _argument(fun: Callable[..., Any], path: Any, aval: ShapedArray | None = None) -> str:
    """`args[1]['a'] of shape ..., where args[1] is bound to f's parameter 'b'`."""
    head = f"args[{path[0].idx}]"
    text = f"args{tree_util.keystr(path)}"
    if aval is not None:
        text += f" of shape {aval}"
    name = _parameter(fun, path[0].idx)
    if name is None:
        return text
    return f"{text}, where {head} is bound to {name_of(fun)}'s parameter {name},"


def _parameter(fun: Callable[..., Any], place: int) -> str | None:
    signature = signature_of(fun)
    if signature is None:
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in signature.parameters.values() if p.kind in positional]
    if place < len(names):
        return repr(names[place])
    rest = [
        p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_POSITIONAL
    ]
    return repr(f"{rest[0]}[{place - len(names)}]") if rest else None


def _result(fun: Callable[..., Any], path: Any) -> str:
    return f"{name_of(fun)}(*args){tree_util.keystr(path)}"


def _spec_path(in_specs: Any, path: Any) -> str:
    """Where in `in_specs` the spec of the leaf at `path` stands."""
    node = in_specs
    taken = []
    for key in path:
        if isinstance(node, PartitionSpec):
            break
        taken.append(key)
        node = next((child for (k, *_), child in _children(node) if k == key), PartitionSpec())
    return f"in_specs{tree_util.keystr(tuple(taken))}"


def _children(node: Any) -> list[tuple[Any, Any]]:
    """The key (as a path of one) and the value of each child of a pytree."""
    return tree_util.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)[0]
