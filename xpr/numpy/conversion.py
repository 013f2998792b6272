"""Other dtypes for the same values or the same bytes."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from xpr.core import dtypes
from xpr.core.source_info import user_stacklevel
from xpr.core.trace import get_aval
from xpr.numpy._concrete import as_array
from xpr.numpy._promote import as_operand
from xpr.numpy._typing import Array, ArrayLike, DType, DTypeLike
from xpr.numpy.creation import placed
from xpr.numpy.dtype_api import requested_dtype
from xpr.primitives import compare as cmp
from xpr.primitives import elementwise as el
from xpr.primitives import shape as sh
from xpr.primitives.convert import bitcast_convert_type_p, convert_element_type_p, copy_p
from xpr.primitives.joining import split, stack


def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None
) -> Array:
    """`x` with its values converted to `dtype` (None: the default float).

    Floats become integers by truncation, those out of range the nearest integer and NaN 0;
    integers keep the bits that fit; complex numbers lose their imaginary part, with a
    ComplexWarning.

    >>> import xpr.numpy as jnp
    >>> jnp.astype(jnp.array([1.7, -300.0]), jnp.int8)
    Array([   1, -128], dtype=int8)
    """
    x = as_operand("astype", x)
    wanted = requested_dtype(float if dtype is None else dtype, "astype")
    aval = get_aval(x)
    if dtypes.is_complex(aval.dtype) and dtypes.kind(wanted) not in "cb":
        warnings.warn(
            "Casting complex values to real discards the imaginary part; use xpr.numpy.real",
            np.exceptions.ComplexWarning,
            stacklevel=user_stacklevel(),
        )
    if aval.dtype == wanted and not aval.weak_type:
        found = copy_p.bind(x) if copy else as_array(x)
    else:
        found = convert_element_type_p.bind(x, new_dtype=wanted, weak_type=False)
    return placed(found, device)


# ---- the same bytes


def view(x: Any, dtype: DTypeLike = None) -> Array:
    """The bytes of the array `x` read as `dtype`; the last axis grows or shrinks to fit.

    Any nonzero byte reads as True. Raises ValueError for an array without axes and another item
    size, or a last axis whose bytes do not divide evenly.

    >>> import xpr.numpy as jnp
    >>> view(jnp.array([1.0, 2.0]), jnp.uint16)
    Array([    0, 16256,     0, 16384], dtype=uint16)
    """
    if dtype is None:
        return x
    wanted = requested_dtype(dtype, "view")
    old = x.dtype
    if wanted == old:
        return x
    if not x.ndim and old.itemsize != wanted.itemsize:
        raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
    if x.ndim and x.shape[-1] * old.itemsize % wanted.itemsize:
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in "
            f"bytes of the last axis of the array, got {x.shape[-1]} items of {old.itemsize} bytes "
            f"for items of {wanted.itemsize}."
        )
    return _from_plain(_to_plain(x), wanted)


def _to_plain(x: Any) -> Any:
    """Booleans as uint8, complex numbers as their parts in a last axis twice as long."""
    if x.dtype == dtypes.BOOL:
        return convert_element_type_p.bind(x, new_dtype=np.dtype(np.uint8), weak_type=False)
    if not dtypes.is_complex(x.dtype):
        return x
    parts = stack([el.real_p.bind(x), el.imag_p.bind(x)], axis=x.ndim)
    return sh.reshape(parts, (*x.shape[:-1], 2 * x.shape[-1]) if x.ndim else (2,))


def _from_plain(x: Any, wanted: DType) -> Any:
    if wanted == dtypes.BOOL:
        whole = _rebit(x, np.dtype(np.uint8))
        return cmp.ne_p.bind(whole, np.uint8(0))
    if not dtypes.is_complex(wanted):
        return _rebit(x, wanted)
    part = el.real_dtype(wanted)
    if math.prod(x.shape) == 0:
        return sh.reshape(_rebit(x, part).astype(wanted), (*x.shape[:-1], 0))
    parts = _rebit(x, part)
    pairs = sh.reshape(parts, (*parts.shape[:-1], parts.shape[-1] // 2, 2))
    axis = pairs.ndim - 1
    real, imag = (sh.squeeze(p, (axis,)) for p in split(pairs, (1, 1), axis))
    return el.complex_p.bind(real, imag)


def _rebit(x: Any, wanted: DType) -> Any:
    """The bits of plain numbers as other plain numbers, the last axis fitted."""
    old, new = x.dtype.itemsize, wanted.itemsize
    if old == new:
        return x if x.dtype == wanted else bitcast_convert_type_p.bind(x, new_dtype=wanted)
    if old > new:
        found = bitcast_convert_type_p.bind(x, new_dtype=wanted)
        return sh.reshape(found, (*x.shape[:-1], x.shape[-1] * (old // new)))
    times = new // old
    groups = sh.reshape(x, (*x.shape[:-1], x.shape[-1] // times, times))
    return bitcast_convert_type_p.bind(groups, new_dtype=wanted)


def byteswap(x: Any) -> Array:
    """The array `x` with the bytes of each element in reverse order."""
    size = x.dtype.itemsize
    if size == 1:
        return x
    octets = view(sh.reshape(x, (*x.shape, 1)), np.uint8)
    # The two parts of a complex number are swapped each for itself.
    halves = (2, size // 2) if dtypes.is_complex(x.dtype) else (1, size)
    octets = sh.reshape(octets, (*x.shape, *halves))
    swapped = sh.reshape(sh.rev(octets, (octets.ndim - 1,)), (*x.shape, size))
    return sh.reshape(view(swapped, x.dtype), x.shape)
