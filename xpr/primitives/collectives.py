"""Collectives: operations over an axis that has a name, such as the one that `vmap` maps over.

Each example (under `vmap`) or each device has one value; a collective combines them across the
named axis. `vmap` replaces a collective over its axis by operations on the whole batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import NotDifferentiable, NotLinear, Primitive, define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import broadcast_batch, moved_to_front
from xpr.primitives import _ops as ops
from xpr.primitives._named_axes import (
    Names,
    as_names,
    cut_axis,
    merged,
    place,
    refuse_groups,
    runs_of,
    size_of,
    total_size,
)
from xpr.primitives.rules import BatchAxis, Dim, LinearJVP, NoTangent, at_front, move_axis, zeros
from xpr.tree_util import tree_map

__all__ = [
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
]

_FAMILY = "collectives"

# ---- axes by name


def _unresolved(primitive_name: str) -> Any:
    def reference(*_: Any, **params: Any) -> Any:
        names = params.get("axes", params.get("axis_name"))
        raise NameError(
            f"{primitive_name} over the axis {names!r} reached execution: the axis is bound by no "
            "transformation around the program"
        )

    return reference


def axis_size(axis_name: Names) -> int:
    """The size of the mapped axis of that name (the product of the sizes for a tuple of names).

    Raises NameError for a name that no enclosing transformation binds.

    >>> import xpr, xpr.numpy as jnp
    >>> f = lambda x: x * xpr.lax.axis_size("i")
    >>> xpr.vmap(f, axis_name="i")(jnp.arange(3))
    Array([0, 3, 6], dtype=int32)
    """
    return total_size(axis_name, "axis_size")


# ---- sums and extremes


def _same_aval(x: ShapedArray, **_: Any) -> ShapedArray:
    return x


def _reduction(name: str, reduce_name: str, doc: str, linear: bool) -> Primitive:
    """A collective that gives everybody the reduction of all values."""

    def batch(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axes: Any) -> Any:
        (x,), (dim,) = args, dims
        if axis.name not in axes:
            return primitive.bind(x, axes=axes), dim
        rest = tuple(a for a in axes if a != axis.name)
        if dim is not None:
            params = {"out_sharding": None} if reduce_name == "reduce_sum" else {}
            x = ops.bind(reduce_name, x, axes=(dim,), **params)
        elif linear:
            x = ops.mul(x, get_aval(x).dtype.type(axis.size))
        return (primitive.bind(x, axes=rest) if rest else x), None

    primitive = define(
        name,
        family=_FAMILY,
        doc=doc,
        abstract=_same_aval,
        reference=_unresolved(name),
        jvp=LinearJVP() if linear else NotDifferentiable("JAX defines no derivative of it either"),
        # What everybody gets depends on everybody's value: cotangents are summed in turn.
        transpose=(lambda ct, x, *, axes: [primitive.bind(ct, axes=axes)])
        if linear
        else NotLinear("it is not linear"),
        batch=batch,
        axis_names=lambda params: params["axes"],
    )
    return primitive


psum_p = _reduction("psum", "reduce_sum", "The sum of everybody's x.", linear=True)
pmax_p = _reduction("pmax", "reduce_max", "The greatest of everybody's x.", linear=False)
pmin_p = _reduction("pmin", "reduce_min", "The least of everybody's x.", linear=False)


def psum(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over the named axis (or axes), for each array of the pytree `x`.

    A Python number gives a number: `psum(1, axis_name)` is the size of the axis.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(lambda x: x / xpr.lax.psum(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    refuse_groups("psum", axis_index_groups)
    size = total_size(axis_name, "psum")
    names = as_names(axis_name)

    def sum_one(leaf: Any) -> Any:
        if isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool):
            return leaf * size
        if dtypes.kind(get_aval(leaf).dtype) == "b":
            leaf = ops.convert(leaf, dtypes.default_dtype("i"))
        return psum_p.bind(leaf, axes=names)

    return tree_map(sum_one, x)


def pmean(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over the named axis (or axes), for each array of the pytree `x`."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = total_size(axis_name, "pmean")
    return tree_map(lambda leaf: leaf / size, total)


def pmax(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The greatest of `x` over the named axis (or axes), element by element."""
    return _extreme(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The least of `x` over the named axis (or axes), element by element."""
    return _extreme(pmin_p, x, axis_name, axis_index_groups)


def _extreme(primitive: Primitive, x: Any, axis_name: Names, groups: Any) -> Any:
    refuse_groups(primitive.name, groups)
    total_size(axis_name, primitive.name)
    return tree_map(lambda leaf: primitive.bind(leaf, axes=as_names(axis_name)), x)


# ---- where am I


def _index_abstract(*, axis_name: Hashable) -> ShapedArray:
    return ShapedArray((), np.dtype(np.int32))


def _index_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axis_name: Hashable
) -> Any:
    del args, dims
    if axis_name != axis.name:
        return axis_index_p.bind(axis_name=axis_name), None
    return ops.bind(
        "iota", dtype=np.dtype(np.int32), shape=(axis.size,), dimension=0, sharding=None
    ), 0


axis_index_p = define(
    "axis_index",
    family=_FAMILY,
    doc="One's own place along the named axis.",
    abstract=_index_abstract,
    reference=_unresolved("axis_index"),
    jvp=NoTangent(),
    transpose=NotLinear("it has no operand"),
    batch=_index_batch,
    axis_names=lambda params: (params["axis_name"],),
)


def axis_index(axis_name: Names) -> Array:
    """One's own place along the named axis, an int32; for several names, the last runs fastest.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(lambda x: xpr.lax.axis_index("i"), axis_name="i")(jnp.zeros(3))
    Array([0, 1, 2], dtype=int32)
    """
    index: Any = None
    for name in as_names(axis_name):
        size = size_of(name, "axis_index")
        own = axis_index_p.bind(axis_name=name)
        index = own if index is None else ops.add(ops.mul(index, np.int32(size)), own)
    return index


# ---- gathering and scattering


def _gather_abstract(
    x: ShapedArray, *, all_gather_dimension: int, axis_name: Any, axis_size: int, tiled: bool
) -> ShapedArray:
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _gather_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    all_gather_dimension: int,
    axis_name: Hashable,
    axis_size: int,
    tiled: bool,
) -> Any:
    (x,), (dim,) = args, dims
    if axis_name != axis.name:
        found = all_gather_p.bind(
            moved_to_front(x, dim),
            all_gather_dimension=all_gather_dimension + 1,
            axis_name=axis_name,
            axis_size=axis_size,
            tiled=tiled,
        )
        return found, 0
    if dim is None:
        x = broadcast_batch(x, axis.size, all_gather_dimension)
    else:
        x = move_axis(x, dim, all_gather_dimension)
    return (merged(x, all_gather_dimension) if tiled else x), None


def _gather_transpose(
    ct: Any, x: Any, *, all_gather_dimension: int, axis_name: Any, axis_size: int, tiled: bool
) -> list[Any]:
    return [
        reduce_scatter_p.bind(
            ct,
            axis_name=axis_name,
            axis_size=axis_size,
            scatter_dimension=all_gather_dimension,
            tiled=tiled,
        )
    ]


all_gather_p = define(
    "all_gather",
    family=_FAMILY,
    doc="Everybody's x, along an axis.",
    abstract=_gather_abstract,
    reference=_unresolved("all_gather"),
    jvp=LinearJVP(),
    transpose=_gather_transpose,
    batch=_gather_batch,
    axis_names=lambda params: (params["axis_name"],),
)


def all_gather(
    x: Any,
    axis_name: Hashable,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """Everybody's `x` along a new axis `axis`, or one after the other along `axis` if `tiled`.

    >>> import xpr, xpr.numpy as jnp
    >>> f = lambda x: xpr.lax.all_gather(x, "i")
    >>> xpr.vmap(f, axis_name="i", out_axes=None)(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    refuse_groups("all_gather", axis_index_groups)
    size = size_of(axis_name, "all_gather")

    def gather_one(leaf: Any) -> Any:
        rank = get_aval(leaf).ndim + (not tiled)
        return all_gather_p.bind(
            leaf,
            all_gather_dimension=place("all_gather", axis, rank),
            axis_name=axis_name,
            axis_size=size,
            tiled=tiled,
        )

    return tree_map(gather_one, x)


def _scatter_abstract(
    x: ShapedArray, *, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool
) -> ShapedArray:
    shape = list(x.shape)
    size = shape[scatter_dimension]
    if tiled:
        if size % axis_size:
            raise ValueError(
                f"psum_scatter requires axis {scatter_dimension} to be divisible by the size "
                f"{axis_size} of the axis {axis_name!r}, got size {size}"
            )
        shape[scatter_dimension] = size // axis_size
    else:
        if size != axis_size:
            raise ValueError(
                f"psum_scatter requires axis {scatter_dimension} to have the size {axis_size} of "
                f"the axis {axis_name!r}, got {size}"
            )
        del shape[scatter_dimension]
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _scatter_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    axis_name: Hashable,
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
) -> Any:
    (x,), (dim,) = args, dims
    if axis_name != axis.name:
        found = reduce_scatter_p.bind(
            moved_to_front(x, dim),
            axis_name=axis_name,
            axis_size=axis_size,
            scatter_dimension=scatter_dimension + 1,
            tiled=tiled,
        )
        return found, 0
    if dim is None:
        total = ops.mul(x, get_aval(x).dtype.type(axis.size))
    else:
        total = ops.reduce_sum(x, [dim])
    if tiled:
        total = cut_axis(total, scatter_dimension, axis_size)
    return total, scatter_dimension


def _scatter_transpose(
    ct: Any, x: Any, *, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool
) -> list[Any]:
    return [
        all_gather_p.bind(
            ct,
            all_gather_dimension=scatter_dimension,
            axis_name=axis_name,
            axis_size=axis_size,
            tiled=tiled,
        )
    ]


reduce_scatter_p = define(
    "reduce_scatter",
    family=_FAMILY,
    doc="One's own part of the sum of everybody's x.",
    abstract=_scatter_abstract,
    reference=_unresolved("reduce_scatter"),
    jvp=LinearJVP(),
    transpose=_scatter_transpose,
    batch=_scatter_batch,
    axis_names=lambda params: (params["axis_name"],),
)


def psum_scatter(
    x: Any,
    axis_name: Hashable,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """One's own part, along `scatter_dimension`, of the sum of `x` over the named axis.

    The axis has the size of the named one and vanishes, or with `tiled` a multiple of it, of which
    each gets its share.
    """
    refuse_groups("psum_scatter", axis_index_groups)
    size = size_of(axis_name, "psum_scatter")

    def scatter_one(leaf: Any) -> Any:
        params = {
            "axis_name": axis_name,
            "axis_size": size,
            "scatter_dimension": place("psum_scatter", scatter_dimension, get_aval(leaf).ndim),
            "tiled": tiled,
        }
        _scatter_abstract(get_aval(leaf), **params)  # raises for sizes that do not fit
        return reduce_scatter_p.bind(leaf, **params)

    return tree_map(scatter_one, x)


# ---- exchanging


def _exchange_abstract(
    x: ShapedArray,
    *,
    axis_name: Any,
    axis_size: int,
    split_axis: int,
    concat_axis: int,
    tiled: bool,
) -> ShapedArray:
    shape = list(x.shape)
    if tiled:
        if shape[split_axis] % axis_size:
            raise ValueError(
                f"all_to_all requires axis {split_axis} to be divisible by the size {axis_size} of "
                f"the axis {axis_name!r}, got size {shape[split_axis]}"
            )
        shape[split_axis] //= axis_size
        shape[concat_axis] *= axis_size
    else:
        if shape[split_axis] != axis_size:
            raise ValueError(
                f"all_to_all requires the size of the mapped axis {axis_name!r} to equal that of "
                f"split_axis, but they are {axis_size} and {shape[split_axis]} respectively."
            )
        del shape[split_axis]
        shape.insert(concat_axis, axis_size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _exchange_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    axis_name: Hashable,
    axis_size: int,
    split_axis: int,
    concat_axis: int,
    tiled: bool,
) -> Any:
    (x,), (dim,) = args, dims
    if axis_name != axis.name:
        found = all_to_all_p.bind(
            moved_to_front(x, dim),
            axis_name=axis_name,
            axis_size=axis_size,
            split_axis=split_axis + 1,
            concat_axis=concat_axis + 1,
            tiled=tiled,
        )
        return found, 0
    x = at_front(axis, x, dim)
    if tiled:
        x = cut_axis(x, split_axis + 1, axis_size)
    # The part meant for each becomes the batch; the sender's number an axis of the example.
    rank = get_aval(x).ndim
    rest = [i for i in range(1, rank) if i != split_axis + 1]
    rest.insert(concat_axis, 0)
    x = ops.transpose(x, (split_axis + 1, *rest))
    return (merged(x, concat_axis + 1) if tiled else x), 0


def _exchange_transpose(
    ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any
) -> list[Any]:
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


all_to_all_p = define(
    "all_to_all",
    family=_FAMILY,
    doc="Part i of x goes to the one at place i.",
    abstract=_exchange_abstract,
    reference=_unresolved("all_to_all"),
    jvp=LinearJVP(),
    transpose=_exchange_transpose,
    batch=_exchange_batch,
    axis_names=lambda params: (params["axis_name"],),
)


def all_to_all(
    x: Any,
    axis_name: Hashable,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Cuts `x` along `split_axis`, sends part i to the one at place i, and puts together.

    Without `tiled`, `split_axis` has the size of the named axis and vanishes, and what arrives
    lies along a new axis `concat_axis`; with it, parts are joined along `concat_axis`.

    Raises ValueError for sizes that do not fit.
    """
    refuse_groups("all_to_all", axis_index_groups)
    size = size_of(axis_name, "all_to_all")

    def exchange_one(leaf: Any) -> Any:
        params = {
            "axis_name": axis_name,
            "axis_size": size,
            "split_axis": place("all_to_all", split_axis, get_aval(leaf).ndim),
            "concat_axis": place("all_to_all", concat_axis, get_aval(leaf).ndim),
            "tiled": tiled,
        }
        _exchange_abstract(get_aval(leaf), **params)  # raises for sizes that do not fit
        return all_to_all_p.bind(leaf, **params)

    return tree_map(exchange_one, x)


def pswapaxes(x: Any, axis_name: Hashable, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swaps the named axis with the axis `axis` of `x`, which has the same size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _permute_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    axis_name: Hashable,
    perm: tuple[tuple[int, int], ...],
) -> Any:
    (x,), (dim,) = args, dims
    if axis_name != axis.name:
        return ppermute_p.bind(x, axis_name=axis_name, perm=perm), dim
    x = at_front(axis, x, dim)
    sources: list[int | None] = [None] * axis.size
    for source, target in perm:
        sources[target] = source
    pieces = [_piece(x, run) for run in runs_of(sources)]
    if len(pieces) == 1:
        return pieces[0], 0
    return ops.bind("concatenate", *pieces, dimension=0), 0


def _piece(x: Any, run: Sequence[int | None]) -> Any:
    aval = get_aval(x)
    shape = (len(run), *aval.shape[1:])
    first = run[0]
    if first is None:
        return zeros(ShapedArray(shape, aval.dtype, aval.weak_type))
    return ops.bind(
        "slice",
        x,
        start_indices=(first, *(0 for _ in aval.shape[1:])),
        limit_indices=(first + len(run), *aval.shape[1:]),
        strides=None,
    )


ppermute_p = define(
    "ppermute",
    family=_FAMILY,
    doc="The x of the one that the permutation names, zeros if it names none.",
    abstract=_same_aval,
    reference=_unresolved("ppermute"),
    jvp=LinearJVP(),
    transpose=lambda ct, x, *, axis_name, perm: [
        ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((t, s) for s, t in perm))
    ],
    batch=_permute_batch,
    axis_names=lambda params: (params["axis_name"],),
)


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends `x` along the named axis from each source to its target, pairs `(source, target)`.

    Who is nobody's target gets zeros. Raises ValueError for a place outside the axis or one that is
    twice a source or twice a target.
    """
    size = size_of(axis_name, "ppermute")
    pairs = tuple((int(s), int(t)) for s, t in perm)
    for which in (0, 1):
        places = [p[which] for p in pairs]
        if len(set(places)) != len(places):
            raise ValueError(f"ppermute sources and destinations must be unique, got {perm}")
    outside = [p for p in itertools.chain.from_iterable(pairs) if not 0 <= p < size]
    if outside:
        raise ValueError(
            f"ppermute: places {outside} are outside the axis {axis_name!r} of size {size}"
        )
    return tree_map(lambda leaf: ppermute_p.bind(leaf, axis_name=axis_name, perm=pairs), x)


def pshuffle(x: Any, axis_name: Hashable, perm: Sequence[int]) -> Any:
    """`x` shuffled along the named axis: place i gets the `x` of place `perm[i]`."""
    size = size_of(axis_name, "pshuffle")
    if sorted(perm) != list(range(size)):
        raise ValueError(f"pshuffle: perm must be a permutation of 0 to {size - 1}, got {perm}")
    return ppermute(x, axis_name, [(source, target) for target, source in enumerate(perm)])
