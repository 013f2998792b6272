"""Comparisons, logical operations, and tests of values and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.array import Array as _Array
from xpr.core.config import override
from xpr.core.extended import is_extended
from xpr.core.primitive import Primitive
from xpr.core.trace import get_aval
from xpr.dispatch.array import ArrayImpl
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import (
    broadcast_all,
    check_arraylike,
    convert,
    literal_type,
    one_operand,
    promote_args,
    promote_dtypes_inexact,
)
from xpr.numpy._select import select_where
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.creation import asarray
from xpr.numpy.operators import operator_of
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import integer as bits
from xpr.primitives.convert import convert_type
from xpr.primitives.creation import full
from xpr.primitives.reduce import reduce_and_p
from xpr.primitives.shape import broadcast_shapes

# ---- comparisons


def _compare(name: str, primitive: Primitive, x: Any, y: Any) -> Array:
    if type(x) is ArrayImpl and type(y) is ArrayImpl and x.aval is y.aval:
        if x.aval.dtype.kind != "c":
            return primitive.bind(x, y)
    (x, y), dtype = promote_args(name, x, y)
    if dtype.kind == "c" and primitive in _ORDERS:
        return _complex_order(primitive, x, y)
    return primitive.bind(x, y)


_ORDERS = {cmp.lt_p: cmp.lt_p, cmp.le_p: cmp.lt_p, cmp.gt_p: cmp.gt_p, cmp.ge_p: cmp.gt_p}


def _complex_order(primitive: Primitive, x: Any, y: Any) -> Array:
    """Complex numbers are ordered by their real parts, and where these are equal by the others."""
    x_real, y_real = el.real_p.bind(x), el.real_p.bind(y)
    by_imag = primitive.bind(el.imag_p.bind(x), el.imag_p.bind(y))
    by_real = _ORDERS[primitive].bind(x_real, y_real)
    return select_where(cmp.eq_p.bind(x_real, y_real), by_imag, by_real)


def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x == y`, a boolean array. NaN equals nothing.

    >>> import xpr.numpy as jnp
    >>> jnp.equal(jnp.arange(3), 1)
    Array([False,  True, False], dtype=bool)
    """
    return _compare("equal", cmp.eq_p, x, y)


def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x != y`, a boolean array.

    >>> import xpr.numpy as jnp
    >>> jnp.not_equal(jnp.arange(3), 1)
    Array([ True, False,  True], dtype=bool)
    """
    return _compare("not_equal", cmp.ne_p, x, y)


def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x < y`, a boolean array; complex numbers compare by real part first.

    >>> import xpr.numpy as jnp
    >>> jnp.less(jnp.arange(3), 1)
    Array([ True, False, False], dtype=bool)
    """
    return _compare("less", cmp.lt_p, x, y)


def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x <= y`, a boolean array; complex numbers compare by real part first.

    >>> import xpr.numpy as jnp
    >>> jnp.less_equal(jnp.arange(3), 1)
    Array([ True,  True, False], dtype=bool)
    """
    return _compare("less_equal", cmp.le_p, x, y)


def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x > y`, a boolean array; complex numbers compare by real part first.

    >>> import xpr.numpy as jnp
    >>> jnp.greater(jnp.arange(3), 1)
    Array([False, False,  True], dtype=bool)
    """
    return _compare("greater", cmp.gt_p, x, y)


def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x >= y`, a boolean array; complex numbers compare by real part first.

    >>> import xpr.numpy as jnp
    >>> jnp.greater_equal(jnp.arange(3), 1)
    Array([False,  True,  True], dtype=bool)
    """
    return _compare("greater_equal", cmp.ge_p, x, y)


# ---- logical operations


def to_bool(x: Any) -> Any:
    """Whether each element is not 0."""
    dtype = get_aval(x).dtype
    if dtype == dtypes.BOOL:
        return x
    return cmp.ne_p.bind(x, literal_type(x)(0))


def _logical(name: str, primitive: Primitive, x: Any, y: Any) -> Array:
    (x, y), _ = promote_args(name, x, y)
    return primitive.bind(to_bool(x), to_bool(y))


def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether both `x` and `y` are not 0.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_and(jnp.array([0, 1, 2]), jnp.array([True, True, False]))
    Array([False,  True, False], dtype=bool)
    """
    return _logical("logical_and", bits.and_p, x, y)


def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether `x` or `y`, or both, are not 0.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_or(jnp.array([0, 1, 2]), jnp.array([False, True, False]))
    Array([False,  True,  True], dtype=bool)
    """
    return _logical("logical_or", bits.or_p, x, y)


def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether just one of `x` and `y` is not 0.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_xor(jnp.array([0, 1, 2]), jnp.array([False, True, False]))
    Array([False, False,  True], dtype=bool)
    """
    return _logical("logical_xor", bits.xor_p, x, y)


def logical_not(x: ArrayLike, /) -> Array:
    """Whether `x` is 0.

    >>> import xpr.numpy as jnp
    >>> jnp.logical_not(jnp.array([0, 1, 2]))
    Array([ True, False, False], dtype=bool)
    """
    return bits.not_p.bind(to_bool(one_operand("logical_not", x)[0]))


# ---- kinds of numbers


def _everywhere(value: bool, x: Any, weak: bool = False) -> Array:
    return convert_type(full(get_aval(x).shape, np.bool_(value)), dtypes.BOOL, weak)


def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is NaN (a complex number if either part is).

    >>> import xpr.numpy as jnp
    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """
    x, dtype = one_operand("isnan", x)
    if dtypes.is_inexact(dtype):
        return cmp.ne_p.bind(x, x)
    return _everywhere(False, x, get_aval(x).weak_type)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether each element is neither infinite nor NaN.

    >>> import xpr.numpy as jnp
    >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
    Array([ True, False, False], dtype=bool)
    """
    x, dtype = one_operand("isfinite", x)
    kind = dtypes.kind(dtype)
    if kind == "f":
        return cmp.is_finite_p.bind(x)
    if kind == "c":
        parts = (el.real_p.bind(x), el.imag_p.bind(x))
        return bits.and_p.bind(*(cmp.is_finite_p.bind(p) for p in parts))
    return _everywhere(True, x)


def isinf(x: ArrayLike, /) -> Array:
    """Whether each element is infinite (a complex number if either part is).

    >>> import xpr.numpy as jnp
    >>> jnp.isinf(jnp.array([1.0, -jnp.inf, jnp.nan]))
    Array([False,  True, False], dtype=bool)
    """
    x, dtype = one_operand("isinf", x)
    kind = dtypes.kind(dtype)
    if kind == "f":
        return cmp.eq_p.bind(el.abs_p.bind(x), dtype.type(np.inf))
    if kind == "c":
        return bits.or_p.bind(isinf(el.real_p.bind(x)), isinf(el.imag_p.bind(x)))
    return _everywhere(False, x)


def _is_infinity(name: str, infinity: float, x: Any) -> Array:
    x, dtype = one_operand(name, x)
    kind = dtypes.kind(dtype)
    if kind == "c":
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    return cmp.eq_p.bind(x, dtype.type(infinity)) if kind == "f" else _everywhere(False, x)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether each element is positive infinity. Raises ValueError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    _refuse("isposinf", out)
    return _is_infinity("isposinf", np.inf, x)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether each element is negative infinity. Raises ValueError for complex operands.

    >>> import xpr.numpy as jnp
    >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
    Array([False,  True], dtype=bool)
    """
    _refuse("isneginf", out)
    return _is_infinity("isneginf", -np.inf, x)


def _refuse(name: str, out: Any) -> None:
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported.")


def iscomplex(x: ArrayLike) -> Array:
    """Whether each element has an imaginary part that is not 0.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplex(jnp.array([1 + 0j, 1 + 2j]))
    Array([False,  True], dtype=bool)
    """
    x, dtype = one_operand("iscomplex", x)
    if dtypes.is_extended(dtype):
        raise TypeError(f"Cannot interpret '{dtype}' as a data type of numbers: iscomplex")
    if not dtypes.is_complex(dtype):
        aval = get_aval(x)
        return _everywhere(False, x, aval.weak_type and not aval.shape)
    return to_bool(el.imag_p.bind(x))


def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part of each element is 0.

    >>> import xpr.numpy as jnp
    >>> jnp.isreal(jnp.array([1 + 0j, 1 + 2j]))
    Array([ True, False], dtype=bool)
    """
    return bits.not_p.bind(iscomplex(x))


def iscomplexobj(x: Any) -> bool:
    """Whether `x` has a complex dtype, whatever its values are.

    >>> import xpr.numpy as jnp
    >>> jnp.iscomplexobj(jnp.array([1 + 0j])), jnp.iscomplexobj(jnp.ones(1))
    (True, False)
    """
    found = getattr(x, "dtype", None)
    return dtypes.issubdtype(np.asarray(x).dtype if found is None else found, np.complexfloating)


def isrealobj(x: Any) -> bool:
    """Whether `x` has no complex dtype, whatever its values are.

    >>> import xpr.numpy as jnp
    >>> jnp.isrealobj(jnp.array([1 + 0j])), jnp.isrealobj(jnp.ones(1))
    (False, True)
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether `element` is a number or an array without axes.

    >>> import xpr.numpy as jnp
    >>> jnp.isscalar(1.5), jnp.isscalar(jnp.array(1)), jnp.isscalar(jnp.ones(1))
    (True, True, False)
    """
    if isinstance(element, (_Array, np.ndarray)):
        return element.ndim == 0
    if hasattr(type(element), "__jax_array__"):
        return element.__jax_array__().ndim == 0
    return bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Whether `y` can be iterated over: arrays with axes can, arrays without cannot.

    >>> import xpr.numpy as jnp
    >>> jnp.iterable(jnp.ones(2)), jnp.iterable(jnp.array(1))
    (True, False)
    """
    if isinstance(y, _Array):
        return y.ndim > 0
    return bool(np.iterable(y))


# ---- equality within bounds


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether `|a - b| <= atol + rtol * |b|`, elementwise, in the operands' floating dtype.

    Infinities are close to themselves alone; NaN to nothing, or to NaN with `equal_nan`.

    >>> import xpr.numpy as jnp
    >>> jnp.isclose(jnp.array([1.0, 1.1]), 1.0)
    Array([ True, False], dtype=bool)
    """
    check_arraylike("isclose", a, b, rtol, atol)
    (x, y), dtype = promote_args("isclose", a, b)
    if is_extended(dtype) or dtypes.kind(dtype) == "b":
        return cmp.eq_p.bind(x, y)
    x, y = promote_dtypes_inexact(x, y)
    wide = get_aval(y).dtype
    part = el.real_dtype(wide)
    relative = el.mul_p.bind(convert(rtol, part), el.abs_p.bind(y))
    bound = el.add_p.bind(convert(atol, part), relative)
    near = cmp.le_p.bind(el.abs_p.bind(el.sub_p.bind(x, y)), bound)
    # The bound is infinite for infinite y, so only equal numbers count then.
    near = bits.and_p.bind(near, bits.and_p.bind(isfinite(x), isfinite(y)))
    near = bits.or_p.bind(near, cmp.eq_p.bind(x, y))
    if equal_nan:
        near = bits.or_p.bind(near, bits.and_p.bind(isnan(x), isnan(y)))
    return near


def _all(x: Any) -> Array:
    return reduce_and_p.bind(x, axes=tuple(range(get_aval(x).ndim)))


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements of `a` and `b` are close, as `isclose` says; a boolean scalar array.

    >>> import xpr.numpy as jnp
    >>> jnp.allclose(jnp.array([1.0, 2.0]), jnp.array([1.0, 2.000001]))
    Array(True, dtype=bool)
    """
    check_arraylike("allclose", a, b, rtol, atol)
    return _all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Whether two arrays have the same shape and values; with `equal_nan` NaN equals NaN.

    Raises what `asarray` does for what is no array: TypeError or ValueError.

    >>> import xpr.numpy as jnp
    >>> jnp.array_equal(jnp.arange(2), jnp.array([0, 1]))
    Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return as_array(np.False_)
    same = equal(x, y)
    if equal_nan:
        same = bits.or_p.bind(same, bits.and_p.bind(isnan(x), isnan(y)))
    return _all(same)


def array_equiv(a1: Any, a2: Any) -> Array:
    """Whether two arrays can be broadcast to each other and then have the same values.

    Raises what `asarray` does for what is no array: TypeError or ValueError.

    >>> import xpr.numpy as jnp
    >>> jnp.array_equiv(jnp.array([1, 2]), jnp.array([[1, 2], [1, 2]]))
    Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    try:
        broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return as_array(np.False_)
    # Arrays of two dtypes are compared under strict promotion, too.
    with override("numpy_dtype_promotion", "standard"):
        common = dtypes.promote_types(x.dtype, y.dtype)
    return _all(equal(*broadcast_all(convert_type(x, common), convert_type(y, common))))


# ---- Python's operators

op_eq, op_ne = operator_of(equal, "=="), operator_of(not_equal, "!=")
op_lt, op_le = operator_of(less, "<"), operator_of(less_equal, "<=")
op_gt, op_ge = operator_of(greater, ">"), operator_of(greater_equal, ">=")
