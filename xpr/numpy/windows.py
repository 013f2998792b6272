"""Windows that fade a signal out at both ends."""

from __future__ import annotations

import math
import operator
from typing import Any

from xpr.core import dtypes
from xpr.numpy._promote import as_operand, convert
from xpr.numpy._typing import Array, ArrayLike
from xpr.numpy.creation import ones
from xpr.numpy.ufuncs_math import cos, i0, sqrt
from xpr.primitives import elementwise as el
from xpr.primitives.creation import iota


def _places(M: Any) -> tuple[int, Any]:
    """The length of a window and the numbers of its places; ValueError for a negative length."""
    size = operator.index(M)
    if size < 0:
        raise ValueError(f"the length of a window must be nonnegative, got {size}")
    return size, iota(dtypes.default_dtype("f"), size)


def _cosines(M: Any, *weights: float) -> Array:
    """The sum of `weights[k] * cos(2 pi k n / (M - 1))`."""
    size, place = _places(M)
    if size <= 1:
        return ones(size)
    angle = place * (2 * math.pi / (size - 1))
    found: Any = weights[0]
    for k, weight in enumerate(weights[1:], 1):
        found = found + weight * cos(k * angle)
    return found


def hanning(M: int) -> Array:
    """The Hann window of M places, a raised cosine.

    >>> import xpr.numpy as jnp
    >>> jnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _cosines(M, 0.5, -0.5)


def hamming(M: int) -> Array:
    """The Hamming window of M places, a cosine on a small pedestal.

    >>> import xpr.numpy as jnp
    >>> jnp.hamming(3).round(3)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _cosines(M, 0.54, -0.46)


def blackman(M: int) -> Array:
    """The Blackman window of M places, made of two cosines.

    >>> import xpr.numpy as jnp
    >>> jnp.blackman(5)[1:4]
    Array([0.34000003, 0.99999994, 0.33999997], dtype=float32)
    """
    return _cosines(M, 0.42, -0.5, 0.08)


def bartlett(M: int) -> Array:
    """The Bartlett window of M places, a triangle that is 0 at both ends.

    >>> import xpr.numpy as jnp
    >>> jnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    size, place = _places(M)
    if size <= 1:
        return ones(size)
    middle = (size - 1) / 2
    return 1 - abs(place - middle) / middle


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of M places, a Bessel function of shape `beta`.

    J. F. Kaiser, "Digital filters", in Systems Analysis by Digital Computer, 1966.

    >>> import xpr.numpy as jnp
    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    size, place = _places(M)
    shape = convert(as_operand("kaiser", beta, 1), dtypes.default_dtype("f"))
    if size <= 1:
        return ones(size)
    middle = (size - 1) / 2
    inside = el.max_p.bind(1 - ((place - middle) / middle) ** 2, place.dtype.type(0))
    return i0(shape * sqrt(inside)) / i0(shape)
