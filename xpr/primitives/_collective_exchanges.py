"""Collectives that send parts from one place of a named axis to another."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray
from xpr.core.primitive import define
from xpr.core.trace import get_aval
from xpr.interpreters.batching import moved_to_front
from xpr.primitives import _ops as ops
from xpr.primitives._collective_base import (
    FAMILY,
    keeps_varying,
    manual_names,
    same_aval,
    unresolved,
)
from xpr.primitives._collective_sums import vary, varying_operand
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
    runs_of,
    split_names,
    total_size,
)
from xpr.primitives.rules import BatchAxis, Dim, LinearJVP, at_front, zeros
from xpr.tree_util import tree_map

AxisNames = tuple[Hashable, ...]


def _exchange_abstract(
    x: ShapedArray,
    *,
    axis_name: AxisNames,
    axis_size: int,
    split_axis: int,
    concat_axis: int,
    tiled: bool,
    **_: Any,
) -> ShapedArray:
    shape = list(x.shape)
    name = repr(axis_name[0] if len(axis_name) == 1 else axis_name)
    if tiled:
        if shape[split_axis] % axis_size:
            raise ValueError(
                f"all_to_all requires axis {split_axis} to be divisible by the size {axis_size} of "
                f"the axis {name}, got size {shape[split_axis]}"
            )
        shape[split_axis] //= axis_size
        shape[concat_axis] *= axis_size
    else:
        if shape[split_axis] != axis_size:
            raise ValueError(
                f"all_to_all requires the size of the mapped axis {name} to equal that of "
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
    axis_name: AxisNames,
    axis_index_groups: Groups,
    axis_size: int,
    split_axis: int,
    concat_axis: int,
    tiled: bool,
) -> Any:
    (x,), (dim,) = args, dims
    if not split_names(axis, axis_name, "all_to_all"):
        more = dim is not None
        found = all_to_all_p.bind(
            moved_to_front(x, dim),
            axis_name=axis_name,
            axis_index_groups=axis_index_groups,
            axis_size=axis_size,
            split_axis=split_axis + more,
            concat_axis=concat_axis + more,
            tiled=tiled,
        )
        return found, 0 if more else None
    refuse_groups("all_to_all", axis_index_groups)
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
    ct = vary(ct, manual_names(params["axis_name"]))
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


all_to_all_p = define(
    "all_to_all",
    family=FAMILY,
    doc="Part i of x goes to the one at place i.",
    abstract=_exchange_abstract,
    reference=unresolved("all_to_all"),
    jvp=LinearJVP(),
    transpose=_exchange_transpose,
    batch=_exchange_batch,
    axis_names=lambda params: params["axis_name"],
    vma=keeps_varying,
)


def all_to_all(
    x: Any,
    axis_name: Names,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Cuts `x` along `split_axis`, sends part i to the one at place i, and puts together.

    Without `tiled`, `split_axis` has the size of the named axis and vanishes, and what arrives
    lies along a new axis `concat_axis`; with it, parts are joined along `concat_axis`. With
    `axis_index_groups`, lists of places of one length, part i goes to the i-th of one's own group.

    Raises ValueError for sizes that do not fit.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> x = jnp.array([[1, 2], [3, 4]])
    >>> xpr.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    groups = groups_of("all_to_all", axis_name, axis_index_groups, equal=True)
    size = group_size("all_to_all", axis_name, groups)
    names = as_names(axis_name)

    def exchange_one(leaf: Any) -> Any:
        params = {
            "axis_name": names,
            "axis_index_groups": groups,
            "axis_size": size,
            "split_axis": place("all_to_all", split_axis, get_aval(leaf).ndim),
            "concat_axis": place("all_to_all", concat_axis, get_aval(leaf).ndim),
            "tiled": tiled,
        }
        _exchange_abstract(get_aval(leaf), **params)  # raises for sizes that do not fit
        return all_to_all_p.bind(varying_operand(leaf, names, "all_to_all"), **params)

    return tree_map(exchange_one, x)


def pswapaxes(x: Any, axis_name: Names, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swaps the named axis with the axis `axis` of `x`, which has the same size.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> x = jnp.array([[1, 2], [3, 4]])
    >>> xpr.vmap(lambda row: lax.pswapaxes(row, "i", 0), axis_name="i")(x)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _permute_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    axis_name: AxisNames,
    perm: tuple[tuple[int, int], ...],
) -> Any:
    (x,), (dim,) = args, dims
    if not split_names(axis, axis_name, "ppermute"):
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
        return zeros(aval.update(shape=shape))
    return ops.bind(
        "slice",
        x,
        start_indices=(first, *(0 for _ in aval.shape[1:])),
        limit_indices=(first + len(run), *aval.shape[1:]),
        strides=None,
    )


def _permute_transpose(
    ct: Any, x: Any, *, axis_name: AxisNames, perm: tuple[tuple[int, int], ...]
) -> list[Any]:
    back = tuple((target, source) for source, target in perm)
    return [ppermute_p.bind(vary(ct, manual_names(axis_name)), axis_name=axis_name, perm=back)]


ppermute_p = define(
    "ppermute",
    family=FAMILY,
    doc="The x of the one that the permutation names, zeros if it names none.",
    abstract=same_aval,
    reference=unresolved("ppermute"),
    jvp=LinearJVP(),
    transpose=_permute_transpose,
    batch=_permute_batch,
    axis_names=lambda params: params["axis_name"],
    vma=keeps_varying,
)


def ppermute(x: Any, axis_name: Names, perm: Sequence[tuple[int, int]]) -> Any:
    """Sends `x` along the named axis from each source to its target, pairs `(source, target)`.

    Who is nobody's target gets zeros. Raises ValueError for a place outside the axis or one that is
    twice a source or twice a target.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> pairs = [(0, 1), (1, 2)]
    >>> xpr.vmap(lambda x: lax.ppermute(x, "i", pairs), axis_name="i")(jnp.array([5, 6, 7]))
    Array([0, 5, 6], dtype=int32)
    """
    size = total_size(axis_name, "ppermute")
    names = as_names(axis_name)
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
    return tree_map(
        lambda leaf: ppermute_p.bind(
            varying_operand(leaf, names, "ppermute"), axis_name=names, perm=pairs
        ),
        x,
    )


def pshuffle(x: Any, axis_name: Names, perm: Sequence[int]) -> Any:
    """`x` shuffled along the named axis: place i gets the `x` of place `perm[i]`.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> xpr.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(jnp.array([5, 6, 7]))
    Array([7, 5, 6], dtype=int32)
    """
    size = total_size(axis_name, "pshuffle")
    if sorted(perm) != list(range(size)):
        raise ValueError(f"pshuffle: perm must be a permutation of 0 to {size - 1}, got {perm}")
    return ppermute(x, axis_name, [(source, target) for target, source in enumerate(perm)])
