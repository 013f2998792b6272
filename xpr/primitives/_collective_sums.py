"""Collectives that reduce over named axes, one's place along them, and what makes values vary.

Inside the body of a `shard_map` that knows along which axes values vary (`xpr.core.manual`), a sum
is `psum_invariant`: it takes a value that varies along its axes to one that does not, and its
transpose is `pvary`, which computes nothing. Elsewhere it is `psum`, whose transpose is itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.context import context
from xpr.core.manual import in_order, joined, with_vma
from xpr.core.primitive import NotDifferentiable, NotLinear, Primitive, define
from xpr.core.trace import get_aval
from xpr.primitives import _ops as ops
from xpr.primitives._collective_base import (
    FAMILY,
    ends_varying,
    keeps_varying,
    manual_names,
    refuse_sets,
    same_aval,
    unresolved,
)
from xpr.primitives._collective_unreduced import is_unreduced_along, unreduced_psum_p
from xpr.primitives._named_axes import (
    Groups,
    Names,
    as_names,
    groups_of,
    refuse_groups,
    size_of,
    total_size,
)
from xpr.primitives.rules import BatchAxis, Dim, LinearJVP, NoTangent
from xpr.tree_util import tree_leaves, tree_map

AxisNames = tuple[Hashable, ...]


# ---- along which axes values vary


def vary(x: Any, axes: Sequence[str]) -> Any:
    """`x`, made to vary along those of `axes` along which it does not yet."""
    missing = in_order(frozenset(axes) - get_aval(x).vma)
    return pvary_p.bind(x, axes=missing) if missing else x


def vary_together(start: Any, *values: Any) -> Any:
    """The pytree `start`, made to vary along all axes along which one of its arrays or `values` do.

    For what a loop carries: what its body computes varies as everything does that it reads.
    """
    if not context.manual_axes:
        return start
    axes = joined(map(get_aval, tree_leaves((start, values))))
    return tree_map(lambda x: vary(x, in_order(axes)), start)


def varying_operand(x: Any, axis_name: Names, what: str) -> Any:
    """The operand of a collective that works on values that vary along all its manual axes.

    One that varies along none of them is made to; ValueError for one that varies along some.
    """
    axes = frozenset(manual_names(axis_name))
    aval = get_aval(x)
    known = axes & aval.vma
    if known and known != axes:
        raise ValueError(
            f"{what} can only accept axes along all of which its operand varies, or along none: "
            f"got input type {aval}, axes {as_names(axis_name)}, of which it varies along "
            f"{sorted(known)} and not along {sorted(axes - known)}. Apply lax.pcast(x, "
            f"{in_order(axes - known)}, to='varying') to it first if it is to count once for each "
            "place along these"
        )
    return vary(x, in_order(axes))


def _pvary_abstract(x: ShapedArray, *, axes: tuple[str, ...]) -> ShapedArray:
    refuse_sets(x, axes, "pvary")
    again = x.vma.intersection(axes)
    if again:
        raise ValueError(
            f"pvary: the operand, of type {x}, varies along {sorted(again)} already, got axes "
            f"{axes}"
        )
    return with_vma(x, x.vma.union(axes))


def _pvary_transpose(ct: Any, x: Any, *, axes: tuple[str, ...]) -> list[Any]:
    return [psum_invariant_p.bind(vary(ct, axes), axes=axes)]


def _along(axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axes: AxisNames) -> Any:
    """Under `vmap` over one of the axes there is nothing left to say of it."""
    rest = tuple(a for a in axes if a != axis.name)
    return (pvary_p.bind(*args, axes=rest) if rest else args[0]), dims[0]


pvary_p = define(
    "pvary",
    family=FAMILY,
    doc="x, as a value that varies along manual axes.",
    abstract=_pvary_abstract,
    reference=lambda x, *, axes: x,
    eager="inline",
    jvp=LinearJVP(),
    transpose=_pvary_transpose,
    batch=_along,
    axis_names=lambda params: params["axes"],
    vma=lambda avals, found, params: found,
)


# ---- sums and extremes


def _reduction(name: str, reduce_name: str, doc: str, linear: bool) -> Primitive:
    """A collective that gives everybody the reduction of all values."""

    def batch(
        axis: BatchAxis,
        args: Sequence[Any],
        dims: Sequence[Dim],
        *,
        axes: AxisNames,
        axis_index_groups: Groups,
    ) -> Any:
        (x,), (dim,) = args, dims
        if axis.name not in axes:
            return primitive.bind(x, axes=axes, axis_index_groups=axis_index_groups), dim
        refuse_groups(name, axis_index_groups)
        x = _reduce_batch(axis, x, dim, reduce_name, linear)
        rest = tuple(a for a in axes if a != axis.name)
        return (primitive.bind(x, axes=rest, axis_index_groups=None) if rest else x), None

    primitive = define(
        name,
        family=FAMILY,
        doc=doc,
        abstract=same_aval,
        reference=unresolved(name),
        jvp=LinearJVP() if linear else NotDifferentiable("JAX defines no derivative of it either"),
        # What everybody gets depends on everybody's value: cotangents are summed in turn.
        transpose=(lambda ct, x, **params: [primitive.bind(ct, **params)])
        if linear
        else NotLinear("it is not linear"),
        batch=batch,
        axis_names=lambda params: params["axes"],
        vma=ends_varying,
    )
    return primitive


def _reduce_batch(axis: BatchAxis, x: Any, dim: Dim, reduce_name: str, linear: bool) -> Any:
    """The reduction of a batch along its axis."""
    if dim is not None:
        params = {"out_sharding": None} if reduce_name == "reduce_sum" else {}
        return ops.bind(reduce_name, x, axes=(dim,), **params)
    return ops.mul(x, get_aval(x).dtype.type(axis.size)) if linear else x


psum_p = _reduction("psum", "reduce_sum", "The sum of everybody's x.", linear=True)
pmax_p = _reduction("pmax", "reduce_max", "The greatest of everybody's x.", linear=False)
pmin_p = _reduction("pmin", "reduce_min", "The least of everybody's x.", linear=False)


def _invariant_abstract(x: ShapedArray, *, axes: tuple[str, ...]) -> ShapedArray:
    return with_vma(x, x.vma - frozenset(axes))


def _invariant_batch(
    axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], *, axes: AxisNames
) -> Any:
    (x,), (dim,) = args, dims
    if axis.name not in axes:
        return psum_invariant_p.bind(x, axes=axes), dim
    x = _reduce_batch(axis, x, dim, "reduce_sum", True)
    rest = tuple(a for a in axes if a != axis.name)
    return (psum_invariant_p.bind(x, axes=rest) if rest else x), None


psum_invariant_p = define(
    "psum_invariant",
    family=FAMILY,
    doc="The sum of everybody's x, a value that is known to be the same for all.",
    abstract=_invariant_abstract,
    reference=unresolved("psum_invariant"),
    jvp=LinearJVP(),
    # Each gets the same cotangent, of which its own value contributed once.
    transpose=lambda ct, x, *, axes: [vary(ct, axes)],
    batch=_invariant_batch,
    axis_names=lambda params: params["axes"],
    vma=ends_varying,
)


def psum(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The sum of `x` over the named axis (or axes), for each array of the pytree `x`.

    A Python number gives a number: `psum(1, axis_name)` is the size of the axis. With
    `axis_index_groups`, lists of places, the sum is over the places of one's own group.

    Raises NameError for an axis that nothing binds, ValueError for groups that do not have each
    place once and for a value that varies along some of the axes only.

    >>> import xpr, xpr.numpy as jnp
    >>> xpr.vmap(lambda x: x / xpr.lax.psum(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    groups = groups_of("psum", axis_name, axis_index_groups)
    size = total_size(axis_name, "psum")
    names = as_names(axis_name)
    manual = manual_names(names)
    if groups is not None and manual:
        raise NotImplementedError(
            "psum: axis_index_groups is not supported inside a shard_map with check_vma=True: "
            "sums that differ between groups are not the same for all; use check_vma=False"
        )
    others = tuple(n for n in names if n not in manual)

    def sum_one(leaf: Any) -> Any:
        if isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool):
            if groups is None:
                return leaf * size
            if len({len(g) for g in groups}) == 1:
                return leaf * len(groups[0])
        if dtypes.kind(get_aval(leaf).dtype) == "b":
            leaf = ops.convert(leaf, dtypes.default_dtype("i"))
        if others:
            leaf = psum_p.bind(leaf, axes=others, axis_index_groups=groups)
        if manual and is_unreduced_along(leaf, manual, "psum"):
            leaf = unreduced_psum_p.bind(leaf, axes=manual)
        elif manual:
            leaf = psum_invariant_p.bind(varying_operand(leaf, manual, "psum"), axes=manual)
        return leaf

    return tree_map(sum_one, x)


def pmean(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The mean of `x` over the named axis (or axes), for each array of the pytree `x`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pmean(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return tree_map(lambda leaf: leaf / size, total)


def pmax(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The greatest of `x` over the named axis (or axes), element by element.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(jnp.array([1, 3]))
    Array([3, 3], dtype=int32)
    """
    return _extreme(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Names, *, axis_index_groups: Any = None) -> Any:
    """The least of `x` over the named axis (or axes), element by element.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(jnp.array([1, 3]))
    Array([1, 1], dtype=int32)
    """
    return _extreme(pmin_p, x, axis_name, axis_index_groups)


def _extreme(primitive: Primitive, x: Any, axis_name: Names, groups: Any) -> Any:
    groups = groups_of(primitive.name, axis_name, groups)
    total_size(axis_name, primitive.name)
    manual = manual_names(axis_name)
    if groups is not None and manual:
        raise NotImplementedError(
            f"{primitive.name}: axis_index_groups is not supported inside a shard_map with "
            "check_vma=True: values that differ between groups are not the same for all; use "
            "check_vma=False"
        )
    return tree_map(
        lambda leaf: primitive.bind(
            vary(leaf, manual), axes=as_names(axis_name), axis_index_groups=groups
        ),
        x,
    )


# ---- where am I


def axis_size(axis_name: Names) -> int:
    """The size of the mapped axis of that name (the product of the sizes for a tuple of names).

    Raises NameError for a name that no enclosing transformation binds.

    >>> import xpr, xpr.numpy as jnp
    >>> f = lambda x: x * xpr.lax.axis_size("i")
    >>> xpr.vmap(f, axis_name="i")(jnp.arange(3))
    Array([0, 3, 6], dtype=int32)
    """
    return total_size(axis_name, "axis_size")


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
    family=FAMILY,
    doc="One's own place along the named axis.",
    abstract=_index_abstract,
    reference=unresolved("axis_index"),
    jvp=NoTangent(),
    transpose=NotLinear("it has no operand"),
    batch=_index_batch,
    axis_names=lambda params: (params["axis_name"],),
    vma=keeps_varying,
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
