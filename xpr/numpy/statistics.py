"""Averages, variances and covariances; medians and percentiles are in `quantiles`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.trace import get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    as_operand,
    broadcast_to,
    convert,
    promote_dtypes_inexact,
    refuse_out,
    to_inexact,
    wide_dtype,
)
from xpr.numpy._select import checked_where, select_where
from xpr.numpy._typing import Array, ArrayLike, Axis, DType, DTypeLike, Shape
from xpr.numpy.dtype_api import requested_dtype
from xpr.numpy.logic import isnan
from xpr.numpy.reductions import kept_dims, reduced_axes, sum
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives import power as pw
from xpr.primitives.convert import convert_type
from xpr.primitives.reduce import reduce_sum_p
from xpr.primitives.shape import reshape, transpose


def _total(x: Any, axes: Shape) -> Any:
    return reduce_sum_p.bind(x, axes=axes, out_sharding=None)


def _count(shape: Shape, axes: Shape) -> int:
    return math.prod(shape[i] for i in axes)


def _mean_dtypes(name: str, own: DType, dtype: DTypeLike) -> tuple[DType, DType]:
    """The dtype to compute a mean in, and the dtype of the result."""
    result = to_inexact(own) if dtype is None else requested_dtype(dtype, name)
    return wide_dtype(to_inexact(result)), result


# ---- means


def _refuse_name(name: str, axis: Any) -> None:
    """NameError for the name of an axis, whose size would have to be known."""
    if isinstance(axis, str):
        raise NameError(f"unbound axis name: {axis}. An axis of {name} is an integer")


def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """The mean of the elements along `axis`; NaN of no elements.

    Floating or complex: integers are averaged as floats, 16-bit floats in float32. `dtype` fixes
    the result's dtype. Raises ValueError for an axis out of range.

    >>> import xpr.numpy as jnp
    >>> jnp.mean(jnp.array([[1, 2], [3, 5]]), axis=1)
    Array([1.5, 4. ], dtype=float32)
    """
    refuse_out("mean", out)
    x = a if type(a) is ArrayImpl else as_operand("mean", a)
    aval = get_aval(x)
    _refuse_name("mean", axis)
    axes = reduced_axes(axis, aval.ndim)
    compute, result = _mean_dtypes("mean", aval.dtype, dtype)
    if aval.dtype != compute or aval.weak_type:
        x = convert_type(x, compute)
    if where is None:
        count: Any = compute.type(_count(aval.shape, axes))
        total = _total(x, axes)
    else:
        mask = broadcast_to(checked_where("mean", where), aval.shape)
        count = _total(convert_type(mask, compute), axes)
        total = _total(select_where(mask, x, compute.type(0)), axes)
    found = el.div_p.bind(total, count)
    if compute != result:
        found = convert_type(found, result)
    return kept_dims(found, aval.shape, axes) if keepdims else found


def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean along `axis` of the elements that are not NaN; NaN where there are none.

    >>> import xpr.numpy as jnp
    >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanmean", out)
    return mean(a, axis, dtype, None, keepdims, where=_not_nan("nanmean", a, where))


def _not_nan(name: str, a: Any, where: Any) -> Any:
    """The elements to look at: those in `where` that are not NaN."""
    x = as_operand(name, a)
    if not dtypes.is_inexact(get_aval(x).dtype):
        return where
    present = bits.not_p.bind(isnan(x))
    if where is None:
        return present
    mask = broadcast_to(checked_where(name, where), get_aval(x).shape)
    return bits.and_p.bind(present, mask)


def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """The mean along `axis` weighted by `weights`, which has the shape of `a` or of those axes.

    With `returned` a pair of the mean and the sum of the weights. Raises ValueError for weights
    of another shape.

    >>> import xpr.numpy as jnp
    >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.25, dtype=float32)
    """
    x = as_operand("average", a)
    shape = get_aval(x).shape
    axes = reduced_axes(axis, len(shape))
    if weights is None:
        found = mean(x, axis=axes, keepdims=keepdims)
        count = convert(float(_count(shape, axes)), found.dtype)
        return (found, broadcast_to(as_array(count), found.shape)) if returned else found
    x, w = promote_dtypes_inexact(x, as_operand("average", weights, 1))
    if get_aval(w).shape != shape:
        w = _aligned_weights(w, shape, axes, axis)
    weight = sum(w, axis=axes, keepdims=keepdims)
    found = el.div_p.bind(sum(el.mul_p.bind(x, w), axis=axes, keepdims=keepdims), weight)
    return (found, weight) if returned else found


def _aligned_weights(w: Any, shape: Shape, axes: Shape, axis: Axis) -> Any:
    """Weights of the reduced axes alone, in the order they were named, spread over `shape`."""
    if axis is None:
        raise ValueError("Axis must be specified when shapes of a and weights differ.")
    if get_aval(w).shape != tuple(shape[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis, got "
            f"{get_aval(w).shape} for {tuple(shape[i] for i in axes)}."
        )
    order = tuple(int(i) for i in np.argsort(axes))
    w = transpose(w, order)
    spread = tuple(n if i in axes else 1 for i, n in enumerate(shape))
    return broadcast_to(reshape(w, spread), shape)


# ---- variances


def _variance(
    name: str, a: Any, axis: Axis, dtype: DTypeLike, ddof: Any, keepdims: bool, where: Any,
    mean_: Any, correction: Any,
) -> tuple[Any, DType]:  # fmt: skip
    """The variance in the dtype it was computed in, and the dtype that the result should have."""
    if correction is not None:
        if not isinstance(ddof, int) or ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    x = as_operand(name, a)
    aval = get_aval(x)
    _refuse_name(name, axis)
    axes = reduced_axes(axis, aval.ndim)
    compute, result = _variance_dtypes(name, aval.dtype, dtype)
    if aval.dtype != compute or aval.weak_type:
        x = convert_type(x, compute)
    part = el.real_dtype(compute)
    mask = None
    count: Any = part.type(_count(aval.shape, axes))
    if where is not None:
        mask = broadcast_to(checked_where(name, where), aval.shape)
        count = _total(convert_type(mask, part), axes)
        x = select_where(mask, x, compute.type(0))
    if mean_ is None:
        divisor = count if mask is None else kept_dims(count, aval.shape, axes)
        total = kept_dims(_total(x, axes), aval.shape, axes)
        center = el.div_p.bind(total, convert(divisor, compute))
    else:
        center = broadcast_to(convert(as_operand(name, mean_), compute), _kept(aval.shape, axes))
    away = el.sub_p.bind(x, center)
    if dtypes.is_complex(compute):
        squares = el.real_p.bind(el.mul_p.bind(away, el.conj(away)))
    else:
        squares = pw.square_p.bind(away)
    if mask is not None:
        squares = select_where(mask, squares, part.type(0))
    found = _over_freedom(_total(squares, axes), count, ddof, part)
    return (kept_dims(found, aval.shape, axes) if keepdims else found), result


def _over_freedom(squares: Any, count: Any, ddof: Any, part: DType) -> Any:
    """The sum of squares over the degrees of freedom, NaN where there are none."""
    if isinstance(count, np.generic) and isinstance(ddof, (int, float)):
        freedom = part.type(float(count) - ddof)
        return el.div_p.bind(squares, freedom if freedom > 0 else part.type(np.nan))
    freedom = el.sub_p.bind(count, convert(ddof, part))
    found = el.div_p.bind(squares, freedom)
    return select_where(cmp.gt_p.bind(freedom, part.type(0)), found, part.type(np.nan))


def _kept(shape: Shape, axes: Shape) -> Shape:
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _variance_dtypes(name: str, own: DType, dtype: DTypeLike) -> tuple[DType, DType]:
    if dtype is None:
        compute = to_inexact(own)
        return wide_dtype(compute), el.real_dtype(compute)
    wanted = requested_dtype(dtype, name)
    if dtypes.is_complex(own) and not dtypes.is_complex(wanted):
        raise ValueError(
            f"jax.numpy.{name} does not yet support real dtype parameters when computing the "
            f"variance of an array of complex values, got dtype={wanted} for {own} values."
        )
    compute = dtypes.joined(to_inexact(own), to_inexact(wanted))
    return wide_dtype(compute), el.real_dtype(to_inexact(wanted))


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The variance along `axis`: the sum of squared distances from the mean over `n - ddof`.

    Real, also for complex elements; NaN where `n - ddof` is not positive. `correction` is another
    name of `ddof`, and `mean` a mean already known. Raises ValueError when both `ddof` and
    `correction` are given.

    >>> import xpr.numpy as jnp
    >>> jnp.var(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("var", out)
    found, dtype_ = _variance("var", a, axis, dtype, ddof, keepdims, where, mean, correction)
    return convert(found, dtype_)


def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """The standard deviation along `axis`, the square root of `var`.

    >>> import xpr.numpy as jnp
    >>> jnp.std(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("std", out)
    found, dtype_ = _variance("std", a, axis, dtype, ddof, keepdims, where, mean, correction)
    return convert(pw.sqrt_p.bind(found), dtype_)


def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The variance along `axis` of the elements that are not NaN; NaN where there are too few.

    >>> import xpr.numpy as jnp
    >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
    Array(1., dtype=float32)
    """
    refuse_out("nanvar", out)
    present = _not_nan("nanvar", a, where)
    return var(a, axis, dtype, None, ddof, keepdims, where=present, mean=mean)


def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """The standard deviation along `axis` of the elements that are not NaN.

    >>> import xpr.numpy as jnp
    >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 5.0]))
    Array(2., dtype=float32)
    """
    refuse_out("nanstd", out)
    present = _not_nan("nanstd", a, where)
    return std(a, axis, dtype, None, ddof, keepdims, where=present, mean=mean)
