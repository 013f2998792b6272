"""What a function says about the shardings of its values: constraints, and arrays sharded alike."""

from __future__ import annotations

from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray, same_sharding
from xpr.core.errors import shown
from xpr.core.trace import Tracer, context, get_aval, is_eager, is_valid_value
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.placement import incompatible
from xpr.dispatch.transfer import device_put
from xpr.primitives.sharding import shard_alike_p, sharding_constraint_p
from xpr.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, reshard
from xpr.sharding.context import concrete_mesh, entered_mesh, get_abstract_mesh
from xpr.sharding.layouts import Format, concrete_sharding
from xpr.sharding.named import explicit_sharding
from xpr.sharding.spec import UNCONSTRAINED


def _is_place(s: Any) -> bool:
    return s is None or isinstance(s, (Sharding, PartitionSpec, Format))


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The pytree `x` with its arrays where `shardings` says, a tree that is a prefix of it.

    Inside `jit` the partitioner shards the values so; axes that a spec names `UNCONSTRAINED` are
    left to it. A bare partition spec means the mesh in use. Outside of `jit` arrays are moved.

    Raises ValueError for a sharding that is None, for one that does not divide an array, or for one
    of too many axes; TypeError for what is no sharding; RuntimeError for a partition spec without a
    mesh.

    >>> import xpr, xpr.numpy as jnp
    >>> here = xpr.sharding.SingleDeviceSharding(xpr.devices()[0])
    >>> with_sharding_constraint(jnp.arange(3), here)
    Array([0, 1, 2], dtype=int32)
    """
    leaves, tree = tree_util.tree_flatten(x)
    for leaf in leaves:
        if not is_valid_value(leaf):
            raise TypeError(
                f"with_sharding_constraint takes arrays and numbers, got {shown(leaf)} of type "
                f"{type(leaf)}"
            )
    places = tree_util.broadcast_prefix(shardings, x, is_leaf=_is_place)
    found = [_constrained(v, s) for v, s in zip(leaves, places, strict=True)]
    return tree_util.tree_unflatten(tree, found)


def _constrained(x: Any, place: Any) -> Any:
    place = concrete_sharding(place, get_aval(x).shape, "with_sharding_constraint")
    if place is None:
        raise ValueError(
            "One of with_sharding_constraint arguments got sharding None which is not allowed. "
            "Please only pass `xpr.sharding.Sharding` instances."
        )
    if isinstance(place, PartitionSpec):
        place = _with_mesh(place)
    if not isinstance(place, Sharding):
        raise TypeError(
            "shardings leaf specifications are expected to be PartitionSpec instances or None, but "
            f"got {shown(place)} of type {type(place)} (with_sharding_constraint, which takes "
            "Shardings, too)"
        )
    aval = get_aval(x)
    free: frozenset[int] = frozenset()
    if isinstance(place, NamedSharding):
        free = frozenset(
            i for i, entry in enumerate(place.spec.partitions) if entry is UNCONSTRAINED
        )
        if free:
            entries = [
                None if i in free else entry for i, entry in enumerate(place.spec.partitions)
            ]
            place = place.with_spec(PartitionSpec(*entries))
    if isinstance(place, NamedSharding):
        if get_abstract_mesh().are_all_axes_explicit:
            _assert_sharded(aval, place)
            return x
        _refuse_explicit(place)
        _refuse_manual(place)
    place.check_compatible_aval(aval.shape)
    if is_eager() and not isinstance(x, Tracer):
        place.shard_shape(aval.shape)  # inside of programs parts may be uneven
        if isinstance(place, NamedSharding) and not isinstance(place.mesh, Mesh):
            place = _on_mesh_of(x, place)
        _refuse_moves(x, place)
        return device_put(x, place)
    if not isinstance(place, NamedSharding):
        if context.spmd_names:
            raise ValueError(
                "If you are using spmd_axis_name parameter of xpr.vmap, please make sure to run "
                "your jitted function inside the mesh context manager. Only "
                "`xpr.lax.with_sharding_constraint` with `xpr.sharding.NamedSharding` as an input "
                f"can be transformed with spmd_axis_name={context.spmd_names}, got {place!r}"
            )
        return x  # where a program of one device runs is its caller's to say
    if place.mesh.are_all_axes_explicit:
        # What a type says stands.
        return x if aval.sharding is not None else reshard(x, place)
    return sharding_constraint_p.bind(x, sharding=place, unconstrained_dims=free)


def _on_mesh_of(x: Any, place: NamedSharding) -> NamedSharding:
    """A sharding over the mesh that `x` is on, for one over a mesh without devices."""
    text = f"{get_aval(x).str_short()}: the target of with_sharding_constraint is over {place.mesh}"
    if not isinstance(x, ArrayImpl):
        raise ValueError(
            "Target sharding contains a `xpr.sharding.AbstractMesh` which requires the input "
            f"passed should be a `xpr.Array`. Got {type(x)} with type {text}"
        )
    own = x.sharding
    if not isinstance(own, NamedSharding):
        raise TypeError(
            "The sharding on the input must be a `NamedSharding` since the target sharding has an "
            f"`AbstractMesh` in it. Got sharding type {type(own)} for an array of type {text}"
        )
    if own.mesh.shape_tuple != place.mesh.shape_tuple:
        raise ValueError(
            f"Mesh shape of the input {own.mesh.shape_tuple} does not match the mesh shape of the "
            f"target sharding {place.mesh.shape_tuple} for an array of type {text}"
        )
    return NamedSharding(own.mesh, place.spec, memory_kind=own.memory_kind)


def _refuse_moves(x: Any, place: Sharding) -> None:
    """ValueError for an array that was put on other devices: a constraint moves none."""
    if not isinstance(x, ArrayImpl) or not x.committed:
        return
    own, wanted = x.sharding._device_assignment, place._device_assignment
    if own != wanted:
        raise incompatible(
            f"an array of type {x.aval.strip_weak_type()} with device ids {[d.id for d in own]}",
            f"with_sharding_constraint with device ids {[d.id for d in wanted]}",
        )


def _refuse_manual(place: NamedSharding) -> None:
    """ValueError for a spec that names axes over which a `shard_map` around cuts already."""
    named = {n for axes in place.normalized_spec(len(place.spec.partitions)) for n in axes}
    manual = tuple(a for a in get_abstract_mesh().manual_axes if a in named)
    if manual:
        raise ValueError(
            f"pspec {place.spec} contains a manual axes {manual} of mesh which is not allowed. If "
            "you are using a with_sharding_constraint under a shard_map, only use the mesh axis in "
            "PartitionSpec which are not manual."
        )


def _assert_sharded(aval: ShapedArray, place: NamedSharding) -> None:
    """AssertionError unless a type says that its array is sharded as `place` says."""
    wanted = explicit_sharding(place, aval.ndim)
    if wanted is None or not same_sharding(aval, aval.update(sharding=wanted)):
        raise AssertionError(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type "
            f"`Explicit`. The type {aval} of the array did not match the sharding provided: "
            f"{place.spec}. Please use `xpr.sharding.reshard` to shard your input to the sharding "
            "you want."
        )


def _refuse_explicit(place: NamedSharding) -> None:
    """ValueError for a spec that names axes of which the types of arrays tell."""
    named = {n for axes in place.normalized_spec(len(place.spec.partitions)) for n in axes}
    if not named.isdisjoint(place.mesh.explicit_axes):
        raise ValueError(
            "The spec of NamedSharding passed to with_sharding_constraint can only refer to Auto "
            f"axes of the mesh. Got spec={place.spec} and mesh={place.mesh}. You probably meant "
            "to use `reshard` API? xpr.sharding.reshard"
        )


def constrained_as(x: Any, place: Sharding | None) -> Any:
    """`x`, an argument or result of a function inside another, as its shardings say."""
    if not isinstance(place, NamedSharding) or not isinstance(place.mesh, Mesh):
        return x
    if place.mesh.are_all_axes_explicit:
        # What a type says stands; only what says nothing is moved.
        return x if get_aval(x).sharding is not None else reshard(x, place)
    return _constrained(x, place)


def _with_mesh(spec: PartitionSpec) -> NamedSharding:
    mesh: Any = get_abstract_mesh()
    if is_eager() or mesh.empty:
        mesh = concrete_mesh()
    if mesh.empty:
        mesh = entered_mesh()
    if mesh.empty:
        raise RuntimeError(
            "with_sharding_constraint requires a non-empty mesh in context if you are passing "
            "`PartitionSpec`s to shardings. You can define a context mesh via "
            "`xpr.set_mesh(mesh)`. Alternatively, provide `Sharding`s."
        )
    return NamedSharding(mesh, spec)


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """`x` and `y`, pytrees of one structure, whose arrays the partitioner shards in the same way.

    Raises ValueError for arrays of different shapes.

    >>> import xpr.numpy as jnp
    >>> from xpr.experimental.shard_alike import shard_alike
    >>> shard_alike(jnp.arange(2), jnp.ones(2))
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    left, tree = tree_util.tree_flatten(x)
    right, other = tree_util.tree_flatten(y)
    if tree != other:
        raise ValueError(
            f"shard_alike requires trees of the same structure, got {tree} and {other}"
        )
    pairs = [_alike(a, b) for a, b in zip(left, right, strict=True)]
    return (
        tree_util.tree_unflatten(tree, [a for a, _ in pairs]),
        tree_util.tree_unflatten(tree, [b for _, b in pairs]),
    )


def _alike(a: Any, b: Any) -> Any:
    if is_eager() and get_aval(a).shape == get_aval(b).shape:
        return a, b
    return shard_alike_p.bind(a, b)
