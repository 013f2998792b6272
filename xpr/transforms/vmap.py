"""`vmap`: a function of single examples made one of batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

from xpr import tree_util
from xpr.core.array import Array
from xpr.core.aval import MappingSpec, ShapedArray
from xpr.core.context import named
from xpr.core.errors import shown
from xpr.core.trace import get_aval
from xpr.core.tracebacks import api_boundary
from xpr.core.wrapping import wraps
from xpr.interpreters.batching import BatchAxis, at_place, batch_flat
from xpr.primitives._named_axes import as_names
from xpr.transforms.arguments import FlatFunction, check_leaf
from xpr.transforms.reference_arguments import check_references, has_references
from xpr.transforms.signature import argument_names, name_of
from xpr.transforms.tracing import check_function

P = ParamSpec("P")
R = TypeVar("R")


def vmap(
    fun: Callable[P, R],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable | tuple[Hashable, ...] | None = None,
) -> Callable[P, R]:
    """A function that applies `fun` to every example of a batch at once.

    `in_axes` gives the axis of each positional argument that runs over the examples: an int, None
    for an argument that is the same for all, or a tuple with an entry for each argument, which may
    be a pytree of ints and Nones (a prefix of the argument's). Arguments by keyword are mapped
    along their axis 0. `out_axes` says in the same way where the axis of the results goes.
    `axis_name` names the axis for collectives such as `lax.psum`; `axis_size` gives its size where
    no argument does. `spmd_axis_name` names axes of a mesh: `shard_map` and
    `lax.with_sharding_constraint` inside cut the batch over them, and may not name them.

    Raises ValueError when sizes differ, when an axis does not exist, or when `out_axes` is None for
    a result that differs between examples; TypeError for bad axes.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(jnp.dot, in_axes=(0, None))(jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    check_function(fun, "vmap")
    spmd_names = () if spmd_axis_name is None else as_names(spmd_axis_name)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple, MappingSpec))) or isinstance(
        in_axes, bool
    ):
        raise TypeError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {shown(in_axes)}."
        )
    for what, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for leaf in tree_util.tree_leaves(axes):
            if not isinstance(leaf, (int, MappingSpec)) or isinstance(leaf, bool):
                raise TypeError(
                    f"vmap {what} must be an int, None, or (nested) container with those types as "
                    f"leaves, but got {shown(axes)}."
                )

    @api_boundary
    @wraps(fun)
    def vmapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
                f"positional arguments passed to the function, but got len(in_axes)="
                f"{len(in_axes)}, len(args)={len(args)}"
            )
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if _refused:
            _refuse((args, kwargs))
        if has_references(leaves):
            check_references("vmap", fun, args, kwargs)
        dims = _input_axes(in_axes, args, kwargs, tree)
        if _containers:
            tree = _elements_tree(tree, leaves, dims)
        avals = [_mapped_aval(x, d) for x, d in zip(leaves, dims, strict=True)]
        dims = [
            _checked_axis(d, a, lambda i=i: _leaf_names(fun, args, kwargs)[i])
            for i, (a, d) in enumerate(zip(avals, dims, strict=True))
        ]
        size = _common_size(fun, args, kwargs, avals, dims, axis_size)
        sharding = _axis_sharding(avals, dims)
        names = spmd_names if sharding is None else _spmd_names(spmd_names, sharding)
        axis = BatchAxis(size, axis_name, names, sharding)
        flat = FlatFunction(fun, tree)
        with named("vmap("):
            out, found = batch_flat(flat, axis, leaves, dims)
        wanted = tree_util.flatten_axes("vmap out_axes", flat.out_tree, out_axes)
        for i, (d, w) in enumerate(zip(found, wanted, strict=True)):
            if w is None and d is not None:
                raise _unplaced(flat.out_tree, i, d, axis_name)
        results = [
            _place_result(axis, x, d, w, i)
            for i, (x, d, w) in enumerate(zip(out, found, wanted, strict=True))
        ]
        if _containers:
            flat.out_tree = _batches_tree(flat.out_tree, results, wanted, size)
        return flat.result(results)

    if isinstance(getattr(fun, "__doc__", None), str):
        vmapped.__doc__ = (
            f"Vectorized version of {name_of(fun)}. It takes the same arguments, with one axis "
            f"more where in_axes says so.\n\nOriginal documentation:\n\n{fun.__doc__}"
        )
    return vmapped


# ---- arrays that know the sizes of their batch axes, such as sparse ones

_containers: tuple[type, ...] = ()


def register_container(cls: type) -> None:
    """Says that objects of a pytree class know the size of the axes they are mapped along.

    They have the methods `without_axis(axis)`, for an element of the batch, and
    `with_axis(axis, size)`, for the batch of such elements; both leave the leaves as they are.
    """
    global _containers
    _containers = (*_containers, cls)


_refused: dict[type, str] = {}


def refuse_type(cls: type, reason: str) -> None:
    """Says that values of a class cannot be mapped, and why."""
    _refused[cls] = reason


def _refuse(values: Any) -> None:
    for x in tree_util.tree_leaves(values, is_leaf=lambda x: type(x) in _refused):
        if type(x) in _refused:
            raise NotImplementedError(f"vmap of a {type(x).__name__}: {_refused[type(x)]}")


def _changed(tree: Any, leaves: Sequence[Any], dims: Sequence[int | None], change: Any) -> Any:
    """The tree with `change(container, axis)` for the containers that are mapped."""
    values = tree_util.tree_unflatten(tree, leaves)
    axes = iter(dims)

    def visit(x: Any) -> Any:
        if not isinstance(x, _containers):
            next(axes)
            return x
        own = {next(axes) for _ in tree_util.tree_leaves(x)}
        if len(own) > 1:
            raise ValueError(
                f"vmap: the arrays of a {type(x).__name__} array are mapped along one axis, got "
                f"{sorted(map(str, own))}"
            )
        axis = own.pop()
        return x if axis is None else change(x, axis)

    return tree_util.tree_structure(
        tree_util.tree_map(visit, values, is_leaf=lambda x: isinstance(x, _containers))
    )


def _elements_tree(tree: Any, leaves: Sequence[Any], dims: Sequence[int | None]) -> Any:
    return _changed(tree, leaves, dims, lambda x, axis: x.without_axis(axis))


def _batches_tree(tree: Any, leaves: Sequence[Any], dims: Sequence[int | None], size: int) -> Any:
    return _changed(tree, leaves, dims, lambda x, axis: x.with_axis(axis, size))


def _spmd_names(names: tuple[Any, ...], sharding: Any) -> tuple[Any, ...]:
    """The names that types do not say; ValueError for others than those that they say."""
    axes = sharding.normalized_spec(1)[0]
    if names and axes and names != axes:
        raise ValueError(
            "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type is "
            f"allowed. Got spmd_axis_name={names} and arrays sharded on {axes}"
        )
    return () if axes else names


def _mapped_aval(x: Any, dim: Any) -> ShapedArray | None:
    """The type of a leaf; None for one that is not mapped and so may be any object."""
    if dim is None and not isinstance(x, Array):
        return None
    check_leaf(x, "vmap")
    return get_aval(x)


def _axis_sharding(avals: Sequence[ShapedArray | None], dims: Sequence[int | None]) -> Any:
    """The sharding of the mapped axis, which all types must agree about; None without any.

    Raises ValueError where they differ, and for arrays that are not mapped and sharded over the
    same mesh axes.
    """
    sharded = [
        (a, d) for a, d in zip(avals, dims, strict=True) if a is not None and a.sharding is not None
    ]
    found: dict[Any, Any] = {}
    for a, d in sharded:
        if d is not None:
            axes = a.sharding.normalized_spec(a.ndim)[d]
            found.setdefault(axes, a.sharding.with_spec((axes,)))
    if len(found) > 1:
        shown = " vs ".join(str(s.spec.partitions[0]) for s in found.values())
        raise ValueError(
            "Mapped away dimension of inputs passed to vmap should be sharded the same. Got "
            f"inconsistent axis specs: {shown} in types {', '.join(str(a) for a, _ in sharded)}"
        )
    for axes in found:
        for a, d in sharded:
            if d is None:
                used = {m for entry in a.sharding.normalized_spec(a.ndim) for m in entry}
                if used.intersection(axes):
                    raise ValueError(
                        "Unmapped values passed to vmap cannot be sharded along the mesh axis you "
                        f"are vmapping over. Got type: {a.str_short()}, in_axes: None and vmapped "
                        f"mesh axis: {axes}"
                    )
    return next(iter(found.values()), None)


def _input_axes(in_axes: Any, args: Any, kwargs: Any, tree: Any) -> list[int | None]:
    """The batch axis of every leaf."""
    found: list[int | None] = []
    if isinstance(in_axes, tuple):
        for i, (axes, arg) in enumerate(zip(in_axes, args, strict=True)):
            structure = tree_util.tree_structure(arg)
            try:
                found += tree_util.flatten_axes("vmap in_axes", structure, axes)
            except ValueError as error:
                raise ValueError(
                    "vmap in_axes specification must be a tree prefix of the corresponding value; "
                    f"got specification {shown(axes)} for positional argument {i} of structure "
                    f"{structure}: {error}"
                ) from None
        found += [0] * tree_util.tree_structure(kwargs).num_leaves
        return found
    count = tree_util.tree_structure(args).num_leaves
    return [in_axes] * count + [0] * (tree.num_leaves - count)


def _checked_axis(axis: Any, aval: ShapedArray | None, name: Callable[[], str]) -> Any:
    """`axis` counted from the front; ValueError if the array, which is `name()`, does not have it.

    Values of high types have something else in its place, which their type understands.
    """
    if axis is None or aval is None or aval.is_high:
        return axis
    shape = aval.shape
    rank = len(shape)
    if not -rank <= axis < rank:
        least = axis + 1 if axis >= 0 else -axis
        raise ValueError(
            f"vmap was requested to map its argument along axis {axis}, which implies that its "
            f"rank should be at least {least}, but is only {rank} (its shape is {shape}). It is "
            f"{name()}: pass None in its place in in_axes to use it as a whole for every element."
        )
    return axis + rank if axis < 0 else axis


def _common_size(
    fun: Callable[..., Any],
    args: Any,
    kwargs: Any,
    avals: Sequence[ShapedArray | None],
    dims: Sequence[int | None],
    axis_size: int | None,
) -> int:
    mapped: list[tuple[Any, Any]] = [
        (a, d) for a, d in zip(avals, dims, strict=True) if a is not None and d is not None
    ]
    known = {a.shape[d] for a, d in mapped if not a.is_high}
    if axis_size is not None:
        known.add(axis_size)
    if len(known) == 1:
        size = known.pop()
        for a, d in mapped:
            if a.is_high and not (a.has_qdd or a.is_mapped_as(size, d)):
                raise ValueError(
                    f"vmap of {name_of(fun)} over {size} examples: an argument of the high type "
                    f"{a} is not mapped over as so many by {d}"
                )
        return size
    if not known:
        if not avals:
            raise ValueError(
                "vmap wrapped function must be passed at least one argument containing an array or "
                f"axis_size must be specified, got empty *args={args} and **kwargs={kwargs} "
                f"({name_of(fun)})"
            )
        raise ValueError(
            "vmap must have at least one non-None value in in_axes or axis_size must be specified: "
            f"all axes of the arguments of {name_of(fun)} are None"
        )
    raise ValueError(_size_message(fun, args, kwargs, avals, dims, axis_size))


def _leaf_names(fun: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """What messages call each leaf of the arguments: `argument x`, `kwargs['scale']`."""
    paths = [p for p, _ in tree_util.tree_flatten_with_path((args, kwargs))[0]]
    return [
        f"argument {name}" if path[0].idx == 0 else f"kwargs{tree_util.keystr(path[1:])}"
        for name, path in zip(
            argument_names(fun, paths, tree_util.keystr, range(len(args))), paths, strict=True
        )
    ]


def _size_message(
    fun: Callable[..., Any],
    args: Any,
    kwargs: Any,
    avals: Sequence[ShapedArray | None],
    dims: Sequence[int | None],
    axis_size: int | None,
) -> str:
    names = _leaf_names(fun, args, kwargs)
    groups: dict[int, list[str]] = {}
    for name, aval, d in zip(names, avals, dims, strict=True):
        if d is not None and aval is not None and not aval.is_high:
            shown_type = f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"
            groups.setdefault(aval.shape[d], []).append(f"axis {d} of {name} of type {shown_type}")
    lines = []
    if axis_size is not None:
        lines.append(f"  * the `axis_size` argument was {axis_size};")
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))  # of equal ones the first
    for i, (size, places) in enumerate(ordered):
        if len(places) == 1:
            lines.append(f"  * one axis had size {size}: {places[0]};")
            continue
        most = "most" if i == 0 else "some"
        lines.append(f"  * {most} axes ({len(places)} of them) had size {size}, e.g. {places[0]};")
    lines[-1] = lines[-1].rstrip(";")
    return "vmap got inconsistent sizes for array axes to be mapped:\n" + "\n".join(lines)


def _unplaced(out_tree: Any, index: int, dim: int, axis_name: Any) -> ValueError:
    if axis_name is not None:
        return ValueError(
            f"vmap has mapped output (axis_name={axis_name}) but out_axes is None: give the axis "
            f"of output {index} in out_axes, or reduce it over {axis_name!r}"
        )
    whole = tree_util.tree_unflatten(out_tree, list(range(out_tree.num_leaves)))
    path = tree_util.keystr(tree_util.tree_flatten_with_path(whole)[0][index][0])
    return ValueError(
        f"at vmap out_axes{path}, got axis spec None but output was batched on axis {dim}; give "
        "its axis in out_axes, or reduce it over the batch"
    )


def _place_result(axis: BatchAxis, x: Any, dim: int | None, wanted: int | None, index: int) -> Any:
    if wanted is None:
        return x
    if get_aval(x).is_high:
        return at_place(axis, x, dim, wanted)
    rank = len(get_aval(x).shape) + (dim is None)
    if not -rank <= wanted < rank:
        raise ValueError(
            f"axis {wanted} is out of bounds for array of dimension {rank}: vmap out_axes gives it "
            f"for result {index}, the mapped axis included"
        )
    return at_place(axis, x, dim, wanted + rank if wanted < 0 else wanted)
