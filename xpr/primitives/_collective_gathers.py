"""Collectives that put parts together along named axes, and their transposes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xpr.core.aval import ShapedArray
from xpr.core.primitive import Primitive, define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import broadcast_batch, moved_to_front
from xpr.primitives import _ops as ops
from xpr.primitives._collective_base import (
    FAMILY,
    ends_varying,
    keeps_varying,
    manual_names,
    unresolved,
)
from xpr.primitives._collective_sums import axis_index, vary, varying_operand
from xpr.primitives._collective_unreduced import (
    all_gather_reduced_p,
    is_unreduced_along,
    unreduced_reduce_scatter_p,
)
from xpr.primitives._named_axes import (
    Groups,
    Names,
    as_names,
    cut_axis,
    group_size,
    groups_of,
    merged,
    place,
    refuse_groups,
    split_names,
)
from xpr.primitives.rules import BatchAxis, Dim, LinearJVP, move_axis
from xpr.tree_util import tree_map

AxisNames = tuple[Hashable, ...]


def _gather_abstract(
    x: ShapedArray, *, all_gather_dimension: int, axis_size: int, tiled: bool, **_: Any
) -> ShapedArray:
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _gather_batch(
    primitive: Primitive,
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    all_gather_dimension: int,
    axis_name: AxisNames,
    tiled: bool,
    axis_index_groups: Groups = None,
    **params: Any,
) -> Any:
    (x,), (dim,) = args, dims
    if not split_names(axis, axis_name, "all_gather"):
        if primitive is all_gather_p:
            params["axis_index_groups"] = axis_index_groups
        found = primitive.bind(
            moved_to_front(x, dim),
            all_gather_dimension=all_gather_dimension + (dim is not None),
            axis_name=axis_name,
            tiled=tiled,
            **params,
        )
        return found, None if dim is None else 0
    refuse_groups("all_gather", axis_index_groups)
    if dim is None:
        x = broadcast_batch(x, axis.size, all_gather_dimension)
    else:
        x = move_axis(x, dim, all_gather_dimension)
    return (merged(x, all_gather_dimension) if tiled else x), None


def _gather_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    ct = vary(ct, manual_names(params["axis_name"]))
    return [reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


all_gather_p = define(
    "all_gather",
    family=FAMILY,
    doc="Everybody's x, along an axis.",
    abstract=_gather_abstract,
    reference=unresolved("all_gather"),
    jvp=LinearJVP(),
    transpose=_gather_transpose,
    batch=lambda *args, **params: _gather_batch(all_gather_p, *args, **params),
    axis_names=lambda params: params["axis_name"],
    vma=keeps_varying,
)


def _own_part(
    ct: Any,
    x: Any,
    *,
    all_gather_dimension: int,
    axis_name: AxisNames,
    axis_size: int,
    tiled: bool,
) -> list[Any]:
    """The part of a cotangent that belongs to what this place gave: nobody else used it."""
    ct = vary(ct, manual_names(axis_name))
    size = get_aval(ct).shape[all_gather_dimension] // axis_size
    start = ops.mul(axis_index(axis_name), np.int32(size))
    shape = get_aval(ct).shape
    starts = [np.int32(0) for _ in shape]
    starts[all_gather_dimension] = start
    sizes = (*shape[:all_gather_dimension], size, *shape[all_gather_dimension + 1 :])
    part = ops.bind("dynamic_slice", ct, *starts, slice_sizes=sizes)
    if tiled:
        return [part]
    return [ops.reshape(part, (*sizes[:all_gather_dimension], *sizes[all_gather_dimension + 1 :]))]


all_gather_invariant_p = define(
    "all_gather_invariant",
    family=FAMILY,
    doc="Everybody's x, along an axis, a value that is known to be the same for all.",
    abstract=_gather_abstract,
    reference=unresolved("all_gather_invariant"),
    jvp=LinearJVP(),
    transpose=_own_part,
    batch=lambda *args, **params: _gather_batch(all_gather_invariant_p, *args, **params),
    axis_names=lambda params: params["axis_name"],
    vma=ends_varying,
)


def all_gather(
    x: Any,
    axis_name: Names,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """Everybody's `x` along a new axis `axis`, or one after the other along `axis` if `tiled`.

    With `axis_index_groups`, lists of places of one length, it is that of everybody in one's own
    group. Inside a `shard_map`, the result counts as one that may vary along the axes; with
    `to="invarying"` as one that is the same for all, as it is, which changes what its cotangents
    mean: they are then those of one value, and not of one for each place. With `to="reduced"` it
    is the same for all, too, and its cotangent is what each place contributes, of which each gets
    its own part of the sum.

    >>> import xpr, xpr.numpy as jnp
    >>> f = lambda x: xpr.lax.all_gather(x, "i")
    >>> xpr.vmap(f, axis_name="i", out_axes=None)(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(
            f"all_gather: `to` must be 'varying', 'invarying' or 'reduced', got {to!r}"
        )
    groups = groups_of("all_gather", axis_name, axis_index_groups, equal=True)
    size = group_size("all_gather", axis_name, groups)
    names = as_names(axis_name)
    same = to != "varying" and bool(manual_names(names))
    if same and groups is not None:
        raise NotImplementedError(
            f"all_gather: axis_index_groups is not supported with to={to!r}: what differs between "
            "groups is not the same for all"
        )

    def gather_one(leaf: Any) -> Any:
        rank = get_aval(leaf).ndim + (not tiled)
        params = {
            "all_gather_dimension": place("all_gather", axis, rank),
            "axis_name": names,
            "axis_size": size,
            "tiled": tiled,
        }
        if same and to == "reduced":
            return all_gather_reduced_p.bind(leaf, **params)
        leaf = varying_operand(leaf, names, "all_gather")
        if same:
            return all_gather_invariant_p.bind(leaf, **params)
        return all_gather_p.bind(leaf, axis_index_groups=groups, **params)

    return tree_map(gather_one, x)


def _scatter_abstract(
    x: ShapedArray,
    *,
    axis_name: AxisNames,
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
    **_: Any,
) -> ShapedArray:
    shape = list(x.shape)
    size = shape[scatter_dimension]
    if tiled:
        if size % axis_size:
            raise ValueError(
                f"psum_scatter requires axis {scatter_dimension} to be divisible by the size "
                f"{axis_size} of the axis {_shown(axis_name)}, got size {size}"
            )
        shape[scatter_dimension] = size // axis_size
    else:
        if size != axis_size:
            raise ValueError(
                f"psum_scatter requires axis {scatter_dimension} to have the size {axis_size} of "
                f"the axis {_shown(axis_name)}, got {size}"
            )
        del shape[scatter_dimension]
    return ShapedArray(tuple(shape), x.dtype, x.weak_type)


def _shown(names: AxisNames) -> str:
    return repr(names[0]) if len(names) == 1 else repr(names)


def _scatter_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    axis_name: AxisNames,
    axis_index_groups: Groups,
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
) -> Any:
    (x,), (dim,) = args, dims
    if not split_names(axis, axis_name, "psum_scatter"):
        found = reduce_scatter_p.bind(
            moved_to_front(x, dim),
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
            axis_size=axis_size,
            scatter_dimension=scatter_dimension + (dim is not None),
            tiled=tiled,
        )
        return found, None if dim is None else 0
    refuse_groups("psum_scatter", axis_index_groups)
    if dim is None:
        total = ops.mul(x, get_aval(x).dtype.type(axis.size))
    else:
        total = ops.reduce_sum(x, [dim])
    if tiled:
        total = cut_axis(total, scatter_dimension, axis_size)
    return total, scatter_dimension


def _scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
    ct = vary(ct, manual_names(params["axis_name"]))
    return [all_gather_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


reduce_scatter_p = define(
    "reduce_scatter",
    family=FAMILY,
    doc="One's own part of the sum of everybody's x.",
    abstract=_scatter_abstract,
    reference=unresolved("reduce_scatter"),
    jvp=LinearJVP(),
    transpose=_scatter_transpose,
    batch=_scatter_batch,
    axis_names=lambda params: params["axis_name"],
    vma=keeps_varying,
)


def psum_scatter(
    x: Any,
    axis_name: Names,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """One's own part, along `scatter_dimension`, of the sum of `x` over the named axis.

    The axis has the size of the named one and vanishes, or with `tiled` a multiple of it, of which
    each gets its share. With `axis_index_groups`, lists of places of one length, each group sums
    and shares on its own.

    Raises ValueError for sizes that do not fit.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> x = jnp.array([[1, 2], [3, 4]])
    >>> xpr.vmap(lambda row: lax.psum_scatter(row, "i"), axis_name="i")(x)
    Array([4, 6], dtype=int32)
    """
    groups = groups_of("psum_scatter", axis_name, axis_index_groups, equal=True)
    size = group_size("psum_scatter", axis_name, groups)
    names = as_names(axis_name)

    def scatter_one(leaf: Any) -> Any:
        params = {
            "axis_name": names,
            "axis_index_groups": groups,
            "axis_size": size,
            "scatter_dimension": place("psum_scatter", scatter_dimension, get_aval(leaf).ndim),
            "tiled": tiled,
        }
        if is_unreduced_along(leaf, names, "psum_scatter"):
            if groups is not None:
                raise NotImplementedError(
                    "psum_scatter: axis_index_groups is not supported for an unreduced operand"
                )
            del params["axis_index_groups"]
            return unreduced_reduce_scatter_p.bind(leaf, **params)
        _scatter_abstract(get_aval(leaf), **params)  # raises for sizes that do not fit
        return reduce_scatter_p.bind(varying_operand(leaf, names, "psum_scatter"), **params)

    return tree_map(scatter_one, x)
