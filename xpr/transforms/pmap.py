"""`pmap`: a function of single examples, each of which a device of its own computes.

It is `jit` of a `shard_map` over a mesh of one axis, whose size is that of the mapped axis: each
device gets its slice with an axis of size 1, which is taken off before the function is called and
put back on its results. What was built for a structure of arguments and a size is kept, so that a
call that repeats one costs a look-up more than `jit`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from xpr import tree_util
from xpr.core.errors import shown
from xpr.core.jaxpr import Jaxpr, sub_jaxprs
from xpr.core.trace import Tracer, context
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.dispatch.array import ArrayImpl
from xpr.dispatch.eager import eager_trace
from xpr.dispatch.process_parts import as_global, as_local
from xpr.primitives.shape import expand_dims, squeeze
from xpr.runtimes import processes, registry
from xpr.runtimes.base import Device
from xpr.sharding import IndivisibleError, Mesh, NamedSharding, PartitionSpec
from xpr.transforms.arguments import check_leaf
from xpr.transforms.jit import JittedFunction, jit
from xpr.transforms.shard_map import shard_map
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import (
    ShapeDtypeStruct,
    TracedProgram,
    abstractify,
    check_function,
)

_UNNAMED = "_internal_pmap_axis_name"


def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable | None = None,
    *,
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Callable[..., Any]:
    """`fun` applied to every slice of its arguments, each on a device of its own.

    `in_axes` says along which axis arguments are sliced: an int, None for an argument that all
    devices share whole, or a tuple with an entry for each positional argument, which may be a
    pytree of these (a prefix of the argument's); arguments by keyword are sliced along axis 0.
    `out_axes` says in the same way where the axis of the results goes; None promises that a result
    is the same on all devices, and gives that of one. `axis_name` names the axis for collectives
    such as `lax.psum`. Positional arguments in `static_broadcasted_argnums` are passed as they are
    and must be hashable; the buffers of those in `donate_argnums` may be overwritten. `devices` or
    `backend` say where to run, by default on the first of `xpr.devices()`; `axis_size` states the
    size of the mapped axis.

    In a program of several processes the devices are those of all of them: each process gives as
    many slices as it has devices, and gets the results of these, while collectives go over all.
    `axis_size` is then the number of all slices. Inside of `jit`, `grad` and other transformations
    that holds for functions without collectives; for others it is a NotImplementedError.

    Results stay on their devices: their sharding is a `NamedSharding` over a mesh of one axis.
    `shard_map` does the same for any number of axes, and composes better.

    Raises ValueError for more slices than devices, arguments of different sizes, axes that an
    argument does not have, static arguments that are not hashable, and `in_axes` of another
    structure than the arguments; TypeError for axes that are no ints.

    >>> import xpr, xpr.numpy as jnp
    >>> share = xpr.pmap(lambda x: x / xpr.lax.psum(x, "i"), axis_name="i")
    >>> share(jnp.ones((1, 2)))
    Array([[1., 1.]], dtype=float32)
    """
    check_function(fun, "pmap")
    if devices is not None and not devices:
        raise ValueError("'devices' argument to pmap must be non-empty, or None.")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        leaves = tree_util.tree_leaves(axes)
        if not all(type(a) is int for a in leaves):
            raise TypeError(
                f"pmap {what} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes}."
            )
        if any(a < 0 for a in leaves) and what == "out_axes":
            raise ValueError(f"pmap out_axes must not be negative, got {axes}")
    mapped = _Mapped(
        fun,
        _UNNAMED if axis_name is None else axis_name,
        in_axes,
        out_axes,
        _as_positions("static_broadcasted_argnums", static_broadcasted_argnums),
        _as_positions("donate_argnums", donate_argnums),
        None if devices is None else tuple(devices),
        backend,
        axis_size,
    )

    @api_boundary
    @wraps(fun)
    def pmapped(*args: Any, **kwargs: Any) -> Any:
        return mapped(args, kwargs)

    def lower(*args: Any, **kwargs: Any) -> Any:
        """Traces and lowers for such arguments, as `jit(f).lower` does."""
        return mapped.lower(args, kwargs)

    pmapped.lower = lower  # pyright: ignore[reportFunctionMemberAccess]
    return pmapped


def _as_positions(what: str, value: int | Iterable[int]) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, [value] if isinstance(value, int) else value))
    except TypeError:
        raise TypeError(
            f"pmap {what} must be an int or a sequence of ints, got {shown(value)}"
        ) from None


class _Structure:
    """What is known for one structure of the arguments and one set of static ones."""

    __slots__ = ("axes", "by_size", "first", "tree")

    def __init__(self, tree: Any, axes: tuple[int | None, ...]) -> None:
        self.tree = tree
        self.axes = axes
        self.by_size: dict[Any, JittedFunction | _Across | _Apart] = {}
        # The leaf, and its axis, that says how many slices there are.
        self.first = next(((i, a) for i, a in enumerate(axes) if a is not None), None)


class _Mapped:
    """A mapped function, with what was built for the calls that it has seen."""

    def __init__(
        self,
        fun: Callable[..., Any],
        axis_name: Any,
        in_axes: Any,
        out_axes: Any,
        static: tuple[int, ...],
        donated: tuple[int, ...],
        devices: tuple[Device, ...] | None,
        backend: str | None,
        axis_size: int | None,
    ) -> None:
        self.fun = fun
        self.axis_name = axis_name
        self.in_axes = in_axes
        self.out_axes = out_axes
        self.static = static
        self.donated = donated
        self.devices = devices
        self.backend = backend
        self.axis_size = axis_size
        # Axes counted from the last one depend on the ranks of the arguments.
        self.counts_back = any(a < 0 for a in tree_util.tree_leaves(in_axes))
        self.quick: dict[Any, _Structure] = {}
        self.structures: dict[Any, _Structure] = {}

    # ---- calls

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        quick_key: Any = None
        count = -1
        if not (self.static or self.counts_back) and context.trace is eager_trace:
            leaves, quick_key = tree_util.flatten_args_key(args, kwargs)
            structure = self.quick.get(quick_key)
            if structure is not None and structure.first is not None:
                place, axis = structure.first
                shape = getattr(leaves[place], "shape", None)
                size = shape[axis] if shape is not None and axis < len(shape) else None
                jitted = structure.by_size.get((size, True))
                if jitted is not None and not any(isinstance(x, Tracer) for x in leaves):
                    return jitted(*leaves)
            count = len(leaves)
        structure, leaves, jitted = self._find(args, kwargs)
        # Some nodes (deques, say) have other leaves under the quick key than in truth.
        if count == len(leaves):
            self.quick[quick_key] = structure
        return jitted(*leaves)

    def lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from xpr.transforms.stages import Lowered  # noqa: PLC0415  the compile path is lazy

        structure, leaves, jitted = self._find(args, kwargs)
        if isinstance(jitted, _Across):
            leaves, jitted = jitted.types(leaves), jitted.jitted
        elif isinstance(jitted, _Apart):
            jitted = jitted.jitted
        parts = jitted.take_apart(tuple(leaves), {})
        avals = [jitted.leaf_aval(parts, i) for i in range(len(leaves))]
        traced = jitted.traced_program(parts, avals)
        shown_as = TracedProgram(traced.closed, structure.tree, traced.out_tree)
        return Lowered(jitted, parts, shown_as, None)

    def _find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[_Structure, list[Any], JittedFunction | _Across | _Apart]:
        """The flat arguments of a call, and the flat function for them."""
        statics = self._statics(args)
        dynamic = tuple(a for i, a in enumerate(args) if i not in statics) if statics else args
        leaves, tree = tree_util.tree_flatten((dynamic, kwargs))
        for x in leaves:
            if not hasattr(x, "shape"):
                check_leaf(x, "pmap")
        ranks = tuple(map(_rank, leaves)) if self.counts_back else ()
        key = (tree, tuple((i, type(v), v) for i, v in statics.items()), ranks)
        structure = self.structures.get(key)
        if structure is None:
            axes = self._flat_axes(dynamic, kwargs, statics, len(args))
            if self.counts_back:
                axes = tuple(
                    a + n if a is not None and -n <= a < 0 else a
                    for a, n in zip(axes, ranks, strict=True)
                )
            structure = self.structures[key] = _Structure(tree, axes)
        size = self._size(leaves, structure.axes)
        outside = context.trace is eager_trace and not any(isinstance(x, Tracer) for x in leaves)
        jitted = structure.by_size.get((size, outside))
        if jitted is None:
            donated = self._donated_leaves(args, statics)
            jitted = self._built(structure, size, statics, donated, outside)
            structure.by_size[size, outside] = jitted
        _check_sizes(leaves, structure.axes, size)
        return structure, leaves, jitted

    def _statics(self, args: tuple[Any, ...]) -> dict[int, Any]:
        if not self.static:
            return {}
        if max(self.static) >= len(args):
            plural = "s" if len(args) > 1 else ""
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={self.static} but was called "
                f"with only {len(args)} positional argument{plural}. All static broadcasted "
                "arguments must be passed positionally."
            )
        found = {i: args[i] for i in sorted(self.static)}
        for i, value in found.items():
            try:
                hash(value)
            except TypeError:
                raise ValueError(
                    "Non-hashable static arguments are not supported by pmap: static argument "
                    f"(index {i}) of type {type(value)} for function {name_of(self.fun)} is "
                    f"non-hashable: {shown(value)}"
                ) from None
        return found

    def _flat_axes(
        self,
        dynamic: tuple[Any, ...],
        kwargs: dict[str, Any],
        statics: dict[int, Any],
        count: int,
    ) -> tuple[int | None, ...]:
        """The axis along which each leaf is sliced."""
        axes = self.in_axes
        if statics and isinstance(axes, tuple) and len(axes) == count:
            axes = tuple(a for i, a in enumerate(axes) if i not in statics)
        try:
            found = tree_util.broadcast_prefix((axes, 0), (dynamic, kwargs), is_leaf=_is_none)
        except ValueError:
            errors = tree_util.prefix_errors((axes, 0), (dynamic, kwargs), is_leaf=_is_none)
            detail = errors[0].text("pmap in_axes", "the prefix in_axes", "the full pytree")
            named = (
                " Arguments passed by keyword are not compared with in_axes: each is mapped over "
                "its leading axis."
                if kwargs
                else ""
            )
            raise ValueError(
                f"{detail}\n\nThe value of `in_axes` must be a tree prefix of the tuple of "
                f"arguments passed positionally to the pmapped function.{named}"
            ) from None
        return tuple(found)

    def _size(self, leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
        """The number of slices: the size of the first mapped argument."""
        for x, axis in zip(leaves, axes, strict=True):
            if axis is not None and hasattr(x, "shape"):
                if not 0 <= axis < len(x.shape):
                    raise IndexError(
                        f"pmap was requested to map its argument along axis {axis}, which an "
                        f"array of shape {tuple(x.shape)} does not have"
                    )
                size = int(x.shape[axis])
                break
        else:
            raise ValueError("pmap requires at least one argument with a mapped axis.")
        if self.axis_size is not None and self.axis_size != size and processes.current is None:
            raise ValueError(
                f"Specified axis_size {self.axis_size} doesn't match received axis_size {size}."
            )
        return size

    def _donated_leaves(self, args: tuple[Any, ...], statics: dict[int, Any]) -> tuple[int, ...]:
        flags: list[bool] = []
        for i, a in enumerate(args):
            if i not in statics:
                flags += [i in self.donated] * tree_util.tree_structure(a).num_leaves
        return tuple(i for i, donated in enumerate(flags) if donated)

    # ---- what is built once

    def _mesh(self, size: int) -> Mesh:
        if self.devices is not None:
            found: Sequence[Device] = self.devices
        else:
            found = registry.devices(self.backend)
        if processes.current is not None and not all(map(is_here, found)):
            return self._mesh_of_all(found, size)
        if size > len(found):
            raise IndivisibleError(
                f"pmap of {name_of(self.fun)} over an axis of size {size} requires {size} devices, "
                f"but only {len(found)} are "
                f"{'given' if self.devices is not None else 'available'} (see "
                "xpr.local_device_count())"
            )
        return Mesh(list(found[:size]), (self.axis_name,))

    def _mesh_of_all(self, devices: Sequence[Device], size: int) -> Mesh:
        """The mesh of the devices of several processes, `size` of which are this one's."""
        name = name_of(self.fun)
        count = sum(map(is_here, devices))
        if size != count:
            raise ValueError(
                f"pmap of {name} over an axis of size {size} runs on devices of several processes: "
                f"each of them gives as many slices as it has of the devices, {count} here"
            )
        if self.axis_size is not None and self.axis_size != len(devices):
            raise ValueError(
                f"Specified axis_size {self.axis_size} doesn't match the {len(devices)} devices of "
                f"all processes that pmap of {name} runs on."
            )
        return Mesh(list(devices), (self.axis_name,))

    def _built(
        self,
        structure: _Structure,
        size: int,
        statics: dict[int, Any],
        donated: tuple[int, ...],
        outside: bool,
    ) -> JittedFunction | _Across | _Apart:
        """The flat function for `size` slices; outside of a trace it says where its arrays go."""
        fun, axes, tree, out_axes = self.fun, structure.axes, structure.tree, self.out_axes
        mesh = self._mesh(size)

        def body(*leaves: Any) -> Any:
            slices = [
                x if a is None else squeeze(x, (a,)) for x, a in zip(leaves, axes, strict=True)
            ]
            args, kwargs = tree_util.tree_unflatten(tree, slices)
            if statics:
                given = iter(args)
                whole = range(len(args) + len(statics))
                args = tuple(statics[i] if i in statics else next(given) for i in whole)
            out = fun(*args, **kwargs)
            flat, out_tree = tree_util.tree_flatten(out)
            places = tree_util.flatten_axes("pmap out_axes", out_tree, out_axes)
            with_axes = [
                x if a is None else expand_dims(x, (a,)) for x, a in zip(flat, places, strict=True)
            ]
            return tree_util.tree_unflatten(out_tree, with_axes)

        body.__name__ = body.__qualname__ = name_of(fun)

        def spec(axis: int | None) -> PartitionSpec:
            return _spec(axis, self.axis_name)

        in_specs = tuple(spec(a) for a in axes)
        out_specs = tree_util.tree_map(spec, out_axes, is_leaf=_is_none)
        is_split = mesh.is_multi_process and not outside
        if is_split:
            mesh = mesh.local_mesh
        placed = shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
        if not outside:
            jitted: Any = jit(placed, donate_argnums=donated)
            return _Apart(jitted, name_of(fun), self.axis_name) if is_split else jitted

        def sharding(s: PartitionSpec) -> NamedSharding:
            return NamedSharding(mesh, s)

        jitted = jit(
            placed,
            donate_argnums=donated,
            in_shardings=tuple(map(sharding, in_specs)),
            out_shardings=tree_util.tree_map(sharding, out_specs),
        )
        return _Across(jitted, mesh, in_specs, donated) if mesh.is_multi_process else jitted


class _Apart:
    """A mapped function of several processes inside of another program or of a transformation.

    Each process computes its own slices there, on its own devices, which is the same as long as
    no slice asks for others.
    """

    def __init__(self, jitted: JittedFunction, name: str, axis_name: Any) -> None:
        self.jitted = jitted
        self.name = name
        self.axis_name = axis_name

    def __call__(self, *leaves: Any) -> Any:
        """The results of this process's slices."""
        jitted = self.jitted
        parts = jitted.take_apart(leaves, {})
        avals = [jitted.leaf_aval(parts, i) for i in range(len(leaves))]
        if _uses_axis(jitted.traced_program(parts, avals).closed.jaxpr, self.axis_name):
            raise NotImplementedError(
                f"pmap of {self.name} runs on devices of several processes, each of which gives "
                f"its own slices, and computes along its axis {self.axis_name!r}: it cannot be a "
                "part of another program, or be transformed. Transform the function before it is "
                "mapped, or use shard_map"
            )
        return jitted(*leaves)


def _uses_axis(jaxpr: Jaxpr, name: Any) -> bool:
    """Whether some operation asks for other slices along the axis, or for its place among them."""
    return any(
        (e.primitive.axis_names is not None and name in e.primitive.axis_names(e.params))
        or any(_uses_axis(sub, name) for sub in sub_jaxprs(e.params))
        for e in jaxpr.eqns
    )


class _Across:
    """A mapped function over devices of several processes, each of which gives its own slices."""

    def __init__(
        self,
        jitted: JittedFunction,
        mesh: Mesh,
        in_specs: Sequence[PartitionSpec],
        donated: Sequence[int],
    ) -> None:
        self.jitted = jitted
        self.donated = donated
        here = mesh.local_mesh
        self.places = [(NamedSharding(here, s), NamedSharding(mesh, s)) for s in in_specs]
        self.here = here

    def __call__(self, *leaves: Any) -> Any:
        """The results of this process's slices."""
        whole = [
            as_global(x, local, everywhere)
            for x, (local, everywhere) in zip(leaves, self.places, strict=True)
        ]
        out = tree_util.tree_map(self._own, self.jitted(*whole))
        for i in self.donated:
            if isinstance(leaves[i], ArrayImpl):
                leaves[i].delete()
        return out

    def _own(self, x: Any) -> Any:
        if not isinstance(x, ArrayImpl):  # a tangent of integers, which has no values
            return x
        assert isinstance(x.sharding, NamedSharding)
        return as_local(x, NamedSharding(self.here, x.sharding.spec))

    def types(self, leaves: Sequence[Any]) -> list[Any]:
        """The types of the whole arguments."""
        found: list[Any] = []
        for x, (local, everywhere) in zip(leaves, self.places, strict=True):
            aval = abstractify(x)
            here, there = local.shard_counts(aval.ndim), everywhere.shard_counts(aval.ndim)
            shape = tuple(n // a * b for n, a, b in zip(aval.shape, here, there, strict=True))
            found.append(ShapeDtypeStruct(shape, aval.dtype, sharding=everywhere))
        return found


def is_here(device: Device) -> bool:
    """Whether a device belongs to this process."""
    return device.process_index == registry.this_process()


def _is_none(x: Any) -> bool:
    return x is None


def _rank(x: Any) -> int:
    return len(getattr(x, "shape", ()))


def _spec(axis: int | None, name: Any) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)


def _check_sizes(leaves: Sequence[Any], axes: Sequence[int | None], size: int) -> None:
    """ValueError unless every mapped argument has `size` slices."""
    for i, (x, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            continue
        shape = tuple(getattr(x, "shape", ()))
        if not 0 <= axis < len(shape):
            raise ValueError(
                f"pmap was requested to map its flat argument {i} along axis {axis}, which an "
                f"array of shape {shape} does not have"
            )
        if shape[axis] != size:
            raise IndivisibleError(
                "pmap got arguments with different sizes of the axes to be mapped: the first is "
                f"of size {size}, flat argument {i} has {shape[axis]} along axis {axis} (its shape "
                f"is {shape})"
            )
