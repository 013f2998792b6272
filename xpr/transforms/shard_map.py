"""`shard_map`: a function that runs on each device of a mesh, with its parts of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from xpr import tree_util
from xpr.core.aval import ShapedArray, unreduced_axes
from xpr.core.jaxpr_trace import hoist_consts, trace_to_jaxpr
from xpr.core.manual import in_order
from xpr.core.references import AbstractRef, Ref
from xpr.core.trace import get_aval
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.primitives._collective_sums import vary
from xpr.primitives._collective_unreduced import vary_unreduced_cast_p
from xpr.primitives._shard_bodies import inside
from xpr.primitives.shard_map import local_aval, named_axes, shard_map_p
from xpr.sharding.context import get_abstract_mesh
from xpr.sharding.mesh import AbstractMesh, AxisType, Mesh
from xpr.sharding.spec import PartitionSpec, axes_of
from xpr.transforms._shard_map_checks import (
    check_are_specs,
    check_closed_over,
    check_divisible,
    check_manual,
    check_matches_types,
    check_ranks,
    check_replication,
    check_sets,
)
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.signature import name_of
from xpr.transforms.tracing import debug_info

__all__ = ["Infer", "shard_map", "smap"]


class _Infer:
    """Stands for `in_specs` that follow from the types of the arguments."""

    def __repr__(self) -> str:
        return "xpr.sharding.Infer"

    def __reduce__(self) -> str:
        return "Infer"


Infer = _Infer()


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: AbstractSet[Hashable] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f`, run once on each device of a mesh, with that device's parts of the arguments.

    `in_specs` is a pytree of `PartitionSpec`s, a prefix of the tuple of arguments: an axis of an
    argument that is given names of mesh axes is cut over these, and what is named nowhere is the
    same on all devices. `None` in it stands for what is no array and passed as it is.
    A reference is cut like an array, and what each device writes to its part becomes part of the
    whole. On a mesh
    whose axes are Explicit it may be left out and follows from the arguments. `out_specs`, a prefix
    of the result, says in the same way how parts of the results are put together; a mesh axis that
    it does not name is a promise that the result is the same all along it. `mesh` is by default the
    one in use (`set_mesh`).

    Inside, collectives such as `lax.psum` go over the mesh axes by their names. With `axis_names`
    only these axes are cut over, and `f` sees whole arrays along the others. With `check_vma` it is
    tracked along which axes values vary, promises of `out_specs` are checked, and gradients of
    arguments that devices share are summed where they need to be.

    Without `f` it gives a decorator. Raises ValueError for sizes that cannot be cut evenly, specs
    that are too long or name unknown axes, and promises that cannot be shown to hold; TypeError for
    what is no spec, mesh or function.

    >>> import numpy as np, xpr, xpr.numpy as jnp
    >>> from xpr.sharding import Mesh, PartitionSpec as P
    >>> mesh = Mesh(np.array(xpr.devices("cpu")[:1]), ("x",))
    >>> total = xpr.shard_map(lambda a: xpr.lax.psum(a, "x"), mesh=mesh,
    ...                       in_specs=P("x"), out_specs=P())
    >>> xpr.make_jaxpr(total)(jnp.ones(4)).out_avals
    [ShapedArray(float32[4])]
    """
    options = {
        "mesh": mesh,
        "in_specs": in_specs,
        "out_specs": out_specs,
        "axis_names": axis_names,
        "check_vma": check_vma,
    }
    if f is None:
        return lambda g: _shard_map(g, **options)
    return _shard_map(f, **options)


def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = Infer,
    out_axes: Any,
    axis_name: Hashable,
) -> Any:
    """`shard_map` over one axis of the mesh in use, with places of axes for specs, as in `vmap`.

    `in_axes` gives the axis of each argument that is cut over `axis_name` (None for an argument
    that all devices share whole), `out_axes` the axis along which parts of each result are joined.

    >>> import xpr
    >>> import xpr.numpy as jnp
    >>> mesh = xpr.make_mesh((1,), ("rows",), devices=xpr.devices("cpu")[:1])
    >>> with xpr.set_mesh(mesh):
    ...     f = xpr.smap(lambda x: x - x.max(), in_axes=0, out_axes=0, axis_name="rows")
    ...     print(f(xpr.reshard(jnp.arange(3), xpr.P("rows"))))
    [-2 -1  0]
    """
    if isinstance(axis_name, (list, tuple)):
        raise TypeError(f"smap axis_name should be a `str` or a `Hashable`, but got {axis_name}")
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        whole = axes is Infer or axes is None or isinstance(axes, (int, tuple))
        if what == "in_axes" and not whole:
            raise TypeError(
                "smap in_axes must be an int, None, xpr.sharding.Infer, or a tuple of entries "
                "corresponding to the positional arguments passed to the function, but got "
                f"{axes!r}."
            )
        if axes is not Infer and not all(isinstance(a, int) for a in tree_util.tree_leaves(axes)):
            raise TypeError(
                f"smap {what} must be an int, None, or (nested) container with those types as "
                f"leaves, but got {axes!r}."
            )

    def spec(axis: int | None) -> PartitionSpec:
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        if axes is Infer:
            return Infer
        return tree_util.tree_map(spec, axes, is_leaf=lambda x: x is None)

    options = {
        "mesh": None,
        "in_specs": specs(in_axes),
        "out_specs": specs(out_axes),
        "axis_names": frozenset({axis_name}),
        "check_vma": True,
    }
    if f is None:
        return lambda g: _shard_map(g, **options)
    return _shard_map(f, **options)


def _shard_map(
    f: Callable[..., Any],
    *,
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    axis_names: AbstractSet[Hashable],
    check_vma: bool,
) -> Callable[..., Any]:
    if not callable(f):
        raise TypeError(
            f"shard_map requires a callable for its first argument, but got {f} of type {type(f)}."
        )

    @api_boundary
    @wraps(f)
    def mapped(*args: Any) -> Any:
        found = _mesh(mesh)
        names = _manual_names(axis_names, found)
        check_are_specs("in_specs", in_specs, Infer, found, names)
        check_are_specs("out_specs", out_specs, None, found, names)
        check_manual("in_specs", in_specs, found, names)
        check_manual("out_specs", out_specs, found, names)
        return _Call(f, args, found, names, in_specs, out_specs, check_vma).run()

    return mapped


def _mesh(mesh: Any) -> Mesh | AbstractMesh:
    """The mesh given, or the one in use."""
    in_use = get_abstract_mesh()
    if mesh is None:
        if in_use.empty:
            raise ValueError(
                "The context mesh cannot be empty. Use `xpr.set_mesh(mesh)` to enter into a mesh "
                "context, or give shard_map its mesh"
            )
        return in_use
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise TypeError(
            "shard_map requires a `xpr.sharding.Mesh` or a `xpr.sharding.AbstractMesh` instance "
            f"for its mesh, but got {mesh} of type {type(mesh)}."
        )
    if not in_use.empty and mesh.abstract_mesh != in_use:
        raise ValueError(
            f"The context mesh {in_use} should match the mesh passed to shard_map {mesh}"
        )
    if mesh.empty:
        raise ValueError(f"shard_map requires a non-empty mesh. Got {mesh!r}")
    return mesh


def _manual_names(axis_names: Any, mesh: Any) -> frozenset[str]:
    """The axes that the function is manual over: those given, by default all of the mesh."""
    if not isinstance(axis_names, (set, frozenset)):
        raise TypeError(
            "`axis_names` argument of shard_map should be of type `frozenset` or `set`. Got type: "
            f"{type(axis_names)}"
        )
    known = frozenset(mesh.axis_names)
    names = frozenset(axis_names) or known
    if not names <= known:
        raise ValueError(
            f"shard_map requires axis_names={_set_of(names)} to be a subset of "
            f"mesh.axis_names={_set_of(known)}"
        )
    return names


def _set_of(names: frozenset[Any]) -> str:
    return "{" + ", ".join(sorted(map(repr, names))) + "}"


class _Call:
    """One call of a mapped function."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        mesh: Any,
        names: frozenset[str],
        in_specs: Any,
        out_specs: Any,
        check_vma: bool,
    ) -> None:
        self.f, self.args, self.mesh, self.names = f, args, mesh, names
        self.in_specs, self.out_specs, self.check_vma = in_specs, out_specs, check_vma
        self.new_names = names - frozenset(mesh.manual_axes)
        self.out_flat: list[PartitionSpec] = []

    def run(self) -> Any:
        leaves, tree = tree_util.tree_flatten((self.args, {}))
        specs = self._input_specs(leaves)
        dynamic = [s is not None for s in specs]
        arrays = [x for x, d in zip(leaves, dynamic, strict=True) if d]
        for x in arrays:
            check_leaf(x, "shard_map")
        flat_specs = [s for s in specs if s is not None]
        avals = [get_aval(x) for x in arrays]
        places = [i for i, d in enumerate(dynamic) if d]
        paths = [p for p, _ in tree_util.tree_flatten_with_path(self.args)[0]]
        where = [(paths[i], a, s) for i, a, s in zip(places, avals, flat_specs, strict=True)]
        check_ranks("in_specs", self.f, where)
        check_divisible(self.f, self.mesh, where, self.in_specs)
        if self._is_explicit():
            check_matches_types(list(map(_array_type, avals)), flat_specs)
        flat = FlatFunction(self.f, tree)
        params = {
            "mesh": self.mesh,
            "manual_axes": self.new_names,
            "check_vma": self.check_vma,
        }

        def body(*parts: Any) -> list[Any]:
            given = iter(parts)
            whole = [next(given) if d else x for x, d in zip(leaves, dynamic, strict=True)]
            return self._results(flat, flat(*whole))

        parts = [
            local_aval(a, s, self.mesh, self.new_names, self.check_vma)
            for a, s in zip(avals, flat_specs, strict=True)
        ]
        info = debug_info(self.f, tree, {}, "shard_map")
        info = info._replace(arg_names=tuple(info.arg_names[i] for i in places))
        with inside(params):
            closed = trace_to_jaxpr(body, parts, info)
        closed, outer = hoist_consts(closed)
        check_closed_over(self.f, outer)
        found = shard_map_p.bind(
            *outer,
            *arrays,
            jaxpr=closed,
            in_specs=(*(PartitionSpec() for _ in outer), *flat_specs),
            out_specs=tuple(self.out_flat),
            **params,
        )
        return flat.result(found)

    def _is_explicit(self) -> bool:
        """Whether the function is manual over the whole mesh, all of whose axes are Explicit."""
        return self.names == frozenset(self.mesh.axis_names) and all(
            self.mesh.axis_type(a) is AxisType.Explicit for a in self.names
        )

    def _input_specs(self, leaves: Sequence[Any]) -> list[PartitionSpec | None]:
        """The spec of each leaf; None for what is passed as it is."""
        if self.in_specs is Infer:
            return [self._spec_of_type(_array_type(get_aval(x))) for x in leaves]
        try:
            return tree_util.broadcast_prefix(self.in_specs, self.args, is_leaf=lambda x: x is None)
        except ValueError:
            raise _prefix_error("shard_map in_specs", self.in_specs, self.args) from None

    def _spec_of_type(self, aval: ShapedArray) -> PartitionSpec:
        """How a value of an explicit type is cut over the axes that become manual."""
        if aval.sharding is None:
            return PartitionSpec(*[None] * aval.ndim)
        entries = []
        spec = aval.sharding.spec
        for entry in spec.partitions:
            kept = tuple(a for a in axes_of(entry) if a in self.names)
            entries.append(kept if len(kept) > 1 else kept[0] if kept else None)
        return spec.update(partitions=entries)

    def _results(self, flat: FlatFunction, out: list[Any]) -> list[Any]:
        """The results of the body, checked against `out_specs` and made to vary as these say."""
        tree = flat.out_tree
        whole = tree_util.tree_unflatten(tree, out)
        try:
            specs = tree_util.broadcast_prefix(self.out_specs, whole)
        except ValueError:
            raise _prefix_error("shard_map out_specs", self.out_specs, whole) from None
        paths = [p for p, _ in tree_util.tree_flatten_with_path(whole)[0]]
        for x in out:
            if isinstance(x, Ref):
                raise ValueError(
                    f"shard_map: {name_of(self.f)} returned a reference of type {x.aval}, which "
                    "lives on one device only: return its value, ref[...]"
                )
        if self.check_vma:
            out = [self._as_promised(x, s) for x, s in zip(out, specs, strict=True)]
        where = [(p, get_aval(x), s) for p, x, s in zip(paths, out, specs, strict=True)]
        check_ranks("out_specs", self.f, where)
        if self.check_vma:
            check_replication(self.f, self.mesh, self.new_names, where)
            check_sets(self.f, where)
        self.out_flat = specs
        return out

    def _as_promised(self, x: Any, spec: PartitionSpec) -> Any:
        """A result, made to vary, or to be a part of a sum, along the axes that its spec names."""
        x = vary(x, sorted(named_axes(spec) & self.new_names))
        missing = in_order(spec.unreduced - unreduced_axes(get_aval(x)))
        return vary_unreduced_cast_p.bind(x, axes=missing) if missing else x


def _array_type(aval: Any) -> Any:
    """The type of an array, or of those that a reference refers to."""
    return aval.inner_aval if isinstance(aval, AbstractRef) else aval


def _prefix_error(what: str, prefix: Any, full: Any) -> ValueError:
    found = tree_util.prefix_errors(prefix, full, is_leaf=lambda x: x is None)
    if not found:
        return ValueError(f"{what} must be a tree prefix of the value that it is for")
    return ValueError(found[0].text(what, f"the prefix {what}", "the full pytree"))
