"""Moving arrays between the shardings of types, and between types of mesh axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.config import loose_types
from xpr.core.errors import shown
from xpr.core.primitive import get_primitive
from xpr.core.trace import get_aval, is_eager, is_valid_value
from xpr.core.wrapping import wraps
from xpr.sharding.base import Sharding
from xpr.sharding.context import get_abstract_mesh, use_abstract_mesh
from xpr.sharding.given import resolved
from xpr.sharding.mesh import AbstractMesh, AxisType
from xpr.sharding.named import NamedSharding, explicit_sharding
from xpr.sharding.spec import PartitionSpec, axes_of


def _is_place(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The pytree `xs` with its arrays moved to shardings over Explicit mesh axes.

    `out_shardings` is a tree of shardings or partition specs that is a prefix of `xs`; a bare spec
    means the mesh in use. The types of the results show them.

    Raises ValueError for None, for mesh axes that are not Explicit, and for a sharding that does
    not divide an array; TypeError for what is no sharding.

    >>> import xpr, xpr.numpy as jnp
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> with xpr.set_mesh(mesh):
    ...     xpr.typeof(reshard(jnp.zeros((4, 2)), PartitionSpec("x")))
    ShapedArray(float32[4@x,2])
    """
    leaves, tree = tree_util.tree_flatten(xs)
    places = tree_util.broadcast_prefix(out_shardings, xs, is_leaf=_is_place)
    for x in leaves:
        if not is_valid_value(x):
            raise TypeError(f"reshard takes arrays and numbers, got {shown(x)} of type {type(x)}")
    moved = [_resharded("reshard", x, p) for x, p in zip(leaves, places, strict=True)]
    return tree_util.tree_unflatten(tree, moved)


def _resharded(name: str, x: Any, place: Any) -> Any:
    if place is None:
        raise ValueError(
            "Reshard should only be used with out_shardings which are non-None and have a "
            f"non-empty mesh. Got sharding {place}."
        )
    sharding = resolved(name, place)
    sharding.spec.check_rank(get_aval(x).ndim, f"{name}: sharding {sharding}")
    return get_primitive("reshard").bind(x, sharding=sharding)


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    out_sharding: Any = None,
) -> Any:
    """`f`, with mesh axes (all, or `axes`) of type Auto inside: the partitioner decides there.

    How the results are sharded must be said: by `out_sharding`, a tree of shardings or partition
    specs that is a prefix of the result, here or in the call.

    >>> import xpr, xpr.numpy as jnp
    >>> mesh = xpr.make_mesh((1,), ("x",))
    >>> with xpr.set_mesh(mesh):
    ...     x = reshard(jnp.ones((4, 4)), PartitionSpec(None, "x"))
    ...     xpr.typeof(auto_axes(lambda x: x @ x.T, out_sharding=PartitionSpec("x"))(x))
    ShapedArray(float32[4@x,4])
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    fun, given = f, out_sharding

    @wraps(fun)
    def call(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        wanted = given if out_sharding is None else out_sharding
        if wanted is None:
            raise TypeError("Missing required keyword argument: 'out_sharding'")
        outer = _mesh_of(wanted)
        inner = _retyped("auto_axes", outer, axes, AxisType.Auto)
        if inner == outer:  # they are Auto already
            return fun(*args, **kwargs)
        if is_eager():
            with loose_types(), use_abstract_mesh(inner):
                out = fun(*args, **kwargs)
        else:
            args, kwargs = _cast((args, kwargs), inner)
            with use_abstract_mesh(inner):
                out = fun(*args, **kwargs)
        with use_abstract_mesh(outer):
            return reshard(out, wanted)

    return call


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    in_sharding: Any = None,
) -> Any:
    """`f`, with mesh axes (all, or `axes`) of type Explicit inside: types say how arrays lie.

    How the arguments are sharded must be said: by `in_sharding`, a tree of shardings or partition
    specs that is a prefix of the tuple of arguments, here or in the call.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr.sharding import AxisType, explicit_axes, set_mesh
    >>> mesh = xpr.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))
    >>> f = explicit_axes(lambda x: x * 2, in_sharding=xpr.P("i"))
    >>> with set_mesh(mesh):
    ...     xpr.jit(f)(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    fun, given = f, in_sharding

    @wraps(fun)
    def call(*args: Any, in_sharding: Any = None) -> Any:
        wanted = given if in_sharding is None else in_sharding
        if wanted is None:
            raise TypeError("Missing required keyword argument: 'in_sharding'")
        outer = _mesh_of(wanted)
        inner = _retyped("explicit_axes", outer, axes, AxisType.Explicit)
        with use_abstract_mesh(inner):
            out = fun(*reshard(args, wanted))
        return _cast(out, outer)

    return call


def _mesh_of(places: Any) -> AbstractMesh:
    """The mesh of the first sharding among `places`, else the one in use."""
    for place in tree_util.tree_leaves(places, is_leaf=_is_place):
        if isinstance(place, NamedSharding):
            return place.mesh.abstract_mesh
    mesh = get_abstract_mesh()
    if mesh.empty:
        raise ValueError(
            "Context mesh cannot be empty. Please use `xpr.set_mesh` to enter into a mesh context, "
            f"or give a NamedSharding. Got {places}"
        )
    return mesh


def _retyped(name: str, mesh: AbstractMesh, axes: Any, kind: AxisType) -> AbstractMesh:
    """`mesh` with some of its axes (all, for None) of another type."""
    chosen: Sequence[Any] = mesh.axis_names if axes is None else axes_of(axes)
    for axis in chosen:
        if axis not in mesh.axis_names:
            raise KeyError(f"{name}: {axis!r} is no axis of the mesh {mesh}")
        if mesh.axis_type(axis) is AxisType.Manual:
            raise NotImplementedError(f"{name}: the axis {axis!r} of the mesh {mesh} is Manual")
    pairs = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return mesh.update(axis_types=tuple(kind if n in chosen else t for n, t in pairs))


def _cast(tree: Any, mesh: AbstractMesh) -> Any:
    """The arrays of a pytree, where they are, with types over `mesh`."""
    return tree_util.tree_map(lambda x: _cast_leaf(x, mesh), tree)


def _cast_leaf(x: Any, mesh: AbstractMesh) -> Any:
    if not is_valid_value(x):
        return x
    aval = get_aval(x)
    if aval.sharding is None:
        return x
    shown_axes = set(mesh.explicit_axes)
    parts = [
        tuple(a for a in axes if a in shown_axes)
        for axes in aval.sharding.normalized_spec(aval.ndim)
    ]
    sharding = None
    if shown_axes:
        spec = aval.sharding.spec.update(partitions=parts)
        sharding = explicit_sharding(NamedSharding(mesh, spec), aval.ndim)
    return get_primitive("mesh_cast").bind(x, sharding=sharding)
