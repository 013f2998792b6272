"""Reductions along axes: sums, products, extrema, logical reductions, and where the extrema are.

`axis` is None for all axes, an integer or a tuple of integers. Axes that are reduced over stay with
size 1 with `keepdims`; `where` leaves elements out, `initial` takes part as one more element.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.extended import is_extended
from xpr.core.primitive import Primitive
from xpr.core.trace import Tracer, get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._promote import as_operand, convert, refuse_out, wide_dtype
from xpr.numpy._select import checked_where, select_where
from xpr.numpy._typing import Array, ArrayLike, Axis, DType, DTypeLike, Shape
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.logic import isnan, to_bool
from xpr.primitives import elementwise as el
from xpr.primitives._index_dims import canonicalize_axis
from xpr.primitives.convert import convert_type
from xpr.primitives.reduce import (
    argmax_p,
    argmin_p,
    limits,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_sum_p,
)
from xpr.primitives.shape import broadcast_in_dim_p, reshape

# ---- what all reductions share


def reduced_axes(axis: Axis, ndim: int) -> Shape:
    """The axes that `axis` names, each in 0 .. ndim-1.

    Raises ValueError for an axis out of range or named twice, TypeError for no integer, NameError
    for a string, ConcretizationTypeError for a traced one.
    """
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (canonicalize_axis(axis, ndim),)
    if isinstance(axis, str):
        raise NameError(
            f"Found an unbound axis name: {axis}. To fix this, please call psum under "
            "`jax.shard_map`. Here an axis is an integer: the collectives of lax take the names of "
            "mapped axes"
        )
    try:
        axes = (canonicalize_axis(operator.index(axis), ndim),)  # type: ignore[arg-type]
    except TypeError:
        if isinstance(axis, Tracer):
            raise axis._concretization("The axis argument must be known statically.") from None
        axes = tuple(canonicalize_axis(operator.index(a), ndim) for a in axis)  # type: ignore[union-attr]
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axis': {axis}")
    return axes


def _refuse_name(name: str, axis: Any) -> None:
    """NotImplementedError for the name of an axis, which no collective of lax reduces like this."""
    if isinstance(axis, str):
        raise NotImplementedError(
            f"Named reductions not implemented for jnp.{name}, got axis={axis!r}"
        )


def kept_dims(x: Any, shape: Shape, axes: Shape) -> Array:
    """The result `x` of a reduction of `shape` with its axes put back as axes of size 1."""
    sizes = tuple(1 if i in axes else n for i, n in enumerate(shape))
    dims = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(x, shape=sizes, broadcast_dimensions=dims, sharding=None)


def _initial(value: Any, dtype: DType) -> Any:
    value = as_operand("initial", value)
    shape = get_aval(value).shape
    if shape:
        raise ValueError(f"initial value must be a scalar. Got array of shape {shape}")
    return convert(value, dtype)


def _promoted_integer(dtype: DType) -> DType:
    """The dtype of sums of integers: the default one of their kind, or their own if wider."""
    kind = dtypes.kind(dtype)
    if kind not in "biu":
        return dtype
    default = dtypes.default_dtype("u" if kind == "u" else "i")
    return default if kind == "b" or dtype.itemsize < default.itemsize else dtype


def _add_up(
    name: str,
    reduce_p: Primitive,
    combine: Primitive,
    neutral: int,
    a: Any,
    axis: Axis,
    dtype: DTypeLike,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool = True,
) -> Array:
    """A sum or product: the operand is converted to the result's dtype first."""
    x = a if type(a) is ArrayImpl else as_operand(name, a)
    aval = get_aval(x)
    result = aval.dtype
    if dtype is not None:
        result = requested_dtype(dtype, name)
    elif promote_integers or result == dtypes.BOOL:
        result = _promoted_integer(result)
    if reduce_p is reduce_prod_p:
        _refuse_name("prod", axis)
    axes = reduced_axes(axis, aval.ndim)
    compute = wide_dtype(result)
    if aval.dtype != compute or aval.weak_type:
        x = convert_type(x, compute)
    if where is not None:
        x = select_where(checked_where(name, where), x, compute.type(neutral))
    out = reduce_p.bind(
        x, axes=axes, **({"out_sharding": None} if reduce_p is reduce_sum_p else {})
    )
    if initial is not None:
        out = combine.bind(_initial(initial, compute), out)
    if compute != result:
        out = convert_type(out, result)
    return kept_dims(out, get_aval(x).shape, axes) if keepdims else out


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The sum of the elements along `axis`; 0 of no elements.

    Small integers and booleans add up in int32 or uint32 (64 bits with enable_x64), unless
    `promote_integers` is False; 16-bit floats add up in float32. `dtype` fixes the result's dtype.
    Raises ValueError for an axis out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.sum(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([4, 6], dtype=int32)
    """
    refuse_out("sum", out)
    return _add_up(
        "sum", reduce_sum_p, el.add_p, 0, a, axis, dtype, keepdims, initial, where, promote_integers
    )


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """The product of the elements along `axis`; 1 of no elements. Dtypes as for `sum`.

    >>> import xpr.numpy as jnp
    >>> jnp.prod(jnp.array([[1, 2], [3, 4]]), axis=0)
    Array([3, 8], dtype=int32)
    """
    refuse_out("prod", out)
    return _add_up(
        "prod", reduce_prod_p, el.mul_p, 1, a, axis, dtype, keepdims, initial, where,
        promote_integers,
    )  # fmt: skip


# ---- extrema


def _extremum(
    name: str, reduce_p: Primitive, combine: Primitive, worst: int, a: Any, axis: Axis,
    keepdims: bool, initial: Any, where: Any,
) -> Array:  # fmt: skip
    x = a if type(a) is ArrayImpl else as_operand(name, a)
    aval = get_aval(x)
    if is_extended(aval.dtype):
        raise TypeError(f"Cannot interpret '{aval.dtype}' as a data type of numbers: {name}")
    axes = reduced_axes(axis, aval.ndim)
    if where is not None:
        where = checked_where(name, where)
    if initial is None:
        if where is not None:
            raise ValueError(
                f"reduction operation {name} does not have an identity, so to use a where mask one "
                "has to specify 'initial'"
            )
        if builtins.any(aval.shape[d] == 0 for d in axes):
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    if aval.weak_type:
        x = convert_type(x, aval.dtype)
    if where is not None:
        least = aval.dtype.type(limits(aval.dtype)[worst])
        x = select_where(where, x, least)
    out = reduce_p.bind(x, axes=axes)
    if initial is not None:
        out = combine.bind(_initial(initial, aval.dtype), out)
    return kept_dims(out, get_aval(x).shape, axes) if keepdims else out


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest element along `axis`; NaN where one is NaN.

    Raises ValueError for no elements, or `where`, without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.max(jnp.array([[1, 5], [3, 4]]), axis=1)
    Array([5, 4], dtype=int32)
    """
    refuse_out("max", out)
    return _extremum("max", reduce_max_p, el.max_p, 0, a, axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element along `axis`; NaN where one is NaN.

    Raises ValueError for no elements, or `where`, without `initial`.

    >>> import xpr.numpy as jnp
    >>> jnp.min(jnp.array([[4, 2], [3, 5]]), axis=1)
    Array([2, 3], dtype=int32)
    """
    refuse_out("min", out)
    return _extremum("min", reduce_min_p, el.min_p, 1, a, axis, keepdims, initial, where)


def minmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    where: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """The least and the greatest element along `axis`; NaN where one is NaN.

    A tuple as `initial` holds that of the least and that of the greatest. Raises ValueError for no
    elements, or `where`, without `initial`, and for a tuple of another length.

    >>> import xpr.numpy as jnp
    >>> jnp.minmax(jnp.array([4, 2, 3]))
    (Array(2, dtype=int32), Array(4, dtype=int32))
    """
    refuse_out("minmax", out)
    if isinstance(initial, tuple) and len(initial) != 2:
        raise ValueError(f"minmax requires a pair as the tuple `initial`, got {initial}")
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return (
        _extremum("minmax", reduce_min_p, el.min_p, 1, a, axis, keepdims, low, where),
        _extremum("minmax", reduce_max_p, el.max_p, 0, a, axis, keepdims, high, where),
    )


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The greatest element less the least one along `axis`.

    >>> import xpr.numpy as jnp
    >>> jnp.ptp(jnp.array([3, 9, 5]))
    Array(6, dtype=int32)
    """
    refuse_out("ptp", out)
    return el.sub_p.bind(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


# ---- logical reductions


def _logical_reduction(
    name: str, reduce_p: Primitive, neutral: bool, a: Any, axis: Axis, keepdims: bool, where: Any
) -> Array:
    x = a if type(a) is ArrayImpl else as_operand(name, a)
    aval = get_aval(x)
    _refuse_name(name, axis)
    axes = reduced_axes(axis, aval.ndim)
    x = convert_type(x, dtypes.BOOL) if aval.dtype.kind != "c" else to_bool(x)
    if where is not None:
        x = select_where(checked_where(name, where), x, np.bool_(neutral))
    out = reduce_p.bind(x, axes=axes)
    return kept_dims(out, get_aval(x).shape, axes) if keepdims else out


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements along `axis` are not 0; True of no elements.

    >>> import xpr.numpy as jnp
    >>> jnp.all(jnp.array([[1, 2], [0, 3]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    refuse_out("all", out)
    return _logical_reduction("all", reduce_and_p, True, a, axis, keepdims, where)


def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether any element along `axis` is not 0; False of no elements.

    >>> import xpr.numpy as jnp
    >>> jnp.any(jnp.array([[0, 0], [0, 3]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    refuse_out("any", out)
    return _logical_reduction("any", reduce_or_p, False, a, axis, keepdims, where)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements along `axis` are not 0, in the default integer dtype.

    >>> import xpr.numpy as jnp
    >>> jnp.count_nonzero(jnp.array([0, 3, 0, 5]))
    Array(2, dtype=int32)
    """
    return sum(to_bool(as_operand("count_nonzero", a)), axis=axis, keepdims=keepdims)


# ---- where the extrema are


def _arg_extremum(name: str, find: Primitive, a: Any, axis: int | None, keepdims: Any) -> Array:
    x = as_operand(name, a)
    shape = get_aval(x).shape
    if axis is None:
        flat, dim = reshape(x, (get_aval(x).size,)), 0
    else:
        flat, dim = x, canonicalize_axis(operator.index(axis), len(shape))
    if get_aval(flat).shape[dim] == 0:
        raise ValueError(f"attempt to get {name} of an empty sequence")
    out = find.bind(flat, axes=(dim,), index_dtype=dtypes.default_dtype("i"))
    if not keepdims:
        return out
    return kept_dims(out, shape, tuple(range(len(shape))) if axis is None else (dim,))


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the greatest element along `axis` (of the flattened array for None).

    Of equal elements the first counts; a NaN counts as the greatest. Raises ValueError for no
    elements, TypeError for complex ones.

    >>> import xpr.numpy as jnp
    >>> jnp.argmax(jnp.array([1, 5, 5]))
    Array(1, dtype=int32)
    """
    refuse_out("argmax", out)
    return _arg_extremum("argmax", argmax_p, a, axis, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the least element along `axis`; otherwise as `argmax`.

    >>> import xpr.numpy as jnp
    >>> jnp.argmin(jnp.array([[4, 2], [3, 5]]), axis=1)
    Array([1, 0], dtype=int32)
    """
    refuse_out("argmin", out)
    return _arg_extremum("argmin", argmin_p, a, axis, keepdims)


# ---- reductions that leave out NaN


def _inexact(x: Any) -> bool:
    return dtypes.is_inexact(get_aval(x).dtype)


def _nan_extremum(
    name: str, reduce: Callable[..., Array], worst: int, a: Any, axis: Axis, keepdims: bool,
    initial: Any, where: Any,
) -> Array:  # fmt: skip
    x = as_operand(name, a)
    if not _inexact(x):
        return reduce(x, axis=axis, keepdims=keepdims, initial=initial, where=where)
    dtype = get_aval(x).dtype
    missing = isnan(x)
    least = dtype.type(limits(dtype)[worst])
    filled = select_where(missing, least, x)
    out = reduce(filled, axis=axis, keepdims=keepdims, initial=initial, where=where)
    if initial is not None:
        return out
    # Where nothing but NaN was found, that is the answer.
    nothing = all(missing, axis=axis, keepdims=keepdims, where=where)
    return select_where(nothing, dtype.type(np.nan), out)


def nanmax(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The greatest element along `axis` that is not NaN; NaN where all are.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 3.0]))
    Array(3., dtype=float32)
    """
    refuse_out("nanmax", out)
    return _nan_extremum("nanmax", max, 0, a, axis, keepdims, initial, where)


def nanmin(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The least element along `axis` that is not NaN; NaN where all are.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmin(jnp.array([3.0, jnp.nan, 2.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmin", out)
    return _nan_extremum("nanmin", min, 1, a, axis, keepdims, initial, where)


def nansum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None,
    keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The sum along `axis`, NaN counted as 0.

    >>> import xpr.numpy as jnp
    >>> jnp.nansum(jnp.array([3.0, jnp.nan, 2.0]))
    Array(5., dtype=float32)
    """
    refuse_out("nansum", out)
    x = without_nan("nansum", a, 0)
    return sum(x, axis, dtype, None, keepdims, initial, where)


def nanprod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: None = None,
    keepdims: bool = False, initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The product along `axis`, NaN counted as 1.

    >>> import xpr.numpy as jnp
    >>> jnp.nanprod(jnp.array([3.0, jnp.nan, 2.0]))
    Array(6., dtype=float32)
    """
    refuse_out("nanprod", out)
    x = without_nan("nanprod", a, 1)
    return prod(x, axis, dtype, None, keepdims, initial, where)


def without_nan(name: str, a: Any, value: int) -> Any:
    """`a` with `value` in the place of NaN."""
    x = as_operand(name, a)
    if not _inexact(x):
        return x
    return select_where(isnan(x), get_aval(x).dtype.type(value), x)


def _nan_arg(
    name: str, find: Callable[..., Array], worst: int, a: Any, axis: Any, keepdims: Any
) -> Array:
    x = as_operand(name, a)
    if not _inexact(x):
        return find(x, axis=axis, keepdims=keepdims)
    dtype = get_aval(x).dtype
    missing = isnan(x)
    least = dtype.type(limits(dtype)[worst])
    found = find(select_where(missing, least, x), axis=axis, keepdims=keepdims)
    nothing = all(missing, axis=axis, keepdims=bool(keepdims))
    return select_where(nothing, get_aval(found).dtype.type(-1), found)


def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the greatest element along `axis` that is not NaN; -1 where all are NaN.

    >>> import xpr.numpy as jnp
    >>> jnp.nanargmax(jnp.array([3.0, jnp.nan, 2.0]))
    Array(0, dtype=int32)
    """
    refuse_out("nanargmax", out)
    return _nan_arg("nanargmax", argmax, 0, a, axis, keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """The index of the least element along `axis` that is not NaN; -1 where all are NaN.

    >>> import xpr.numpy as jnp
    >>> jnp.nanargmin(jnp.array([3.0, jnp.nan, 2.0]))
    Array(2, dtype=int32)
    """
    refuse_out("nanargmin", out)
    return _nan_arg("nanargmin", argmin, 1, a, axis, keepdims)
