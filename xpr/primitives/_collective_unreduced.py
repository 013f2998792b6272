"""Collectives and casts of values that are parts of sums along manual axes.

In the body of a `shard_map` a value may, beside varying along an axis or being the same for all, be
*unreduced*: each place has its part of a sum; or *reduced*: all have the same, and the cotangent is
unreduced. Casts between these kinds compute nothing; the transpose of each of these operations is
another one of them.

    varying   -> unreduced   vary_unreduced_cast        transpose of reduced_vary_cast
    reduced   -> varying     reduced_vary_cast
    invarying -> reduced     preduced                   transpose of unreduced_psum
    unreduced -> invarying   unreduced_psum
    varying   -> reduced     all_gather_reduced         transpose of unreduced_reduce_scatter
    unreduced -> varying     unreduced_reduce_scatter
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from xpr.core.aval import ShapedArray, reduced_axes, unreduced_axes
from xpr.core.context import context
from xpr.core.manual import in_order
from xpr.core.primitive import Primitive, define, get_primitive
from xpr.core.trace import get_aval
from xpr.interpreters.batching import moved_to_front
from xpr.primitives._collective_base import (
    FAMILY,
    manual_names,
    refuse_sets,
    state_along,
    unresolved,
    with_sets,
)
from xpr.primitives._named_axes import Names, as_names, size_of
from xpr.primitives.rules import BatchAxis, Dim, LinearJVP
from xpr.tree_util import tree_map

AxisNames = tuple[Hashable, ...]
_Abstract = Callable[..., ShapedArray]
_Transpose = Callable[..., list[Any]]


def _require(x: ShapedArray, found: Any, axes: AxisNames, name: str, state: str) -> None:
    if not frozenset(axes) <= found:
        raise ValueError(
            f"{name} only accepts inputs that are {state} along its axes. Got {x.str_short()} and "
            f"axes={axes}"
        )


def _typed(_: Sequence[ShapedArray], found: Any, __: Any) -> Any:
    """The abstract rules say all of the types."""
    return found


def _define(name: str, doc: str, abstract: _Abstract, transpose: _Transpose, **more: Any) -> Any:
    def batch(
        axis: BatchAxis, args: Sequence[Any], dims: Sequence[Dim], **params: Any
    ) -> tuple[Any, Dim]:
        del axis  # that of a mesh, never that of `vmap`
        return made.bind(*args, **params), dims[0]

    made: Primitive = define(
        name,
        family=FAMILY,
        doc=doc,
        abstract=abstract,
        jvp=LinearJVP(),
        transpose=transpose,
        axis_names=lambda params: params["axes"] if "axes" in params else params["axis_name"],
        vma=_typed,
        **{"reference": unresolved(name), "batch": batch, **more},
    )
    return made


def _same(x: Any, **_: Any) -> Any:
    return x


# ---- casts


def _preduced_abstract(x: ShapedArray, *, axes: AxisNames) -> ShapedArray:
    taken = x.vma | reduced_axes(x) | unreduced_axes(x)
    if taken.intersection(axes):
        raise ValueError(
            "preduced is an Invariant->Reduced cast: its operand must be the same along axes="
            f"{axes} and not be reduced there, got {x.str_short()}"
        )
    return with_sets(x, unreduced_axes(x), reduced_axes(x).union(axes))  # type: ignore[arg-type]


def _vary_unreduced_abstract(x: ShapedArray, *, axes: AxisNames) -> ShapedArray:
    refuse_sets(x, axes, "vary_unreduced_cast")
    _require(x, x.vma, axes, "vary_unreduced_cast", "varying")
    unreduced = unreduced_axes(x).union(axes)
    return with_sets(x, unreduced, reduced_axes(x), x.vma - frozenset(axes))  # type: ignore[arg-type]


def _reduced_vary_abstract(x: ShapedArray, *, axes: AxisNames) -> ShapedArray:
    _require(x, reduced_axes(x), axes, "reduced_vary_cast", "reduced")
    names = frozenset(axes)
    return with_sets(x, unreduced_axes(x), reduced_axes(x) - names, x.vma | names)  # type: ignore[arg-type]


preduced_p: Primitive = _define(
    "preduced",
    "x, the same for all, as a value whose cotangent is a sum of parts.",
    _preduced_abstract,
    lambda ct, x, *, axes: [unreduced_psum_p.bind(ct, axes=axes)],
    reference=_same,
    eager="inline",
)

vary_unreduced_cast_p: Primitive = _define(
    "vary_unreduced_cast",
    "Everybody's x as parts of a sum.",
    _vary_unreduced_abstract,
    lambda ct, x, *, axes: [reduced_vary_cast_p.bind(ct, axes=axes)],
    reference=_same,
    eager="inline",
)

reduced_vary_cast_p: Primitive = _define(
    "reduced_vary_cast",
    "x, whose cotangent is a sum of parts, as a value that varies.",
    _reduced_vary_abstract,
    lambda ct, x, *, axes: [vary_unreduced_cast_p.bind(varying(ct, axes), axes=axes)],
    reference=_same,
    eager="inline",
)


def varying(x: Any, axes: Sequence[Any]) -> Any:
    """`x`, made to vary along those of `axes` along which it does not yet."""
    missing = in_order(frozenset(axes) - get_aval(x).vma)
    return get_primitive("pvary").bind(x, axes=missing) if missing else x


# ---- sums


def _unreduced_psum_abstract(x: ShapedArray, *, axes: AxisNames) -> ShapedArray:
    _require(x, unreduced_axes(x), axes, "unreduced_psum", "unreduced")
    return with_sets(x, unreduced_axes(x) - frozenset(axes), reduced_axes(x))


unreduced_psum_p: Primitive = _define(
    "unreduced_psum",
    "The sum of which everybody's x is a part.",
    _unreduced_psum_abstract,
    lambda ct, x, *, axes: [preduced_p.bind(ct, axes=axes)],
)


# ---- parts of the whole


def _gather_shape(x: ShapedArray, dim: int, size: int, tiled: bool) -> ShapedArray:
    shape = list(x.shape)
    if tiled:
        shape[dim] *= size
    else:
        shape.insert(dim, size)
    return ShapedArray(tuple(shape), x.dtype, x.weak_type, vma=x.vma)


def _gather_abstract(
    x: ShapedArray, *, all_gather_dimension: int, axis_name: AxisNames, axis_size: int, tiled: bool
) -> ShapedArray:
    refuse_sets(x, axis_name, "all_gather_reduced")
    _require(x, x.vma, axis_name, "all_gather_reduced", "varying")
    found = _gather_shape(x, all_gather_dimension, axis_size, tiled)
    names = frozenset(axis_name)
    return with_sets(found, unreduced_axes(x), reduced_axes(x) | names, x.vma - names)  # type: ignore[arg-type]


def _scatter_abstract(
    x: ShapedArray, *, axis_name: AxisNames, axis_size: int, scatter_dimension: int, tiled: bool
) -> ShapedArray:
    _require(x, unreduced_axes(x), axis_name, "unreduced_psum_scatter", "unreduced")
    shape = list(x.shape)
    size = shape[scatter_dimension]
    if size % axis_size if tiled else size != axis_size:
        raise ValueError(
            f"psum_scatter requires axis {scatter_dimension} to "
            + ("be divisible by" if tiled else "have")
            + f" the size {axis_size} of the axis {axis_name}, got size {size}"
        )
    if tiled:
        shape[scatter_dimension] //= axis_size
    else:
        del shape[scatter_dimension]
    names = frozenset(axis_name)
    found = ShapedArray(tuple(shape), x.dtype, x.weak_type)
    return with_sets(found, unreduced_axes(x) - names, reduced_axes(x), x.vma | names)  # type: ignore[arg-type]


def _gather_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    all_gather_dimension: int,
    **params: Any,
) -> tuple[Any, Dim]:
    del axis
    (x,), (dim,) = args, dims
    some = dim is not None
    found = all_gather_reduced_p.bind(
        moved_to_front(x, dim), all_gather_dimension=all_gather_dimension + some, **params
    )
    return found, 0 if some else None


def _scatter_batch(
    axis: BatchAxis,
    args: Sequence[Any],
    dims: Sequence[Dim],
    *,
    scatter_dimension: int,
    **params: Any,
) -> tuple[Any, Dim]:
    del axis
    (x,), (dim,) = args, dims
    some = dim is not None
    found = unreduced_reduce_scatter_p.bind(
        moved_to_front(x, dim), scatter_dimension=scatter_dimension + some, **params
    )
    return found, 0 if some else None


def _gather_transpose(ct: Any, x: Any, *, all_gather_dimension: int, **params: Any) -> list[Any]:
    del x
    return [unreduced_reduce_scatter_p.bind(ct, scatter_dimension=all_gather_dimension, **params)]


def _scatter_transpose(ct: Any, x: Any, *, scatter_dimension: int, **params: Any) -> list[Any]:
    del x
    ct = varying(ct, params["axis_name"])
    return [all_gather_reduced_p.bind(ct, all_gather_dimension=scatter_dimension, **params)]


all_gather_reduced_p: Primitive = _define(
    "all_gather_reduced",
    "Everybody's x, along an axis, as a value whose cotangent is a sum of parts.",
    _gather_abstract,
    _gather_transpose,
    batch=_gather_batch,
)

unreduced_reduce_scatter_p: Primitive = _define(
    "unreduced_reduce_scatter",
    "One's own part of the sum of which everybody's x is a part.",
    _scatter_abstract,
    _scatter_transpose,
    batch=_scatter_batch,
)


# ---- what users call

_CASTS = {
    ("invarying", "varying"): "pvary",
    ("invarying", "reduced"): "preduced",
    ("varying", "unreduced"): "vary_unreduced_cast",
    ("reduced", "varying"): "reduced_vary_cast",
}


def pcast(x: Any, axis_name: Names, *, to: str) -> Any:
    """`x`, for each array of the pytree, as a value of another kind along the manual axes named.

    Inside a `shard_map` it is known how each value behaves along the axes of the mesh, and nothing
    is computed, but the transposes of the casts differ:

    - to "varying", from a value that is the same for all: its gradient is the sum of what each
      place contributes; or from a reduced one: its gradient is left as parts of that sum;
    - to "unreduced", from one that varies: each place has its part of a sum, which `psum`
      completes;
    - to "reduced", from one that is the same for all: its gradient will be completed when it comes
      back to where it was cast.

    Raises ValueError for other casts.

    >>> import xpr, xpr.numpy as jnp
    >>> from xpr import lax
    >>> mesh = xpr.make_mesh((1,), ("i",))
    >>> f = xpr.shard_map(
    ...     lambda x: lax.pcast(x, "i", to="varying"),
    ...     mesh=mesh, in_specs=xpr.P(), out_specs=xpr.P("i"))
    >>> f(jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(
            f"pcast got an unexpected value of `to`: {to!r}. Allowed are 'varying', 'unreduced' "
            "and 'reduced'"
        )
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"pcast: axis_name must be a tuple or a str, got {axis_name}")
    names = as_names(axis_name)
    for name in names:
        size_of(name, "pcast")
    axes = manual_names(names)

    def cast_one(leaf: Any) -> Any:
        aval = get_aval(leaf)
        state = state_along(aval, axes, "pcast")
        cast = _CASTS.get((state, to))
        if cast is None:
            raise ValueError(
                f"Unsupported pcast from={state}, to={to!r}: the operand, of type {aval}, is "
                f"{state} along {names}"
            )
        return get_primitive(cast).bind(leaf, axes=axes) if axes else leaf

    return tree_map(cast_one, x)


def is_unreduced_along(x: Any, axes: Sequence[Any], what: str) -> bool:
    """Whether `x` is a part of a sum along all of `axes`; ValueError if along some only."""
    if not context.manual_axes or not unreduced_axes(get_aval(x)).intersection(axes):
        return False
    return state_along(get_aval(x), axes, what) == "unreduced"
