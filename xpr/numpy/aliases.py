"""Functions that have two names in NumPy, under the second one.

As in JAX they are functions of their own, which say their own names; in errors, too, except where
JAX names the first one there (`amax`, `amin`, `bitwise_right_shift`, `conj`).
"""

from __future__ import annotations

import math

from xpr.numpy._promote import one_inexact, one_operand, promote_args_inexact
from xpr.numpy._typing import Array, ArrayLike, Axis
from xpr.numpy.bitwise import right_shift, shift_operands
from xpr.numpy.reductions import max, min
from xpr.numpy.ufuncs_float import conjugate
from xpr.numpy.ufuncs_math import scaled
from xpr.primitives import elementary as fn
from xpr.primitives import integer as bits


def acos(x: ArrayLike, /) -> Array:
    """The function `arccos` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.acos(jnp.array([1.0, -1.0, 2.0]))
    Array([0.       , 3.1415927,       nan], dtype=float32)
    """
    return fn.acos_p.bind(one_inexact("acos", x))


def acosh(x: ArrayLike, /) -> Array:
    """The function `arccosh` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.acosh(jnp.array([1.0, 0.0]))
    Array([ 0., nan], dtype=float32)
    """
    return fn.acosh_p.bind(one_inexact("acosh", x))


def amax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The function `max` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.amax(jnp.array([[1, 5], [3, 4]]), axis=1)
    Array([5, 4], dtype=int32)
    """
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The function `min` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.amin(jnp.array([[4, 2], [3, 5]]), axis=1)
    Array([2, 3], dtype=int32)
    """
    return min(a, axis, out, keepdims, initial, where)


def asin(x: ArrayLike, /) -> Array:
    """The function `arcsin` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.asin(jnp.array([0.0, 1.0, 2.0]))
    Array([0.       , 1.5707964,       nan], dtype=float32)
    """
    return fn.asin_p.bind(one_inexact("asin", x))


def asinh(x: ArrayLike, /) -> Array:
    """The function `arcsinh` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.asinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """
    return fn.asinh_p.bind(one_inexact("asinh", x))


def atan(x: ArrayLike, /) -> Array:
    """The function `arctan` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.atan(jnp.array([0.0, jnp.inf]))
    Array([0.       , 1.5707964], dtype=float32)
    """
    return fn.atan_p.bind(one_inexact("atan", x))


def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The function `arctan2` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.atan2(1.0, -1.0)
    Array(2.3561945, dtype=float32, weak_type=True)
    """
    (x, y), _ = promote_args_inexact("atan2", x1, x2)
    return fn.atan2_p.bind(x, y)


def atanh(x: ArrayLike, /) -> Array:
    """The function `arctanh` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.atanh(jnp.array([0.0, 1.0, 2.0]))
    Array([ 0., inf, nan], dtype=float32)
    """
    return fn.atanh_p.bind(one_inexact("atanh", x))


def bitwise_invert(x: ArrayLike, /) -> Array:
    """The function `bitwise_not` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_invert(jnp.array([0, 1, -5]))
    Array([-1, -2,  4], dtype=int32)
    """
    return bits.not_p.bind(one_operand("bitwise_invert", x)[0])


def bitwise_left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The function `left_shift` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_left_shift(jnp.array([1, 3]), jnp.array([4, 1]))
    Array([16,  6], dtype=int32)
    """
    (x, y), _ = shift_operands("bitwise_left_shift", x, y)
    return bits.shift_left_p.bind(x, y)


def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The function `right_shift` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.bitwise_right_shift(jnp.array([16, -16]), 2)
    Array([ 4, -4], dtype=int32)
    """
    return right_shift(x1, x2)


def conj(x: ArrayLike, /) -> Array:
    """The function `conjugate` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.conj(jnp.array([1 + 2j, 3]))
    Array([1.-2.j, 3.-0.j], dtype=complex64)
    """
    return conjugate(x)


def deg2rad(x: ArrayLike, /) -> Array:
    """The function `radians` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.deg2rad(jnp.array([0.0, 180.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """
    return scaled(one_inexact("deg2rad", x), math.pi / 180)


def invert(x: ArrayLike, /) -> Array:
    """The function `bitwise_not` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.invert(jnp.array([0, 1, -5]))
    Array([-1, -2,  4], dtype=int32)
    """
    return bits.not_p.bind(one_operand("invert", x)[0])


def rad2deg(x: ArrayLike, /) -> Array:
    """The function `degrees` under its other name.

    >>> import xpr.numpy as jnp
    >>> jnp.rad2deg(jnp.array([0.0, jnp.pi]))
    Array([  0., 180.], dtype=float32)
    """
    return scaled(one_inexact("rad2deg", x), 180 / math.pi)
