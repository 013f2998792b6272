"""Cumulative reductions along an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array
from xpr.core.aval import ShapedArray
from xpr.core.primitive import Absent, DerivedRule, NotLinear, Primitive, Rule, define
from xpr.primitives._complex import maximum, minimum
from xpr.primitives._cumulative_rules import (
    CumulativeBatch,
    cumlogsumexp_tangent,
    cumprod_tangent,
    cumsum_transpose,
    extremum_tangent,
)
from xpr.primitives.rules import LinearJVP, Partials

__all__ = ["cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]

NDArray = np.ndarray[Any, Any]

_FAMILY = "cumulative"
_NOT_LINEAR = NotLinear("it is not linear")


def _cumulative(
    name: str,
    kinds: str,
    accumulate: Callable[[NDArray], NDArray],
    doc: str,
    jvp: DerivedRule,
    transpose: Rule | Absent = _NOT_LINEAR,
) -> Primitive:
    """A primitive that reduces each prefix of an axis; `accumulate` does it along axis 0."""

    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        if dtypes.kind(x.dtype) not in kinds or x.dtype in dtypes.SMALL_FLOAT_TYPES:
            accepted = "number" if kinds == "iufc" else "inexact"
            raise TypeError(
                f"{name} does not accept dtype {x.dtype}. "
                f"Accepted dtypes are subtypes of {accepted}."
            )
        if axis < 0:
            raise ValueError(f"XLA operations do not allow negative axes, got axis {axis}")
        if axis >= x.ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of shape {x.shape}")
        return x

    def reference(x: NDArray, *, axis: int, reverse: bool) -> NDArray:
        step = -1 if reverse else 1
        moved = np.moveaxis(x, axis, 0)[::step]
        if 0 in x.shape:
            return x
        found = accumulate(moved.astype(_WIDE.get(x.dtype, x.dtype), copy=False))
        return np.moveaxis(found.astype(x.dtype, copy=False)[::step], 0, axis)

    return define(
        name,
        family=_FAMILY,
        doc=doc,
        abstract=abstract,
        reference=reference,
        jvp=jvp,
        transpose=transpose,
        batch=CumulativeBatch(),
    )


# A prefix sum in a float's own precision loses digits with the length of the axis.
_WIDE: dict[np.dtype[Any], np.dtype[Any]] = {
    dtypes.bfloat16: np.dtype(np.float32),
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}


def _sum(x: NDArray) -> NDArray:
    return np.add.accumulate(x, axis=0, dtype=x.dtype)


def _prod(x: NDArray) -> NDArray:
    return np.multiply.accumulate(x, axis=0, dtype=x.dtype)


def _extremum(
    ufunc: np.ufunc, of_pairs: Callable[[NDArray, NDArray], Any]
) -> Callable[[NDArray], NDArray]:
    def accumulate(x: NDArray) -> NDArray:
        return _one_by_one(of_pairs, x) if x.dtype.kind == "c" else ufunc.accumulate(x, axis=0)

    return accumulate


def _logsumexp(x: NDArray) -> NDArray:
    if x.dtype.kind == "c":
        return _one_by_one(_complex_logaddexp, x)
    return np.logaddexp.accumulate(x, axis=0)


def _one_by_one(of_pairs: Callable[[NDArray, NDArray], Any], x: NDArray) -> NDArray:
    """Reduces axis 0 in a loop, each step for all other axes at once."""
    found = x.copy()
    for i in range(1, len(x)):
        found[i] = of_pairs(found[i - 1], x[i])
    return found


def _complex_logaddexp(x: NDArray, y: NDArray) -> NDArray:
    greater = np.maximum(x.real, y.real)
    shift = np.where(np.isfinite(greater), greater, 0)
    return np.log(np.exp(x - shift) + np.exp(y - shift)) + shift


cumsum_p = _cumulative(
    "cumsum",
    "iufc",
    _sum,
    "The sum of each prefix of an axis.",
    jvp=LinearJVP(),
    transpose=cumsum_transpose,
)
cumprod_p = _cumulative(
    "cumprod",
    "iufc",
    _prod,
    "The product of each prefix of an axis.",
    jvp=Partials(cumprod_tangent),
)
cummax_p = _cumulative(
    "cummax",
    "iufc",
    _extremum(np.maximum, maximum),
    "The greatest of each prefix of an axis.",
    jvp=Partials(extremum_tangent),
)
cummin_p = _cumulative(
    "cummin",
    "iufc",
    _extremum(np.minimum, minimum),
    "The least of each prefix of an axis.",
    jvp=Partials(extremum_tangent),
)
cumlogsumexp_p = _cumulative(
    "cumlogsumexp",
    "fc",
    _logsumexp,
    "log(sum(exp(x))) of each prefix of an axis.",
    jvp=Partials(cumlogsumexp_tangent),
)


def _bind(primitive: Primitive, operand: Any, axis: int, reverse: bool) -> Array:
    return primitive.bind(operand, axis=operator.index(axis), reverse=bool(reverse))


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """The sum of `operand` up to and including each element of `axis`.

    With `reverse` from the end. Shape and dtype are the operand's; integers wrap around, 16-bit
    floats are summed in float32. Raises TypeError for bool, ValueError for an axis that is
    negative or too great.

    >>> cumsum(np.array([1, 2, 3], np.int32))
    Array([1, 3, 6], dtype=int32)
    """
    return _bind(cumsum_p, operand, axis, reverse)


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """The product of `operand` up to and including each element of `axis`; as `cumsum` otherwise.

    >>> cumprod(np.array([1, 2, 3], np.int32), reverse=True)
    Array([6, 6, 3], dtype=int32)
    """
    return _bind(cumprod_p, operand, axis, reverse)


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """The greatest element up to and including each element of `axis`; NaN from the first NaN on.

    As `cumsum` otherwise. Complex numbers are compared by real part, then imaginary part. All
    elements that equal the greatest share its derivative equally.

    >>> cummax(np.array([1, 3, 2], np.int32))
    Array([1, 3, 3], dtype=int32)
    """
    return _bind(cummax_p, operand, axis, reverse)


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """The least element up to and including each element of `axis`; as `cummax` otherwise.

    >>> cummin(np.array([2, 3, 1], np.int32))
    Array([2, 2, 1], dtype=int32)
    """
    return _bind(cummin_p, operand, axis, reverse)


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Array:
    """log(sum(exp(x))) over the elements up to and including each one of `axis`, without overflow.

    Floating and complex dtypes (TypeError for others); otherwise as `cumsum`.

    >>> cumlogsumexp(np.array([0.0, 0.0], np.float32))
    Array([0. , 0.6931472], dtype=float32)
    """
    return _bind(cumlogsumexp_p, operand, axis, reverse)
